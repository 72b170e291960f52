/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See room.h. An error shows which kinds of room may be full, one or several. Each kind is shared
 * by certain regions: locked memory by all that the process has pinned, a NIC's table by those on
 * that NIC, and so on. Only these give way, first of the cache that the new region is for, then of
 * its domain's others, of the library's other domains, of the process's other libraries.
 *
 * They do so in batches of 1, 2, 4, ..., so that the registration is not retried for each. They
 * stop when their bytes, and one region, make up for the registration's need. Each region takes at
 * least its bytes, so more cannot help, whatever the limit counts. Another thread's registration
 * may take the room before this one is retried: if registrations were made meanwhile, as much gives
 * way anew, TAKEN_MOST times.
 *
 * No fabric of another domain is called on this thread. If the library's thread serves that domain,
 * it deregisters, and this thread waits. Otherwise regions are unpublished, and their domain's next
 * call deregisters them; that is too late for this registration, and its error says so.
 *
 * A length that did not fit after the caches were emptied for it is remembered, so that no
 * registration of this length empties them again. It is remembered for a while, since other
 * processes may give room back; while no region that was in use then is idle or gone; and while the
 * caches have less than the length to give.
 */
#include "core/cache/room.h"

#include "core/base/error.h"
#include "core/base/now.h"
#include "core/cache/cache_set.h"
#include "core/cache/locked.h"
#include "core/cache/room_text.h"
#include "core/group/group.h"
#include "core/mr/explain.h"
#include "core/mr/region.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <time.h>

#define UNKNOWN_MOST  4 /* regions for an error that may mean that something is full */
#define TAKEN_MOST    16
#define REMEMBERED_NS INT64_C(10000000000)
#define WAITS_MOST                                                                                 \
    64                       /* waits for others, of a millisecond, or while the library's thread  \
                                works */
#define LONG_WAITS_MOST 1024 /* waits while regions of others are deregistered */

#define BIT(kind) (1u << (kind))

/* ---- what may be full -------------------------------------------------------------------- */

/* The bytes that the kernel has pinned distinguish a lack of locked memory from the NIC's. */
static unsigned no_host_memory(const struct room *room)
{
    uint64_t limit = locked_limit(), now;

    if (!room->member->caps.pins || limit == UINT64_MAX)
        return BIT(ROOM_NIC);
    now = locked_now();
    if (!now)
        return BIT(ROOM_LOCKED) | BIT(ROOM_NIC);
    return room->bytes > limit || now > limit - room->bytes ? BIT(ROOM_LOCKED) : BIT(ROOM_NIC);
}

/* Does this NIC return ENOMEM when its own tables are full? */
static bool nic_says_so(const struct room *room)
{
    const struct hmreg_domain *member = room->member;

    return member->ops.room(member->self, -ENOMEM) == PROVIDER_ROOM_FULL;
}

/* For device memory the device's window is full, unless the NIC says otherwise: host memory would
 * not help. */
static unsigned no_memory(const struct room *room, bool mapped)
{
    if (mapped)
        return BIT(ROOM_FILES);
    if (!resolved_is_host(room->found))
        return BIT(ROOM_DEVICE) | (nic_says_so(room) ? BIT(ROOM_NIC) : 0);
    return no_host_memory(room);
}

/* mapped: path mapped, for which the process's mappings count. */
static unsigned kinds_of_code(const struct room *room, int code, bool mapped)
{
    switch (code) {
    case -ENOMEM:
        return no_memory(room, mapped);
    case -ENOSPC:
        return BIT(ROOM_NIC);
    case -EMFILE:
    case -ENFILE:
        return BIT(ROOM_FILES);
    default:
        return 0;
    }
}

/* Every path was refused. */
static unsigned kinds_of_reasons(const struct room *room)
{
    const struct hmreg_explanation *kept = explain_kept();
    unsigned kinds = 0;

    if (resolved_is_host(room->found))
        return 0;
    for (uint32_t i = 0; kept && i < kept->refused; i++)
        kinds |=
            kinds_of_code(room, kept->reasons[i].code, kept->reasons[i].path == HMREG_PATH_MAPPED);
    return kinds;
}

static bool is_ours(void)
{
    return !strcmp(hmreg_last_error()->source, "hmreg");
}

static unsigned kinds_of_key(const struct room *room)
{
    if (!room->any_key)
        return 0;
    return is_ours() ? BIT(ROOM_DOMAIN) : BIT(ROOM_NIC);
}

