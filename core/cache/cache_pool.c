/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See cache_pool.h. Invariants, true whenever the lock is free:
 *
 *  - An entry is in a cache's tree, or in one of its cuts, if and only if it is live, and in its
 *    tree of pending ones if and only if it is pending. It counts as used if and only if it is
 *    live, and is in the clock list then, unless it ends with its last put; `used` never exceeds
 *    the limit, unless the limit was lowered below it.
 *  - While an entry is in a cut, its gate is not GATE_LIVE alone.
 *  - A pending entry is pinned by the thread that registers it, and only that thread ends the
 *    state.
 *  - cache_reserve() never duplicates an entry: under the same lock it has looked for one that
 *    serves the request and is live, or is pending and whose memory has not changed since.
 *  - The sequence of an entry is odd only while it is live. The sequence of a cold entry is even,
 *    and all threads have passed a barrier since it became so: no thread can pin the entry without
 *    the lock, and if the sum of its pins is 0, it is idle. Only cold entries are evicted.
 *  - A put of an entry whose sequence is even checks under the lock whether it removed the last
 * pin.
 *  - An entry that ends with its last put does so in each of its uses, and its sequence is even.
 *    While it is pending or live it has a holder, or its last holder's thread is about to retire
 *    it. Its pins mean nothing.
 *  - An entry that no longer serves is never found again. The thread that removes its last pin
 *    deregisters it; if it had no pins when it ended, the reaper or the next call does.
 *  - The pool has read every change from before the last time that its gate was GATE_LIVE alone.
 *
 * Lock order: the pool's lock is the innermost, except for the statistics' and the quota's.
 * No vendor, fabric or user callback is called under it, and it is held for a bounded time. Hooks
 * and the thread that reads the kernel's events never take it: they push to the change queue.
 */
#include "core/cache/cache_pool.h"

#include "core/base/reaper.h"
#include "core/base/work.h"

#include <assert.h>
#include <string.h>

#define FIRST_SEQUENCE 2 /* 0 is the last value */

/* ---- lists ------------------------------------------------------------------------------ */

/* Written only under the lock. Sequentially consistent: the reaper reads it before it sleeps. */
static void list_count(struct cache_list *list, unsigned more)
{
    unsigned count = atomic_load_explicit(&list->count, memory_order_relaxed);

    atomic_store(&list->count, count + more);
}

/* Without a reaper the domain's next call frees entries: the gate sends it to the slow path. */
static void call_to_free(struct cache_pool *pool)
{
    if (!atomic_load(&pool->served) && !(atomic_load(&pool->thread_caches.gate->state) & GATE_REAP))
        atomic_fetch_or(&pool->thread_caches.gate->state, GATE_REAP);
}

static void append(struct cache_pool *pool, struct cache_list *list, uint32_t number)
{
    entry_body(cache_entry_at(pool, number))->place.next = 0;
    if (list->last)
        entry_body(cache_entry_at(pool, list->last))->place.next = number;
    else
        list->first = number;
    list->last = number;
    list_count(list, 1);
}

static void list_append(struct cache_pool *pool, struct cache_list *list, uint32_t number)
{
    append(pool, list, number);
    call_to_free(pool);
}

static struct hmreg_mr *take_first(struct cache_pool *pool, struct cache_list *list)
{
    struct hmreg_mr *entry;

    if (!list->first)
        return NULL;
    entry = cache_entry_at(pool, list->first);
    list->first = entry_body(entry)->place.next;
    if (!list->first)
        list->last = 0;
    list_count(list, -1u);
    return entry;
}

static struct hmreg_mr *list_take(struct cache_pool *pool, struct cache_list *list)
{
    struct hmreg_mr *entry = take_first(pool, list);

    if (entry && !pool->unpublished.first && !pool->settled.first && !pool->to_free.first &&
        !pool->busy.first && atomic_load(&pool->thread_caches.gate->state) & GATE_REAP)
        atomic_fetch_and(&pool->thread_caches.gate->state, ~GATE_REAP);
    return entry;
}

/* ---- accounts, all with the lock held --------------------------------------------------- */

static void count_used(struct cache *cache)
{
    cache_stats_used(&cache->stats, cache->used.regions, cache->used.bytes);
}

