/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The lock under which the libraries of a process share a descriptor and a thread to watch memory
 * with. The first opens them, the last closes them. fork(2) waits for the lock's holder.
 */
#ifndef HMREG_CORE_MONITOR_CHANGE_SHARING_H
#define HMREG_CORE_MONITOR_CHANGE_SHARING_H

#include <stdbool.h>

/* Call it before the lock is first taken to share something: forget_parents() is then called in the
 * child of each fork, with the lock held. A child made without fork handlers (_Fork, clone) does
 * not call it. False: no memory. */
bool sharing_starts(void (*forget_parents)(void));

void sharing_lock(void);
/* See thread_lock_to_start(). */
int sharing_lock_to_start(void);
void sharing_unlock(void);

#endif