/* A fabric that does not refuse the path to a device's memory has no room itself. */
static unsigned by_fabric(const struct room *room)
{
    return resolved_is_host(room->found) ? 0 : BIT(ROOM_NIC);
}

/* If hmreg itself lacks memory, ending regions does not help. */
static unsigned kinds_of_error(const struct room *room, int rc)
{
    switch (rc) {
    case -EOPNOTSUPP:
        return kinds_of_reasons(room);
    case -HMREG_ENOKEY:
        return kinds_of_key(room);
    case -ENOMEM:
        return is_ours() ? 0 : no_memory(room, false) | by_fabric(room);
    default:
        return kinds_of_code(room, rc, false);
    }
}

/* *unknown: some drivers return this error when they are full. */
static unsigned find_kinds(const struct room *room, int rc, bool *unknown)
{
    enum provider_room says = domain_room(room->member, rc);
    unsigned kinds = kinds_of_error(room, rc);

    *unknown = says == PROVIDER_ROOM_UNKNOWN;
    if (*unknown)
        return BIT(ROOM_DOMAIN);
    if (says == PROVIDER_ROOM_FULL && rc != -ENOMEM && rc != -HMREG_ENOKEY && !kinds)
        return BIT(ROOM_NIC);
    return kinds;
}

/* ---- the process's caches ---------------------------------------------------------------- */

struct each {
    const struct room *room;
    int (*call)(struct cache_set *set, void *context);
    void *context;
    bool own;
};

static int each_of(struct hmreg *lib, void *context)
{
    struct each *each = context;

    return (lib == each->room->domain->lib) == each->own
               ? cache_set_each(lib, each->call, each->context, false)
               : 0;
}

/* The call's own library first. Stops when call() does not return 0, and returns its result. */
static int each_set(const struct room *room, int (*call)(struct cache_set *set, void *context),
                    void *context)
{
    struct each each = {room, call, context, true};
    int rc = context_each(each_of, &each);

    each.own = false;
    return rc ? rc : context_each(each_of, &each);
}

/* ---- whose regions may help -------------------------------------------------------------- */

static unsigned of_rail(const struct room *room, const struct hmreg_domain *rail)
{
    const char *nic = room->member->caps.nic;
    bool same = rail == room->member;

    return (same ? BIT(ROOM_DOMAIN) : 0) |
           (same || (*nic && !strcmp(nic, rail->caps.nic)) ? BIT(ROOM_NIC) : 0);
}

/* The kinds of shortage that ending a domain's regions may relieve. */
static unsigned of_domain(const struct room *room, struct hmreg_domain *domain)
{
    unsigned kinds = BIT(ROOM_FILES) | BIT(ROOM_DEVICE);

    if (domain_is_lost(domain)) /* no thread waits for its fabric */
        return 0;
    if (locked_times(domain))
        kinds |= BIT(ROOM_LOCKED);
    for (size_t i = 0; i < group_rails(domain); i++)
        kinds |= of_rail(room, group_rail(domain, i));
    return kinds;
}

/* The kinds of shortage that ending this cache's regions may relieve. */
static unsigned of_cache(const struct room *room, const struct cache *cache)
{
    unsigned kinds = of_domain(room, cache->pool->domain);

    if (cache->index < HOST_CACHES)
        return kinds & ~(BIT(ROOM_FILES) | BIT(ROOM_DEVICE));
    kinds &= ~BIT(ROOM_LOCKED);
    return cache->stats.iface == room->found->iface ? kinds : kinds & ~BIT(ROOM_DEVICE);
}

static bool is_mapped(const struct hmreg_mr *entry)
{
    const struct natives *natives = mr_natives(entry);
    bool mapped = false;

    for (size_t i = 0; natives && natives->mappings && i < natives->members * natives->ranges; i++)
        mapped = mapped || natives->mappings[i].base;
    return mapped;
}

static unsigned of_entry(const struct room *room, const struct hmreg_mr *entry)
{
    const struct mr_body *body = entry_body(entry);
    unsigned kinds = 0;

    if (body->cache < HOST_CACHES && locked_times(entry->domain))
        kinds |= BIT(ROOM_LOCKED);
    if (is_mapped(entry))
        kinds |= BIT(ROOM_FILES);
    if (body->cache >= HOST_CACHES && (enum hmreg_iface)body->iface == room->found->iface &&
        mr_device(entry) == room->found->range.device)
        kinds |= BIT(ROOM_DEVICE);
    for (size_t i = 0; i < group_rails(entry->domain); i++) {
        struct hmreg_domain *rail = mr_live(entry, i * mr_parts(entry));

        kinds |= rail ? of_rail(room, rail) : 0;
    }
    return kinds;
}

