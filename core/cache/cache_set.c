/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See cache_set.h. The thread that retires an entry frees it, with no lock held. Entries retired
 * by a change of memory are deregistered by the reaper or the next call (reap), since the threads
 * that report changes must not.
 */
#include "core/cache/cache_set.h"

#include "core/base/error.h"
#include "core/base/now.h"
#include "core/base/out_of_line.h"
#include "core/base/uncancelled.h"
#include "core/group/group.h"
#include "core/mr/region.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REAPED           16 /* deregistered at once */
#define REAPED_BESIDE    8  /* deregistered by a get or put */
#define MANY_UNPUBLISHED 4096
#define RETRY_NS         1000000000 /* after a failure to start the reaper's thread */

/* ---- open and close --------------------------------------------------------------------- */

static bool is_due(struct reaper_client *client);
static bool on_examine(struct reaper_client *client);
static bool on_reap(struct reaper_client *client);
static bool on_tidy(struct reaper_client *client);
static bool recur(struct reaper_client *client);
static bool recurs(struct reaper_client *client);
static bool needs_reaper(struct reaper_client *client);
static bool sheds(struct reaper_client *client);
static bool shed(struct reaper_client *client);

static struct cache_set *set_of(struct listener *listener)
{
    return (struct cache_set *)((char *)listener - offsetof(struct cache_set, listener));
}

static bool needs(struct listener *listener, uint64_t start, uint64_t end, struct span *out)
{
    struct cache_set *set = set_of(listener);
    struct span one;
    bool any = false;

    for (unsigned i = 0; i < HOST_CACHES; i++) {
        if (!cache_first_in(&set->caches[i], start, end, &one) || (any && one.start >= out->start))
            continue;
        *out = one;
        any = true;
    }
    return any;
}

static void add_cache(struct cache_set *set, enum hmreg_iface iface, int device,
                      struct cache_use limit)
{
    unsigned index = cache_set_count(set);
    struct cache *cache = &set->caches[index];

    cache_init(cache, &set->pool, index, limit.regions, limit.bytes);
    cache_stats_open(&cache->stats, &set->domain->lib->stats_page, set->shown, iface, device);
    cache_stats_set(&cache->stats, STATS_LIMIT_REGIONS, limit.regions);
    cache_stats_set(&cache->stats, STATS_LIMIT_BYTES, limit.bytes);
    atomic_store(&set->pool.known_caches, index + 1);
}

/* With the pool's lock held, or before other threads know the set. */
static void add_devices(struct cache_set *set, enum hmreg_iface iface, unsigned devices)
{
    unsigned first = cache_set_count(set);

    for (unsigned i = 0; i < devices; i++)
        add_cache(set, iface, (int)i, set->caches[0].limit);
    set->devices[iface] = devices;
    atomic_store(&set->first[iface], first);
}

/* The first cache of a present runtime's devices. */
static unsigned first_of(struct cache_set *set, enum hmreg_iface iface)
{
    unsigned devices;

    if (atomic_load(&set->first[iface]))
        return atomic_load(&set->first[iface]);
    devices = (unsigned)context_runtime(set->domain->lib, iface)->devices;
    pthread_mutex_lock(&set->pool.lock);
    if (!atomic_load(&set->first[iface]))
        add_devices(set, iface, devices < CACHES_LATER ? devices : CACHES_LATER);
    pthread_mutex_unlock(&set->pool.lock);
    return atomic_load(&set->first[iface]);
}

struct cache *cache_set_at(struct cache_set *set, enum hmreg_iface iface, int device)
{
    unsigned first = device < 0 ? 0 : first_of(set, iface);

    return &set->caches[device < 0 ? (unsigned)iface
                                   : first + (unsigned)device % set->devices[iface]];
}

/* Opens the caches of memory on no device, then a cache for each device whose runtime is
 * present. */
static void open_caches(struct cache_set *set, const unsigned devices[HMREG_IFACE_COUNT])
{
    const struct hmreg_domain *domain = set->domain;
    struct cache_use limit = {domain->max_regions, domain->max_bytes};

    set->shown = stats_page_domain(&domain->lib->stats_page, domain->ops.name, domain->caps.fabric,
                                   domain->flags);
    for (int iface = 0; iface < HMREG_IFACE_COUNT; iface++)
        add_cache(set, iface, -1, limit);
    for (int iface = 0; iface < HMREG_IFACE_COUNT; iface++)
        if (devices[iface])
            add_devices(set, iface, devices[iface]);
}

