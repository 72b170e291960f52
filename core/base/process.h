/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Which process is this? A child of fork() must not touch its parent's registrations, and a
 * hit must notice that at the cost of one load. A page the kernel wipes at fork holds the
 * process's epoch: objects remember theirs, and in a child no old epoch matches. No lock is
 * involved, so a child of a thread's fork() cannot find one held for ever.
 */
#ifndef HMREG_CORE_BASE_PROCESS_H
#define HMREG_CORE_BASE_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Starts (or, in a child, restarts) the epoch. Returns it: the pid in the upper half, chance in
 * the lower, never 0. 0 with -ENOMEM recorded: no memory for the page. */
uint64_t process_epoch_start(void);

extern _Atomic(_Atomic uint64_t *) process_epoch_page;

/* Is this the process in which the epoch was started? */
static inline bool process_is(uint64_t epoch)
{
    /* Acquire: pairs with the page's publication. The epoch itself orders nothing. */
    _Atomic uint64_t *page = atomic_load_explicit(&process_epoch_page, memory_order_acquire);

    return atomic_load_explicit(page, memory_order_relaxed) == epoch;
}

/* Once a process and its children, as pthread_once(3): but a failure is not for ever, whoever comes
 * next tries again. make() is true when it is done. */
bool process_once(atomic_int *who, bool (*make)(void));

/* Who made it may have been cut off by a fork before it said so. What make() brought about says it
 * in the child: fork handlers, that they are there, lest they be there twice. */
void process_once_done(atomic_int *who);

/* A page, all zero, and zero again in a forked child. NULL: no memory; nothing is recorded. */
void *process_page(void);
void process_page_free(void *page);

/* The same of any size, kept for ever, where the kernel wipes: NULL with ENOMEM, or, where it does
 * not, EINVAL in errno. */
void *process_wiped(size_t size);

#endif
