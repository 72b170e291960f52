/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Eviction: which entries go when a cache needs room, and that nobody uses them then.
 *
 * Only cold entries are evicted. The next to go are cooled some at a time: taken out of the
 * threads' tables under the lock, then settled by a barrier in every thread, for which the lock is
 * let go. So a search for room may be interrupted; a stir is what it keeps meanwhile.
 */
#ifndef HMREG_CORE_EVICT_H
#define HMREG_CORE_EVICT_H

#include "core/cache_pool.h"

#define COOLED 32 /* at the most, at a time */
struct cache_stir {
    bool begun;      /* the search has begun; one stir serves it to its end */
    bool worth;      /* it has found that all that is idle would be enough, */
    bool gone;       /* and evicted some of it since whoever searches looked at this last */
    bool barrier;    /* some of these were hot: settling them takes a barrier */
    unsigned count;  /* of cooled */
    uint64_t looked; /* entries, since the search began or evicted any */
    struct {
        uint32_t number, sequence, stamp; /* as the entry was when it was cooled */
    } cooled[COOLED];
};

/* Without the lock: the cooled entries become cold, but for those that were asked for meanwhile. */
void cache_settle(struct cache_pool *pool, struct cache_stir *stir);

static inline void cache_stir_init(struct cache_stir *stir)
{
    stir->begun = stir->worth = stir->gone = stir->barrier = false;
    stir->looked = 0;
    stir->count = 0; /* what is beyond is never looked at */
}

enum cache_pick {
    CACHE_PICKED,
    CACHE_NOTHING, /* all are in use */
    CACHE_LATER,   /* let go of the lock, settle, and ask again */
};

/* With the lock held: makes room for one more region of so many bytes. Evicts nothing if evicting
 * everything idle would not be enough. *evicted becomes true if something went; else it stays. */
enum cache_pick cache_make_room(struct cache *cache, uint64_t bytes, struct cache_stir *stir,
                                bool *evicted);

/* Ends the least recently used idle entries, `count` of them at the most, and returns how many.
 * code: the failure of the registration that this is to help; 0: it is for a limit. Who calls these
 * three deregisters what they ended: cache_set_reap_dead(). */
unsigned cache_evict(struct cache *cache, unsigned count, int code);
/* Changes the limits, and ends what is above them and idle. */
void cache_change_limits(struct cache *cache, uint64_t max_regions, uint64_t max_bytes);
/* Ends all that is idle, in all caches. */
void cache_empty(struct cache_pool *pool);

#endif