void cache_link(struct cache *cache, struct hmreg_mr *entry)
{
    itree_insert(&cache->pending, &entry->node);
    cache->pool->serving++;
    entry_body(entry)->state = CACHE_PENDING;
    entry_body(entry)->filling = false;
}

void cache_retire_pending(struct cache *cache, struct hmreg_mr *entry)
{
    itree_remove(&cache->pending, &entry->node);
    cache->pool->serving--;
    entry_body(entry)->cached = false; /* other threads may take the entry from now on */
    entry_body(entry)->state = CACHE_HELD;
}

void cache_enliven(struct cache *cache, struct hmreg_mr *entry)
{
    itree_remove(&cache->pending, &entry->node);
    itree_insert(&cache->tree, &entry->node);
    entry_body(entry)->state = CACHE_LIVE;
    entry_body(entry)->used = false;
    if (!entry_ends_with_put(entry)) /* which is never idle */
        clock_insert(&cache->live, entry_number(entry));
    cache_use_add(&cache->used, entry);
    count_used(cache);
}

static void uncharge(struct cache *cache, const struct hmreg_mr *entry)
{
    if (cache->pool->counted)
        quota_give(cache->pool->quota, 1, mr_len(entry));
    cache->pool->serving--;
    cache_use_subtract(&cache->used, entry);
    count_used(cache);
}

static void count_retired(struct cache *cache, struct hmreg_mr *entry)
{
    if (!entry_body(entry)->retired)
        cache_stats_set(&cache->stats, STATS_RETIRED, ++cache->retired);
    entry_body(entry)->retired = true;
}

/* Retires a cold entry that is unpublished. */
static void retire(struct cache *cache, struct hmreg_mr *entry)
{
    struct cache_pool *pool = cache->pool;

    work_count(1);
    /* The entry will be reused. */
    thread_cache_clear_used(&pool->thread_caches, entry_number(entry));
    if (entry_pins(pool, entry)) {
        entry_body(entry)->state = CACHE_HELD;
        count_retired(cache, entry);
        return;
    }
    entry_body(entry)->state = CACHE_ENDING;
    list_append(pool, &pool->to_free, entry_number(entry));
}

void cache_retire_idle(struct cache *cache, struct hmreg_mr *entry)
{
    itree_remove(&cache->tree, &entry->node);
    uncharge(cache, entry);
    entry_body(entry)->state = CACHE_ENDING;
    list_append(cache->pool, &cache->pool->to_free, entry_number(entry));
}

/* Stops hits on the entry: threads can no longer pin it through their tables, and puts check
 * whether they remove its last pin. */
static void stop_hits(struct cache *cache, struct hmreg_mr *entry)
{
    uncharge(cache, entry);
    if (entry_ends_with_put(entry)) {
        entry_next_use(entry);
        return;
    }
    clock_remove(&cache->live, entry_number(entry));
    if (entry_is_hot(entry))
        entry_next_sequence(entry);
}

void cache_retire(struct cache *cache, struct hmreg_mr *entry)
{
    itree_remove(&cache->tree, &entry->node);
    stop_hits(cache, entry);
    retire(cache, entry);
}

void cache_retire_put(struct cache *cache, struct hmreg_mr *entry)
{
    if (entry_body(entry)->state == CACHE_LIVE) {
        itree_remove(&cache->tree, &entry->node);
        stop_hits(cache, entry);
    }
    entry_body(entry)->state = CACHE_ENDING;
}

void cache_unpublish(struct cache *cache, struct hmreg_mr *entry)
{
    itree_remove(&cache->tree, &entry->node);
    cache_unpublish_unlinked(cache, entry);
}

void cache_unpublish_unlinked(struct cache *cache, struct hmreg_mr *entry)
{
    struct cache_pool *pool = cache->pool;

    if (entry_ends_with_put(entry)) {
        stop_hits(cache, entry);
        entry_body(entry)->state = CACHE_HELD;
        count_retired(cache, entry);
        return;
    }
    pool->unpublished_hot |= !entry_body(entry)->cold;
    stop_hits(cache, entry);
    entry_body(entry)->state = CACHE_UNPUBLISHED;
    list_append(pool, &pool->unpublished, entry_number(entry));
    reaper_wake();
}

/* ---- pools and entries ------------------------------------------------------------------ */

