/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The way of a get that no table of its thread's answers; docs/cache.md has the picture. It looks
 * into the caches for an entry that contains the range, and makes sure that it is still right; only
 * a miss asks what the memory is and registers it.
 *
 * Never stale. Host memory: an entry is watched before the memory is registered, and published
 * only if nothing changed since; who finds one first lets the monitor settle, so that every change
 * that has happened has reached the caches. Device memory: the identity is taken before
 * registering, compared after, and asked again at every hit, over the whole entry. What can be
 * neither watched nor identified is registered and not remembered.
 *
 * Everything slow is done here, with no lock held: vendors, fabrics, the monitor's system calls,
 * allocation.
 */
#include "core/cache/get_slow.h"

#include "core/base/error.h"
#include "core/base/validate.h"
#include "core/cache/cache_set.h"
#include "core/mr/region.h"

#include <errno.h>

/* A get is served uncached after so many registrations of its own whose memory changed meanwhile,
 * or so many rounds in which others' came to nothing. */
#define MAX_DISCARDED 2
#define MAX_ROUNDS    16
/* Searches for room whose candidates other threads used again at once. */
#define MAX_SEARCHES 64

/* A round that led to nothing: look again. */
#define AGAIN 1

/* One call of hmreg_mr_get(). */
struct get {
    struct cache_set *set;
    struct hmreg_domain *domain;
    struct thread_cache *tcache; /* the thread's; NULL: no memory */
    const struct request *request;
    struct cache_want want;
    struct resolved *found; /* in this round */
    bool at_once;           /* in this round: the claim looks for an entry as well */
    bool settled;           /* in this round: what had happened before is told */
    unsigned discarded;     /* registrations, in all rounds */
};

/* ---- what the thread remembers ---------------------------------------------------------- */

static struct cache *cache_of(const struct get *get, const struct cache_entry *entry)
{
    return &get->set->caches[entry->mr.cache];
}

/* The entry is pinned. Where memory is short nothing is remembered; the pin is in the entry. */
static void remember(struct get *get, struct cache_entry *entry)
{
    const struct hmreg_mr *mr = &entry->mr;
    struct thread_cache *tcache = get->tcache;
    struct pin_slot *pin_slot =
        tcache ? thread_cache_pin_slot(tcache, pin_slot_number(mr->slot_offset)) : NULL;
    bool asks = mr->ask_monitor || mr->ask_identity;
    uint32_t check;

    if (!pin_slot)
        return;
    check = atomic_load_explicit(&mr->sequence, memory_order_relaxed) ^ mr->access;
    if (asks || !thread_cache_is_usual(tcache, mr->cache, &cache_of(get, entry)->stats))
        check |= THREAD_CACHE_ASIDE;
    if (check % 2) /* it may have died meanwhile */
        thread_cache_remember(tcache, get->want.start, pin_slot_number(mr->slot_offset), check);
}

/* ---- hits ------------------------------------------------------------------------------- */

/* A pinned live entry: kept if it is right, else dropped and unpinned. One without identity is in
 * the monitor's care: were it not right, it would not be live. */
static bool keep_if_right(struct get *get, struct cache_entry *entry)
{
    const struct hmreg_mr *mr = &entry->mr;

    if (!mr->ask_identity ||
        cache_set_is_same(get->set, mr->iface, mr->node.start, mr->node.end, mr_identity(mr))) {
        cache_stats_add(&cache_of(get, entry)->stats, STATS_HITS, 1);
        remember(get, entry);
        return true;
    }
    cache_drop(cache_of(get, entry), entry);
    cache_set_release(get->set, entry);
    return false;
}

static struct cache_entry *find_among(struct get *get, unsigned from, unsigned to)
{
    struct cache_entry *entry = NULL;

    if (from == to)
        return NULL;
    do
        entry = cache_find(&get->set->pool, from, to, &get->want, get->tcache);
    while (entry && !keep_if_right(get, entry));
    return entry;
}

static bool settle(struct get *get)
{
    if (!get->settled)
        get->settled = cache_set_sync(get->set);
    return get->settled;
}

