/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Detects fork(). A child must not touch its parent's registrations, and a hit must detect that
 * with one load. So a page that the kernel wipes at fork() holds the process's epoch, and each
 * object holds the epoch it was created in, which matches in no child. No lock is involved, so a
 * child cannot find one held for ever by a thread that it does not have.
 */
#ifndef HMREG_CORE_BASE_PROCESS_H
#define HMREG_CORE_BASE_PROCESS_H

#include "core/base/epoch.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Starts the process's epoch if there is none, and returns it: the pid in the upper half, a random
 * number in the lower, never 0. 0: no memory for the page, with -ENOMEM recorded. */
uint64_t process_epoch_start(void);

/* As pthread_once(3), for a process and its later children, except that after a failure the next
 * caller tries again. make() returns true on success. *who is 0 at first. */
bool process_once(atomic_int *who, bool (*make)(void));

/* Marks *who as done. A fork may separate the success of make() from its mark. So a fork handler
 * that make() registered calls this in the child, which then does not register it again. */
void process_once_done(atomic_int *who);

/* A lock for what a fork must not interrupt. fork(2) waits for its holders. _Fork(3) and clone(2)
 * do not wait, so their child may find it held by threads of the parent. Its holders must not take
 * locks that a fork handler takes. Zeroed at first, but for `shared`: any number of threads hold it
 * at once. */
struct process_hold {
    _Atomic uint64_t holders; /* see process.c */
    struct process_hold *next;
    atomic_bool listed;
    bool shared;
};

/* process_hold_take() waits for a thread of this process that holds it alone, or forks. A thread
 * may take a shared one again. False, and nothing is held: a thread of a parent held it at the
 * fork, so its data stays half changed in this process for ever; or there is no memory for the
 * process's epoch.
 *
 * A fork waits about five seconds for the holders of a shared hold, since they may wait for a
 * thread of the program that waits for the fork. It does not wait for its own thread, whose
 * signal handler may fork. The child then finds the hold taken. */
bool process_hold_take(struct process_hold *hold);
void process_hold_release(struct process_hold *hold);

/* Advises the kernel again to wipe the first pages below at a fork, the epoch's among them: a
 * process that CRIU before 4.2 has restored has lost the advice. */
void process_wipe_again(void);

/* Allocates a zeroed page that is zeroed again in a forked child. NULL: no memory; not recorded. */
void *process_page(void);
void process_page_free(void *page);
/* The page at *at, which the first call allocates. */
void *process_page_at(_Atomic(void *) *at);

/* Memory of any size that the kernel wipes at fork, never freed. NULL: errno is ENOMEM, or EINVAL
 * if the kernel does not wipe. */
void *process_wiped(size_t size);

#endif