/* The number of devices of each iface, 0 if its runtime has not been started. Returns the most
 * caches that a set may need later. */
static unsigned count_caches(struct hmreg *lib, unsigned devices[HMREG_IFACE_COUNT])
{
    unsigned most = HOST_CACHES;

    for (int iface = 0; iface < HMREG_IFACE_COUNT; iface++) {
        bool later = atomic_load(&lib->runtimes.untried) & HMREG_IFACE_BIT(iface);
        const struct runtime *runtime = context_runtime(lib, iface);

        devices[iface] = runtime ? (unsigned)runtime->devices : 0;
        most += devices[iface] ? devices[iface] : later ? CACHES_LATER : 0;
    }
    return most;
}

static void close_all_stats(struct cache_set *set)
{
    for (unsigned i = 0; i < cache_set_count(set); i++)
        cache_stats_close(&set->caches[i].stats);
    stats_page_end_domain(&set->domain->lib->stats_page, set->shown);
}

void cache_set_join(struct cache_set *set)
{
    struct hmreg *lib = set->domain->lib;

    pthread_mutex_lock(&lib->sets_lock);
    set->next = lib->sets;
    lib->sets = set;
    pthread_mutex_unlock(&lib->sets_lock);
}

void cache_set_leave(struct cache_set *set)
{
    struct hmreg *lib = set->domain->lib;
    struct cache_set **link = &lib->sets;

    pthread_mutex_lock(&lib->sets_lock);
    while (set->visitors)
        pthread_cond_wait(&lib->sets_left, &lib->sets_lock);
    while (*link != set)
        link = &(*link)->next;
    *link = set->next;
    pthread_mutex_unlock(&lib->sets_lock);
}

struct cache_set *cache_set_new(struct hmreg_domain *domain)
{
    struct hmreg *lib = domain->lib;
    unsigned devices[HMREG_IFACE_COUNT], most = count_caches(lib, devices);
    struct cache_set *set = calloc(1, sizeof(*set) + most * sizeof(set->caches[0]));

    if (!set)
        return NULL;
    set->domain = domain;
    set->monitor = lib->monitor;
    if (!cache_pool_open(&set->pool, domain, set->caches, most, &lib->quota)) {
        free(set);
        return NULL;
    }
    variants_open(&set->variants);
    set->pool.check_puts = domain->check_puts = lib->settings.check_puts;
    open_caches(set, devices);
    domain->serial = set->pool.thread_caches.serial;
    set->listener = (struct listener){.gate = set->pool.thread_caches.gate, .needs = needs};
    set->reaper = (struct reaper_client){.is_due = is_due,
                                         .examine = on_examine,
                                         .reap = on_reap,
                                         .tidy = on_tidy,
                                         .recurs = recurs,
                                         .recur = recur,
                                         .needs = needs_reaper,
                                         .sheds = sheds,
                                         .shed = shed};
    monitor_attach(set->monitor, &set->listener);
    cache_set_join(set);
    return set;
}

void cache_set_free(struct cache_set *set)
{
    monitor_detach(set->monitor, &set->listener);
    while (monitor_tidy(set->monitor)) /* the reaper may have stopped */
        ;
    monitor_rest(set->monitor);
    cache_pool_close(&set->pool);
    variants_close(&set->variants);
    close_all_stats(set);
    free(set);
}

bool cache_set_sync(struct cache_set *set)
{
    bool looked = monitor_look(set->monitor, set->listener.gate);
    bool settled = monitor_sync(set->monitor) && looked;

    return cache_drain(&set->pool) && settled;
}

static void sync_all(struct cache_set *set)
{
    (void)monitor_look(set->monitor, set->listener.gate);
    monitor_sync(set->monitor);
    cache_drain_all(&set->pool);
}

/* ---- callbacks of the domain's configuration, with no lock held ------------------------------ */

static void call_back(void (*callback)(const struct hmreg_mr *, const struct hmreg_mr_info *,
                                       void *),
                      const struct hmreg_mr *mr)
{
    struct hmreg_mr_info info;
    struct hmreg_error before;

    if (!callback)
        return;
    info = (struct hmreg_mr_info){.size = sizeof(info)};
    hmreg_error_save(&before);
    if (!hmreg_mr_query(mr, &info))
        callback(mr, &info, mr->domain->callback_context);
    hmreg_error_restore(&before);
}

void cache_set_made(struct hmreg_mr *mr)
{
    mr_body(mr)->announced = true;
    call_back(mr->domain->made, mr);
}