/* Where no entry serves, none can be stale: changes that the kernel has not told yet can only end
 * the entry that this get is about to publish. No reading may be under way, and no registration of
 * this get have been discarded: then such a change is likely. With hooks the question costs no
 * system call. */
static bool need_not_settle(const struct get *get)
{
    struct cache_set *set = get->set;
    unsigned state = atomic_load(&set->pool.thread_caches.gate->state);

    return !(state & GATE_CHANGES) && !get->discarded &&
           monitor_kind(set->monitor) != HMREG_MONITOR_MEMHOOKS &&
           !cache_serves(&set->pool, 0, HOST_CACHES, &get->want);
}

/* Where no vendor has to be asked what the memory is, and neither the kernel what changed, an entry
 * is looked for under the same hold of the lock that claims a new one. */
static bool finds_at_claim(const struct get *get)
{
    enum hmreg_monitor kind = monitor_kind(get->set->monitor);

    return !get->domain->lib->vendors && !(get->domain->caps.mr_mode & HMREG_MR_ALLOCATED) &&
           (kind == HMREG_MONITOR_MEMHOOKS || kind == HMREG_MONITOR_IMPORT);
}

/* Devices' caches first: they need not wait for the kernel's word on host memory. *sure: host
 * memory may be remembered. */
static struct cache_entry *find_anywhere(struct get *get, bool *sure)
{
    struct cache_entry *entry;

    cache_drain(&get->set->pool); /* the application's notices may be of devices' memory */
    entry = find_among(get, HOST_CACHES, get->set->count);
    *sure = true;
    if (entry || need_not_settle(get))
        return entry;
    *sure = settle(get);
    return *sure ? find_among(get, 0, HOST_CACHES) : NULL;
}

/* ---- registering ------------------------------------------------------------------------ */

/* Only these may be for lack of something that a cached region occupies: memory, the fabric's
 * room for regions, a key. */
static bool eviction_helps(int rc)
{
    return rc == -ENOMEM || rc == -ENOSPC || rc == -HMREG_ENOKEY;
}

/* So many at the most, of the same cache before others: 0 if there is nothing left to evict.
 * code: why the registration failed. */
static unsigned evict(struct cache_set *set, struct cache *cache, unsigned count, int code)
{
    unsigned done = cache_evict(cache, count, code);

    for (unsigned i = 0; i < set->count && done < count; i++)
        done += cache_evict(&set->caches[i], count - done, code);
    cache_set_reap_dead(set);
    return done;
}

static int create_once(struct get *get, struct cache *cache, struct cache_entry *entry)
{
    uint64_t start = cache_stats_start(&cache->stats);
    int rc = region_make(get->domain, get->request, get->found, &entry->mr);

    if (!rc)
        cache_stats_done(&cache->stats, start);
    return rc;
}

/* Has anything been deregistered since, by whatever thread, that was dead? */
static bool reap_helps(struct cache_set *set, unsigned forgotten)
{
    cache_set_reap_dead(set);
    return cache_forgotten(&set->pool) != forgotten;
}

static int create(struct get *get, struct cache_entry *entry)
{
    struct cache *cache = cache_of(get, entry);
    unsigned forgotten = cache_forgotten(&get->set->pool);
    struct hmreg_error_guard guard;
    int rc;

    hmreg_error_guard(&guard);
    rc = create_once(get, cache, entry);
    if (eviction_helps(rc) && reap_helps(get->set, forgotten))
        rc = create_once(get, cache, entry);
    for (unsigned count = 1; eviction_helps(rc) && evict(get->set, cache, count, rc); count *= 2)
        rc = create_once(get, cache, entry);
    hmreg_error_unguard(&guard, !rc);
    entry->mr.registered = !rc;
    if (rc)
        cache_stats_add(&cache->stats, STATS_FAILURES, 1);
    return rc;
}

static bool is_host(const struct get *get)
{
    enum hmreg_mem_kind kind = get->found->range.kind;

    return kind == HMREG_MEM_HOST || kind == HMREG_MEM_HOST_PINNED;
}

