/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See cache.h. Invariants, true whenever the lock is free:
 *
 *  - An entry is in the index if and only if it is pending or live; then, and only then, it
 *    counts as used, and used never exceeds the limit.
 *  - A pending entry is pinned by the thread that registers it, which alone ends that state. A
 *    live entry that nobody pins is in the list idle, which is in the order of last use.
 *  - Threads that want the same do not register it twice: whoever claims has looked for a live
 *    entry and a pending one (whose memory has not changed since) under the same lock.
 *  - A dead entry is never found again. It is deregistered once nobody pins it, by the thread
 *    that unpinned it, or, if nobody did when it died, by the next that comes (list dead).
 *
 * Lock order: the cache's lock is the innermost of all. Under it nothing is allocated or freed, no
 * vendor, fabric or user is called, and no wait is for a thread that does so while holding it: the
 * thread that reads the kernel's events takes it (see userfault.h, and quiet.h).
 */
#include "core/cache.h"

#include "core/quiet.h"

#include <assert.h>

#define BATCH 256 /* entries that die under one hold of the lock, so that others get their turn */

/* ---- lists ------------------------------------------------------------------------------ */

static void list_append(struct cache_list *list, struct cache_entry *entry)
{
    entry->previous = list->last;
    entry->next = NULL;
    if (list->last)
        list->last->next = entry;
    else
        list->first = entry;
    list->last = entry;
    atomic_fetch_add(&list->count, 1);
}

static void list_remove(struct cache_list *list, struct cache_entry *entry)
{
    if (entry->previous)
        entry->previous->next = entry->next;
    else
        list->first = entry->next;
    if (entry->next)
        entry->next->previous = entry->previous;
    else
        list->last = entry->previous;
    atomic_fetch_sub(&list->count, 1);
}

/* ---- accounts, all with the lock held --------------------------------------------------- */

static uint64_t bytes_of(const struct cache_entry *entry)
{
    return entry->node.end - entry->node.start;
}

static void add(struct cache_use *use, const struct cache_entry *entry)
{
    use->regions++;
    use->bytes += bytes_of(entry);
}

static void subtract(struct cache_use *use, const struct cache_entry *entry)
{
    use->regions--;
    use->bytes -= bytes_of(entry);
}

static void link_entry(struct cache *cache, struct cache_entry *entry)
{
    itree_insert(&cache->index, &entry->node);
    add(&cache->used, entry);
    ledger_used(&cache->ledger, cache->used.regions, cache->used.bytes);
}

static void unlink_entry(struct cache *cache, struct cache_entry *entry)
{
    itree_remove(&cache->index, &entry->node);
    subtract(&cache->used, entry);
    ledger_used(&cache->ledger, cache->used.regions, cache->used.bytes);
    entry->state = CACHE_DEAD;
}

static void pin(struct cache *cache, struct cache_entry *entry)
{
    if (entry->pins++)
        return;
    cache->held++;
    list_remove(&cache->idle, entry);
    subtract(&cache->spare, entry);
}

static void become_zombie(struct cache *cache, struct cache_entry *entry)
{
    if (!entry->zombie)
        ledger_set(&cache->ledger, STATS_ZOMBIES, ++cache->zombies);
    entry->zombie = true;
}

/* Ends a live entry: its users keep it, or the next that comes deregisters it. */
static void kill_entry(struct cache *cache, struct cache_entry *entry)
{
    unlink_entry(cache, entry);
    if (entry->pins) {
        become_zombie(cache, entry);
        return;
    }
    list_remove(&cache->idle, entry);
    subtract(&cache->spare, entry);
    list_append(&cache->dead, entry);
}

static struct cache_entry *entry_of(struct itree_node *node)
{
    return (struct cache_entry *)node;
}

/* The next entry after `after` that serves: contains the range, with exactly these rights. */
static struct cache_entry *next_serving(const struct cache *cache, const struct cache_want *want,
                                        const struct cache_entry *after)
{
    struct itree_node *node = after ? (struct itree_node *)&after->node : NULL;

    while ((node = itree_covering(&cache->index, node, want->start, want->end))) {
        if (entry_of(node)->access != want->access)
            continue;
        if (!want->exact || (node->start == want->start && node->end == want->end))
            return entry_of(node);
    }
    return NULL;
}

/* A live one if there is any, else, if that will do, a pending one. */
static struct cache_entry *serving(const struct cache *cache, const struct cache_want *want,
                                   bool pending_too)
{
    struct cache_entry *pending = NULL;
    struct cache_entry *entry = NULL;

    while ((entry = next_serving(cache, want, entry))) {
        if (entry->state == CACHE_LIVE)
            return entry;
        if (!entry->changed)
            pending = entry;
    }
    return pending_too ? pending : NULL;
}

