/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The steps of a hit and of its put, which get_fast.c takes for one region and get_many.c for
 * several. get_fast.c explains their order.
 */
#ifndef HMREG_CORE_CACHE_HIT_H
#define HMREG_CORE_CACHE_HIT_H

#include "core/cache/cache_set.h"

#define likely(condition)   __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

/* Only this thread writes the word, so the addition need not be atomic. The order is that of a
 * release. */
static inline void add_to(atomic_uint *own, unsigned value)
{
    atomic_store_explicit(own, atomic_load_explicit(own, memory_order_relaxed) + value,
                          memory_order_release);
}

static inline void count_hits(_Atomic uint64_t *own, uint64_t value)
{
    atomic_store_explicit(own, atomic_load_explicit(own, memory_order_relaxed) + value,
                          memory_order_relaxed);
}

/* Pairs with the release stores in entry_next_sequence() and entry_set_put_unchecked(). */
static inline uint32_t sequence_of(const struct hmreg_mr *mr)
{
    return atomic_load_explicit(&mr->sequence, memory_order_acquire);
}

/* Read and cleared by eviction (evict.c). */
static inline void mark_used(struct pin_slot *pin_slot)
{
    atomic_store_explicit(&pin_slot->used, 1, memory_order_relaxed);
}

/* False where [addr, addr + len) is empty or wraps: then its last byte lies before the first. */
static inline bool contains(const struct hmreg_mr *mr, uint64_t addr, uint64_t len)
{
    uint64_t last = addr + len - 1;

    return mr->node.start <= addr && addr <= last && last < mr->node.end;
}

/* Orders the change of a pin before the read of the entry. Pairs with barrier_everywhere(). */
static inline void fence(const struct thread_cache *tcache)
{
    if (unlikely(tcache->fenced))
        barrier_here();
    barrier_compiler();
}

/* Of an entry whose sequence is even, the thread has removed a pin, which may have been the last:
 * unpinned: that of a request which the entry does not serve; put: that of a get. They may
 * deregister the entry, and the application's callback for that may change the view. In get_fast.c.
 */
void unpinned_last(const struct thread_cache *tcache, struct hmreg_mr *mr);
void put_last(const struct thread_cache *tcache, struct hmreg_mr *mr);

/* A hit of a view's thread on an entry that is not in the first slot of its request, as in a table
 * of addresses that lie anywhere one in five; or that is not in its usual cache, has more rights,
 * or is larger than the parts of it that were asked for. from: 0 or 1, the slot where the search
 * begins. The entry is pinned and counted. NULL: there is none that needs no other check. In
 * get_fast.c. */
struct hmreg_mr *hit_slots(struct thread_cache *tcache, uint64_t addr, uint64_t len,
                           uint64_t access, unsigned from);

static inline void unpin(const struct thread_cache *tcache, struct pin_slot *pin_slot,
                         struct hmreg_mr *mr)
{
    /* A release: the user's accesses happen before a thread that adds up pins sees the new value.
     */
    add_to(&pin_slot->pins, -1u);
    fence(tcache);
    if (unlikely(sequence_of(mr) % 2 == 0))
        unpinned_last(tcache, mr);
}

#endif
