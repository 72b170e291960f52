/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Eviction by the CLOCK algorithm (second chance): a hand visits the cache's live entries in a
 * circle. It passes an entry that was used since its last visit, or is pinned; it evicts the first
 * other one. So an entry is evicted only after a full turn of the hand in which no get used it.
 * Hits pay one store for that: threads set `used` in their pin slots, and the hand clears it.
 *
 * An entry is known to be idle once every thread has passed a barrier after the entry was withdrawn
 * from the threads' tables. Entries are withdrawn in batches, so that one barrier serves many
 * misses. Until they are evicted they serve through the tree, and the next get that finds one there
 * makes it hot again.
 */
#include "core/cache/evict.h"

/* The number of entries that the hand passes under one hold of the lock. */
#define PASSES 64

/* ---- the hand --------------------------------------------------------------------------- */

/* Was the entry used since the hand's last visit? */
static bool was_used(const struct cache_pool *pool, const struct hmreg_mr *entry)
{
    return entry_rest(entry)->used ||
           thread_cache_was_used(&pool->thread_caches, entry_number(entry));
}

static void begin_turn(const struct cache_pool *pool, struct hmreg_mr *entry)
{
    entry_rest(entry)->used = false;
    thread_cache_clear_used(&pool->thread_caches, entry_number(entry));
}

/* Takes a hot entry out of the threads' tables; it still serves through the tree. */
static void withdraw(struct cache_search *search, struct hmreg_mr *entry)
{
    if (entry_is_hot(entry))
        entry_next_sequence(entry);
    search->barrier |= !entry_rest(entry)->cold;
    search->withdrawn[search->withdrawn_count].number = entry_number(entry);
    search->withdrawn[search->withdrawn_count++].sequence = entry_sequence(entry);
}

/* The hand stands at an entry that can be evicted, but is still in the threads' tables. The next
 * such entries are withdrawn with it, since finding out which threads pin them takes a system call.
 * The hand does not visit these: an entry used since the last visit keeps its second chance. */
static void withdraw_batch(const struct cache *cache, struct cache_search *search)
{
    uint32_t count = cache->live.count, limit = 1 + count / 8;

    limit = limit < WITHDRAWN ? limit : WITHDRAWN;
    search->withdrawn_count = 0;
    for (uint32_t i = 0; i < count && i < PASSES && search->withdrawn_count < limit; i++) {
        struct hmreg_mr *entry = cache_entry_at(cache->pool, clock_ahead(&cache->live, i));

        if (!entry_rest(entry)->cold && !was_used(cache->pool, entry) &&
            !entry_pins(cache->pool, entry))
            withdraw(search, entry);
    }
}

/* Moves the hand to an entry that can be evicted: cold, idle, and out of second chances. A search
 * ends after two turns without one. *passes: how many more entries may be passed under this hold of
 * the lock. */
static enum cache_room find_victim(struct cache *cache, struct cache_search *search,
                                   unsigned *passes, struct hmreg_mr **out)
{
    while (cache->live.count && search->passed < 2 * cache->used.regions) {
        struct hmreg_mr *entry = cache_entry_at(cache->pool, clock_ahead(&cache->live, 0));

        if (!was_used(cache->pool, entry) && !entry_pins(cache->pool, entry)) {
            *out = entry;
            if (entry_rest(entry)->cold)
                return CACHE_ROOM;
            withdraw_batch(cache, search);
            return CACHE_ROOM_LATER;
        }
        if (!(*passes)--)
            return CACHE_ROOM_LATER;
        begin_turn(cache->pool, entry);
        clock_pass(&cache->live);
        search->passed++;
    }
    return CACHE_NO_ROOM;
}

/* No thread can pin the entry through its table any more, so puts need not check it while it lives.
 */
static void become_cold(struct hmreg_mr *entry)
{
    entry_rest(entry)->cold = true;
    entry_set_put_unchecked(entry, true);
}

void cache_finish_withdrawal(struct cache_pool *pool, struct cache_search *search)
{
    if (!search->withdrawn_count)
        return;
    if (search->barrier)
        thread_cache_barrier(&pool->thread_caches);
    pthread_mutex_lock(&pool->lock);
    for (unsigned i = 0; i < search->withdrawn_count; i++) {
        struct hmreg_mr *entry = cache_entry_at(pool, search->withdrawn[i].number);

        if (entry_rest(entry)->state == CACHE_LIVE &&
            entry_sequence(entry) == search->withdrawn[i].sequence)
            become_cold(entry);
    }
    pthread_mutex_unlock(&pool->lock);
    search->withdrawn_count = 0;
    search->barrier = false;
}

/* ---- room ------------------------------------------------------------------------------- */

#define VICTIMS 64

/* Entries that would make room, if there are enough of them. They are off the clock list meanwhile.
 */
struct victims {
    unsigned count;
    struct hmreg_mr *list[VICTIMS];
};

/* Returns the victims to the list, where the hand visits them next. */
static void spare(struct cache *cache, struct victims *victims)
{
    while (victims->count)
        clock_return(&cache->live, entry_number(victims->list[--victims->count]));
}

/* The owner of the search deregisters the first HANDED_OVER; the rest are queued for any call. */
static void evict_all(struct cache *cache, struct cache_search *search, struct victims *victims)
{
    for (unsigned i = 0; i < victims->count; i++) {
        cache_retire(cache, victims->list[i]);
        if (search->handed_over_count < HANDED_OVER)
            search->handed_over[search->handed_over_count++] = victims->list[i];
        else
            cache_leave_dead(cache->pool, victims->list[i]);
    }
    if (victims->count) {
        cache_stats_evicted(&cache->stats, 0, victims->count);
        search->evicted = search->advanced = true;
        search->passed = 0;
    }
    victims->count = 0;
}