/* Pinned host memory belongs to a device in name only: the kernel's events reach the host's
 * caches, and so must find it there. */
static struct cache *cache_for(struct get *get)
{
    return cache_set_at(get->set, get->found->iface, is_host(get) ? -1 : get->found->range.device);
}

static int fail_short(void)
{
    return hmreg_fail(-ENOMEM, "no memory to remember a region");
}

/* A region that nothing else will find, deregistered at its put. */
static int get_uncached(struct get *get, struct cache_entry *entry, struct hmreg_mr **out)
{
    int rc = create(get, entry);

    if (rc) {
        cache_set_release(get->set, entry);
        return rc;
    }
    cache_stats_add(&cache_of(get, entry)->stats, STATS_UNCACHED, 1);
    *out = &entry->mr;
    return 0;
}

static int get_anew(struct get *get, struct hmreg_mr **out)
{
    struct cache *cache = cache_for(get);
    struct cache_entry *entry;
    struct hmreg_mr like;

    region_init(&like, get->domain, get->request, get->found);
    while (!(entry = cache_admit(cache, &get->want, &like)))
        if (!cache_grow(cache))
            return fail_short();
    return get_uncached(get, entry, out);
}

static bool ask_is_anonymous(struct get *get, struct hmem_range *range)
{
    struct runtime *system = context_runtime(get->domain->lib, HMREG_IFACE_SYSTEM);
    struct hmreg_error_guard guard;
    int rc;

    range->anonymous = false;
    hmreg_error_guard(&guard);
    rc = system->ops->resolve(system->self, get->want.start,
                              (size_t)(get->want.end - get->want.start), range);
    hmreg_error_unguard(&guard, rc);
    return range->anonymous;
}

static bool is_known_anonymous(const struct get *get)
{
    for (unsigned i = 0; i < HOT_MAPPED; i++) {
        const struct hot_mapped *mapped = &get->tcache->mapped[i];

        if (mapped->start <= get->want.start && get->want.end <= mapped->end)
            return monitor_is_unchanged(get->set->monitor, mapped->when);
    }
    return false;
}

/* In the place of what was known there before. */
static void know_anonymous(struct thread_cache *tcache, const struct hmem_range *range,
                           uint64_t when)
{
    struct hot_mapped mapped = {range->alloc_base, range->alloc_base + range->alloc_len, when};
    unsigned at = tcache->mapped_next;

    for (unsigned i = 0; i < HOT_MAPPED; i++)
        if (tcache->mapped[i].start < mapped.end && mapped.start < tcache->mapped[i].end)
            at = i;
    tcache->mapped[at] = mapped;
    if (at == tcache->mapped_next)
        tcache->mapped_next = (at + 1) % HOT_MAPPED;
}

/* Anonymous memory of this process alone: others' ways to change a page's memory (truncating a
 * file, punching holes in it) give no event. Asked while it is watched, so the answer holds. The
 * kernel is not asked about a mapping again until calls have begun that may change what is mapped:
 * one that began before the question is over, and one that begins after it finds the range watched.
 */
static bool is_anonymous(struct get *get)
{
    struct hmem_range range;
    uint64_t when;
    bool quiet;

    if (get->tcache && is_known_anonymous(get))
        return true;
    quiet = monitor_is_quiet(get->set->monitor, &when);
    if (!ask_is_anonymous(get, &range))
        return false;
    if (get->tcache && quiet)
        know_anonymous(get->tcache, &range, when);
    return true;
}

/* Will every change of an entry's memory be noticed? Says what hits have to ask. */
static bool notice_changes(struct get *get, struct hmreg_mr *mr)
{
    bool always = get->domain->check[get->found->iface] == HMREG_CHECK_ALWAYS;
    struct monitor *monitor = get->set->monitor;

    if (is_host(get))
        context_monitor(get->domain->lib);
    /* Also where the runtime tells: it does not know that memory it pinned was unmapped. */
    mr->watched = is_host(get) && monitor_watch(monitor, get->want.start, get->want.end);
    mr->monitored = mr->watched;
    /* Hooks have shut the gate before the kernel is asked. */
    mr->ask_monitor = mr->watched && always && monitor_kind(monitor) != HMREG_MONITOR_MEMHOOKS;
    mr->ask_identity = get->found->range.identity && always;
    if (get->found->range.identity || monitor_kind(monitor) == HMREG_MONITOR_IMPORT)
        return true;
    return mr->watched && is_anonymous(get);
}