bool cache_pool_open(struct cache_pool *pool, struct hmreg_domain *domain, struct cache *caches,
                     unsigned count, struct quota *quota)
{
    bool exact = domain->flags & HMREG_DOMAIN_EXACT;

    *pool = (struct cache_pool){.domain = domain,
                                .caches = caches,
                                .quota = quota,
                                .counted = quota_is_limit(quota),
                                .fresh = STABLE_ARRAY_FIRST};
    pthread_mutex_init(&pool->lock, NULL);
    pthread_mutex_init(&pool->emptying, NULL);
    pthread_cond_init(&pool->decided, NULL);
    stable_array_init(&pool->entries, sizeof(struct hmreg_mr), sizeof(struct mr_body));
    changes_start(&pool->changes);
    if (stable_array_grow(&pool->entries, STABLE_ARRAY_FIRST, &pool->lock) &&
        thread_cache_set_open(&pool->thread_caches, &pool->entries, &pool->lock, count, exact,
                              domain->lib->settings.plain_calls)) {
        domain->entries = pool->entries.base;
        return true;
    }
    stable_array_free(&pool->entries);
    pthread_cond_destroy(&pool->decided);
    pthread_mutex_destroy(&pool->emptying);
    pthread_mutex_destroy(&pool->lock);
    return false;
}

static struct cache_stats *cache_stats_of(struct thread_cache_set *tcache, unsigned index)
{
    struct cache_pool *pool =
        (struct cache_pool *)((char *)tcache - offsetof(struct cache_pool, thread_caches));

    return &pool->caches[index].stats;
}

void cache_pool_close(struct cache_pool *pool)
{
    assert(!cache_entries(pool));
    thread_cache_set_close(&pool->thread_caches, cache_stats_of);
    if (!pool->check_puts)
        stable_array_free(&pool->entries);
    pthread_cond_destroy(&pool->decided);
    pthread_mutex_destroy(&pool->emptying);
    pthread_mutex_destroy(&pool->lock);
}

void cache_init(struct cache *cache, struct cache_pool *pool, unsigned index, uint64_t max_regions,
                uint64_t max_bytes)
{
    assert(index <= CACHE_INDEX_MOST);
    *cache = (struct cache){.pool = pool,
                            .index = (uint16_t)index,
                            .tree = {&pool->entries, 0},
                            .pending = {&pool->entries, 0},
                            .limit = {max_regions, max_bytes}};
    clock_init(&cache->live, &pool->entries, offsetof(struct mr_body, place));
}

bool cache_grow(struct cache *cache, const struct cache_want *want)
{
    struct cache_pool *pool = cache->pool;
    uint32_t end;
    bool needed;

    pthread_mutex_lock(&pool->lock);
    end = pool->entries.end;
    needed = !pool->free[want->policy == HMREG_POLICY_LAST_PUT] && pool->fresh == end;
    pthread_mutex_unlock(&pool->lock);
    return !needed || stable_array_grow(&pool->entries, end, &pool->lock);
}

/* The number of a free entry. 0: there is none. */
static uint32_t free_number(struct cache_pool *pool, bool ends_with_put)
{
    if (pool->free[ends_with_put])
        return pool->free[ends_with_put];
    return pool->fresh < pool->entries.end ? pool->fresh : 0;
}

/* Sets the fields that stay as long as the domain: threads read the slot offset of entries that
 * they remember. */
static void take_fresh(struct cache_pool *pool, bool ends_with_put)
{
    struct hmreg_mr *entry = cache_entry_at(pool, pool->fresh);

    entry->domain = pool->domain;
    entry->slot_offset = pin_slot_offset(pool->fresh++);
    atomic_init(&entry->sequence, FIRST_SEQUENCE | (ends_with_put ? ENDS_WITH_PUT : 0));
}

/* Sets the entry's key. If the entry ends with its last put, threads that remember an earlier use
 * may still read the range and the variant, until they find that the use is over. */
static void set_key(struct hmreg_mr *entry, const struct cache_want *want)
{
    __atomic_store_n(&entry->node.start, want->start, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->node.end, want->end, __ATOMIC_RELAXED);
    __atomic_store_n(&entry_body(entry)->variant, want->variant, __ATOMIC_RELAXED);
    variant_use(want->variant);
}

