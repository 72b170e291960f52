/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The slow path of a get, for requests that the thread's table does not serve; docs/cache.md has a
 * diagram. It searches the caches for an entry that contains the range, and makes sure that the
 * entry is still valid. Only a miss resolves the memory and registers it.
 *
 * Never stale. Host memory: an entry is watched before the memory is registered, and published only
 * if nothing has changed since; a get that finds an entry first settles: it waits until every
 * earlier change has reached the caches. Device memory: the identity is taken before registration,
 * compared after it, and checked again at every hit, over the whole entry. Memory that can be
 * neither watched nor identified is registered and not cached.
 *
 * All slow work is done here, with no lock held: calls to vendors and fabrics, the monitor's system
 * calls, allocation.
 */
#include "core/cache/get_slow.h"

#include "core/base/error.h"
#include "core/base/failure.h"
#include "core/base/uncancelled.h"
#include "core/base/validate.h"
#include "core/cache/cover.h"
#include "core/cache/notice.h"
#include "core/group/group.h"
#include "core/mr/explain.h"
#include "core/mr/region.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* The limit on registrations of one get that are discarded because their memory changed meanwhile,
 * and on its rounds without result; after that the get is served uncached. */
#define MAX_DISCARDED 2
#define MAX_ROUNDS    16
/* A get stops making room after so many searches in which other threads immediately reused every
 * candidate. */
#define MAX_SEARCHES 16
/* A get evicts no more regions than this for the limit of all caches together. */
#define MAX_SQUEEZED 64

/* The round had no result: start another. */
#define AGAIN 1

/* ---- the thread's table ----------------------------------------------------------------- */

static struct cache *cache_of(const struct get *get, const struct hmreg_mr *entry)
{
    return &get->set->caches[entry_body(entry)->cache];
}

/* Enters a pinned entry in the thread's table. If memory is short, nothing is remembered. The pin
 * stays in the entry's own count. */
static void remember(struct get *get, struct hmreg_mr *entry)
{
    const struct mr_body *body = entry_body(entry);
    struct cache *cache = &get->set->caches[body->cache];
    struct thread_cache *tcache = get->tcache;
    struct pin_slot *pin_slot = tcache ? thread_cache_pin_slot(tcache, entry_number(entry)) : NULL;
    bool asks = body->ask_monitor || body->ask_identity;
    bool part =
        !get->want.variant && (get->start != entry->node.start || get->end != entry->node.end);
    bool ends = entry_ends_with_put(entry);
    uint64_t addr = get->start;
    uint32_t check;

    if (!pin_slot || (!ends && get->domain->policy == HMREG_POLICY_LAST_PUT))
        return; /* a plain get there must not find a region that is kept */
    check = ends ? holders_use(entry_holders(entry))
                 : atomic_load_explicit(&entry->sequence, memory_order_relaxed);
    check ^= body->access;
    pin_slot->cache = body->cache;
    pin_slot->whole = body->whole;
    if (ends || asks || !thread_cache_counts(tcache, body->cache, &cache->stats))
        check |= THREAD_CACHE_OUT_OF_LINE;
    if (get->want.variant) {
        addr ^= variant_salt(get->want.variant);
        check |= THREAD_CACHE_OUT_OF_LINE | THREAD_CACHE_VARIED;
    } else if (body->claimed) {
        check |= THREAD_CACHE_VARIED;
    }
    if (!ends && check % 2 == 0) /* the entry may be unpublished by now */
        return;
    thread_cache_remember(tcache, addr, entry_number(entry), check, part);
    if (part)
        thread_cache_keep_larger(
            tcache, (struct range){entry->node.start, entry->node.end, entry->slot_offset},
            get->start, get->end - get->start);
}

/* ---- hits ------------------------------------------------------------------------------- */

/* Keeps a pinned live entry if it is valid; else unpublishes and unpins it. Without an identity the
 * monitor is responsible: an invalid entry would not be live. */
static bool keep_if_valid(struct get *get, struct hmreg_mr *entry)
{
    const struct hmreg_mr *mr = entry;

    if (!entry_body(mr)->ask_identity || cache_set_is_found(get->set, mr)) {
        cache_stats_add(&cache_of(get, entry)->stats, STATS_HITS, 1);
        remember(get, entry);
        return true;
    }
    cache_unpublish_stale(cache_of(get, entry), entry);
    cache_set_release(get->set, entry);
    return false;
}

static struct hmreg_mr *find_among(struct get *get, unsigned from, unsigned to)
{
    struct hmreg_mr *entry = NULL;