/* A group's call calls its members' fabrics on this thread. */
static bool is_direct(const struct room *room, const struct hmreg_domain *domain)
{
    return domain == room->domain ||
           (room->domain->group && group_has(room->domain->group, domain));
}

static bool is_served(const struct room *room, const struct cache_set *set)
{
    return !room->stuck && atomic_load(&set->pool.served) && reaper_runs();
}

/* ---- what is still needed ----------------------------------------------------------------- */

/* One descriptor is missing, however long the region is. */
static unsigned missing(const struct room *room)
{
    unsigned kinds = 0;

    for (unsigned kind = 0; kind < ROOM_KINDS; kind++)
        if (!room->given[kind].regions ||
            (room->given[kind].bytes < room->bytes && kind != ROOM_FILES))
            kinds |= BIT(kind);
    return kinds & room->kinds;
}

static void count_given(struct room *room, uint64_t bytes)
{
    for (unsigned kind = 0; kind < ROOM_KINDS; kind++) {
        if (!(room->helped & BIT(kind)))
            continue;
        room->given[kind].bytes += bytes;
        room->given[kind].regions++;
    }
}

/* Have other threads registered since the last look, before this registration's last attempt ended,
 * or are they registering now? */
static void count_anew(struct room *room)
{
    uint64_t traffic = atomic_load(&room_counts()->traffic);

    if (room->tries && traffic != room->traffic + ROOM_ENDED && room->taken++ < TAKEN_MOST)
        memset(room->given, 0, sizeof(room->given));
    room->traffic = traffic;
}

/* The callback of an eviction: `helped` in the search belongs to the last entry it was asked about.
 */
static bool helps(const struct hmreg_mr *entry, void *context)
{
    struct room *room = context;

    room->helped = of_entry(room, entry) & room->kinds;
    return room->helped & missing(room);
}

static struct cache_need need_of(struct room *room, const struct hmreg_domain *domain, int rc)
{
    return (struct cache_need){
        .code = rc,
        .who = domain != room->domain ? CACHE_FOR_OTHERS
               : room->is_get         ? CACHE_FOR_GET
                                      : CACHE_FOR_EXPLICIT,
        .helps = helps,
        .context = room,
    };
}

/* ---- one batch --------------------------------------------------------------------------- */

struct batch {
    struct room *room;
    int rc;
    unsigned most, gone;
    bool served; /* only domains that the library's thread serves, else only the others */
};

static bool is_done(const struct batch *batch)
{
    return batch->gone >= batch->most || !missing(batch->room);
}

static void evict_from(struct batch *batch, struct cache *cache)
{
    struct room *room = batch->room;
    struct cache_need need = need_of(room, cache->pool->domain, batch->rc);

    while (!is_done(batch) && (of_cache(room, cache) & missing(room))) {
        uint64_t bytes = 0;

        room->helped = 0;
        if (!cache_evict(cache, 1, &need, NULL, &bytes))
            return;
        if (bytes)
            count_given(room, bytes);
        atomic_fetch_add(&room_counts()->gave_way, bytes != 0);
        batch->gone++;
    }
}

/* Another library of the process may not have started the memory's runtime. */
static struct cache *first_of(const struct room *room, struct cache_set *set)
{
    const struct resolved *found = room->found;

    if (found->iface >= HMREG_IFACE_COUNT || !context_runtime(set->domain->lib, found->iface))
        return &set->caches[HMREG_IFACE_SYSTEM];
    return cache_set_at(set, found->iface, resolved_is_host(found) ? -1 : found->range.device);
}

/* Returns how many regions have given way. */
static unsigned evict_of(struct batch *batch, struct cache_set *set)
{
    struct cache *first = first_of(batch->room, set);
    unsigned before = batch->gone;

    cache_drain(&set->pool);
    evict_from(batch, first);
    for (unsigned i = 0; i < cache_set_count(set); i++)
        if (&set->caches[i] != first)
            evict_from(batch, &set->caches[i]);
    return batch->gone - before;
}

