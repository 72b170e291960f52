/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See room.h. Regions give way in batches of 1, 2, 4, ..., so that the registration is not tried
 * again for each; and no more of them than their bytes, and their number, make up for what it
 * needs. Each pins at least its bytes: more cannot be of use, whatever the limit counts.
 *
 * Another thread's registration may take what has given way before this one is tried again: where
 * more were made meanwhile than the parts of this one, as much gives way anew, TAKEN_MOST times.
 *
 * A length that did not fit when the cache had been emptied for it is remembered, so that no get of
 * that length empties the cache again: for a while, since others may give room back, and as long as
 * the cache has less than that length to give.
 */
#include "core/cache/room.h"

#include "core/base/lock_right.h"
#include "core/base/now.h"
#include "core/cache/evict.h"
#include "core/group/group.h"

#include <errno.h>
#include <sys/resource.h>
#include <time.h>

#define UNKNOWN_MOST  4 /* regions for an error that may mean that something is full */
#define TAKEN_MOST    16
#define REMEMBERED_NS INT64_C(10000000000)

void room_init(struct room *room, struct cache_set *set, struct cache *cache, bool host,
               uint64_t bytes, unsigned count)
{
    *room = (struct room){.set = set, .cache = cache, .host = host, .bytes = bytes, .count = count};
}

enum provider_room room_says(const struct hmreg_domain *domain, int rc)
{
    enum provider_room says = PROVIDER_ROOM_ENOUGH, one;

    if (!domain->group)
        return domain_room(domain, rc);
    for (size_t i = 0; i < domain->group->count && says != PROVIDER_ROOM_FULL; i++) {
        one = domain_room(domain->group->members[i], rc);
        says = one == PROVIDER_ROOM_ENOUGH ? says : one;
    }
    return says;
}

/* ---- what cannot fit --------------------------------------------------------------------- */

static bool counts_locked(const struct hmreg_domain *domain)
{
    bool counts = !domain->group && domain->caps.pins;

    for (size_t i = 0; domain->group && i < domain->group->count; i++)
        counts = counts || domain->group->members[i]->caps.pins;
    return counts;
}

static uint64_t lock_limit(void)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

    getrlimit(RLIMIT_MEMLOCK, &limit);
    return limit.rlim_cur;
}

static bool exceeds_lock_limit(const struct room *room)
{
    return room->host && counts_locked(room->set->domain) && room->bytes > lock_limit() &&
           !lock_right_exempts();
}

static uint64_t bytes_cached(struct cache_set *set)
{
    uint64_t bytes = 0;

    pthread_mutex_lock(&set->pool.lock);
    for (unsigned i = 0; i < cache_set_count(set); i++)
        bytes += set->caches[i].used.bytes;
    pthread_mutex_unlock(&set->pool.lock);
    return bytes;
}

static bool is_remembered(const struct room *room)
{
    struct room_misfit *misfit = &room->set->misfit;
    uint64_t bytes = atomic_load(&misfit->bytes);

    return bytes && room->bytes >= bytes && now_ns() < atomic_load(&misfit->until) &&
           atomic_load(&misfit->limit) == lock_limit() && bytes_cached(room->set) < bytes;
}

static void remember(const struct room *room)
{
    struct room_misfit *misfit = &room->set->misfit;

    atomic_store(&misfit->limit, lock_limit());
    atomic_store(&misfit->until, now_ns() + REMEMBERED_NS);
    atomic_store(&misfit->bytes, room->bytes);
}

/* ---- room -------------------------------------------------------------------------------- */

static bool has_enough(const struct room *room)
{
    return room->given >= room->bytes && room->gone >= room->count;
}

/* A try that failed may have made all its parts but one. */
static uint64_t most_parts(const struct room *room)
{
    const struct group *group = room->set->domain->group;

    return (uint64_t)room->count * (group ? group->count : 1) - 1;
}

static void count_anew(struct room *room)
{
    uint64_t registered = atomic_load(&mr_registrations);
    bool taken = room->gone && registered - room->registered > most_parts(room);

    if (taken && room->taken++ < TAKEN_MOST)
        room->given = room->gone = 0;
    room->registered = registered;
}

static void evict_from(struct room *room, struct cache *cache, unsigned most, int code)
{
    while (most && !has_enough(room)) {
        uint64_t bytes = 0;

        if (!cache_evict(cache, 1, code, NULL, &bytes))
            return;
        room->given += bytes;
        room->gone++;
        most--;
    }
}

/* Of the same cache first. False: nothing idle was left. */
static bool evict_some(struct room *room, unsigned most, int code)
{
    struct cache_set *set = room->set;
    unsigned before = room->gone;

    evict_from(room, room->cache, most, code);
    for (unsigned i = 0; i < cache_set_count(set) && room->gone - before < most; i++)
        evict_from(room, &set->caches[i], most - (room->gone - before), code);
    cache_set_free_unpublished(set);
    return room->gone > before;
}

bool room_make(struct room *room, int rc)
{
    unsigned most = 1u << (room->tries < 16 ? room->tries : 16);

    count_anew(room);
    room->says = room_says(room->set->domain, rc);
    if (room->says == PROVIDER_ROOM_UNKNOWN && room->tries)
        return false;
    if (room->says == PROVIDER_ROOM_UNKNOWN)
        most = UNKNOWN_MOST;
    if (room->says == PROVIDER_ROOM_ENOUGH || has_enough(room) || exceeds_lock_limit(room) ||
        is_remembered(room))
        return false;
    room->tries++;
    room->emptied = !evict_some(room, most, rc);
    return !room->emptied;
}

void room_end(struct room *room, int rc)
{
    if (rc && room->emptied && room->gone && room->says == PROVIDER_ROOM_FULL)
        remember(room);
}