    if (from == to)
        return NULL;
    do
        entry = cache_find(&get->set->pool, from, to, &get->want, get->tcache);
    while (entry && !keep_if_valid(get, entry));
    return entry;
}

static bool settle(struct get *get)
{
    if (!get->settled)
        get->settled = cache_set_sync(get->set);
    return get->settled;
}

/* Searches the devices' caches first, which need not wait for the kernel's events on host memory.
 * *host_cacheable: host memory may be cached. */
static struct hmreg_mr *find_anywhere(struct get *get, bool *host_cacheable)
{
    struct hmreg_mr *entry;

    *host_cacheable = get->read;
    if (!get->read)
        return NULL;
    entry = find_among(get, HOST_CACHES, cache_set_count(get->set));
    if (entry)
        return entry;
    *host_cacheable = settle(get);
    return *host_cacheable ? find_among(get, 0, HOST_CACHES) : NULL;
}

/* ---- registering ------------------------------------------------------------------------ */

/* A get with an alternative does not evict others: it can register exactly its range, or end its
 * own discarded registration. */
static bool is_modest(const struct get *get)
{
    return get->covers || get->discarded;
}

/* For one range. If it is too long for one registration, its pieces are as long as possible: each
 * further piece is one more key for local operations. */
static int fill_range(struct get *get, struct hmreg_mr *entry)
{
    uint64_t max_len = get->domain->caps.max_len;
    struct layout layout;
    int rc = 0;

    layout_init(&layout, get->request, get->found);
    layout.assumed = get->assumed;
    layout.modest = is_modest(get);
    if (get->request->iov->iov_len > max_len)
        rc = layout_cut(get->domain, &layout, layout_longest(max_len), false);
    rc = rc ? rc : region_fill(&layout, entry);
    layout_free(&layout);
    return rc;
}

static int fill_list(struct get *get, struct hmreg_mr *entry)
{
    bool several = get->list->ranges.count > 1;
    struct mr_list *list = several ? layout_list(get->list) : NULL;
    int rc;

    if (several && !list)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for a region of %zu segments",
                          get->list->ranges.count);
    get->list->modest = is_modest(get);
    rc = region_fill(get->list, entry);
    if (rc)
        free(list);
    else if (list)
        mr_ext(entry)->list = list;
    return rc;
}

static int create_once(struct get *get, struct cache *cache, struct hmreg_mr *entry)
{
    bool timed = !get->want.whole || get->domain->caps.pins;
    uint64_t start = timed ? cache_stats_clock() : 0;
    int rc = get->list ? fill_list(get, entry) : fill_range(get, entry);

    if (!rc && timed)
        cache_stats_took(&cache->stats, cache_stats_clock() - start);
    return rc;
}

static void announce(struct cache *cache, struct hmreg_mr *entry)
{
    if (entry->domain->made)
        cache_announce(cache, entry, true);
    cache_set_made(entry);
    if (entry->domain->made)
        cache_announce(cache, entry, false);
}

static int check_awake(const struct get *get)
{
    struct suspended *suspended = &get->domain->lib->suspended;
    const struct ranges *list = get->list ? &get->list->ranges : NULL;

    return list ? suspended_check(suspended, list->iov, list->count, get->since)
                : suspended_check(suspended, get->request->iov, 1, get->since);
}

static int check_assumed(struct get *get)
{
    int rc = get->assumed ? request_check_mapped(get->domain, get->request, get->found) : 0;

    get->assumed = false;
    return rc && check_awake(get) ? -EAGAIN : rc;
}

static void put_discarded(struct get *get)
{
    if (get->discarded)
        cache_set_release(get->set, get->discarded);
    get->discarded = NULL;
}

static int create(struct get *get, struct hmreg_mr *entry)
{
    struct cache *cache = cache_of(get, entry);
    struct hmreg_error_guard guard;
    int rc;

    hmreg_error_guard(&guard);
    rc = check_awake(get); /* hmreg_suspend() finds the entry from now on */
    rc = rc ? rc : create_once(get, cache, entry);
    if (rc && get->discarded) { /* which may have the room */
        put_discarded(get);
        rc = check_awake(get);
        rc = rc ? rc : create_once(get, cache, entry);
    }
    if (rc && check_awake(get))
        rc = -EAGAIN;
    entry_body(entry)->registered = !rc;
    hmreg_error_unguard(&guard, !rc);
    if (!rc)
        announce(cache, entry);
    else if (!get->covers) /* else the get goes on */
        cache_stats_add(&cache->stats, STATS_FAILURES, 1);
    return rc;
}

/* Pinned host memory belongs to a device in name only. The kernel's events apply to the host's
 * caches, so its entries must be there. */
