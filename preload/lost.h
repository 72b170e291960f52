/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A process that can make no trace file says why, in RECORD_LOST_FILE (record_layout.h). It is
 * mapped by libhmreg-preload.so when the process begins.
 */
#ifndef HMREG_PRELOAD_LOST_H
#define HMREG_PRELOAD_LOST_H

#include "preload/record_layout.h"

/* Counts this process. error: an errno value; 0: unknown. Changes no errno, and may be called
 * anywhere. Where libhmreg-preload.so is not loaded there is no such function: NULL. */
extern void hmreg_preload_lost(enum record_lost_step step, int error)
    __attribute__((weak, visibility("default")));

#endif