static bool is_still_found(struct get *get)
{
    const struct hmem_range *range = &get->found->range;

    return !range->identity || cache_set_is_same(get->set, get->found->iface, get->want.start,
                                                 get->want.end, range->identity);
}

/* Makes room for a registered region, if it must, and publishes it. */
static enum cache_publish publish(struct get *get, struct cache *cache, struct cache_entry *entry,
                                  struct cache_search *search)
{
    bool right = is_still_found(get);

    for (unsigned interrupted = 0; interrupted < MAX_SEARCHES;) {
        enum cache_publish result;

        cache_drain(&get->set->pool); /* one that changed meanwhile is not published */
        result = cache_publish(cache, entry, right, get->tcache, search);
        if (result == CACHE_SQUEEZED) {
            if (!cache_set_evict_anywhere(get->domain->lib, get->set, cache))
                break;
            search->evicted = true;
        } else if (result == CACHE_INTERRUPTED) {
            interrupted = search->advanced ? 0 : interrupted + (search->withdrawn_count != 0);
            search->advanced = false;
            cache_finish_withdrawal(cache->pool, search);
        } else {
            return result;
        }
    }
    cache_forgo(cache, entry);
    return CACHE_ROOMLESS;
}

/* The region is registered, and its entry still pending. One that others had to go for may go soon
 * itself: it must be asked for twice before threads remember it. */
static int finish(struct get *get, struct cache_entry *entry, struct hmreg_mr **out)
{
    struct cache *cache = cache_of(get, entry);
    struct cache_search search;
    enum cache_publish result;
    bool cached;

    cache_search_init(&search);
    entry->mr.cached = true;
    result = publish(get, cache, entry, &search);
    cached = result == CACHE_PUBLISHED;
    if (search.evicted)
        cache_set_end_evicted(get->set, &search);
    if (result == CACHE_DISCARDED) {
        cache_set_release(get->set, entry);
        get->discarded++;
        return AGAIN;
    }
    if (!cached) { /* else other threads read the flags beside it already */
        entry->mr.cached = false;
        cache_stats_add(&cache->stats, STATS_UNCACHED, 1);
    }
    if (cached && !search.evicted)
        remember(get, entry);
    *out = &entry->mr;
    return 0;
}

/* The entry is pending, and this thread's. */
static int register_claimed(struct get *get, struct cache_entry *entry, struct hmreg_mr **out)
{
    struct cache *cache = cache_of(get, entry);
    bool noticed;
    int rc;

    cache_set_serve(get->set);
    noticed = notice_changes(get, &entry->mr);
    rc = noticed ? create(get, entry) : 0;

    if (noticed && !rc)
        return finish(get, entry, out);
    cache_abandon(cache, entry);
    cache_set_release(get->set, entry);
    return rc ? rc : get_anew(get, out);
}

/* Another thread has it, or is about to: since this one looked, and so perhaps of memory that has
 * changed since. */
static int share(struct get *get, struct cache_entry *other, struct hmreg_mr **out)
{
    bool roomless;

    if (other->mr.cache < HOST_CACHES && !settle(get)) {
        cache_set_release(get->set, other);
        return get_anew(get, out);
    }
    if (!cache_await(cache_of(get, other), other, &roomless)) {
        cache_set_release(get->set, other);
        return roomless ? get_anew(get, out) : AGAIN;
    }
    if (!keep_if_right(get, other))
        return AGAIN;
    *out = &other->mr;
    return 0;
}

/* A live entry that this get's claim has found and pinned. */
static int take_found(struct get *get, struct cache_entry *entry, struct hmreg_mr **out)
{
    if (!get->at_once)
        return share(get, entry, out);
    if (!keep_if_right(get, entry))
        return AGAIN;
    *out = &entry->mr;
    return 0;
}