static struct cache *cache_for(struct get *get)
{
    if (get->found->iface >= HMREG_IFACE_COUNT)
        return cache_set_at(get->set, HMREG_IFACE_SYSTEM, -1);
    return cache_set_at(get->set, get->found->iface,
                        get_is_host(get) ? -1 : get->found->range.device);
}

static int fail_short(void)
{
    return hmreg_fail(-ENOMEM, "hmreg has no memory for one more cached region");
}

/* No other get finds the entry. */
static void fill_up(struct get *get, struct hmreg_mr *entry)
{
    int rc = 0;

    while (!cache_filled(&get->set->pool, entry, rc))
        rc = variant_complete(entry, false);
}

static void count_uncached(struct cache *cache, enum stats_count cause)
{
    cache_stats_add(&cache->stats, STATS_UNCACHED, 1);
    if (cause != STATS_UNCACHED)
        cache_stats_add(&cache->stats, cause, 1);
}

/* Registers a region that no other get will find; its put deregisters it. cause: STATS_UNCACHED_*,
 * or STATS_UNCACHED for other causes. */
static int get_uncached(struct get *get, struct hmreg_mr *entry, enum stats_count cause,
                        struct hmreg_mr **out)
{
    int rc = check_assumed(get);

    rc = rc ? rc : create(get, entry);
    if (rc) {
        cache_set_release(get->set, entry);
        return rc;
    }
    explain_warn_unreadable(entry);
    fill_up(get, entry);
    count_uncached(cache_of(get, entry), cause);
    *out = entry;
    return 0;
}

static int register_uncached(struct get *get, enum stats_count cause, struct hmreg_mr **out)
{
    struct cache *cache = cache_for(get);
    struct hmreg_mr *entry;

    while (!(entry = cache_admit(cache, &get->want, get->found->iface)))
        if (!cache_grow(cache, &get->want))
            return fail_short();
    return get_uncached(get, entry, cause, out);
}

/* Makes room for a registered region, if necessary, and publishes it. */
static enum cache_publish publish(struct get *get, struct cache *cache, struct hmreg_mr *entry,
                                  struct cache_search *search)
{
    bool same_identity = notice_identity_is_valid(get);
    bool unique = notice_identity_is_unique(get, entry);

    for (unsigned interrupted = 0, squeezed = 0; unique && interrupted < MAX_SEARCHES;) {
        enum cache_publish result;

        monitor_collect(get->set->monitor); /* registering for writing copies shared pages */
        if (!cache_drain(&get->set->pool))  /* the entry's memory may have changed */
            break;
        result = cache_publish(cache, entry, same_identity, get->tcache, search);
        if (result == CACHE_SQUEEZED) {
            if (squeezed++ == MAX_SQUEEZED ||
                !cache_set_evict_anywhere(get->domain->lib, get->set, cache, &search->visits))
                break;
            search->evicted++;
        } else if (result == CACHE_INTERRUPTED) {
            interrupted = search->advanced ? 0 : interrupted + (search->cooled_count != 0);
            search->advanced = false;
            cache_finish_cooling(cache->pool, search);
        } else if (result != CACHE_OUTDATED) {
            return result;
        } else if (variant_complete(entry, false)) {
            break;
        }
    }
    cache_retire_reserved(cache, entry, true);
    fill_up(get, entry);
    return CACHE_ROOMLESS;
}

/* The region is registered, and its entry still pending. An entry for which others were evicted may
 * soon be evicted itself: threads remember it only after a second get. */
static int finish(struct get *get, struct hmreg_mr *entry, struct hmreg_mr **out)
{
    struct cache *cache = cache_of(get, entry);
    struct cache_search search;
    enum cache_publish result;
    bool cached;

    cache_search_init(&search);
    entry_body(entry)->cached = true;
    result = publish(get, cache, entry, &search);
    cached = result == CACHE_PUBLISHED;
    if (!get->want.whole)
        cache_set_serve(get->set);
    if (search.evicted)
        cache_set_free_evicted(get->set, search.evicted);
    if (result == CACHE_DISCARDED) {
        put_discarded(get);
        get->discarded = entry;
        get->discards++;
        return AGAIN;
    }
    if (!cached)
        count_uncached(cache, STATS_UNCACHED_FULL);
    if (cached && entry_body(entry)->ask_identity && sweep_expect(&get->set->sweep))
        reaper_wake();
    if (cached && !search.evicted && !get->want.whole)
        remember(get, entry);
    *out = entry;
    return 0;
}

/* This thread has reserved the entry, which is pending. No thread is started meanwhile: libc starts
 * one under the dynamic linker's locks, whose holder may wait for the entry (a get in a resolver of
 * an IFUNC). */
