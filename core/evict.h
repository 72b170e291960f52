/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Room in a cache: which entries go, and that nobody uses them.
 */
#ifndef HMREG_CORE_EVICT_H
#define HMREG_CORE_EVICT_H

#include "core/cache_pool.h"

/* Entries that have left the threads' tables. Once they are settled, which takes a barrier, they
 * are cold: nobody pins them without the lock. */
#define COOLED 32
struct cache_stir {
    bool begun; /* one for each search for room, however often it is interrupted */
    bool barrier;
    unsigned count;
    struct {
        uint32_t number, sequence, stamp;
    } cooled[COOLED];
};
void cache_settle(struct cache_pool *pool, struct cache_stir *stir);

static inline void cache_stir_init(struct cache_stir *stir)
{
    stir->begun = stir->barrier = false;
    stir->count = 0; /* what is beyond is never looked at */
}

enum cache_pick {
    CACHE_PICKED,
    CACHE_NOTHING, /* all are in use */
    CACHE_LATER,   /* let go of the lock, settle, and ask again */
};

/* With the lock held: evicts what it takes for so many bytes; nothing, if everything idle would not
 * be enough. */
enum cache_pick cache_make_room(struct cache *cache, uint64_t bytes, struct cache_stir *stir,
                                bool *evicted);

/* The least recently used die, so many at the most, for a registration that failed with code. How
 * many did? */
unsigned cache_evict(struct cache *cache, unsigned count, int code);
/* Changes the limits; what is above them and idle dies. */
void cache_change_limits(struct cache *cache, uint64_t max_regions, uint64_t max_bytes);
/* All that nobody holds die. */
void cache_empty(struct cache_pool *pool);

#endif
