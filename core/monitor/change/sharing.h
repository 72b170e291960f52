/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The libraries of a process share what they watch memory with: a descriptor and a thread, opened
 * by the first and closed by the last, under this lock. fork(2) waits for its holder.
 */
#ifndef HMREG_CORE_MONITOR_CHANGE_SHARING_H
#define HMREG_CORE_MONITOR_CHANGE_SHARING_H

#include <stdbool.h>

/* Before the lock is first taken for that: has forget_parents() called in the child of each fork,
 * with the lock held. A child made without fork handlers (_Fork, clone) does not call it. False: no
 * memory. */
bool sharing_starts(void (*forget_parents)(void));

void sharing_lock(void);
/* See thread_lock_to_start(). */
int sharing_lock_to_start(void);
void sharing_unlock(void);

#endif