struct hmreg_mr *cache_take_entry(struct cache *cache, const struct cache_want *want,
                                  enum hmreg_iface iface)
{
    struct cache_pool *pool = cache->pool;
    bool ends_with_put = want->policy == HMREG_POLICY_LAST_PUT;
    uint32_t number = free_number(pool, ends_with_put);
    struct hmreg_mr *entry = cache_entry_at(pool, number);
    struct mr_body *body = cache_body_at(pool, number);

    if (!number)
        return NULL;
    if (number == pool->free[ends_with_put])
        pool->free[ends_with_put] = body->place.next;
    else
        take_fresh(pool, ends_with_put);
    memset(body, 0, offsetof(struct mr_body, variant));
    set_key(entry, want);
    body->access = (uint16_t)want->access;
    body->iface = (uint8_t)iface;
    body->state = CACHE_HELD;
    body->cold = body->filling = true;
    body->cache = cache->index & CACHE_INDEX_MOST;
    body->whole = want->whole;
    body->claimed = want->claim && want->claim->trusted;
    if (ends_with_put)
        holders_begin(entry_holders(entry), entry_sequence(entry));
    else
        body->pins++; /* their sum with the threads' pin slots was 0 before */
    pool->count++;
    return entry;
}

/* Adds an entry to the quarantine and returns the oldest one there, for reuse. NULL: the quarantine
 * is not full. */
static struct hmreg_mr *exchange(struct cache_pool *pool, struct hmreg_mr *entry)
{
    struct cache_list *list = &pool->quarantine;

    append(pool, list, entry_number(entry));
    if (atomic_load_explicit(&list->count, memory_order_relaxed) <= CACHE_QUARANTINE)
        return NULL;
    return take_first(pool, list);
}

static void free_entry(struct cache_pool *pool, struct hmreg_mr *entry)
{
    work_count(1);
    entry_body(entry)->state = CACHE_FREE;
    pool->count--;
    if (pool->check_puts)
        entry = exchange(pool, entry);
    if (entry &&
        entry_sequence(entry)) { /* else all sequences are used up, and the entry is never reused */
        uint32_t *free = &pool->free[entry_ends_with_put(entry)];

        entry_body(entry)->place.next = *free;
        *free = entry_number(entry);
    }
}

void cache_free_entries(struct cache_pool *pool, struct hmreg_mr *const *entries, unsigned count)
{
    bool needed;

    pthread_mutex_lock(&pool->lock);
    for (unsigned i = 0; i < count; i++) {
        struct cache *cache = entry_cache(pool, entries[i]);

        if (entry_body(entries[i])->retired)
            cache_stats_set(&cache->stats, STATS_RETIRED, --cache->retired);
        free_entry(pool, entries[i]);
    }
    atomic_store_explicit(&pool->freed, pool->freed + count, memory_order_release);
    needed = pool->serving;
    pthread_mutex_unlock(&pool->lock);
    if (!needed)
        reaper_may_rest();
}

/* ---- unpublished entries ----------------------------------------------------------------------
 */

/* Moves a list to the end of another, without visiting its entries, which may be many. */
static void move_entries(struct cache_pool *pool, struct cache_list *to, struct cache_list *from)
{
    unsigned count = atomic_load(&from->count);

    if (!from->first)
        return;
    if (to->last)
        entry_body(cache_entry_at(pool, to->last))->place.next = from->first;
    else
        to->first = from->first;
    to->last = from->last;
    list_count(to, count);
    from->first = from->last = 0;
    list_count(from, -count);
}

/* All unpublished entries become settled, after a barrier if one is not cold. */
static void pass_barrier(struct cache_pool *pool)
{
    struct cache_list taken = {.first = 0};
    bool hot;

    pthread_mutex_lock(&pool->lock);
    hot = pool->unpublished_hot;
    move_entries(pool, hot ? &taken : &pool->settled, &pool->unpublished);
    pool->unpublished_hot = false;
    pthread_mutex_unlock(&pool->lock);
    if (!hot)
        return;
    thread_cache_barrier(&pool->thread_caches);
    pthread_mutex_lock(&pool->lock);
    move_entries(pool, &pool->settled, &taken);
    call_to_free(pool);
    pthread_mutex_unlock(&pool->lock);
}

static void retire_some(struct cache_pool *pool, unsigned most)
{
    struct hmreg_mr *entry;

    pthread_mutex_lock(&pool->lock);
    for (unsigned i = 0; i < most && (entry = list_take(pool, &pool->settled)); i++) {
        entry_body(entry)->cold = true;
        retire(entry_cache(pool, entry), entry);
    }
    pthread_mutex_unlock(&pool->lock);
}