static void call_ended(struct hmreg_mr *mr)
{
    if (!mr_body(mr)->announced)
        return;
    mr_body(mr)->announced = false;
    call_back(mr->domain->ended, mr);
}

/* ---- deregistration --------------------------------------------------------------------- */

void cache_set_unwatches(struct cache_set *set)
{
    if (monitor_keeps(set->monitor) && !atomic_load(&set->untidy))
        atomic_store(&set->untidy, true);
}

/* A list's segments are watched one by one. */
static void unwatch(struct cache_set *set, const struct hmreg_mr *mr, const struct variant *variant)
{
    size_t segments = variant ? variant->key.count : 0;
    bool unmapped = entry_body(mr)->unmapped;

    if (!entry_body(mr)->watched)
        return;
    cache_set_unwatches(set);
    for (size_t i = 0; i < segments; i++)
        monitor_unwatch(set->monitor, variant->segments[i].start, variant->segments[i].end,
                        unmapped);
    if (!segments)
        monitor_unwatch(set->monitor, mr->node.start, mr->node.end, unmapped);
}

void cache_set_unwatch(struct cache_set *set, struct hmreg_mr *entry)
{
    unwatch(set, entry, entry_variant(entry));
    entry_body(entry)->watched = false;
}

/* -EBUSY: try again. After other failures the registration is over, and peers may have kept their
 * access. */
static int deregister(struct cache_set *set, struct hmreg_mr *mr)
{
    unsigned long long start = mr_start(mr), len = mr_len(mr);
    int rc = region_destroy(mr);

    if (rc && rc != -EBUSY)
        log_say(&set->domain->lib->settings.log, HMREG_LOG_ERROR,
                "the cached region of %llu bytes at %#llx could not be deregistered and will not "
                "be tried again: %s",
                len, start, hmreg_last_error()->text);
    return rc;
}

/* Unwatches, deregisters and frees entries. This failure is not reported to the caller, whose own
 * call did not fail. */
static void free_some(struct cache_set *set, struct hmreg_mr **entries, unsigned count)
{
    struct hmreg_error_guard guard;
    unsigned gone = 0;

    hmreg_error_guard(&guard);
    for (unsigned i = 0; i < count; i++) {
        struct variant *variant = entry_variant(entries[i]);
        struct hmreg_mr *mr = entries[i];

        unwatch(set, mr, variant);
        call_ended(mr);
        if (variant && variant->key.attr.endpoint_count && entry_body(mr)->registered)
            mr_unbind(mr);
        if (entry_body(mr)->registered && deregister(set, mr) == -EBUSY) {
            cache_keep_busy(&set->pool, entries[i]);
            continue;
        }
        variant_put(&set->variants, variant);
        entries[gone++] = entries[i];
    }
    hmreg_error_unguard(&guard, true);
    cache_free_entries(&set->pool, entries, gone);
}

void cache_set_free_entry(struct cache_set *set, struct hmreg_mr *entry)
{
    UNCANCELLED;

    free_some(set, &entry, 1);
}

void cache_set_release(struct cache_set *set, struct hmreg_mr *entry)
{
    struct hmreg_mr *gone = cache_unpin(&set->pool, entry);

    if (gone)
        cache_set_free_entry(set, gone);
}

/* The reaper ends only if it finds no entry to free after it has cleared the flag of
 * reaper_runs(). */
void cache_set_leave_entry(struct cache_set *set, struct hmreg_mr *entry)
{
    cache_leave(&set->pool, entry);
    if (reaper_runs())
        reaper_wake();
    else
        cache_serve(&set->pool, false);
}

/* Frees at most `most` retired entries, most <= REAPED. False: there were none. */
static bool free_retired(struct cache_set *set, unsigned most)
{
    struct hmreg_mr *entries[REAPED];
    unsigned count = cache_take(&set->pool, &set->pool.to_free, entries, most);

    if (count)
        free_some(set, entries, count);
    return count;
}

/* Retries at most `limit` busy entries. */
static void retry_busy(struct cache_set *set, unsigned limit)
{
    unsigned tries = atomic_load(&set->pool.busy.count);
    struct hmreg_mr *entry;

    for (tries = tries < limit ? tries : limit; tries; tries--)
        if (cache_take(&set->pool, &set->pool.busy, &entry, 1))
            cache_set_free_entry(set, entry);
}

