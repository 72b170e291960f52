/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A process that can make no trace file records the reason in RECORD_UNTRACED_FILE
 * (record_layout.h), which libhmreg-preload.so maps when the process begins.
 */
#ifndef HMREG_PRELOAD_UNTRACED_H
#define HMREG_PRELOAD_UNTRACED_H

#include "preload/record_layout.h"

/* Counts this process. error: an errno value; 0: unknown. Keeps errno; async-signal-safe. The
 * symbol is NULL where libhmreg-preload.so is not loaded. */
extern void hmreg_preload_untraced(enum record_untraced_step step, int error)
    __attribute__((weak, visibility("default")));

#endif