static bool fits(const struct cache_use *use, const struct cache_use *limit, uint64_t bytes)
{
    return use->regions < limit->regions && bytes <= limit->bytes &&
           use->bytes <= limit->bytes - bytes;
}

/* Would evicting every idle entry make enough room? Checked before a large number is evicted. */
static bool is_worth_it(const struct cache *cache, const struct cache_use *used, uint64_t bytes)
{
    struct cache_use left = *used;

    for (uint32_t i = 0; i < cache->live.count; i++) {
        const struct hmreg_mr *entry = cache_entry_at(cache->pool, clock_ahead(&cache->live, i));

        if (fits(&left, &cache->limit, bytes))
            return true;
        if (!entry_pins(cache->pool, entry))
            cache_use_subtract(&left, entry);
    }
    return fits(&left, &cache->limit, bytes);
}

/* Collects victims until the region fits. left: the usage without them. */
static enum cache_room collect(struct cache *cache, uint64_t bytes, struct cache_search *search,
                               struct victims *victims, struct cache_use *left)
{
    unsigned passes = PASSES;

    while (!fits(left, &cache->limit, bytes)) {
        struct hmreg_mr *entry;
        enum cache_room room;

        if (victims->count == VICTIMS)
            return CACHE_ROOM_LATER;
        room = find_victim(cache, search, &passes, &entry);
        if (room != CACHE_ROOM)
            return room;
        clock_remove(&cache->live, entry_number(entry));
        cache_use_subtract(left, entry);
        victims->list[victims->count++] = entry;
    }
    return CACHE_ROOM;
}

enum cache_room cache_make_room(struct cache *cache, uint64_t bytes, struct cache_search *search)
{
    struct victims victims;
    struct cache_use left = cache->used;
    enum cache_room room;

    if (fits(&left, &cache->limit, bytes))
        return CACHE_ROOM;
    if (!cache->limit.regions || bytes > cache->limit.bytes)
        return CACHE_NO_ROOM;
    victims.count = 0;
    room = collect(cache, bytes, search, &victims, &left);
    if (room == CACHE_ROOM_LATER && victims.count == VICTIMS) {
        search->worth = search->worth || is_worth_it(cache, &left, bytes);
        if (!search->worth)
            room = CACHE_NO_ROOM;
    }
    if (room == CACHE_ROOM || (search->worth && victims.count == VICTIMS))
        evict_all(cache, search, &victims);
    else
        spare(cache, &victims);
    return room;
}

/* ---- eviction without a new region ------------------------------------------------------- */

static enum cache_room evict_one(struct cache *cache, int code, struct cache_search *search)
{
    struct hmreg_mr *entry;
    unsigned passes = PASSES;
    enum cache_room room;

    pthread_mutex_lock(&cache->pool->lock);
    room = find_victim(cache, search, &passes, &entry);
    if (room == CACHE_ROOM) {
        cache_kill(cache, entry);
        cache_stats_evicted(&cache->stats, code, 1);
        search->passed = 0;
    }
    cache_unlock(cache->pool);
    return room;
}

unsigned cache_evict(struct cache *cache, unsigned count, int code)
{
    enum cache_room room = CACHE_ROOM;
    struct cache_search search;
    unsigned done = 0;

    cache_search_init(&search);
    while (done < count && room != CACHE_NO_ROOM) {
        room = evict_one(cache, code, &search);
        done += room == CACHE_ROOM;
        cache_finish_withdrawal(cache->pool, &search);
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
    cache_stats_set(&cache->stats, STATS_LIMIT_REGIONS, max_regions);
    cache_stats_set(&cache->stats, STATS_LIMIT_BYTES, max_bytes);
    pthread_mutex_unlock(&cache->pool->lock);
    while (is_over(cache) && cache_evict(cache, 1, 0))
        ;
}

/* ---- emptying all caches --------------------------------------------------------------- */

/* Withdraws live entries from number *next on, and advances it. False: none is left. */
static bool withdraw_next(struct cache_pool *pool, uint32_t *next, struct cache_search *search)
{
    uint32_t from, end;

    pthread_mutex_lock(&pool->lock);
    end = pool->fresh - *next < CACHE_PASSED ? pool->fresh : *next + CACHE_PASSED;
    for (from = *next; from < end && search->withdrawn_count < WITHDRAWN; from++) {
        struct hmreg_mr *entry = cache_entry_at(pool, from);

        if (entry_rest(entry)->state == CACHE_LIVE)
            withdraw(search, entry);
    }
    pthread_mutex_unlock(&pool->lock);
    if (from == *next)
        return false;
    *next = from;
    return true;
}

static void kill_some_idle(struct cache_pool *pool, const struct cache_search *search,
                           unsigned from, unsigned to)
{
    pthread_mutex_lock(&pool->lock);
    for (unsigned i = from; i < to; i++) {
        struct hmreg_mr *entry = cache_entry_at(pool, search->withdrawn[i].number);

        if (entry_rest(entry)->state == CACHE_LIVE && entry_rest(entry)->cold &&
            !entry_pins(pool, entry))
            cache_kill(entry_cache(pool, entry), entry);
    }
    cache_unlock(pool);
}

void cache_empty(struct cache_pool *pool)
{
    struct cache_search search;
    uint32_t next = STABLE_ARRAY_FIRST;

    cache_search_init(&search);
    while (withdraw_next(pool, &next, &search)) {
        unsigned count = search.withdrawn_count;

        cache_finish_withdrawal(pool, &search);
        for (unsigned i = 0; i < count; i += CACHE_BATCH)
            kill_some_idle(pool, &search, i, i + CACHE_BATCH < count ? i + CACHE_BATCH : count);
    }
}
