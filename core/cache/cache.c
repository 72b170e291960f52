/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See cache.h. cache_pool.c lists the invariants that each step keeps.
 */
#include "core/cache/cache.h"

#include "core/base/work.h"
#include "core/cache/cuts.h"
#include "core/mr/column.h"

#include <limits.h>

/* The most changes that one hold of the lock applies, and the most holds of one call. */
#define CACHE_CHANGES 16
#define CACHE_HOLDS   16
/* A search looks at the entries around a range: overlapping ones with other rights. */
#define CACHE_COVERING 256

/* ---- look-up ---------------------------------------------------------------------------- */

static bool has_rights(const struct hmreg_mr *mr, const struct cache_want *want)
{
    uint64_t access = entry_body(mr)->access;

    return !(want->access & ~access) && !(access & ~(want->access | want->more));
}

static bool matches(const struct hmreg_mr *mr, const struct cache_want *want)
{
    bool exact = want->exact || entry_body(mr)->whole;

    return has_rights(mr, want) && entry_variant(mr) == want->variant &&
           (!exact || (mr->node.start == want->start && mr->node.end == want->end)) &&
           entry_is_claimed(mr, want->claim) && !entry_body(mr)->changed;
}

static bool is_wanted(const struct cache *cache, const struct hmreg_mr *mr,
                      const struct cache_want *want)
{
    bool ends = entry_ends_with_put(mr);

    return matches(mr, want) &&
           (ends ? entry_pins(cache->pool, mr) : want->policy != HMREG_POLICY_LAST_PUT);
}

/* Searches for an unchanged entry that contains the range and has the access rights and this
 * variant. NULL: no such entry is among the first that contain the range. */
static struct hmreg_mr *serving_of(const struct cache *cache, const struct itree *tree,
                                   const struct cache_want *want)
{
    const struct itree_node before_exact = {.start = want->start, .end = want->end - 1};
    const struct itree_node *previous = want->exact ? &before_exact : NULL;

    for (unsigned i = 0; i < CACHE_COVERING; i++) {
        struct itree_node *node = itree_covering(tree, previous, want->start, want->end);

        work_count(1);
        if (!node || is_wanted(cache, entry_of(node), want))
            return entry_of(node);
        previous = node;
    }
    return NULL;
}

/* Returns a live entry that serves; if there is none and pending_too is set, an unchanged pending
 * one. */
static struct hmreg_mr *serving(const struct cache *cache, const struct cache_want *want,
                                bool pending_too)
{
    struct hmreg_mr *entry = NULL;

    if (cache->tree.root) /* most of a domain's caches are empty */
        entry = serving_of(cache, &cache->tree, want);
    if (!entry && pending_too && cache->pending.root)
        entry = serving_of(cache, &cache->pending, want);
    return entry;
}

/* Makes an entry hot. An entry that has used up all sequences serves through the tree only, until
 * it ends. */
static void heat_entry(struct hmreg_mr *entry)
{
    entry_body(entry)->cooled = false;
    if (!entry_sequence(entry) || entry_ends_with_put(entry))
        return;
    if (!entry_is_hot(entry))
        entry_next_sequence(entry);
    entry_body(entry)->cold = false;
}

/* Pins an entry, or NULL, for a get that found it, and returns it. NULL: its last holder has just
 * left. */
static struct hmreg_mr *use(struct hmreg_mr *entry, bool heat)
{
    struct mr_body *body;

    if (!entry)
        return NULL;
    if (entry_ends_with_put(entry)) {
        _Atomic uint64_t *holders = entry_holders(entry);

        return holders_join(holders, holders_use(holders)) ? entry : NULL;
    }
    body = entry_body(entry);
    body->pins++;
    body->used = true;
    if (heat)
        heat_entry(entry);
    return entry;
}

struct hmreg_mr *cache_find(struct cache_pool *pool, unsigned from, unsigned to,
                            const struct cache_want *want, bool heat)
{
    struct hmreg_mr *entry = NULL;

    pthread_mutex_lock(&pool->lock);
    for (unsigned i = from; i < to && !entry; i++)
        entry = serving(&pool->caches[i], want, false);
    entry = use(entry, heat);
    pthread_mutex_unlock(&pool->lock);
    return entry;
}

/* ---- a get's steps ---------------------------------------------------------------------- */

struct hmreg_mr *cache_admit(struct cache *cache, const struct cache_want *want,
                             enum hmreg_iface iface)
{
    struct cache_pool *pool = cache->pool;
    struct hmreg_mr *entry;

    pthread_mutex_lock(&pool->lock);
    entry = cache_take_entry(cache, want, iface);
    pthread_mutex_unlock(&pool->lock);
    return entry;
}

