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

/* The entries in a batch, at most. */
#define WITHDRAWN 32

/* The entries that a search for one get looks at, at most. After half of them the hand gives no
 * second chance, so that a get does not go through a large cache whose entries were all used. Each
 * search after a fruitless one passes half as many, CACHE_FRUITLESS times, since a cache whose
 * entries are all held has none for the next get either. */
#define CACHE_VISITS    512u
#define CACHE_FRUITLESS 5

/* Why a region is evicted, and which may be. */
struct cache_need {
    int code;           /* the error of the registration that it is to help; 0: a limit */
    enum cache_for who; /* whose */
    /* May this entry help? Called with the lock held. NULL: any may. */
    bool (*helps)(const struct hmreg_mr *entry, void *context);
    void *context;
};

struct cache_search {
    const struct cache_need *need; /* NULL: any region makes room */
    uint64_t passed;  /* entries that the hand passed since the search began or last evicted one */
    unsigned visits;  /* how many more entries it may look at */
    bool bounded;     /* ... at all */
    unsigned evicted; /* how many entries it has evicted */
    bool advanced;    /* ... since its owner last cleared this */
    bool barrier;     /* some withdrawn entries were not cold: a barrier is needed */
    unsigned withdrawn_count;
    struct {
        uint32_t number, sequence; /* at the time of withdrawal */
    } withdrawn[WITHDRAWN];
};

static inline void cache_search_init(struct cache_search *search)
{
    search->need = NULL;
    search->passed = 0;
    search->visits = CACHE_VISITS;
    search->bounded = true;
    search->advanced = search->barrier = false;
    search->evicted = search->withdrawn_count = 0;
}

/* Makes the withdrawn entries cold, except those used meanwhile. The lock is not held. */
void cache_finish_withdrawal(struct cache_pool *pool, struct cache_search *search);

enum cache_room {
    CACHE_ROOM,
    CACHE_NO_ROOM,    /* the pinned entries leave no room, or too many others would have to go */
    CACHE_ROOM_LATER, /* release the lock, call cache_finish_withdrawal() and try again */
};

/* Makes room for one more region of this many bytes, which the limit permits. The lock is held. A
 * region for which more than a few would have to be evicted gets no room, and is noted as wanted:
 * see cache_make_wanted(). */
enum cache_room cache_make_room(struct cache *cache, uint64_t bytes, struct cache_search *search);
/* Makes room for the wanted region of each cache, in advance of its next get: a step of that, by
 * the reaper. Evicts nothing if evicting every idle entry would not suffice. False: nothing is left
 * to do. */
bool cache_make_wanted(struct cache_pool *pool);

/* Evicts at most `count` idle entries and returns how many. visits: NULL, or how many entries it
 * may look at, which is lowered. bytes: NULL, or theirs are added. After this function and the two
 * below the caller deregisters the retired entries by cache_set_free_unpublished(). */
unsigned cache_evict(struct cache *cache, unsigned count, const struct cache_need *need,
                     unsigned *visits, uint64_t *bytes);
/* The bytes of the idle entries that may help; it stops at `most`. Asks of each once. */
uint64_t cache_idle_bytes(struct cache *cache, const struct cache_need *need, uint64_t most);
/* Retires every idle entry of one cache; NULL: of all. Returns how many. */
unsigned cache_empty(struct cache_pool *pool, const struct cache *only);

#endif
