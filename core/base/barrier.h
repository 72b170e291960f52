/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * An asymmetric memory barrier. A hit orders its stores and loads by a compiler barrier only; the
 * thread that takes a region out of the cache makes every thread pass a full fence, with
 * membarrier(2). If the kernel does not have that call, both sides execute a fence.
 *
 * tests/model/protocol/hit.pml models the code that relies on this barrier; its first comment lists
 * its assumptions.
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

/* Registers the process for membarrier(2). False: the kernel does not have it, and both sides must
 * call barrier_here(). */
bool barrier_start(void);

/* To be called only after barrier_start() returned true. When it returns, each thread of the
 * process has passed a full fence since the call. If the kernel refuses membarrier(2) by now, the
 * call waits 10 ms instead; then each thread's earlier stores are visible. */
void barrier_everywhere(void);

/* A full fence of the calling thread. ThreadSanitizer does not model fences, so there it is an
 * atomic read-modify-write. */
static inline void barrier_here(void)
{
#ifdef BARRIER_TSAN
    static atomic_uint line;

    atomic_fetch_add(&line, 0);
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* A compiler barrier; pairs with the fence of barrier_everywhere(). */
static inline void barrier_compiler(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

#endif
