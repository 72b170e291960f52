/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See sweep.h. A sweep goes through all entries by number.
 */
#include "core/cache/sweep.h"

#include "core/cache/cuts.h"
#include "core/context/resolve.h"

/* A question about an entry that may hold another region when the answer arrives. */
struct question {
    struct hmreg_mr *entry;
    enum hmreg_iface iface;
    size_t index; /* of the segment of its memory */
    struct mr_segment segment;
};

/* ---- one region ----------------------------------------------------------------------------- */

static bool is_of(const struct hmreg_mr *mr, const struct question *question)
{
    struct mr_segment segment;

    if (mr_body(mr)->state != CACHE_LIVE || mr_body(mr)->iface != question->iface ||
        question->index >= mr_segment_count(mr))
        return false;
    segment = mr_segment(mr, question->index);
    return segment.start == question->segment.start && segment.end == question->segment.end &&
           segment.identity == question->segment.identity;
}

/* Identities are never reused, so another region with this identity is stale too. */
static void unpublish_stale(struct cache_pool *pool, const struct question *question)
{
    struct hmreg_mr *entry = question->entry;

    pthread_mutex_lock(&pool->lock);
    if (is_of(entry, question) && !cuts_contain(entry_cache(pool, entry), entry)) {
        cache_unpublish(entry_cache(pool, entry), entry);
        cache_stats_add(&entry_cache(pool, entry)->stats, STATS_INVALIDATIONS, 1);
    }
    pthread_mutex_unlock(&pool->lock);
}

/* ---- all of them ---------------------------------------------------------------------------- */

/* Fills the questions; false: these were the last. */
static bool collect(struct sweep *sweep, struct cache_pool *pool,
                    struct question questions[CACHE_BATCH], unsigned *count)
{
    bool more;

    *count = 0;
    pthread_mutex_lock(&pool->lock);
    for (unsigned passed = 0;
         passed < CACHE_PASSED && *count < CACHE_BATCH && sweep->number < pool->fresh; passed++) {
        struct hmreg_mr *entry = cache_entry_at(pool, sweep->number);
        const struct mr_body *body = entry_body(entry);

        if (body->state == CACHE_LIVE && body->ask_identity &&
            sweep->segment < mr_segment_count(entry)) {
            questions[(*count)++] = (struct question){entry, body->iface, sweep->segment,
                                                      mr_segment(entry, sweep->segment)};
            sweep->segment++;
        } else {
            sweep->number++;
            sweep->segment = 0;
        }
    }
    more = sweep->number < pool->fresh;
    pthread_mutex_unlock(&pool->lock);
    return more;
}

bool sweep_some(struct sweep *sweep, struct cache_pool *pool)
{
    struct hmreg *lib = pool->domain->lib;
    struct question questions[CACHE_BATCH];
    unsigned count;
    bool more;

    if (!sweep->number && !atomic_exchange(&sweep->expected, false))
        return false;
    if (!sweep->number)
        sweep->number = STABLE_ARRAY_FIRST;
    more = collect(sweep, pool, questions, &count);
    for (unsigned i = 0; i < count; i++) {
        const struct question *asked = &questions[i];
        const struct mr_segment *segment = &asked->segment;

        if (segment->identity &&
            !resolve_is_same(lib, asked->iface, segment->start, segment->end, segment->identity))
            unpublish_stale(pool, asked);
    }
    if (count)
        atomic_store(&sweep->expected, true);
    if (!more)
        sweep->number = 0; /* the segment is 0 already */
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