/* Without reaper_pause(): the reaper may be inside a fabric that does not return. */
void cache_set_end_lost(struct hmreg_domain *domain)
{
    struct cache_set *set = domain->caches;

    if (set->shown)
        atomic_store_explicit(&set->shown->lost, 1, memory_order_relaxed);
    cache_unpublish_all(&set->pool);
    retry_busy(set, UINT_MAX);
    cache_examine(&set->pool, UINT_MAX);
    while (free_retired(set, REAPED))
        ;
    undone_retry(domain, UINT_MAX);
}

void cache_set_free_unpublished(struct cache_set *set)
{
    if (domain_is_lost(set->domain)) {
        cache_set_end_lost(set->domain);
        return;
    }
    sync_all(set);
    reaper_pause(&set->reaper);
    cache_examine(&set->pool, UINT_MAX);
    while (free_retired(set, REAPED))
        ;
    reaper_resume(&set->reaper);
}

/* Retries one busy entry only: there may be many, and each try may cost a system call. */
void cache_set_reap(struct cache_set *set)
{
    undone_retry(set->domain, 1);
    if (!(atomic_load(&set->pool.thread_caches.gate->state) & GATE_REAP))
        return;
    retry_busy(set, 1);
    if (atomic_load(&set->pool.served))
        return;
    cache_examine(&set->pool, REAPED_BESIDE);
    free_retired(set, REAPED_BESIDE);
}

void cache_set_free_evicted(struct cache_set *set, unsigned count)
{
    for (unsigned most = REAPED; count; count -= most) {
        most = count < REAPED ? count : REAPED;
        if (!free_retired(set, most))
            break;
    }
    if (atomic_load(&set->pool.to_free.count))
        reaper_wake();
}

void cache_set_progress(struct cache_set *set)
{
    undone_retry(set->domain, 1);
    retry_busy(set, 1);
    cache_set_free_unpublished(set);
}

void cache_set_retire(struct cache_set *set)
{
    undone_retry(set->domain, UINT_MAX);
    retry_busy(set, UINT_MAX);
    cache_set_free_unpublished(set);
}

unsigned cache_set_flush(struct cache_set *set)
{
    sync_all(set); /* entries whose memory changed do not count as evicted */
    undone_retry(set->domain, UINT_MAX);
    retry_busy(set, UINT_MAX);
    (void)cache_empty(&set->pool, NULL);
    cache_set_free_unpublished(set);
    return cache_entries(&set->pool);
}

/* ---- the reaper ------------------------------------------------------------------------- */

static struct cache_set *set_of_reaper(struct reaper_client *client)
{
    return (struct cache_set *)((char *)client - offsetof(struct cache_set, reaper));
}

static bool is_due(struct reaper_client *client)
{
    struct cache_pool *pool = &set_of_reaper(client)->pool;

    return gate_is_queued(pool->thread_caches.gate) || atomic_load(&pool->unpublished.count) ||
           atomic_load(&pool->settled.count) || atomic_load(&pool->wanting) ||
           (atomic_load(&pool->served) && atomic_load(&pool->to_free.count));
}

static bool on_examine(struct reaper_client *client)
{
    monitor_release(); /* a thread may wait for this with a lock that the rest needs */
    cache_drain(&set_of_reaper(client)->pool);
    return true;
}

/* `reaping` is set before the entries leave the list. */
static bool reap_some(struct cache_set *set)
{
    bool any;

    if (!atomic_load(&set->pool.served))
        return false;
    atomic_store(&set->reaping, true);
    any = free_retired(set, REAPED);
    atomic_store(&set->reaping, false);
    return any;
}

/* Each call is short. One barrier serves many entries of a cut. True: more is left. */
static bool on_reap(struct reaper_client *client)
{
    struct cache_set *set = set_of_reaper(client);
    struct cache_pool *pool = &set->pool;
    bool cut = atomic_load(&pool->cuts), ended;

    if (cut)
        cache_drain(pool);
    if (!cut || atomic_load(&pool->unpublished.count) >= MANY_UNPUBLISHED)
        cache_examine(pool, CACHE_PASSED);
    ended = cache_make_wanted(pool);
    ended |= reap_some(set);
    return cut || ended || atomic_load(&pool->settled.count);
}

/* True: more is left. */
static bool tidy_monitor(struct cache_set *set)
{
    atomic_store(&set->untidy, false);
    if (!monitor_tidy(set->monitor))
        return false;
    atomic_store(&set->untidy, true);
    return true;
}

static bool on_tidy(struct reaper_client *client)
{
    struct cache_set *set = set_of_reaper(client);

    if (tidy_monitor(set))
        return true;
    if (!needs_reaper(client))
        monitor_rest(set->monitor);
    return false;
}