/* code: as for ledger_evicted(). */
static bool evict_one(struct cache *cache, int code)
{
    if (!cache->idle.first)
        return false;
    kill_entry(cache, cache->idle.first);
    ledger_evicted(&cache->ledger, code, 1);
    return true;
}

static bool fits(const struct cache_use *use, const struct cache_use *limit, uint64_t bytes)
{
    return use->regions < limit->regions && bytes <= limit->bytes &&
           use->bytes <= limit->bytes - bytes;
}

/* Evicts what it takes; nothing, if everything idle would not be enough. */
static bool make_room(struct cache *cache, uint64_t bytes)
{
    struct cache_use pinned = {cache->used.regions - cache->spare.regions,
                               cache->used.bytes - cache->spare.bytes};

    if (!fits(&pinned, &cache->limit, bytes))
        return false;
    while (!fits(&cache->used, &cache->limit, bytes))
        evict_one(cache, 0);
    return true;
}

/* ---- life ------------------------------------------------------------------------------- */

void cache_init(struct cache *cache, uint64_t max_regions, uint64_t max_bytes)
{
    *cache = (struct cache){.limit = {max_regions, max_bytes}};
    pthread_mutex_init(&cache->lock, NULL);
    pthread_cond_init(&cache->decided, NULL);
}

void cache_destroy(struct cache *cache)
{
    assert(!cache->entries);
    pthread_cond_destroy(&cache->decided);
    pthread_mutex_destroy(&cache->lock);
}

void cache_admit(struct cache *cache, struct cache_entry *entry)
{
    entry->cache = cache;
    entry->state = CACHE_DEAD;
    entry->pins = 1;
    quiet_lock(&cache->lock);
    cache->entries++;
    cache->held++;
    quiet_unlock(&cache->lock);
}

void cache_forget(struct cache_entry *entry)
{
    struct cache *cache = entry->cache;

    quiet_lock(&cache->lock);
    cache->entries--;
    if (entry->zombie)
        ledger_set(&cache->ledger, STATS_ZOMBIES, --cache->zombies);
    quiet_unlock(&cache->lock);
}

/* ---- a get's steps ---------------------------------------------------------------------- */

struct cache_entry *cache_find(struct cache *cache, const struct cache_want *want)
{
    struct cache_entry *entry;

    quiet_lock(&cache->lock);
    entry = serving(cache, want, false);
    if (entry)
        pin(cache, entry);
    quiet_unlock(&cache->lock);
    return entry;
}

enum cache_claim cache_claim(struct cache_entry *entry, const struct cache_want *want,
                             struct cache_entry **other)
{
    struct cache *cache = entry->cache;
    enum cache_claim result = CACHE_FULL;
    struct cache_entry *found;

    quiet_lock(&cache->lock);
    found = serving(cache, want, true);
    if (found) {
        pin(cache, found);
        *other = found;
        result = CACHE_SERVED;
    } else if (make_room(cache, bytes_of(entry))) {
        entry->state = CACHE_PENDING;
        link_entry(cache, entry);
        result = CACHE_CLAIMED;
    }
    quiet_unlock(&cache->lock);
    return result;
}

bool cache_publish(struct cache_entry *entry, struct hmreg_mr *mr, bool right)
{
    struct cache *cache = entry->cache;
    bool live;

    quiet_lock(&cache->lock);
    entry->mr = mr;
    live = right && !entry->changed;
    if (live)
        entry->state = CACHE_LIVE;
    else
        unlink_entry(cache, entry);
    pthread_cond_broadcast(&cache->decided);
    quiet_unlock(&cache->lock);
    return live;
}

void cache_abandon(struct cache_entry *entry)
{
    struct cache *cache = entry->cache;

    quiet_lock(&cache->lock);
    unlink_entry(cache, entry);
    pthread_cond_broadcast(&cache->decided);
    quiet_unlock(&cache->lock);
}

static void wait_for(struct cache *cache, const struct cache_entry *entry)
{
    ledger_add(&cache->ledger, STATS_WAITS, 1);
    ledger_add(&cache->ledger, STATS_WAITING, 1);
    while (entry->state == CACHE_PENDING)
        pthread_cond_wait(&cache->decided, &cache->lock);
    ledger_add(&cache->ledger, STATS_WAITING, -1);
}