static void evict_direct(struct batch *batch, struct hmreg_domain *domain)
{
    if (!is_done(batch) && evict_of(batch, domain->caches))
        cache_set_free_unpublished(domain->caches);
}

static void evict_own(struct batch *batch)
{
    struct hmreg_domain *domain = batch->room->domain;

    evict_direct(batch, domain);
    for (size_t i = 0; domain->group && i < domain->group->count; i++)
        evict_direct(batch, domain->group->members[i]);
}

/* ---- other domains ----------------------------------------------------------------------- */

static void sleep_shortly(void)
{
    static const struct timespec pause = {.tv_nsec = 1000000};

    nanosleep(&pause, NULL);
}

static bool has_ended(struct cache_set *set)
{
    struct cache_pool *pool = &set->pool;

    return atomic_load(&pool->unpublished.count) || atomic_load(&pool->settled.count) ||
           atomic_load(&pool->to_free.count);
}

/* May some of `count` regions that have ended since `before` was read not be freed yet? The freed
 * ones that were counted may be others. */
static bool is_freeing(struct cache_set *set, unsigned before, unsigned count)
{
    return atomic_load(&set->pool.freed) - before < count || has_ended(set) ||
           atomic_load(&set->reaping);
}

/* If the library's thread makes no progress, for instance inside a fabric that does not return, the
 * registration stops waiting for it: other domains' regions would end too late. */
static void await_freed(struct room *room, struct cache_set *set, unsigned before, unsigned count)
{
    for (int i = 0; i < WAITS_MOST && is_freeing(set, before, count); i++) {
        room->stuck = !reaper_hurry(&set->reaper);
        if (room->stuck)
            return;
        if (is_freeing(set, before, count))
            sleep_shortly(); /* another thread has them */
    }
}

/* First promises the regions that have ended before, which its next call will free. */
static void promise(struct batch *batch, struct cache_set *set)
{
    if (has_ended(set) || evict_of(batch, set))
        batch->room->promised = true;
}

static int visit(struct cache_set *set, void *context)
{
    struct batch *batch = context;
    unsigned freed = atomic_load(&set->pool.freed), gone;

    if (is_direct(batch->room, set->domain) || is_served(batch->room, set) != batch->served ||
        !(of_domain(batch->room, set->domain) & missing(batch->room)))
        return 0;
    if (!batch->served) {
        promise(batch, set);
        return is_done(batch);
    }
    gone = evict_of(batch, set);
    if (gone)
        await_freed(batch->room, set, freed, gone);
    return is_done(batch);
}

static void evict_others(struct batch *batch, bool served)
{
    batch->served = served;
    if (!is_done(batch))
        each_set(batch->room, visit, batch);
}

static void evict(struct batch *batch)
{
    evict_own(batch);
    evict_others(batch, true);
}

/* ---- what has ended before ---------------------------------------------------------------- */

static bool retire(struct cache_set *set)
{
    unsigned freed = atomic_load(&set->pool.freed), undone = undone_left(set->domain);

    cache_set_retire(set);
    return atomic_load(&set->pool.freed) != freed || undone_left(set->domain) != undone;
}

struct ended {
    struct room *room;
    bool any;
};

static int retire_served(struct cache_set *set, void *context)
{
    struct ended *ended = context;
    unsigned freed = atomic_load(&set->pool.freed);

    if (is_direct(ended->room, set->domain) || !is_served(ended->room, set) || !has_ended(set) ||
        !(of_domain(ended->room, set->domain) & ended->room->kinds))
        return 0;
    ended->room->stuck = !reaper_hurry(&set->reaper); /* some may be held, but it waits for none */
    ended->any |= atomic_load(&set->pool.freed) != freed;
    return 0;
}

/* Was the needed room in regions that had ended but were not deregistered yet? */
static bool reap(struct room *room)
{
    struct hmreg_domain *domain = room->domain;
    struct ended ended = {room, retire(domain->caches)};

    for (size_t i = 0; domain->group && i < domain->group->count; i++)
        ended.any |= retire(domain->group->members[i]->caches);
    if (!ended.any)
        each_set(room, retire_served, &ended);
    return ended.any;
}

/* Other processes' or threads' unlocking may have made room in the limit of locked memory. */
static bool may_fit_now(const struct room *room, int rc)
{
    return rc == -ENOMEM && room->kinds == BIT(ROOM_NIC) && resolved_is_host(room->found) &&
           room->member->caps.pins && locked_limit() != UINT64_MAX;
}

