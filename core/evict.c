/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Eviction: which entries go, and that they are surely idle. The order of use is exact to the miss,
 * and hits pay nothing for it: threads note in their cells when they used an entry, by a clock that
 * only misses advance; an entry's place in the order is corrected by that when it comes to be the
 * next to go.
 *
 * That nobody pins an entry is certain once all threads have passed a barrier after it left their
 * tables. Some leave together, so that one barrier does for many misses; until they are evicted
 * they serve by the tree, and return to the tables if they are asked for.
 */
#include "core/evict.h"

/* ---- order ------------------------------------------------------------------------------ */

#define WORK 64 /* entries whose place in the order is corrected under one hold of the lock */

/* An entry's place in the order is by its last known use; threads know better. One in use is used
 * now: after all that is not, before what is remembered next. */
static bool is_where_it_belongs(struct cache *cache, struct cache_entry *entry, uint32_t stamp)
{
    struct cache_pool *pool = cache->pool;
    uint32_t last = hot_last_use(&pool->hot, entry_number(entry), stamp);

    if (entry_pins(pool, entry)) {
        last = clock_now(pool) + 1;
        cache->marked = true;
    }
    if (last == stamp)
        return true;
    lru_move(&cache->lru, entry_number(entry), last);
    return false;
}

/* What was in use when room was last looked for need not be now. */
static void let_time_pass(struct cache_pool *pool)
{
    atomic_fetch_add_explicit(&pool->hot.gate->clock, CLOCK_STEP, memory_order_relaxed);
}

/* The first in the true order. *work counts down. */
static enum cache_pick first_in_order(struct cache *cache, unsigned *work, struct cache_entry **out,
                                      uint32_t *stamp)
{
    while (cache->lru.count) {
        *out = cache_entry_at(cache->pool, lru_first(&cache->lru, stamp));
        if (lru_is_later(*stamp, clock_now(cache->pool)))
            return CACHE_NOTHING;
        if (is_where_it_belongs(cache, *out, *stamp))
            return CACHE_PICKED;
        if (--*work == 0)
            return CACHE_LATER;
    }
    return CACHE_NOTHING;
}

/* Out of the threads' tables; it still serves, by the tree. */
static void cool(struct cache_stir *stir, struct cache_entry *entry, uint32_t stamp)
{
    if (entry_is_hot(entry))
        entry_next_sequence(entry);
    stir->barrier |= !entry->mr.cold;
    stir->cooled[stir->count].number = entry_number(entry);
    stir->cooled[stir->count].sequence = entry_sequence(entry);
    stir->cooled[stir->count++].stamp = stamp;
}

/* The next to be evicted are taken out of the threads' tables, some at once, since finding out
 * who uses them takes a system call. */
static void cool_some(struct cache *cache, struct cache_stir *stir)
{
    unsigned most = 1 + cache->lru.count / 8, work = WORK;
    struct cache_entry *entry;
    uint32_t stamp;

    most = most < COOLED ? most : COOLED;
    stir->count = 0;
    while (stir->count < most && first_in_order(cache, &work, &entry, &stamp) == CACHE_PICKED) {
        lru_remove(&cache->lru, entry_number(entry));
        cool(stir, entry, stamp);
    }
    for (unsigned i = 0; i < stir->count; i++)
        lru_insert(&cache->lru, stir->cooled[i].number, stir->cooled[i].stamp);
}

/* What was found in use may be idle at once: the clock goes on, so that later uses are later than
 * that, and the next search looks again. */
static void end_search(struct cache *cache)
{
    if (cache->marked)
        clock_tick(cache->pool);
    cache->marked = false;
}

/* Time passes once in a search. If it went on with each hold of the lock, entries that are in use
 * would be looked at again and again, and a search among many of them would not end. */
static void begin_search(struct cache *cache, struct cache_stir *stir)
{
    if (stir->begun)
        return;
    stir->begun = true;
    end_search(cache); /* one that was given up */
    let_time_pass(cache->pool);
}