static int miss(struct get *get, struct hmreg_mr **out)
{
    struct cache *cache = cache_for(get);
    struct cache_entry *entry = NULL;
    struct hmreg_mr like;

    region_init(&like, get->domain, get->request, get->found);
    for (;;) {
        switch (cache_claim(cache, &get->want, &like, get->tcache, &entry)) {
        case CACHE_CLAIMED:
            return register_claimed(get, entry, out);
        case CACHE_FOUND:
            return take_found(get, entry, out);
        case CACHE_SERVED:
            return share(get, entry, out);
        case CACHE_FULL:
            return get_uncached(get, entry, out);
        case CACHE_SHORT:
            if (!cache_grow(cache))
                return fail_short();
        }
    }
}

/* ---- rounds ----------------------------------------------------------------------------- */

static int resolve_request(struct get *get)
{
    return request_resolve(get->domain, get->request, get->found);
}

/* Host memory that no identity tells apart, under its own address, is left to the monitor. */
static bool is_monitors(const struct get *get)
{
    enum hmreg_monitor kind;

    if (!is_host(get) || get->found->range.host_addr != get->want.start)
        return false;
    kind = context_monitor(get->domain->lib);
    return kind != HMREG_MONITOR_DISABLED && kind != HMREG_MONITOR_DEFAULT;
}

/* May what was found be remembered at all? */
static bool is_cacheable(const struct get *get, bool sure)
{
    if (!get->domain->lib->settings.watch[get->found->iface])
        return false;
    return get->found->range.identity || (sure && is_monitors(get));
}

static int get_round(struct get *get, struct hmreg_mr **out)
{
    struct cache_entry *entry = NULL;
    bool sure;
    int rc;

    get->settled = false;
    get->at_once = finds_at_claim(get);
    if (get->at_once)
        sure = settle(get);
    else
        entry = find_anywhere(get, &sure);
    if (entry) {
        *out = &entry->mr;
        return 0;
    }
    cache_set_reap(get->set);
    rc = resolve_request(get);
    if (rc)
        return rc;
    return is_cacheable(get, sure) ? miss(get, out) : get_anew(get, out);
}

static int get_region(struct get *get, struct hmreg_mr **out)
{
    bool caching = !(get->domain->flags & HMREG_DOMAIN_NO_CACHE);
    int rc;

    if (caching && !get->domain->check_puts)
        get->tcache = thread_cache_join(&get->set->pool.thread_caches);
    for (int i = 0; caching && i < MAX_ROUNDS && get->discarded < MAX_DISCARDED; i++) {
        rc = get_round(get, out);
        if (rc != AGAIN)
            return rc;
    }
    cache_set_reap(get->set);
    rc = resolve_request(get);
    return rc ? rc : get_anew(get, out);
}

int get_slowly(struct hmreg_domain *domain, const void *addr, size_t len, uint64_t access,
               struct hmreg_mr **mr)
{
    struct iovec iov = {(void *)(uintptr_t)addr, len};
    struct request request = {.iov = &iov, .count = 1, .access = access, .any_key = true};
    struct resolved found; /* in each round anew */
    struct get get = {
        .domain = domain,
        .request = &request,
        .found = &found,
        .want = {.start = (uint64_t)(uintptr_t)addr,
                 .end = (uint64_t)(uintptr_t)addr + len,
                 .access = access},
    };
    int rc = domain_check(domain);

    rc = rc ? rc : validate_pointer(mr, "mr");
    rc = rc ? rc : validate_range(addr, len);
    rc = rc ? rc : validate_access(access);
    rc = rc ? rc : request_check_length(domain, &iov, 1);
    if (!rc && domain->caps.async)
        rc = hmreg_fail(-EOPNOTSUPP, "registrations of this domain complete in an event queue, "
                                     "which is yours to read: use hmreg_mr_reg()");
    if (rc)
        return rc;
    get.set = domain->caches;
    get.want.exact = domain->flags & HMREG_DOMAIN_EXACT;
    return get_region(&get, mr);
}
