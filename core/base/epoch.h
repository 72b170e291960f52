/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The page that distinguishes a process from its forked children: the kernel wipes it at a fork.
 * process.c makes and writes it.
 */
#ifndef HMREG_CORE_BASE_EPOCH_H
#define HMREG_CORE_BASE_EPOCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The page's words. */
enum { EPOCH_OWN, EPOCH_IS_NOT_BARE };

extern _Atomic uint64_t process_no_epoch; /* 0; stands in until the page is made */
extern _Atomic(_Atomic uint64_t *) process_epoch_page;

/* Was the epoch started in this process? */
static inline bool process_is(uint64_t epoch)
{
    /* Acquire: pairs with the publication of the page. Relaxed: the epoch orders nothing. */
    _Atomic uint64_t *page = atomic_load_explicit(&process_epoch_page, memory_order_acquire);

    return atomic_load_explicit(page, memory_order_relaxed) == epoch;
}

/* Is this the child, made without fork's handlers (_Fork(3), clone(2)), of a process that used the
 * library, and has it not opened the library itself? A thread of the parent may hold malloc(3)'s
 * locks.
 */
bool process_is_bare(void);

#endif