static int register_claimed(struct get *get, struct hmreg_mr *entry, struct hmreg_mr **out)
{
    struct cache *cache = cache_of(get, entry);
    bool noticed = notice_watch_entry(get, entry);
    int rc = noticed ? create(get, entry) : 0;

    if (noticed && !rc) {
        if (entry_body(entry)->ask_identity)
            mr_ext(entry)->asks_why = get->asks_why;
        return finish(get, entry, out);
    }
    cache_retire_reserved(cache, entry, false);
    notice_undo(get);
    cache_set_release(get->set, entry);
    cache_set_serve_untidy(get->set);
    return rc ? rc : register_uncached(get, STATS_UNCACHED_UNWATCHED, out);
}

/* Uses the entry of another thread, which is live or pending. That thread inserted it after this
 * thread's look-up, so a change since then may concern it: settle first. */
static int share(struct get *get, struct hmreg_mr *other, struct hmreg_mr **out)
{
    bool refused_room;

    if (entry_body(other)->cache < HOST_CACHES && !settle(get)) {
        cache_set_release(get->set, other);
        return register_uncached(get, STATS_UNCACHED, out);
    }
    if (!cache_await(cache_of(get, other), other, &refused_room)) {
        cache_set_release(get->set, other);
        if (refused_room && get->covers)
            return -ENOSPC;
        return refused_room ? register_uncached(get, STATS_UNCACHED_FULL, out) : AGAIN;
    }
    if (!keep_if_valid(get, other))
        return AGAIN;
    *out = other;
    return 0;
}

static int miss(struct get *get, struct hmreg_mr **out)
{
    struct cache *cache = cache_for(get);
    struct hmreg_mr *entry = NULL;

    notice_prepare(get);
    for (;;) {
        switch (cache_reserve(cache, &get->want, get->found->iface, get->tcache, &entry)) {
        case CACHE_RESERVED:
            return register_claimed(get, entry, out);
        case CACHE_SERVED:
            return share(get, entry, out);
        case CACHE_FULL:
            if (!get->covers)
                return get_uncached(get, entry, STATS_UNCACHED_FULL, out);
            cache_set_release(get->set, entry);
            return -ENOSPC;
        case CACHE_SHORT:
            if (!cache_grow(cache, &get->want))
                return fail_short();
        }
    }
}

/* ---- rounds ----------------------------------------------------------------------------- */

static int resolve_memory(struct get *get)
{
    int rc = 0;

    get->assumed = notice_asks_later(get);
    if (get->list)
        return layout_resolve(get->domain, get->list);
    if (!get_asks_runtimes(get) && notice_is_known(get))
        *get->found = resolved_as_system(get->want.start);
    else if (get->assumed)
        rc = request_resolve_owner(get->domain, get->request, get->found);
    else
        rc = request_resolve(get->domain, get->request, get->found);
    get->assumed &= !rc && get->found->iface == HMREG_IFACE_SYSTEM;
    return rc;
}

/* Suspended memory may be unmapped. */
static int resolve_request(struct get *get)
{
    int rc = check_awake(get);

    if (rc)
        return rc;
    rc = resolve_memory(get);
    return rc && check_awake(get) ? -EAGAIN : rc;
}

/* Gets a region that covers more than the get's range. If it fails, registering exactly the range
 * may succeed, so it keeps the thread's last error. */
static int get_covering(struct get *get, const struct iovec *whole, struct hmreg_mr **out)
{
    struct request request = *get->request;
    struct get wide = *get;
    struct hmreg_error_guard guard;
    struct resolved found;
    int rc;

    request.iov = whole;
    request.flags = (request.flags & ~REQUEST_PARTS) | HMREG_REG_SINGLE;
    wide.request = &request;
    wide.want.start = (uint64_t)(uintptr_t)whole->iov_base;
    wide.want.end = wide.want.start + whole->iov_len;
    wide.found = &found;
    wide.covers = true;
    hmreg_error_guard(&guard);
    rc = resolve_request(&wide);
    rc = rc || notice_may_cache(&wide, true) ? rc : -EOPNOTSUPP;
    rc = rc ? rc : miss(&wide, out);
    hmreg_error_unguard(&guard, true);
    get->discarded = wide.discarded;
    get->discards = wide.discards;
    return rc;
}

static int miss_covering(struct get *get, struct hmreg_mr **out)
{
    struct iovec whole[COVER_MOST];
    unsigned count = cover_find(get, whole);

    for (unsigned i = 0; i < count; i++) {
        int rc = get_covering(get, &whole[i], out);

        if (rc == 0 || rc == AGAIN)
            return rc;
    }
    return miss(get, out);
}