static bool never_fits(const struct cache *cache, uint64_t bytes)
{
    return !cache->limit.regions || bytes > cache->limit.bytes ||
           quota_never_fits(cache->pool->quota, bytes);
}

/* A region that ends with its last put replaces kept regions that would serve its request: these
 * end once their holders have put them. Kept regions that are being registered are not published.
 */
static void unpublish_kept(struct cache *cache, const struct cache_want *want)
{
    struct itree_node *node = NULL;

    for (unsigned i = 0; i < CACHE_COVERING; i++) {
        node = itree_covering(&cache->tree, node, want->start, want->end);
        if (!node)
            break;
        if (entry_ends_with_put(entry_of(node)) || !matches(entry_of(node), want))
            continue;
        cache_unpublish(cache, entry_of(node));
        cache_stats_evicted(&cache->stats, 0, CACHE_FOR_GET, 1);
    }
    for (node = NULL; (node = itree_covering(&cache->pending, node, want->start, want->end));)
        if (!entry_ends_with_put(entry_of(node)) && matches(entry_of(node), want))
            entry_body(entry_of(node))->changed = true;
}

static enum cache_reserve reserve(struct cache *cache, const struct cache_want *want,
                                  enum hmreg_iface iface, bool heat, struct hmreg_mr **entry)
{
    *entry = serving(cache, want, true);
    *entry = use(*entry, heat && *entry && entry_body(*entry)->state == CACHE_LIVE);
    if (*entry)
        return CACHE_SERVED;
    *entry = cache_take_entry(cache, want, iface);
    if (!*entry)
        return CACHE_SHORT;
    if (want->policy == HMREG_POLICY_LAST_PUT)
        unpublish_kept(cache, want);
    if (never_fits(cache, want_len(want)))
        return CACHE_FULL;
    cache_link(cache, *entry);
    return CACHE_RESERVED;
}

enum cache_reserve cache_reserve(struct cache *cache, const struct cache_want *want,
                                 enum hmreg_iface iface, bool heat, struct hmreg_mr **entry)
{
    enum cache_reserve result;

    pthread_mutex_lock(&cache->pool->lock);
    result = reserve(cache, want, iface, heat, entry);
    pthread_mutex_unlock(&cache->pool->lock);
    return result;
}

/* Charges a region to its own cache and to the quota of all caches. */
static enum cache_publish take_room(struct cache *cache, uint64_t bytes,
                                    struct cache_search *search)
{
    struct cache_pool *pool = cache->pool;

    if (never_fits(cache, bytes))
        return CACHE_ROOMLESS;
    switch (cache_make_room(cache, bytes, search)) {
    case CACHE_ROOM_LATER:
        return CACHE_INTERRUPTED;
    case CACHE_NO_ROOM:
        return CACHE_ROOMLESS;
    case CACHE_ROOM:
        break;
    }
    if (!pool->counted)
        return CACHE_PUBLISHED;
    switch (quota_take(pool->quota, bytes)) {
    case QUOTA_FULL:
        return CACHE_SQUEEZED;
    case QUOTA_NEVER:
        return CACHE_ROOMLESS;
    case QUOTA_TAKEN:
        break;
    }
    return CACHE_PUBLISHED;
}

static void wake_waiters(struct cache_pool *pool)
{
    if (pool->waiters)
        pthread_cond_broadcast(&pool->decided);
}

static enum cache_publish publish(struct cache *cache, struct hmreg_mr *entry, bool same_identity,
                                  bool hot, struct cache_search *search)
{
    enum cache_publish result = CACHE_DISCARDED;

    if (same_identity && !entry_body(entry)->changed)
        result =
            column_may_publish(entry) ? take_room(cache, mr_len(entry), search) : CACHE_OUTDATED;

    switch (result) {
    case CACHE_PUBLISHED:
        cache_enliven(cache, entry);
        cache_stats_count(&cache->stats, STATS_MISSES, 1);
        if (hot && !search->evicted)
            heat_entry(entry);
        break;
    case CACHE_ROOMLESS:
        entry_body(entry)->refused_room = true;
        cache_retire_pending(cache, entry);
        break;
    case CACHE_DISCARDED:
        cache_retire_pending(cache, entry);
        break;
    default:
        return result; /* not decided */
    }
    wake_waiters(cache->pool);
    return result;
}

enum cache_publish cache_publish(struct cache *cache, struct hmreg_mr *entry, bool same_identity,
                                 bool hot, struct cache_search *search)
{
    enum cache_publish result;

    pthread_mutex_lock(&cache->pool->lock);
    result = publish(cache, entry, same_identity, hot, search);
    pthread_mutex_unlock(&cache->pool->lock);
    return result;
}

