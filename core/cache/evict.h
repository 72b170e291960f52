/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Eviction: selects the entries that leave a cache that needs room, and makes sure that they are
 * idle.
 *
 * Only cold entries are evicted. A batch of hot candidates is cooled under the lock, and becomes
 * cold after a barrier in every thread, for which the caller releases the lock. So a search for
 * room may be interrupted; struct cache_search keeps its state.
 */
#ifndef HMREG_CORE_CACHE_EVICT_H
#define HMREG_CORE_CACHE_EVICT_H

#include "core/cache/cache_pool.h"

/* The most entries in a batch. */
#define COOLED_MOST 32

/* The most entries that a search for one get looks at. After half of them the hand evicts marked
 * entries too, so that a get does not search a large cache whose entries were all used. After a
 * fruitless search the next one passes half as many, CACHE_FRUITLESS times: if all entries are
 * held, the next get finds no room either. */
#define CACHE_VISITS    512u
#define CACHE_FRUITLESS 5

/* Why regions are evicted, and which ones may be. */
struct cache_need {
    int code;           /* the error of the registration that needs room; 0: a limit */
    enum cache_for who; /* the caller of that registration */
    /* May this entry help? Called with the lock held. NULL: any may. */
    bool (*helps)(const struct hmreg_mr *entry, void *context);
    void *context;
};

struct cache_search {
    const struct cache_need *need; /* NULL: any region makes room */
    uint64_t passed;  /* entries that the hand passed since the search began or last evicted */
    unsigned visits;  /* how many more entries it may look at */
    bool bounded;     /* ... at all */
    unsigned evicted; /* how many entries it has evicted */
    bool advanced;    /* ... since its owner last cleared this */
    bool barrier;     /* some cooled entries were not cold: a barrier is needed */
    unsigned cooled_count;
    struct {
        uint32_t number, sequence; /* at the time of cooling */
    } cooled[COOLED_MOST];
};

static inline void cache_search_init(struct cache_search *search)
{
    search->need = NULL;
    search->passed = 0;
    search->visits = CACHE_VISITS;
    search->bounded = true;
    search->advanced = search->barrier = false;
    search->evicted = search->cooled_count = 0;
}

/* Makes the cooled entries cold, except those used meanwhile. The lock is not held. */
void cache_finish_cooling(struct cache_pool *pool, struct cache_search *search);

enum cache_room {
    CACHE_ROOM,
    CACHE_NO_ROOM,    /* the pinned entries leave no room, or too many others would have to go */
    CACHE_ROOM_LATER, /* release the lock, call cache_finish_cooling() and try again */
};

/* Makes room for one more region of this many bytes, as far as the limit permits. The lock is held.
 * If more than a few would have to be evicted, the region gets no room, and is noted as wanted: see
 * cache_make_wanted(). */
enum cache_room cache_make_room(struct cache *cache, uint64_t bytes, struct cache_search *search);
/* One step of the reaper's: makes room for the wanted region of each cache before its next get.
 * Evicts nothing if evicting every idle entry would not suffice. False: nothing is left to do. */
bool cache_make_wanted(struct cache_pool *pool);

/* Evicts at most `count` idle entries and returns how many. visits: NULL, or how many entries it
 * may look at; lowered. bytes: NULL, or increased by the entries' bytes. After this function and
 * the two below the caller deregisters the retired entries by cache_set_free_unpublished(). */
unsigned cache_evict(struct cache *cache, unsigned count, const struct cache_need *need,
                     unsigned *visits, uint64_t *bytes);
/* The bytes of the idle entries that may help; stops at `most`. Asks about each entry once. */
uint64_t cache_idle_bytes(struct cache *cache, const struct cache_need *need, uint64_t most);
/* Retires every idle entry of one cache, or with NULL of all caches. Returns how many. */
unsigned cache_empty(struct cache_pool *pool, const struct cache *only);

#endif