/* Neither a runtime nor the monitor will be asked, and cache_reserve() itself searches for an entry
 * that serves: an earlier search would find no more. */
static bool reserves_at_once(const struct get *get)
{
    return get->want.claim && get->want.claim->trusted &&
           get->want.policy == HMREG_POLICY_LAST_PUT &&
           monitor_kind(get->set->monitor) != HMREG_MONITOR_IMPORT;
}

static int get_round(struct get *get, struct hmreg_mr **out)
{
    struct hmreg_mr *entry;
    bool host_cacheable = false;
    int rc;

    get->settled = false;
    get->read = cache_drain(&get->set->pool); /* notices may concern device memory */
    entry = reserves_at_once(get) ? NULL : find_anywhere(get, &host_cacheable);
    if (entry) {
        *out = entry;
        return 0;
    }
    cache_set_reap(get->set);
    rc = resolve_request(get); /* fails if the claim is wrong */
    if (rc)
        return rc;
    get->want.policy = notice_policy(get);
    get->want.whole = notice_is_whole(get);
    if (get->read && notice_may_cache(get, host_cacheable))
        return miss_covering(get, out);
    return register_uncached(get, get->read ? STATS_UNCACHED_UNWATCHED : STATS_UNCACHED, out);
}

static int get_rounds(struct get *get, bool caching, struct hmreg_mr **out)
{
    int rc;

    if (caching && !get->domain->check_puts)
        get->tcache = thread_cache_join(&get->set->pool.thread_caches);
    for (int i = 0; caching && i < MAX_ROUNDS && get->discards < MAX_DISCARDED; i++) {
        rc = get_round(get, out);
        if (rc != AGAIN)
            return rc;
    }
    cache_set_reap(get->set);
    rc = resolve_request(get);
    return rc ? rc : register_uncached(get, STATS_UNCACHED, out);
}

static int get_uncancelled(struct get *get, bool caching, struct hmreg_mr **out)
{
    UNCANCELLED;
    int rc, refused;

    (void)context_life(get->domain->lib); /* before an entry of an earlier incarnation is found */
    rc = get_rounds(get, caching, out);
    put_discarded(get);
    region_settle_lost(get->domain);
    if (rc != -EFAULT || !get->assumed)
        return rc;
    refused = request_resolve(get->domain, get->request, get->found); /* in words */
    return refused ? refused : rc;
}

int get_region(struct hmreg_domain *domain, const struct request *request, struct layout *list,
               const struct cache_want *want, bool cacheable, struct hmreg_mr **mr)
{
    struct resolved found; /* set anew in each round */
    struct get get = {
        .set = domain->caches,
        .domain = domain,
        .since = suspended_since(&domain->lib->suspended),
        .request = request,
        .list = list,
        .want = *want,
        .start = want->start,
        .end = want->end,
        .found = list ? list->ranges.found : &found,
    };

    get.want.more = domain->more_rights;
    get.want.exact = domain->flags & HMREG_DOMAIN_EXACT;
    return get_uncancelled(&get, cacheable && !(domain->flags & HMREG_DOMAIN_NO_CACHE), mr);
}

bool get_may_share(struct hmreg_domain *domain, const struct request *request)
{
    if (request->endpoints || !(domain->caps.mr_mode & HMREG_MR_ENDPOINT))
        return true;
    for (size_t i = 0; i < group_rails(domain); i++)
        if (group_binds(domain, request->rails, i))
            return false;
    return true;
}

int get_check(const struct hmreg_domain *domain)
{
    if (domain_is_lost(domain))
        return domain_fail_lost(domain);
    if (domain->caps.async)
        return hmreg_fail(-EOPNOTSUPP, "registrations of this domain complete in an event queue "
                                       "that the application reads: use hmreg_mr_reg()");
    return 0;
}

int get_past_table(struct hmreg_domain *domain, const struct request *request,
                   struct cache_want *want, struct hmreg_mr **mr)
{
    LOGS_FAILURE_AS("hmreg_mr_get", domain_log(domain));
    int rc = domain_check(domain);

    rc = rc ? rc : validate_pointer(mr, "mr");
    rc = rc ? rc : validate_range(request->iov->iov_base, request->iov->iov_len);
    rc = rc ? rc : validate_access(request->access);
    rc = rc ? rc : layout_check_length(domain, request);
    rc = rc ? rc : get_check(domain);
    if (rc)
        return rc;
    want->policy = want->policy ? want->policy : domain->policy;
    want->cover = cover_is_on(domain, request->access, 0);
    return get_region(domain, request, NULL, want, get_may_share(domain, request), mr);
}