/* ---- what cannot fit ---------------------------------------------------------------------- */

struct sum {
    struct room *room;
    uint64_t bytes, most;
};

/* The callback of the sum: the bytes that an idle entry locks, once for each member of a group. */
static bool add_locked(const struct hmreg_mr *entry, void *context)
{
    struct sum *sum = context;
    const struct natives *natives = mr_natives(entry);
    struct iovec plain = mr_asked(entry, 0);
    uint64_t pages = natives ? room_pages(natives->asked, natives->ranges) : room_pages(&plain, 1);

    for (size_t i = 0; i < group_rails(entry->domain); i++) {
        struct hmreg_domain *rail = mr_live(entry, i * mr_parts(entry));

        sum->bytes += rail && rail->caps.pins ? pages : 0;
    }
    return true;
}

static int add_idle(struct cache_set *set, void *context)
{
    struct sum *sum = context;
    struct cache_need need = {.helps = add_locked, .context = sum};

    for (unsigned i = 0; i < HOST_CACHES && sum->bytes < sum->most; i++)
        cache_idle_bytes(&set->caches[i], &need, sum->most - sum->bytes);
    return sum->bytes >= sum->most;
}

/* The bytes that the region will lock beyond its other registrations, made or under way. */
static uint64_t still_locks(const struct room *room)
{
    uint64_t others = atomic_load(room->locked);

    return room->locks > others + room->bytes ? room->locks - others : room->bytes;
}

/* Does it exceed the limit of locked memory by itself? */
static bool cannot_lock(const struct room *room)
{
    return room->kinds & BIT(ROOM_LOCKED) && room->locks > locked_limit();
}

/* Does it exceed the limit together with the locked memory that is not idle? The region's other
 * registrations are read last, so that those made meanwhile are not counted twice. */
static bool exceeds_locked(struct room *room)
{
    struct sum idle = {.room = room};
    uint64_t limit = locked_limit(), now, more;

    if (!(room->kinds & BIT(ROOM_LOCKED)))
        return false;
    now = locked_now();
    more = still_locks(room);
    if (!now || more > limit || now <= limit - more)
        return false;
    idle.most = now - (limit - more);
    each_set(room, add_idle, &idle);
    return idle.bytes < idle.most;
}

/* ---- what did not fit --------------------------------------------------------------------- */

static uint64_t returned_otherwise(void)
{
    return atomic_load(&room_counts()->returned) / ROOM_ENDED -
           atomic_load(&room_counts()->gave_way);
}

static int add_cached(struct cache_set *set, void *context)
{
    struct sum *sum = context;

    for (unsigned i = 0; i < cache_set_count(set); i++)
        if (of_cache(sum->room, &set->caches[i]) & sum->room->kinds)
            sum->bytes += cache_stats_bytes(&set->caches[i].stats);
    return 0;
}

static bool is_older(const struct hmreg_mr *entry, void *context)
{
    struct room *room = context;

    return mr_generation(entry) <= atomic_load(&room->domain->caches->misfit.number) &&
           (of_entry(room, entry) & room->kinds);
}

/* Does it find an idle region among the regions that were held then? */
static int find_idle_by_now(struct cache_set *set, void *context)
{
    struct cache_need need = {.helps = is_older, .context = context};
    bool found = false;

    for (unsigned i = 0; i < cache_set_count(set) && !found; i++)
        found = (of_cache(context, &set->caches[i]) & ((struct room *)context)->kinds) &&
                cache_idle_bytes(&set->caches[i], &need, 1);
    return found;
}

/* Is it so that nothing has changed since which would make it fit now? */
static bool is_remembered(struct room *room, int rc)
{
    struct room_misfit *misfit = &room->domain->caches->misfit;
    uint64_t bytes = atomic_load(&misfit->bytes);
    struct sum cached = {.room = room};

    if (!bytes || room->bytes < bytes || atomic_load(&misfit->member) != room->member ||
        atomic_load(&misfit->code) != rc || atomic_load(&misfit->kinds) != room->kinds ||
        now_ns() >= atomic_load(&misfit->until) || atomic_load(&misfit->limit) != locked_limit() ||
        atomic_load(&misfit->returned) != returned_otherwise() ||
        each_set(room, find_idle_by_now, room))
        return false;
    each_set(room, add_cached, &cached);
    return cached.bytes < bytes;
}

