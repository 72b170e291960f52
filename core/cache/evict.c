/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Eviction by the CLOCK algorithm (second chance): a hand visits the cache's live entries in a
 * circle. It passes entries that were used since its last visit, or are pinned, and evicts the
 * first other one. So an entry is evicted only after a full turn of the hand in which no get used
 * it. Hits pay one store for that: threads set `used` in their pin slots, and the hand clears it.
 *
 * To cool an entry is to make its sequence even: threads can no longer pin it through their tables.
 * It is known to be idle once every thread has then passed a barrier. Entries are cooled in
 * batches, so that one barrier serves many
 * misses. Until they are evicted they serve through the tree, and the next get that finds one there
 * makes it hot again.
 */
#include "core/cache/evict.h"

#include "core/base/reaper.h"
#include "core/base/work.h"
#include "core/cache/cuts.h"

/* The number of entries that the hand passes under one hold of the lock. */
#define PASSES 64

/* ---- the hand --------------------------------------------------------------------------- */

/* False: the search has looked at as many entries as it may. */
static bool take_visit(struct cache_search *search)
{
    work_count(1);
    if (!search->bounded)
        return true;
    if (!search->visits)
        return false;
    search->visits--;
    return true;
}

/* Was the entry used since the hand's last visit? */
static bool was_used(const struct cache_pool *pool, const struct hmreg_mr *entry)
{
    return entry_body(entry)->used ||
           thread_cache_was_used(&pool->thread_caches, entry_number(entry));
}

static void begin_turn(const struct cache_pool *pool, struct hmreg_mr *entry)
{
    entry_body(entry)->used = false;
    thread_cache_clear_used(&pool->thread_caches, entry_number(entry));
}

/* Takes a hot entry out of the threads' tables; it still serves through the tree. */
static void cool(struct cache_search *search, struct hmreg_mr *entry)
{
    if (entry_is_hot(entry))
        entry_next_sequence(entry);
    search->barrier |= !entry_body(entry)->cold;
    search->cooled[search->cooled_count].number = entry_number(entry);
    search->cooled[search->cooled_count++].sequence = entry_sequence(entry);
}

/* The hand stands at an entry that can be evicted, but is still in the threads' tables. Withdraws
 * it together with the next such entries, because a system call is needed to find out which threads
 * pin them. The hand does not visit the others: an entry used since the last visit keeps its second
 * chance. */
static void cool_batch(const struct cache *cache, struct cache_search *search)
{
    uint32_t count = cache->live.count, limit = 1 + count / 8, number = cache->live.hand;

    limit = limit < COOLED_MOST ? limit : COOLED_MOST;
    search->cooled_count = 0;
    for (uint32_t i = 0; i < count && i < PASSES && search->cooled_count < limit; i++) {
        struct hmreg_mr *entry = cache_entry_at(cache->pool, number);

        number = clock_next(&cache->live, number);
        take_visit(search);
        if (!entry_body(entry)->cold && !was_used(cache->pool, entry) &&
            entry_is_idle(cache->pool, entry))
            cool(search, entry);
    }
}

/* The entries that a search passes before it gives up: two turns of the hand; for a bounded search
 * after a fruitless one, half as many as for that one. */
static uint64_t most_passed(const struct cache *cache, const struct cache_search *search)
{
    uint64_t turns = 2 * cache->used.regions, most = CACHE_VISITS >> cache->fruitless;

    return search->bounded && most < turns ? most : turns;
}

static bool helps(const struct cache_need *need, const struct hmreg_mr *entry)
{
    return !need || !need->helps || need->helps(entry, need->context);
}

/* Moves the hand to an entry that can be evicted: cold, idle, and without a second chance. *passes:
 * how many more entries it may pass under this hold of the lock. */
