/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A fence that one thread makes for all: hits order their own stores and loads by nothing but the
 * compiler, and who takes a region away pays for both sides, by membarrier(2). Where the kernel has
 * none, each side fences for itself.
 *
 * tests/model/protocol/hit.pml models what relies on this; its head lists what it assumes.
 */
#ifndef HMREG_CORE_BASE_BARRIER_H
#define HMREG_CORE_BASE_BARRIER_H

#include <stdatomic.h>
#include <stdbool.h>

#if defined(__SANITIZE_THREAD__)
#define BARRIER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BARRIER_TSAN 1
#endif
#endif

/* Gets the process ready. False: there is no such call: both sides must call barrier_here(). */
bool barrier_start(void);

/* After barrier_start() was true. When it returns, each thread of the process has passed a full
 * fence since the call, or, where the kernel refuses the call by now, its stores have become
 * visible all the same: then it takes 10 ms. */
void barrier_everywhere(void);

/* A full fence of the calling thread. ThreadSanitizer knows no fences, but does know this. */
static inline void barrier_here(void)
{
#ifdef BARRIER_TSAN
    static atomic_uint line;

    atomic_fetch_add(&line, 0);
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* Keeps the compiler from reordering; the fence is barrier_everywhere()'s. */
static inline void barrier_compiler(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

#endif
