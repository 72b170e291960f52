/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What cache.c and evict.c share: an entry's state and its ends. All with the pool's lock held.
 */
#ifndef HMREG_CORE_CACHE_INNER_H
#define HMREG_CORE_CACHE_INNER_H

#include "core/cache.h"

static inline struct cache *cache_of(const struct cache_pool *pool, const struct cache_entry *entry)
{
    return &pool->caches[entry->mr.cache];
}

/* The clock's steps, so that there is a time for what is in use (1) and for what is new (2) between
 * the hits before and the hits after. */
#define CLOCK_STEP 4

static inline uint32_t clock_now(const struct cache_pool *pool)
{
    return atomic_load_explicit(&pool->hot.pulse->clock, memory_order_relaxed);
}

/* Returns when it was before. */
static inline uint32_t clock_tick(struct cache_pool *pool)
{
    return atomic_fetch_add_explicit(&pool->hot.pulse->clock, CLOCK_STEP, memory_order_relaxed);
}

/* True only if the entry is cold; else somebody may pin it at this moment. */
static inline uint32_t pins_of(const struct cache_pool *pool, const struct cache_entry *entry)
{
    return entry->pins + hot_pins(&pool->hot, entry->mr.number);
}

static inline uint32_t sequence_of(const struct cache_entry *entry)
{
    return atomic_load_explicit(&entry->mr.sequence, memory_order_relaxed);
}

static inline bool is_hot(const struct cache_entry *entry)
{
    return sequence_of(entry) % 2;
}

/* Release: who remembers an entry by a new sequence sees all of it. */
static inline void next_sequence(struct cache_entry *entry)
{
    atomic_store_explicit(&entry->mr.sequence, hot_next(sequence_of(entry)), memory_order_release);
}

static inline void cache_use_add(struct cache_use *use, const struct cache_entry *entry)
{
    use->regions++;
    use->bytes += mr_len(&entry->mr);
}

static inline void cache_use_subtract(struct cache_use *use, const struct cache_entry *entry)
{
    use->regions--;
    use->bytes -= mr_len(&entry->mr);
}

/* Ends a live entry; and one that has left the order of use already. */
void cache_kill(struct cache *cache, struct cache_entry *entry);
void cache_bury(struct cache *cache, struct cache_entry *entry);

enum cache_pick {
    CACHE_PICKED,
    CACHE_NOTHING, /* all are in use */
    CACHE_LATER,   /* let go of the lock, settle, and ask again */
};

/* Evicts what it takes for so many bytes; nothing, if everything idle would not be enough. */
enum cache_pick cache_make_room(struct cache *cache, uint64_t bytes, struct cache_stir *stir,
                                bool *evicted);

#endif
