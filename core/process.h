/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Which process is this? A child of fork() must not touch its parent's registrations, and a
 * hit must notice that at the cost of one load. A page the kernel wipes at fork holds the
 * process's epoch: objects remember theirs, and in a child no old epoch matches.
 */
#ifndef HMREG_CORE_PROCESS_H
#define HMREG_CORE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* Starts (or, in a child, restarts) the epoch. Returns it, never 0; 0 with the error recorded
 * if there is no memory for the page. */
uint64_t process_epoch_start(void);

extern const uint64_t *process_epoch_page;

/* Is this the process in which the epoch was started? */
static inline bool process_is(uint64_t epoch)
{
    return *process_epoch_page == epoch;
}

#endif
