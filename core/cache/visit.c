/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See visit.h.
 */
#include "core/cache/visit.h"

#include "core/base/error.h"
#include "core/cache/cuts.h"
#include "core/mr/column.h"

#include <errno.h>

/* With the lock held: does the entry touch the range? An ending entry's segments may be gone. */
static bool touches(const struct hmreg_mr *entry, const struct suspended_range *range)
{
    struct span one;

    if (!range || suspended_is_all(range))
        return true;
    if (entry->node.end <= range->start || range->end <= entry->node.start)
        return false;
    return entry_body(entry)->state == CACHE_ENDING ||
           cuts_first_range(entry, range->start, range->end, &one);
}

/* With the lock held: pins the entry. False: its last holder is leaving. */
static bool hold(const struct cache_pool *pool, struct hmreg_mr *entry)
{
    _Atomic uint64_t *holders;

    if (!entry_pins(pool, entry) && entry_body(entry)->state == CACHE_HELD)
        return false;
    if (entry_ends_with_put(entry)) {
        holders = entry_holders(entry);
        return holders_join(holders, holders_use(holders));
    }
    entry_body(entry)->pins++;
    return true;
}

static int fail_stuck(const struct hmreg_mr *entry)
{
    return hmreg_fail(-EBUSY,
                      "the fabric is busy with a region of %zu bytes at %#llx that no get holds, "
                      "and has not deregistered it yet",
                      (size_t)(entry->node.end - entry->node.start),
                      (unsigned long long)entry->node.start);
}

/* Is the region of an entry registered, and no thread about to publish or end it? */
static bool is_whole(const struct mr_body *body, const struct visit *visit)
{
    if (body->state == CACHE_LIVE || body->state == CACHE_UNPUBLISHED)
        return !visit->held;
    return body->state == CACHE_HELD && !body->filling && body->registered;
}

/* With the lock held: takes an entry that is_whole() and touches the range. */
static bool take(struct cache_pool *pool, struct hmreg_mr *entry, struct visit *visit)
{
    struct mr_body *body = entry_body(entry);
    bool whole;

    if (body->state == CACHE_FREE || !touches(entry, visit->range))
        return false;
    if (body->state == CACHE_ENDING && body->stuck) {
        visit->failed = fail_stuck(entry);
        return false;
    }
    whole = is_whole(body, visit);
    if (whole && visit->wants && !visit->wants(entry))
        return false;
    if (whole && (visit->shares || !body->visited) && hold(pool, entry)) {
        body->visited |= !visit->shares;
        return true;
    }
    visit->waits = true;
    visit->busy |= whole && body->visited;
    return false;
}

/* Gives an entry back to other visits. If a member of its group was withdrawn or replaced
 * meanwhile, completes the entry first. */
static void leave(struct cache_set *set, struct hmreg_mr *entry)
{
    bool left = false;
    int rc = 0;

    while (!left) {
        pthread_mutex_lock(&set->pool.lock);
        left = rc || column_may_publish(entry);
        entry_body(entry)->visited = !left;
        pthread_mutex_unlock(&set->pool.lock);
        if (!left)
            rc = variant_complete(entry, false);
    }
}

/* The next taken entry from *number on; advances *number past it. NULL: none. */
static struct hmreg_mr *next_taken(struct cache_pool *pool, uint32_t *number, struct visit *visit)
{
    struct hmreg_mr *entry = NULL;
    bool taken = false, more = true;

    while (!taken && more) {
        uint32_t last = *number + CACHE_PASSED;

        pthread_mutex_lock(&pool->lock);
        while (!taken && *number < last && *number < pool->fresh) {
            entry = cache_entry_at(pool, (*number)++);
            taken = take(pool, entry, visit);
        }
        more = *number < pool->fresh;
        pthread_mutex_unlock(&pool->lock);
    }
    return taken ? entry : NULL;
}

int visit_entries(struct cache_set *set, struct visit *visit)
{
    uint32_t number = STABLE_ARRAY_FIRST;
    struct hmreg_mr *entry;
    int rc = 0;

    while (!rc && (entry = next_taken(&set->pool, &number, visit))) {
        rc = visit->call(entry, NULL, visit->context);
        if (!visit->shares)
            leave(set, entry);
        cache_set_release(set, entry);
    }
    return rc;
}

int visit_all(struct cache_set *set, struct visit *visit)
{
    int rc = origin_visit(set->domain, visit);

    return rc ? rc : visit_entries(set, visit);
}
