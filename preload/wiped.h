/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Memory that a forked child finds zeroed, as at its first use: for what a child must not touch,
 * with the locks of it, which another thread of the parent may have held. No fork handler is
 * needed, which _Fork(3) and clone(2) would not run.
 */
#ifndef HMREG_PRELOAD_WIPED_H
#define HMREG_PRELOAD_WIPED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct wiped {
    size_t size;
    _Atomic(void *) memory;
    _Atomic bool by_hand; /* the kernel does not wipe: the pid is compared */
    _Atomic int pid;
};

/* The memory, made by the first call and never freed. NULL: there is none. */
void *wiped_get(struct wiped *wiped);
/* The same, but not made; NULL: it was not made yet. */
void *wiped_peek(struct wiped *wiped);

#endif