void cache_examine(struct cache_pool *pool, unsigned most)
{
    unsigned some;

    if (!atomic_load(&pool->unpublished.count) && !atomic_load(&pool->settled.count))
        return;
    if (atomic_load(&pool->unpublished.count))
        pass_barrier(pool);
    for (; most && atomic_load(&pool->settled.count); most -= some) {
        some = most < CACHE_BATCH ? most : CACHE_BATCH;
        retire_some(pool, some);
    }
    reaper_wake();
}

unsigned cache_take(struct cache_pool *pool, struct cache_list *list, struct hmreg_mr **out,
                    unsigned most)
{
    unsigned count = 0;

    if (!atomic_load(&list->count))
        return 0;
    pthread_mutex_lock(&pool->lock);
    while (count < most && (out[count] = list_take(pool, list)))
        count++;
    pthread_mutex_unlock(&pool->lock);
    return count;
}

void cache_leave(struct cache_pool *pool, struct hmreg_mr *entry)
{
    pthread_mutex_lock(&pool->lock);
    list_append(pool, &pool->to_free, entry_number(entry));
    pthread_mutex_unlock(&pool->lock);
}

void cache_keep_busy(struct cache_pool *pool, struct hmreg_mr *entry)
{
    pthread_mutex_lock(&pool->lock);
    entry_body(entry)->watched = false; /* it was unwatched before */
    entry_body(entry)->stuck = true;
    count_retired(entry_cache(pool, entry), entry);
    list_append(pool, &pool->busy, entry_number(entry));
    pthread_mutex_unlock(&pool->lock);
    reaper_may_rest();
}

/* ---- the reaper ------------------------------------------------------------------------- */

void cache_serve(struct cache_pool *pool, bool served)
{
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->served, served);
    if (pool->unpublished.first || pool->settled.first || pool->to_free.first || pool->busy.first)
        call_to_free(pool);
    pthread_mutex_unlock(&pool->lock);
}

bool cache_needs_reaper(struct cache_pool *pool)
{
    bool needs;

    if (pthread_mutex_trylock(&pool->lock))
        return true;
    needs = pool->serving || pool->unpublished.first || pool->settled.first ||
            (pool->to_free.first && atomic_load(&pool->served));
    pthread_mutex_unlock(&pool->lock);
    return needs;
}

/* ---- accounts --------------------------------------------------------------------------- */

unsigned cache_entries(struct cache_pool *pool)
{
    unsigned count;

    pthread_mutex_lock(&pool->lock);
    count = pool->count;
    pthread_mutex_unlock(&pool->lock);
    return count;
}

/* A retired entry that is being deregistered may have lost its variant. */
static void describe_held(const struct cache_pool *pool, const struct hmreg_mr *entry,
                          struct cache_held *held)
{
    const struct variant *variant =
        entry_body(entry)->state != CACHE_ENDING ? entry_variant(entry) : NULL;
    bool list = variant && variant->key.count;

    held->pins = entry_pins(pool, entry);
    held->addr = list ? variant->segments[0].start : entry->node.start;
    held->len = list ? variant->len : entry->node.end - entry->node.start;
}

/* Adds the pinned entries among the next CACHE_PASSED ones to *held, and advances *next past these.
 * True: others follow. The lock is not held for longer, however many entries there are. */
static bool count_held(struct cache_pool *pool, uint32_t *next, struct cache_held *held)
{
    uint32_t end = *next + CACHE_PASSED;
    bool more;

    pthread_mutex_lock(&pool->lock);
    for (; *next < pool->fresh && *next < end; ++*next) {
        const struct hmreg_mr *entry = cache_entry_at(pool, *next);

        if (entry_body(entry)->state != CACHE_FREE && entry_pins(pool, entry) && !held->count++)
            describe_held(pool, entry, held);
    }
    more = *next < pool->fresh;
    pthread_mutex_unlock(&pool->lock);
    return more;
}

struct cache_held cache_held(struct cache_pool *pool)
{
    struct cache_held held = {.count = 0};
    uint32_t next = STABLE_ARRAY_FIRST;

    while (count_held(pool, &next, &held))
        ;
    return held;
}