/* No thread notices the last put of a region with columns of withdrawn members. */
static bool has_left(const struct cache_set *set)
{
    return atomic_load(&set->pool.served) && group_has_left(set->domain);
}

static bool recur(struct reaper_client *client)
{
    struct cache_set *set = set_of_reaper(client);

    if (has_left(set))
        set->domain->group->end_left(set->domain);
    return sweep_some(&set->sweep, &set->pool);
}

static bool recurs(struct reaper_client *client)
{
    struct cache_set *set = set_of_reaper(client);

    return has_left(set) || sweep_is_expected(&set->sweep);
}

static bool needs_reaper(struct reaper_client *client)
{
    struct cache_set *set = set_of_reaper(client);

    return atomic_load(&set->untidy) || atomic_load(&set->reaping) || has_left(set) ||
           cache_needs_reaper(&set->pool);
}

/* The kernel copies pinned pages of the process for a forked child (Linux 5.9). */
static bool sheds(struct reaper_client *client)
{
    struct cache_set *set = set_of_reaper(client);

    return set->domain->caps.pins && atomic_load(&set->pool.served) &&
           cache_stats_bytes(&set->caches[HMREG_IFACE_SYSTEM].stats) >
               set->domain->lib->settings.fork_bytes;
}

static bool shed(struct reaper_client *client)
{
    struct cache *cache = &set_of_reaper(client)->caches[HMREG_IFACE_SYSTEM];
    unsigned count = cache_empty(cache->pool, cache);

    pthread_mutex_lock(&cache->pool->lock);
    cache_stats_evicted(&cache->stats, 0, CACHE_FOR_GET, count);
    pthread_mutex_unlock(&cache->pool->lock);
    return count;
}

/* A failed start of a thread costs more than a load, and its cause rarely passes soon. */
static void serve_without_reaper(struct cache_set *set)
{
    if (atomic_load(&set->joined) && reaper_runs()) /* another thread has started it since */
        return;
    atomic_store(&set->retry_at, now_ns() + RETRY_NS);
    cache_serve(&set->pool, false);
    if (atomic_exchange(&set->told, true))
        return;
    log_say(&set->domain->lib->settings.log, HMREG_LOG_WARN,
            "cached regions that no get can find stay registered until the next call with their "
            "domain: %s",
            hmreg_last_error()->text);
}

static bool is_served(const struct cache_set *set)
{
    return atomic_load(&set->joined) && reaper_runs() &&
           (atomic_load(&set->pool.served) || !set->domain->caps.any_thread);
}

static OUT_OF_LINE void start_serving(struct cache_set *set)
{
    int64_t retry_at = atomic_load(&set->retry_at);
    struct hmreg_error before;

    if (retry_at && now_ns() < retry_at)
        return;
    hmreg_error_save(&before);
    if (reaper_join(&set->reaper)) {
        atomic_store(&set->joined, true);
        atomic_store(&set->retry_at, 0);
        cache_serve(&set->pool, set->domain->caps.any_thread);
    } else {
        serve_without_reaper(set);
    }
    hmreg_error_restore(&before);
}

void cache_set_serve(struct cache_set *set)
{
    if (!is_served(set))
        start_serving(set);
}

void cache_set_serve_untidy(struct cache_set *set)
{
    if (atomic_load(&set->untidy))
        cache_set_serve(set);
}

void cache_set_stop_serving(struct cache_set *set)
{
    reaper_leave(&set->reaper);
    atomic_store(&set->pool.served, false);
    atomic_store(&set->joined, false);
}

void cache_set_rest(struct cache_set *set)
{
    while (tidy_monitor(set))
        ;
    reaper_rest();
    monitor_rest(set->monitor);
}

/* ---- limits ----------------------------------------------------------------------------- */

void cache_set_limits(struct cache_set *set, uint64_t *max_regions, uint64_t *max_bytes)
{
    *max_regions = set->caches[0].limit.regions;
    *max_bytes = set->caches[0].limit.bytes;
}

static bool evict_of(struct cache_set *set, struct cache *first, enum cache_for who,
                     unsigned *visits)
{
    const struct cache_need need = {.who = who};
    bool done;

    cache_drain(&set->pool);
    done = first && cache_evict(first, 1, &need, visits, NULL);
    for (unsigned i = 0; i < cache_set_count(set) && !done; i++)
        done = cache_evict(&set->caches[i], 1, &need, visits, NULL);
    return done;
}

