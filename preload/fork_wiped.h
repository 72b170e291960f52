/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Memory that a forked child finds zeroed, as at its first use: for data that a child must not
 * touch and its locks, which a thread of the parent may hold at the fork. A fork handler would not
 * do: _Fork(3) and clone(2) do not run it.
 */
#ifndef HMREG_PRELOAD_FORK_WIPED_H
#define HMREG_PRELOAD_FORK_WIPED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct fork_wiped {
    size_t size;
    _Atomic(void *) memory;
    _Atomic bool by_hand; /* the kernel does not wipe; compare the pid */
    _Atomic int pid;
};

/* The memory, made by the first call and never freed. NULL: there is none. */
void *fork_wiped_get(struct fork_wiped *wiped);
/* The memory, if it was made already; else NULL. */
void *fork_wiped_peek(struct fork_wiped *wiped);

#endif