static void remember(const struct room *room, int rc)
{
    struct room_misfit *misfit = &room->domain->caches->misfit;

    atomic_store(&misfit->member, room->member);
    atomic_store(&misfit->code, rc);
    atomic_store(&misfit->kinds, room->kinds);
    atomic_store(&misfit->limit, locked_limit());
    atomic_store(&misfit->returned, returned_otherwise());
    atomic_store(&misfit->number, atomic_load(&mr_registrations));
    atomic_store(&misfit->until, now_ns() + REMEMBERED_NS);
    atomic_store(&misfit->bytes, room->bytes);
}

/* ---- holders ----------------------------------------------------------------------------- */

struct told {
    struct room *room;
    struct room_holders holders;
};

static int add_holder(struct cache_set *set, void *context)
{
    struct told *told = context;
    struct room_holders *holders = &told->holders;
    const struct provider_caps *caps = &set->domain->caps;
    struct room_holder one = {.regions = 0};

    memcpy(one.fabric, caps->fabric, sizeof(one.fabric));
    memcpy(one.nic, caps->nic, sizeof(one.nic));
    for (unsigned i = 0; i < cache_set_count(set); i++) {
        if (!(of_cache(told->room, &set->caches[i]) & told->room->kinds))
            continue;
        one.regions += cache_stats_regions(&set->caches[i].stats);
        one.bytes += cache_stats_bytes(&set->caches[i].stats);
    }
    if (of_domain(told->room, set->domain) & told->room->kinds)
        one.explicit = atomic_load(&set->domain->regions);
    if ((one.regions || one.explicit) && holders->count++ < ROOM_HOLDERS)
        holders->list[holders->count - 1] = one;
    return 0;
}

static bool give_up(struct room *room, int rc)
{
    struct told told = {.room = room};

    each_set(room, add_holder, &told);
    room_tell(room, rc, &told.holders);
    return false;
}

/* ---- room -------------------------------------------------------------------------------- */

/* Nothing gives way in time. Other domains promise the regions that they can free at their next
 * call. */
static bool take_promises(struct room *room, struct batch *batch)
{
    batch->most = UINT_MAX;
    evict_others(batch, false);
    if (room->emptied && room->tries && !room->promised)
        remember(room, batch->rc);
    return give_up(room, batch->rc);
}

static bool make_unknown(struct room *room, struct batch *batch)
{
    batch->most = UNKNOWN_MOST;
    if (room->tries++)
        return false;
    evict_own(batch);
    return batch->gone;
}

/* Regions that another thread has unpublished for its own registration may leave room for both, and
 * a registration under way may fail. */
static bool await_others(struct room *room)
{
    uint64_t returned = atomic_load(&room_counts()->returned);
    bool others = atomic_load(&room_counts()->makers) || returned != room->returned ||
                  returned % ROOM_ENDED || atomic_load(&room_counts()->traffic) % ROOM_ENDED;

    if (returned != room->returned && room->long_waits++ < LONG_WAITS_MOST)
        room->waits = 0;
    if (!others || room->stuck || room->waits++ == WAITS_MOST)
        return false;
    sleep_shortly();
    return true;
}

static void make(struct room *room, struct batch *batch)
{
    atomic_fetch_add(&room_counts()->makers, 1);
    batch->most = 1u << (room->tries < 16 ? room->tries : 16);
    evict(batch);
    room->emptied = !batch->gone && missing(room);
    room->tries += batch->gone != 0;
    atomic_fetch_sub(&room_counts()->makers, 1);
}

static bool make_known(struct room *room, struct batch *batch, bool first)
{
    if (first && (reap(room) || may_fit_now(room, batch->rc)))
        return true;
    if (cannot_lock(room))
        return give_up(room, batch->rc);
    if (!room->tries && (exceeds_locked(room) || is_remembered(room, batch->rc)))
        return await_others(room) || give_up(room, batch->rc);
    make(room, batch);
    return batch->gone || reap(room) || await_others(room) || take_promises(room, batch);
}

bool room_make(struct room *room, int rc)
{
    struct batch batch = {.room = room, .rc = rc};
    bool unknown, made, first = !room->kinds;

    count_anew(room);
    room->kinds = find_kinds(room, rc, &unknown);
    if (!room->kinds)
        return false;
    made = unknown ? make_unknown(room, &batch) : make_known(room, &batch, first);
    room->returned = atomic_load(&room_counts()->returned);
    return made;
}
