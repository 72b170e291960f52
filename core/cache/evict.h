/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Eviction: selects the entries that leave a cache that needs room, and establishes that they are
 * idle.
 *
 * Only cold entries are evicted. The next hot candidates are withdrawn from the threads' tables in
 * batches, under the lock, and become cold after a barrier in every thread, for which the caller
 * releases the lock. So a search for room may be interrupted; struct cache_search keeps its state.
 */
#ifndef HMREG_CORE_CACHE_EVICT_H
#define HMREG_CORE_CACHE_EVICT_H

#include "core/cache/cache_pool.h"

/* At most: entries in a batch; evicted entries that the search's owner deregisters itself. */
#define WITHDRAWN   32
#define HANDED_OVER 8

struct cache_search {
    uint64_t passed; /* entries that the hand passed since the search began or last evicted one */
    bool worth;      /* evicting every idle entry would make enough room */
    bool evicted;    /* it has evicted an entry */
    bool advanced;   /* ... since its owner last cleared this */
    bool barrier;    /* some withdrawn entries were not cold: a barrier is needed */
    unsigned withdrawn_count, handed_over_count;
    struct {
        uint32_t number, sequence; /* at the time of withdrawal */
    } withdrawn[WITHDRAWN];
    struct hmreg_mr *handed_over[HANDED_OVER]; /* evicted: the owner deregisters them */
};

static inline void cache_search_init(struct cache_search *search)
{
    search->passed = 0;
    search->worth = search->evicted = search->advanced = search->barrier = false;
    search->withdrawn_count = search->handed_over_count = 0; /* of valid elements */
}

/* Makes the withdrawn entries cold, except those used meanwhile. The lock is not held. */
void cache_finish_withdrawal(struct cache_pool *pool, struct cache_search *search);

enum cache_room {
    CACHE_ROOM,
    CACHE_NO_ROOM,    /* the pinned entries leave no room */
    CACHE_ROOM_LATER, /* release the lock, call cache_finish_withdrawal() and try again */
};

/* Makes room for one more region of this many bytes. The lock is held. Evicts nothing if evicting
 * every idle entry would not suffice. */
enum cache_room cache_make_room(struct cache *cache, uint64_t bytes, struct cache_search *search);

/* Evicts at most `count` idle entries and returns how many. code: the error of the registration
 * that this is to help; 0: a limit is the reason. After this function and the two below the caller
 * deregisters the ended entries by cache_set_reap_dead(). */
unsigned cache_evict(struct cache *cache, unsigned count, int code);
/* Changes the limits, and evicts idle entries while the cache exceeds them. */
void cache_change_limits(struct cache *cache, uint64_t max_regions, uint64_t max_bytes);
/* Ends every idle entry of all caches. */
void cache_empty(struct cache_pool *pool);

#endif
