/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See cuts.h. All entries of a tree that start inside the change are cut by two splits. Those that
 * start before it and reach into it come first in the tree's order, and end one by one; if they are
 * too many for one call, the change is applied further by the next one.
 */
#include "core/cache/cuts.h"

#include "core/base/work.h"

/* ---- one entry -------------------------------------------------------------------------- */

bool cuts_first_range(const struct hmreg_mr *entry, uint64_t start, uint64_t end, struct span *out)
{
    const struct variant *variant = entry_variant(entry);
    const struct variant_segment *segment;

    *out = (struct span){entry->node.start, entry->node.end};
    if (!variant || !variant->key.count)
        return true;
    segment = variant_touching(variant, start, end);
    if (segment)
        *out = (struct span){segment->start, segment->end};
    return segment;
}

static bool touches(const struct change *change, const struct itree_node *node)
{
    struct span range;

    return cuts_first_range(entry_of((struct itree_node *)node), change->start, change->end,
                            &range);
}

/* Unpublishes a live entry that is in no tree any more. */
static void unpublish_entry(struct cache *cache, struct hmreg_mr *entry,
                            const struct change *change)
{
    const struct itree_node *node = &entry->node;

    work_count(1);
    if (change->unmapped && change->start <= node->start && node->end <= change->end)
        entry_body(entry)->unmapped = true;
    /* A vendor may report more memory than has ended, so holders keep the region. */
    if (change->source != CHANGE_VENDOR && touches(change, node))
        mr_revoke(entry);
    cache_unpublish_unlinked(cache, entry);
    cache_stats_add(&cache->stats, STATS_INVALIDATIONS, 1);
}

/* ---- cuts ------------------------------------------------------------------------------- */

bool cuts_are_left(const struct cache *cache)
{
    bool left = false;

    for (unsigned i = 0; atomic_load(&cache->pool->cuts) && i < CACHE_CUTS && !left; i++)
        left = cache->cuts[i].tree.root;
    return left;
}

static unsigned unpublish_some(struct cache *cache, struct cache_cut *cut, unsigned most)
{
    struct itree_node *node;

    if (!cut->tree.root)
        return most;
    for (; most && (node = itree_take(&cut->tree)); most--)
        unpublish_entry(cache, entry_of(node), &cut->change);
    if (!cut->tree.root)
        atomic_fetch_sub(&cache->pool->cuts, 1);
    return most;
}

void cuts_unpublish(struct cache *cache, unsigned most)
{
    for (unsigned i = 0; i < CACHE_CUTS && most; i++)
        most = unpublish_some(cache, &cache->cuts[i], most);
}

void cuts_unpublish_entry(struct cache *cache, struct hmreg_mr *entry)
{
    while (entry_body(entry)->state == CACHE_LIVE && cuts_contain(cache, entry)) {
        cuts_unpublish(cache, CACHE_BATCH);
        pthread_mutex_unlock(&cache->pool->lock);
        pthread_mutex_lock(&cache->pool->lock);
    }
}

void cuts_unpublish_any(struct cache_pool *pool, unsigned most)
{
    for (unsigned c = 0; c < atomic_load(&pool->known_caches) && most; c++)
        for (unsigned i = 0; i < CACHE_CUTS && most; i++)
            most = unpublish_some(&pool->caches[c], &pool->caches[c].cuts[i], most);
}

/* False: too many cuts have entries, so it unpublishes some of them. */
static bool cut(struct cache *cache, const struct change *change)
{
    struct cache_cut *free = cache->cuts;

    while (free < cache->cuts + CACHE_CUTS && free->tree.root)
        free++;
    if (free == cache->cuts + CACHE_CUTS) {
        cuts_unpublish(cache, CACHE_BATCH);
        return false;
    }
    free->tree.array = cache->tree.array;
    free->change = *change;
    itree_cut(&cache->tree, change->start, change->end, &free->tree);
    atomic_fetch_add(&cache->pool->cuts, 1);
    return true;
}

/* ---- a change --------------------------------------------------------------------------- */

/* The threads that register these entries, one each, do not publish them. */
static void mark_pending(struct cache *cache, const struct change *change)
{
    struct itree_node *node = NULL;

    while ((node = itree_touching(&cache->pending, node, change->start, change->end)))
        if (touches(change, node))
            entry_body(entry_of(node))->changed = true;
}

/* A change may touch a list's node but none of its segments. It checks only a limited number of
 * such lists; it unpublishes the others as well. */
static bool apply_to(struct cache *cache, const struct change *change, unsigned *room)
{
    struct itree_node *node = NULL;
    unsigned passed = 0;

    if (cache->pending.root)
        mark_pending(cache, change);
    while ((node = itree_touching(&cache->tree, node, change->start, change->end))) {
        work_count(1);
        if (!touches(change, node) && passed++ < CACHE_PASSED)
            continue;
        if (!*room)
            return node->start >= change->start && cut(cache, change);
        itree_remove(&cache->tree, node);
        unpublish_entry(cache, entry_of(node), change);
        --*room;
    }
    return true;
}

bool cuts_apply(struct cache_pool *pool, const struct change *change, unsigned *room)
{
    unsigned count =
        change_is_of_host_memory(change) ? HOST_CACHES : atomic_load(&pool->known_caches);
    bool done = true;

    if (gate_listens_to(pool->thread_caches.gate, change->source, change->library))
        for (unsigned i = 0; i < count && done; i++)
            done = apply_to(&pool->caches[i], change, room);
    return done;
}