void cache_retire_reserved(struct cache *cache, struct hmreg_mr *entry, bool refused_room)
{
    pthread_mutex_lock(&cache->pool->lock);
    entry_body(entry)->refused_room = refused_room;
    entry_body(entry)->filling = true;
    cache_retire_pending(cache, entry);
    wake_waiters(cache->pool);
    pthread_mutex_unlock(&cache->pool->lock);
}

bool cache_filled(struct cache_pool *pool, struct hmreg_mr *entry, bool forced)
{
    bool filled;

    pthread_mutex_lock(&pool->lock);
    filled = forced || column_may_publish(entry);
    entry_body(entry)->filling = !filled;
    pthread_mutex_unlock(&pool->lock);
    return filled;
}

static void wait_for(struct cache *cache, const struct hmreg_mr *entry)
{
    cache_stats_add(&cache->stats, STATS_WAITS, 1);
    cache_stats_add(&cache->stats, STATS_WAITING, 1);
    cache->pool->waiters++;
    while (entry_body(entry)->state == CACHE_PENDING && !entry_body(entry)->announcing &&
           !entry_body(entry)->changed && !entry_body(entry)->unawaited)
        pthread_cond_wait(&cache->pool->decided, &cache->pool->lock);
    cache->pool->waiters--;
    cache_stats_add(&cache->stats, STATS_WAITING, -1);
}

void cache_announce(struct cache *cache, struct hmreg_mr *entry, bool announcing)
{
    pthread_mutex_lock(&cache->pool->lock);
    entry_body(entry)->announcing = announcing;
    wake_waiters(cache->pool);
    pthread_mutex_unlock(&cache->pool->lock);
}

bool cache_await(struct cache *cache, struct hmreg_mr *entry, bool *refused_room)
{
    struct cache_pool *pool = cache->pool;
    bool live;

    pthread_mutex_lock(&pool->lock);
    if (entry_body(entry)->state == CACHE_PENDING)
        wait_for(cache, entry);
    live = entry_body(entry)->state == CACHE_LIVE;
    *refused_room = entry_body(entry)->refused_room || entry_body(entry)->announcing ||
                    entry_body(entry)->unawaited;
    pthread_mutex_unlock(&pool->lock);
    return live;
}

static struct hmreg_mr *take_if_unpinned(struct cache_pool *pool, struct hmreg_mr *entry)
{
    if (entry_body(entry)->state != CACHE_HELD || entry_pins(pool, entry))
        return NULL;
    entry_body(entry)->state = CACHE_ENDING;
    return entry;
}

struct hmreg_mr *cache_retire_last_put(struct cache_pool *pool, struct hmreg_mr *entry)
{
    pthread_mutex_lock(&pool->lock);
    cuts_unpublish_entry(entry_cache(pool, entry), entry);
    cache_retire_put(entry_cache(pool, entry), entry);
    pthread_mutex_unlock(&pool->lock);
    return entry;
}

struct hmreg_mr *cache_unpin(struct cache_pool *pool, struct hmreg_mr *entry)
{
    struct hmreg_mr *gone;

    if (entry_ends_with_put(entry))
        return holders_leave(entry_holders(entry)) ? cache_retire_last_put(pool, entry) : NULL;
    pthread_mutex_lock(&pool->lock);
    entry_body(entry)->pins--;
    gone = take_if_unpinned(pool, entry);
    pthread_mutex_unlock(&pool->lock);
    return gone;
}

bool cache_unpin_checked(struct cache_pool *pool, struct hmreg_mr *entry, struct hmreg_mr **gone)
{
    bool held;

    pthread_mutex_lock(&pool->lock);
    held = entry_body(entry)->state != CACHE_FREE && entry_pins(pool, entry);
    if (held && !entry_ends_with_put(entry)) {
        entry_body(entry)->pins--;
        *gone = take_if_unpinned(pool, entry);
    }
    pthread_mutex_unlock(&pool->lock);
    if (held && entry_ends_with_put(entry))
        *gone = cache_unpin(pool, entry);
    if (!held)
        cache_stats_add(&entry_cache(pool, entry)->stats, STATS_WRONG_PUTS, 1);
    return held;
}

struct hmreg_mr *cache_collect_unpinned(struct cache_pool *pool, struct hmreg_mr *entry)
{
    struct hmreg_mr *gone;

    pthread_mutex_lock(&pool->lock);
    gone = take_if_unpinned(pool, entry);
    pthread_mutex_unlock(&pool->lock);
    return gone;
}

/* ---- changes of memory ------------------------------------------------------------------ */

/* cache_drain() may end after the first batch, which must then have read every open change that is
 * finished: the queue returns these first. */
_Static_assert(CACHE_CHANGES >= CHANGES_OPEN, "a batch reads all open changes");