static enum cache_room find_victim(struct cache *cache, struct cache_search *search,
                                   unsigned *passes, struct hmreg_mr **out)
{
    while (cache->live.count && search->passed < most_passed(cache, search) && take_visit(search)) {
        struct hmreg_mr *entry = cache_entry_at(cache->pool, cache->live.hand);

        if (search->bounded && search->passed >= CACHE_VISITS / 2 >> cache->fruitless)
            begin_turn(cache->pool, entry);
        if (!was_used(cache->pool, entry) && entry_is_idle(cache->pool, entry) &&
            helps(search->need, entry)) {
            *out = entry;
            cache->fruitless = 0;
            if (entry_body(entry)->cold)
                return CACHE_ROOM;
            cool_batch(cache, search);
            return CACHE_ROOM_LATER;
        }
        if (!(*passes)--)
            return CACHE_ROOM_LATER;
        begin_turn(cache->pool, entry);
        clock_pass(&cache->live);
        search->passed++;
    }
    cache->fruitless += cache->fruitless < CACHE_FRUITLESS;
    return CACHE_NO_ROOM;
}

void cache_finish_cooling(struct cache_pool *pool, struct cache_search *search)
{
    if (!search->cooled_count)
        return;
    if (search->barrier)
        thread_cache_barrier(&pool->thread_caches);
    pthread_mutex_lock(&pool->lock);
    for (unsigned i = 0; i < search->cooled_count; i++) {
        struct hmreg_mr *entry = cache_entry_at(pool, search->cooled[i].number);

        if (entry_body(entry)->state == CACHE_LIVE &&
            entry_sequence(entry) == search->cooled[i].sequence)
            entry_body(entry)->cold = true;
    }
    pthread_mutex_unlock(&pool->lock);
    search->cooled_count = 0;
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
static void give_back(struct cache *cache, struct victims *victims)
{
    while (victims->count)
        clock_return(&cache->live, entry_number(victims->list[--victims->count]));
}

static void evict_all(struct cache *cache, struct cache_search *search, struct victims *victims)
{
    for (unsigned i = 0; i < victims->count; i++)
        cache_retire_idle(cache, victims->list[i]);
    if (victims->count) {
        cache_stats_evicted(&cache->stats, 0, CACHE_FOR_GET, victims->count);
        search->evicted += victims->count;
        search->advanced = true;
        search->passed = 0;
    }
    victims->count = 0;
}

static bool fits(const struct cache_use *use, const struct cache_use *limit, uint64_t bytes)
{
    return use->regions < limit->regions && bytes <= limit->bytes &&
           use->bytes <= limit->bytes - bytes;
}

/* Collects victims until the region fits. left: the usage that remains without them. */
static enum cache_room collect(struct cache *cache, uint64_t bytes, struct cache_search *search,
                               struct victims *victims, struct cache_use *left)
{
    unsigned passes = PASSES;

    while (!fits(left, &cache->limit, bytes)) {
        struct hmreg_mr *entry;
        enum cache_room room;

        if (victims->count == VICTIMS)
            return CACHE_NO_ROOM;
        room = find_victim(cache, search, &passes, &entry);
        if (room != CACHE_ROOM)
            return room;
        clock_remove(&cache->live, entry_number(entry));
        cache_use_subtract(left, entry);
        victims->list[victims->count++] = entry;
    }
    return CACHE_ROOM;
}

static void note_wanted(struct cache *cache, uint64_t bytes)
{
    cache->wanted.bytes = bytes;
    cache->wanted.idle = 0;
    cache->wanted.looked = STABLE_ARRAY_FIRST;
    atomic_store(&cache->pool->wanting, true);
    reaper_wake();
}

enum cache_room cache_make_room(struct cache *cache, uint64_t bytes, struct cache_search *search)
{
    struct victims victims;
    struct cache_use left = cache->used;
    enum cache_room room;

    if (!fits(&left, &cache->limit, bytes) && cuts_are_left(cache)) {
        cuts_unpublish(cache, CACHE_BATCH);
        left = cache->used;
    }
    if (fits(&left, &cache->limit, bytes))
        return CACHE_ROOM;
    if (cuts_are_left(cache)) /* the hand would meet cut entries */
        return CACHE_NO_ROOM;
    victims.count = 0;
    room = collect(cache, bytes, search, &victims, &left);
    if (room == CACHE_ROOM) {
        evict_all(cache, search, &victims);
        return room;
    }
    if (victims.count == VICTIMS)
        note_wanted(cache, bytes);
    give_back(cache, &victims);
    return room;
}

/* ---- eviction without a new region ------------------------------------------------------- */

static const struct cache_need for_limit = {.code = 0, .who = CACHE_FOR_GET};

static enum cache_room evict_one(struct cache *cache, struct cache_search *search, uint64_t *bytes)
{
    struct hmreg_mr *entry;
    unsigned passes = PASSES;
    enum cache_room room;

    pthread_mutex_lock(&cache->pool->lock);
    if (cuts_are_left(cache)) {
        cuts_unpublish(cache, 1);
        pthread_mutex_unlock(&cache->pool->lock);
        return CACHE_ROOM;
    }
    room = find_victim(cache, search, &passes, &entry);
    if (room == CACHE_ROOM) {
        *bytes += mr_len(entry);
        cache_retire(cache, entry);
        cache_stats_evicted(&cache->stats, search->need->code, search->need->who, 1);
        search->passed = 0;
    }
    pthread_mutex_unlock(&cache->pool->lock);
    return room;
}

unsigned cache_evict(struct cache *cache, unsigned count, const struct cache_need *need,
                     unsigned *visits, uint64_t *bytes)
{
    uint64_t sum = 0;
    enum cache_room room = CACHE_ROOM;
    struct cache_search search;
    unsigned done = 0;

    cache_search_init(&search);
    search.need = need;
    search.bounded = visits;
    search.visits = visits ? *visits : 0;
    while (done < count && room != CACHE_NO_ROOM) {
        room = evict_one(cache, &search, &sum);
        done += room == CACHE_ROOM;
        cache_finish_cooling(cache->pool, &search);
    }
    if (visits)
        *visits = search.visits;
    if (bytes)
        *bytes += sum;
    return done;
}

/* Adds up the bytes of the next idle entries; with the lock held. False: none is left. */
static bool add_idle(struct cache *cache, const struct cache_need *need, uint32_t *number,
                     uint64_t *bytes)
{
    const struct cache_pool *pool = cache->pool;
    uint32_t end = *number + CACHE_PASSED;

    for (; *number < end && *number < pool->fresh; ++*number) {
        const struct hmreg_mr *entry = cache_entry_at(pool, *number);

        if (entry_body(entry)->state == CACHE_LIVE && entry_body(entry)->cache == cache->index &&
            entry_is_idle(pool, entry) && helps(need, entry))
            *bytes += mr_len(entry);
    }
    return *number < pool->fresh;
}

uint64_t cache_idle_bytes(struct cache *cache, const struct cache_need *need, uint64_t most)
{
    uint32_t number = STABLE_ARRAY_FIRST;
    uint64_t bytes = 0;
    bool left = true;

    while (left && bytes < most) {
        pthread_mutex_lock(&cache->pool->lock);
        left = add_idle(cache, need, &number, &bytes);
        pthread_mutex_unlock(&cache->pool->lock);
    }
    return bytes;
}

/* ---- room in advance --------------------------------------------------------------------- */

/* Does the wanted region still lack room that eviction could make? *look: not known yet. */
static bool is_worth_it(struct cache *cache, bool *look)
{
    struct cache_use left = cache->used;
    bool worth = cache->wanted.bytes && !fits(&left, &cache->limit, cache->wanted.bytes);

    *look = worth && add_idle(cache, NULL, &cache->wanted.looked, &cache->wanted.idle);
    left.bytes -= cache->wanted.idle < left.bytes ? cache->wanted.idle : left.bytes;
    left.regions = 0;
    worth = worth && fits(&left, &cache->limit, cache->wanted.bytes);
    if (!*look && !worth)
        cache->wanted.bytes = 0;
    return worth;
}

static bool make_wanted(struct cache *cache)
{
    unsigned visits = CACHE_VISITS;
    bool look, worth;

    pthread_mutex_lock(&cache->pool->lock);
    worth = is_worth_it(cache, &look);
    pthread_mutex_unlock(&cache->pool->lock);
    if (look || !worth)
        return look;
    return cache_evict(cache, VICTIMS, &for_limit, &visits, NULL);
}

bool cache_make_wanted(struct cache_pool *pool)
{
    bool more = false;

    if (!atomic_load(&pool->wanting))
        return false;
    for (unsigned i = 0; i < atomic_load(&pool->known_caches) && !more; i++)
        more = make_wanted(&pool->caches[i]);
    if (!more) /* a concurrent get finds no room again, and asks again */
        atomic_store(&pool->wanting, false);
    return more;
}

/* ---- emptying all caches --------------------------------------------------------------- */

/* only: the cache; NULL: any. */
static bool is_live_of(const struct mr_body *body, const struct cache *only)
{
    return body->state == CACHE_LIVE && (!only || body->cache == only->index);
}

/* One hold of the lock for the entries from number *next on, which it advances. False: none is
 * left. */
static bool cool_some(struct cache_pool *pool, const struct cache *only, uint32_t *next)
{
    uint32_t end = *next + CACHE_PASSED;
    bool more;

    pthread_mutex_lock(&pool->lock);
    for (; *next < end && *next < pool->fresh; ++*next) {
        struct hmreg_mr *entry = cache_entry_at(pool, *next);

        if (!is_live_of(entry_body(entry), only))
            continue;
        if (entry_is_hot(entry))
            entry_next_sequence(entry);
        entry_body(entry)->cooled = true;
    }
    more = *next < pool->fresh;
    pthread_mutex_unlock(&pool->lock);
    return more;
}

/* Retires the entry if it is idle. Returns whether it did. */
static bool retire_if_idle(struct cache_pool *pool, const struct cache *only,
                           struct hmreg_mr *entry)
{
    struct mr_body *body = entry_body(entry);

    if (!is_live_of(body, only))
        return false;
    if (body->cooled)
        body->cold = true;
    body->cooled = false;
    if (!body->cold || !entry_is_idle(pool, entry) || cuts_contain(entry_cache(pool, entry), entry))
        return false;
    cache_retire(entry_cache(pool, entry), entry);
    return true;
}

static bool retire_some_idle(struct cache_pool *pool, const struct cache *only, uint32_t *next,
                             unsigned *count)
{
    uint32_t end = *next + CACHE_PASSED;
    unsigned retired = 0;
    bool more;

    pthread_mutex_lock(&pool->lock);
    for (; *next < end && *next < pool->fresh && retired < CACHE_BATCH; ++*next)
        retired += retire_if_idle(pool, only, cache_entry_at(pool, *next));
    more = *next < pool->fresh;
    pthread_mutex_unlock(&pool->lock);
    *count += retired;
    return more;
}

/* One barrier for all of them, because it may take a millisecond. Two threads that empty the caches
 * at the same time could confuse each other's marks with their own. */
unsigned cache_empty(struct cache_pool *pool, const struct cache *only)
{
    uint32_t cooled = STABLE_ARRAY_FIRST, retired = STABLE_ARRAY_FIRST;
    unsigned count = 0;

    pthread_mutex_lock(&pool->emptying);
    while (cool_some(pool, only, &cooled))
        ;
    thread_cache_barrier(&pool->thread_caches);
    while (retire_some_idle(pool, only, &retired, &count))
        ;
    pthread_mutex_unlock(&pool->emptying);
    return count;
}