/* Other threads' misses make time pass as well: a search ends after it has looked at everything. */
static bool is_looked_through(const struct cache *cache, struct cache_stir *stir)
{
    stir->looked += WORK;
    return stir->looked > 2 * (uint64_t)cache->lru.count + WORK;
}

/* One that can go: idle for certain. */
static enum cache_pick pick(struct cache *cache, struct cache_stir *stir, unsigned *work,
                            struct cache_entry **out, uint32_t *stamp)
{
    enum cache_pick result;

    result = first_in_order(cache, work, out, stamp);
    if (result == CACHE_LATER)
        return is_looked_through(cache, stir) ? CACHE_NOTHING : CACHE_LATER;
    if (result != CACHE_PICKED || (*out)->mr.cold)
        return result;
    cool_some(cache, stir);
    return CACHE_LATER;
}

void cache_settle(struct cache_pool *pool, struct cache_stir *stir)
{
    if (stir->barrier)
        barrier_everywhere();
    pthread_mutex_lock(&pool->lock);
    for (unsigned i = 0; i < stir->count; i++) {
        struct cache_entry *entry = cache_entry_at(pool, stir->cooled[i].number);

        if (entry->mr.state == CACHE_LIVE && entry_sequence(entry) == stir->cooled[i].sequence)
            entry->mr.cold = true;
    }
    pthread_mutex_unlock(&pool->lock);
    stir->barrier = false;
}

/* ---- room ------------------------------------------------------------------------------- */

#define VICTIMS 64

/* Entries that would make room, if there are enough of them. */
struct victims {
    unsigned count;
    struct {
        struct cache_entry *entry;
        uint32_t stamp;
    } list[VICTIMS];
};

static void spare(struct cache *cache, struct victims *victims)
{
    for (unsigned i = 0; i < victims->count; i++)
        lru_insert(&cache->lru, entry_number(victims->list[i].entry), victims->list[i].stamp);
    victims->count = 0;
}

static void evict_all(struct cache *cache, struct victims *victims)
{
    for (unsigned i = 0; i < victims->count; i++)
        cache_bury(cache, victims->list[i].entry);
    ledger_evicted(&cache->ledger, 0, victims->count);
    victims->count = 0;
}

static bool fits(const struct cache_use *use, const struct cache_use *limit, uint64_t bytes)
{
    return use->regions < limit->regions && bytes <= limit->bytes &&
           use->bytes <= limit->bytes - bytes;
}

/* Would it be enough if all went that nobody uses? Asked before very many do. */
static bool is_worth_it(const struct cache *cache, const struct victims *victims, uint64_t bytes)
{
    struct cache_use left = cache->used;

    for (unsigned i = 0; i < victims->count; i++)
        cache_use_subtract(&left, victims->list[i].entry);
    for (uint32_t i = 0; i < cache->lru.count; i++) {
        const struct cache_entry *entry = cache_entry_at(cache->pool, lru_any(&cache->lru, i));

        if (fits(&left, &cache->limit, bytes))
            return true;
        if (!entry_pins(cache->pool, entry))
            cache_use_subtract(&left, entry);
    }
    return fits(&left, &cache->limit, bytes);
}

enum cache_pick cache_make_room(struct cache *cache, uint64_t bytes, struct cache_stir *stir,
                                bool *evicted)
{
    struct victims victims;
    struct cache_use left = cache->used;
    unsigned work = WORK;
    enum cache_pick result = CACHE_PICKED;

    victims.count = 0;
    if (!cache->limit.regions || bytes > cache->limit.bytes)
        return CACHE_NOTHING;
    if (!fits(&left, &cache->limit, bytes))
        begin_search(cache, stir);
    while (result == CACHE_PICKED && !fits(&left, &cache->limit, bytes)) {
        struct cache_entry *entry;
        uint32_t stamp;

        if (victims.count == VICTIMS) {
            stir->worth = stir->worth || is_worth_it(cache, &victims, bytes);
            if (!stir->worth) {
                result = CACHE_NOTHING;
                break;
            }
            evict_all(cache, &victims);
            *evicted = stir->gone = true;
            stir->looked = 0;
            result = CACHE_LATER;
            break;
        }
        result = pick(cache, stir, &work, &entry, &stamp);
        if (result != CACHE_PICKED)
            break;
        lru_remove(&cache->lru, entry_number(entry));
        cache_use_subtract(&left, entry);
        victims.list[victims.count].entry = entry;
        victims.list[victims.count++].stamp = stamp;
    }
    if (result != CACHE_LATER)
        end_search(cache);
    if (result != CACHE_PICKED) {
        spare(cache, &victims);
        return result;
    }
    *evicted |= victims.count;
    evict_all(cache, &victims);
    return CACHE_PICKED;
}