static bool evict_own(struct cache_set *set, struct cache *first, unsigned *visits)
{
    bool done = evict_of(set, first, CACHE_FOR_GET, visits);

    if (done)
        cache_set_free_evicted(set, 1);
    return done;
}

/* Unpublishes one region of another domain. The reaper or the domain's own calls deregister it,
 * because this thread may not call its fabric (FI_THREAD_DOMAIN). The domain cannot be closed
 * meanwhile. */
static bool visit(struct hmreg *lib, struct cache_set *set, unsigned *visits)
{
    bool done;

    set->visitors++;
    pthread_mutex_unlock(&lib->sets_lock);
    done = evict_of(set, NULL, CACHE_FOR_OTHERS, visits);
    reaper_wake();
    pthread_mutex_lock(&lib->sets_lock);
    set->visitors--;
    pthread_cond_broadcast(&lib->sets_left);
    return done;
}

int cache_set_each(struct hmreg *lib, int (*call)(struct cache_set *set, void *context),
                   void *context, bool all)
{
    int rc = 0;

    pthread_mutex_lock(&lib->sets_lock);
    for (struct cache_set *set = lib->sets; set && (all || !rc); set = set->next) {
        int one;

        set->visitors++;
        pthread_mutex_unlock(&lib->sets_lock);
        one = call(set, context);
        rc = rc && one != -EBUSY ? rc : one ? one : rc;
        pthread_mutex_lock(&lib->sets_lock);
        set->visitors--;
        pthread_cond_broadcast(&lib->sets_left);
    }
    pthread_mutex_unlock(&lib->sets_lock);
    return rc;
}

bool cache_set_evict_anywhere(struct hmreg *lib, struct cache_set *own, struct cache *first,
                              unsigned *visits)
{
    bool done = evict_own(own, first, visits);

    if (done)
        return true;
    pthread_mutex_lock(&lib->sets_lock);
    for (struct cache_set *set = lib->sets, *next; set && !done; set = next) {
        done = set != own && visit(lib, set, visits);
        next = set->next;
    }
    pthread_mutex_unlock(&lib->sets_lock);
    return done;
}

void cache_set_each_group(struct hmreg_domain *member,
                          void (*call)(struct hmreg_domain *group, struct hmreg_domain *member))
{
    struct hmreg *lib = member->lib;

    pthread_mutex_lock(&lib->sets_lock);
    for (struct group *group = lib->groups; group; group = group->next) {
        if (!group->domain || !group_has(group, member))
            continue;
        group->visitors++;
        pthread_mutex_unlock(&lib->sets_lock);
        call(group->domain, member);
        pthread_mutex_lock(&lib->sets_lock);
        group->visitors--;
        pthread_cond_broadcast(&lib->sets_left);
    }
    pthread_mutex_unlock(&lib->sets_lock);
}

/* The member's regions are registered in the group's cache, too. */
static void drain_group(struct hmreg_domain *group, struct hmreg_domain *member)
{
    cache_drain_all(&group->caches->pool);
}

void hmreg_domain_settle(struct hmreg_domain *domain)
{
    sync_all(domain->caches);
    if (atomic_load(&domain->groups))
        cache_set_each_group(domain, drain_group);
}

/* ---- queries ---------------------------------------------------------------------------- */

/* Entries that the reaper examines are in no list: reaper_pause() waits for its current step. */
void cache_set_stats(struct cache_set *set, struct hmreg_stats *out)
{
    cache_drain_all(&set->pool);
    reaper_pause(&set->reaper);
    cache_examine(&set->pool, UINT_MAX);
    reaper_resume(&set->reaper);
    for (unsigned i = 0; i < cache_set_count(set); i++)
        cache_stats_sum(&set->caches[i].stats, out);
}

static __attribute__((noinline)) bool are_segments_found(struct cache_set *set,
                                                         const struct hmreg_mr *mr)
{
    bool same = true;

    for (size_t i = 0; same && i < mr_segment_count(mr); i++) {
        struct mr_segment segment = mr_segment(mr, i);

        same = !segment.identity || resolve_is_same(set->domain->lib, entry_body(mr)->iface,
                                                    segment.start, segment.end, segment.identity);
    }
    return same;
}

bool cache_set_is_found(struct cache_set *set, const struct hmreg_mr *mr)
{
    if (mr_list(mr) || !mr_identity(mr))
        return are_segments_found(set, mr);
    return resolve_is_same(set->domain->lib, entry_body(mr)->iface, mr->node.start, mr->node.end,
                           mr_identity(mr));
}