/* True: the queue is empty, and the changes that were read touch no live entry in the trees. */
static bool drain_batch(struct cache_pool *pool)
{
    unsigned room = CACHE_BATCH, changes = CACHE_CHANGES;

    while (room && changes--) {
        work_count(1);
        if (!pool->applying && !changes_next(&pool->changes, &pool->change))
            return true;
        pool->applying = !cuts_apply(pool, &pool->change, &room);
        if (pool->applying)
            return false;
    }
    return false;
}

enum drained {
    DRAIN_UNREAD, /* changes pushed before `end` are not applied yet */
    DRAIN_CUT,    /* the changes are applied, but entries that they cut from the trees remain */
    DRAIN_UNPUBLISHED, /* every entry that they touch is unpublished */
};

/* Drains one batch. Changes that other threads push meanwhile are left to later calls, so that no
 * call loops for ever; the gate stays shut until a call has read them. */
static enum drained drain_some(struct cache_pool *pool, uint64_t end)
{
    enum drained done = DRAIN_UNPUBLISHED;

    pthread_mutex_lock(&pool->lock);
    if (gate_begin_drain(pool->thread_caches.gate)) {
        bool empty = drain_batch(pool);

        if (empty && atomic_load(&pool->cuts))
            cuts_unpublish_any(pool, CACHE_BATCH);
        if (empty && !atomic_load(&pool->cuts))
            gate_end_drain(pool->thread_caches.gate);
        if (pool->applying || pool->changes.next < end)
            done = DRAIN_UNREAD;
        else if (atomic_load(&pool->cuts))
            done = DRAIN_CUT;
    }
    pthread_mutex_unlock(&pool->lock);
    return done;
}

bool cache_drain(struct cache_pool *pool)
{
    uint64_t end;
    bool read = !gate_is_queued(pool->thread_caches.gate);

    if (read)
        return true;
    end = changes_end();
    for (unsigned i = 0; i < CACHE_HOLDS && !read; i++)
        read = drain_some(pool, end) != DRAIN_UNREAD;
    return read;
}

void cache_drain_all(struct cache_pool *pool)
{
    uint64_t end;

    if (!gate_is_queued(pool->thread_caches.gate))
        return;
    end = changes_end();
    while (drain_some(pool, end) != DRAIN_UNPUBLISHED)
        ;
}

/* For a notice after which held regions keep their rights. */
void cache_unpublish_all(struct cache_pool *pool)
{
    const struct change all = {.start = 0, .end = UINT64_MAX, .source = CHANGE_VENDOR};
    bool done = false;

    while (!done) {
        unsigned room = CACHE_BATCH;

        pthread_mutex_lock(&pool->lock);
        done = cuts_apply(pool, &all, &room);
        cuts_unpublish_any(pool, CACHE_BATCH);
        done = done && !atomic_load(&pool->cuts);
        wake_waiters(pool);
        pthread_mutex_unlock(&pool->lock);
    }
}

void cache_leave_pending(struct cache_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    for (unsigned i = 0; i < atomic_load(&pool->known_caches); i++) {
        struct itree_node *node = NULL;

        while ((node = itree_touching(&pool->caches[i].pending, node, 0, UINT64_MAX)))
            entry_body(entry_of(node))->unawaited = true;
    }
    wake_waiters(pool);
    pthread_mutex_unlock(&pool->lock);
}

/* Searches one tree. *found: whether *out is set. */
static void first_in(const struct itree *tree, uint64_t start, uint64_t end, bool *found,
                     struct span *out)
{
    struct itree_node *node = NULL;
    struct span range;

    while ((node = itree_touching(tree, node, start, end)) &&
           !(*found && out->start <= node->start)) {
        if (!cuts_first_range(entry_of(node), start, end, &range) ||
            (*found && range.start >= out->start))
            continue;
        *out = range;
        *found = true;
    }
}

bool cache_first_in(struct cache *cache, uint64_t start, uint64_t end, struct span *out)
{
    struct cache_pool *pool = cache->pool;
    bool found = false;

    pthread_mutex_lock(&pool->lock);
    first_in(&cache->tree, start, end, &found, out);
    first_in(&cache->pending, start, end, &found, out);
    pthread_mutex_unlock(&pool->lock);
    return found;
}

void cache_unpublish_stale(struct cache *cache, struct hmreg_mr *entry)
{
    struct cache_pool *pool = cache->pool;

    pthread_mutex_lock(&pool->lock);
    if (entry_body(entry)->state == CACHE_LIVE && !cuts_contain(cache, entry)) {
        cache_unpublish(cache, entry);
        cache_stats_add(&cache->stats, STATS_INVALIDATIONS, 1);
    }
    pthread_mutex_unlock(&pool->lock);
}
