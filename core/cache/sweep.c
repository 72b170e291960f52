/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See sweep.h. A sweep goes through the clock lists by place. Entries that others move in them
 * meanwhile are compared twice, or in the next sweep.
 */
#include "core/cache/sweep.h"

#include "core/cache/cuts.h"

/* What is asked about an entry, which may hold another region when the answer is there. */
struct question {
    struct cache *cache;
    struct hmreg_mr *entry;
    enum hmreg_iface iface;
    size_t index; /* of the part of its memory */
    struct mr_part part;
};

/* ---- one region ----------------------------------------------------------------------------- */

static bool is_of(const struct hmreg_mr *entry, const struct question *question)
{
    const struct hmreg_mr *mr = entry;
    struct mr_part part;

    if (mr_body(mr)->state != CACHE_LIVE || mr_body(mr)->cache != question->cache->index ||
        question->index >= mr_part_count(mr))
        return false;
    part = mr_part(mr, question->index);
    return part.start == question->part.start && part.end == question->part.end &&
           part.identity == question->part.identity;
}

/* The places ahead of an entry that is unpublished move back by one (clock_list.h). */
static void step_back(struct sweep *sweep, const struct cache_pool *pool,
                      const struct question *question)
{
    const struct clock_list *live = &question->cache->live;

    if (sweep->cache != question->cache->index)
        return;
    if (sweep->place < live->count &&
        cache_entry_at(pool, clock_ahead(live, sweep->place)) == question->entry)
        sweep->part = 0; /* not all its parts have been asked about */
    else if (sweep->place)
        sweep->place--;
}

/* Identities are not used again, so a region with the same one is as stale as the one asked about.
 */
static void unpublish_stale(struct sweep *sweep, struct cache_pool *pool,
                            const struct question *question)
{
    pthread_mutex_lock(&pool->lock);
    if (is_of(question->entry, question) && !cuts_have(question->cache, question->entry)) {
        step_back(sweep, pool, question);
        cache_unpublish(question->cache, question->entry);
        cache_stats_add(&question->cache->stats, STATS_INVALIDATIONS, 1);
    }
    cache_unlock(pool);
}

/* ---- all of them ---------------------------------------------------------------------------- */

/* The next entry, with the part of its memory that is next; NULL: there is none. */
static struct hmreg_mr *next_entry(struct sweep *sweep, struct cache_pool *pool,
                                   struct cache **cache, size_t *index)
{
    struct hmreg_mr *entry;

    for (; sweep->cache < atomic_load(&pool->known_caches);
         sweep->cache++, sweep->place = 0, sweep->part = 0) {
        *cache = &pool->caches[sweep->cache];
        if (sweep->place >= (*cache)->live.count)
            continue;
        entry = cache_entry_at(pool, clock_ahead(&(*cache)->live, sweep->place));
        *index = sweep->part++;
        if (!entry_body(entry)->ask_identity || sweep->part >= mr_part_count(entry)) {
            sweep->place++;
            sweep->part = 0;
        }
        return entry;
    }
    return NULL;
}

/* Fills the questions; false: this was the last of the entries. */
static bool collect(struct sweep *sweep, struct cache_pool *pool,
                    struct question questions[CACHE_BATCH], unsigned *count)
{
    struct hmreg_mr *entry = NULL;
    struct cache *cache = NULL;
    size_t index;

    *count = 0;
    pthread_mutex_lock(&pool->lock);
    for (unsigned passed = 0; passed < CACHE_PASSED && *count < CACHE_BATCH; passed++) {
        entry = next_entry(sweep, pool, &cache, &index);
        if (!entry)
            break;
        if (entry_body(entry)->ask_identity && index < mr_part_count(entry))
            questions[(*count)++] = (struct question){cache, entry, entry_body(entry)->iface, index,
                                                      mr_part(entry, index)};
    }
    pthread_mutex_unlock(&pool->lock);
    return entry;
}

bool sweep_some(struct sweep *sweep, struct cache_pool *pool, sweep_compare is_same, void *arg)
{
    struct question questions[CACHE_BATCH];
    unsigned count;
    bool more;

    if (!sweep->cache && !sweep->place && !atomic_exchange(&sweep->expected, false))
        return false;
    more = collect(sweep, pool, questions, &count);
    for (unsigned i = 0; i < count; i++) {
        const struct question *asked = &questions[i];
        const struct mr_part *part = &asked->part;

        if (part->identity && !is_same(arg, asked->iface, part->start, part->end, part->identity))
            unpublish_stale(sweep, pool, asked);
    }
    if (count)
        atomic_store(&sweep->expected, true);
    if (!more)
        sweep->cache = sweep->place = 0; /* the part is 0 already */
    return more;
}

bool sweep_is_expected(struct sweep *sweep)
{
    return atomic_load(&sweep->expected);
}

bool sweep_expect(struct sweep *sweep)
{
    return !atomic_load(&sweep->expected) && !atomic_exchange(&sweep->expected, true);
}