unsigned cache_evict(struct cache *cache, unsigned count, int code)
{
    struct cache_pool *pool = cache->pool;
    struct cache_stir stir;
    enum cache_pick result = CACHE_PICKED;
    unsigned done = 0;

    cache_stir_init(&stir);
    while (done < count && result != CACHE_NOTHING) {
        struct cache_entry *entry;
        unsigned work = WORK;
        uint32_t stamp;

        stir.count = 0;
        pthread_mutex_lock(&pool->lock);
        begin_search(cache, &stir);
        result = pick(cache, &stir, &work, &entry, &stamp);
        if (result == CACHE_PICKED) {
            cache_kill(cache, entry);
            ledger_evicted(&cache->ledger, code, 1);
            done++;
        }
        if (result == CACHE_NOTHING || done == count)
            end_search(cache);
        cache_unlock(pool);
        cache_settle(pool, &stir);
    }
    return done;
}

static bool is_over(struct cache *cache)
{
    bool over;

    pthread_mutex_lock(&cache->pool->lock);
    over = cache->used.regions > cache->limit.regions || cache->used.bytes > cache->limit.bytes;
    pthread_mutex_unlock(&cache->pool->lock);
    return over;
}

void cache_change_limits(struct cache *cache, uint64_t max_regions, uint64_t max_bytes)
{
    pthread_mutex_lock(&cache->pool->lock);
    cache->limit = (struct cache_use){max_regions, max_bytes};
    ledger_set(&cache->ledger, STATS_LIMIT_REGIONS, max_regions);
    ledger_set(&cache->ledger, STATS_LIMIT_BYTES, max_bytes);
    pthread_mutex_unlock(&cache->pool->lock);
    while (is_over(cache) && cache_evict(cache, 1, 0))
        ;
}

/* ---- all of them ----------------------------------------------------------------------- */

/* Of the shelf's next entries the live ones leave the threads' tables. False: there is no next. */
static bool cool_next(struct cache_pool *pool, uint32_t *next, struct cache_stir *stir)
{
    uint32_t from, end;

    pthread_mutex_lock(&pool->lock);
    end = pool->fresh - *next < CACHE_PASSED ? pool->fresh : *next + CACHE_PASSED;
    for (from = *next; from < end && stir->count < COOLED; from++) {
        struct cache_entry *entry = cache_entry_at(pool, from);

        if (entry->mr.state == CACHE_LIVE)
            cool(stir, entry, 0);
    }
    pthread_mutex_unlock(&pool->lock);
    if (from == *next)
        return false;
    *next = from;
    return true;
}

static void kill_some_idle(struct cache_pool *pool, const struct cache_stir *stir, unsigned from)
{
    pthread_mutex_lock(&pool->lock);
    for (unsigned i = from; i < stir->count && i < from + CACHE_BATCH; i++) {
        struct cache_entry *entry = cache_entry_at(pool, stir->cooled[i].number);

        if (entry->mr.state == CACHE_LIVE && entry->mr.cold && !entry_pins(pool, entry))
            cache_kill(entry_cache(pool, entry), entry);
    }
    cache_unlock(pool);
}

void cache_empty(struct cache_pool *pool)
{
    struct cache_stir stir;
    uint32_t next = SHELF_FIRST;

    cache_stir_init(&stir);
    while (cool_next(pool, &next, &stir)) {
        if (stir.count)
            cache_settle(pool, &stir);
        for (unsigned i = 0; i < stir.count; i += CACHE_BATCH)
            kill_some_idle(pool, &stir, i);
        stir.count = 0;
    }
}