bool cache_await(struct cache_entry *entry)
{
    struct cache *cache = entry->cache;
    bool live;

    quiet_lock(&cache->lock);
    if (entry->state == CACHE_PENDING)
        wait_for(cache, entry);
    live = entry->state == CACHE_LIVE;
    quiet_unlock(&cache->lock);
    return live;
}

struct cache_entry *cache_release(struct cache_entry *entry)
{
    struct cache *cache = entry->cache;
    bool gone = false;

    quiet_lock(&cache->lock);
    if (--entry->pins == 0) {
        cache->held--;
        gone = entry->state == CACHE_DEAD;
        if (!gone) {
            list_append(&cache->idle, entry);
            add(&cache->spare, entry);
        }
    }
    quiet_unlock(&cache->lock);
    return gone ? entry : NULL;
}

/* ---- endings ---------------------------------------------------------------------------- */

/* A pending entry is its registrar's to end; it is told. True: it was live, and died. */
static bool invalidate_entry(struct cache *cache, struct cache_entry *entry,
                             const struct change *change)
{
    const struct itree_node *node = &entry->node;

    if (entry->state == CACHE_PENDING) {
        entry->changed = true;
        return false;
    }
    if (change->unmapped && change->start <= node->start && node->end <= change->end)
        entry->unmapped = true;
    kill_entry(cache, entry);
    ledger_add(&cache->ledger, STATS_INVALIDATIONS, 1);
    return true;
}

bool cache_invalidate(struct cache *cache, const struct change *change)
{
    struct itree_node *node = NULL;
    unsigned count = 0;

    quiet_lock(&cache->lock);
    while (count < BATCH &&
           (node = itree_touching(&cache->index, node, change->start, change->end)))
        count += invalidate_entry(cache, entry_of(node), change);
    quiet_unlock(&cache->lock);
    return count == BATCH;
}

bool cache_first_in(struct cache *cache, uint64_t start, uint64_t end, struct span *out)
{
    struct itree_node *node;

    quiet_lock(&cache->lock);
    node = itree_touching(&cache->index, NULL, start, end);
    if (node)
        *out = (struct span){node->start, node->end};
    quiet_unlock(&cache->lock);
    return node;
}

void cache_drop(struct cache_entry *entry)
{
    struct cache *cache = entry->cache;

    quiet_lock(&cache->lock);
    if (entry->state == CACHE_LIVE) {
        kill_entry(cache, entry);
        ledger_add(&cache->ledger, STATS_INVALIDATIONS, 1);
    }
    quiet_unlock(&cache->lock);
}

unsigned cache_evict(struct cache *cache, unsigned count, int code)
{
    unsigned done = 0;

    quiet_lock(&cache->lock);
    while (done < count && evict_one(cache, code))
        done++;
    quiet_unlock(&cache->lock);
    return done;
}

void cache_empty(struct cache *cache)
{
    quiet_lock(&cache->lock);
    while (cache->idle.first)
        kill_entry(cache, cache->idle.first);
    quiet_unlock(&cache->lock);
}

static struct cache_entry *take(struct cache *cache, struct cache_list *list)
{
    struct cache_entry *entry;

    if (!atomic_load(&list->count))
        return NULL;
    quiet_lock(&cache->lock);
    entry = list->first;
    if (entry)
        list_remove(list, entry);
    quiet_unlock(&cache->lock);
    return entry;
}

struct cache_entry *cache_take_dead(struct cache *cache)
{
    return take(cache, &cache->dead);
}

struct cache_entry *cache_take_busy(struct cache *cache)
{
    return take(cache, &cache->busy);
}

void cache_keep_busy(struct cache_entry *entry)
{
    struct cache *cache = entry->cache;

    quiet_lock(&cache->lock);
    become_zombie(cache, entry);
    list_append(&cache->busy, entry);
    quiet_unlock(&cache->lock);
}

/* ---- accounts --------------------------------------------------------------------------- */

unsigned cache_entries(struct cache *cache)
{
    unsigned entries;

    quiet_lock(&cache->lock);
    entries = cache->entries;
    quiet_unlock(&cache->lock);
    return entries;
}

unsigned cache_held(struct cache *cache)
{
    unsigned held;

    quiet_lock(&cache->lock);
    held = cache->held;
    quiet_unlock(&cache->lock);
    return held;
}

unsigned cache_busy(struct cache *cache)
{
    return atomic_load(&cache->busy.count);
}

void cache_stats(struct cache *cache, struct hmreg_stats *out)
{
    ledger_sum(&cache->ledger, out);
}
