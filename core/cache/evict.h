/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Eviction: which entries go when a cache needs room, and that nothing uses them then.
 *
 * Only cold entries are evicted. The next hot ones to go are withdrawn from the threads' tables in
 * batches, under the lock, and become cold after a barrier in every thread, for which the lock is
 * released. So a search for room may be interrupted; struct cache_search is its state.
 */
#ifndef HMREG_CORE_CACHE_EVICT_H
#define HMREG_CORE_CACHE_EVICT_H

#include "core/cache/cache_pool.h"

#define WITHDRAWN   32 /* entries in a batch, at the most */
#define HANDED_OVER 8  /* evicted entries that the search deregisters itself, at the most */

struct cache_search {
    uint64_t passed; /* entries that the hand passed since the search began or last evicted */
    bool worth;      /* it has found that all idle entries together would be enough */
    bool evicted;    /* it has evicted something */
    bool advanced;   /* ... since its owner last looked at this */
    bool barrier;    /* some withdrawn entries were hot */
    unsigned withdrawn_count, handed_over_count;
    struct {
        uint32_t number, sequence; /* as they were when the entry was withdrawn */
    } withdrawn[WITHDRAWN];
    struct cache_entry *handed_over[HANDED_OVER]; /* evicted: the owner deregisters them */
};

static inline void cache_search_init(struct cache_search *search)
{
    search->passed = 0;
    search->worth = search->evicted = search->advanced = search->barrier = false;
    search->withdrawn_count = search->handed_over_count = 0; /* what is beyond is never read */
}

/* Without the lock: the withdrawn entries become cold, except those used meanwhile. */
void cache_finish_withdrawal(struct cache_pool *pool, struct cache_search *search);

enum cache_room {
    CACHE_ROOM,
    CACHE_NO_ROOM,    /* too much is in use */
    CACHE_ROOM_LATER, /* release the lock, call cache_finish_withdrawal(), and ask again */
};

/* With the lock held: makes room for one more region of so many bytes. Evicts nothing if evicting
 * every idle entry would not be enough. */
enum cache_room cache_make_room(struct cache *cache, uint64_t bytes, struct cache_search *search);

/* Evicts `count` idle entries at the most and returns how many it did. code: the failure of the
 * registration that this is to help; 0: it is for a limit. The callers of these three deregister
 * what they ended: cache_set_reap_dead(). */
unsigned cache_evict(struct cache *cache, unsigned count, int code);
/* Changes the limits, and evicts idle entries while the cache is above them. */
void cache_change_limits(struct cache *cache, uint64_t max_regions, uint64_t max_bytes);
/* Ends every idle entry of all caches. */
void cache_empty(struct cache_pool *pool);

#endif
