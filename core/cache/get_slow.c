/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The slow path of a get, for requests that the thread's table does not serve; docs/cache.md has a
 * diagram. It searches the caches for an entry that contains the range, and makes sure that the
 * entry is still valid; only a miss asks what the memory is and registers it.
 *
 * Never stale. Host memory: an entry is watched before the memory is registered, and published only
 * if nothing has changed since; a get that finds an entry first settles: it waits until every
 * change that has happened has reached the caches. Device memory: the identity is taken before
 * registration, compared after it, and checked again at every hit, over the whole entry. Memory
 * that can be neither watched nor identified is registered and not cached.
 *
 * All slow work is done here, with no lock held: calls to vendors and fabrics, the monitor's system
 * calls, allocation.
 */
#include "core/cache/get_slow.h"

#include "core/base/error.h"
#include "core/base/validate.h"
#include "core/cache/cache_set.h"
#include "core/cache/callbacks.h"
#include "core/mr/rails.h"
#include "core/mr/region.h"

#include <errno.h>

/* A get is served uncached after this many of its own registrations were discarded since their
 * memory changed meanwhile, or after this many rounds without result. */
#define MAX_DISCARDED 2
#define MAX_ROUNDS    16
/* A get stops making room after this many searches in which other threads used every candidate
 * again at once. */
#define MAX_SEARCHES 64

/* The round had no result: start another one. */
#define AGAIN 1

/* One call of hmreg_mr_get() or hmreg_mr_get_attr(). */
struct get {
    struct cache_set *set;
    struct hmreg_domain *domain;
    struct thread_cache *tcache; /* the thread's; NULL: no memory, or check_puts */
    const struct request *request;
    struct cache_want want;
    struct resolved *found; /* the resolved memory, in this round */
    bool at_once;           /* in this round: the claim searches for an entry as well */
    bool settled;           /* in this round: all earlier changes have reached the caches */
    unsigned discarded;     /* registrations discarded, in all rounds */
};

/* ---- the thread's table ----------------------------------------------------------------- */

static struct cache *cache_of(const struct get *get, const struct cache_entry *entry)
{
    return &get->set->caches[entry->mr.cache];
}

/* Enters a pinned entry in the thread's table. If memory is short, nothing is remembered. The pin
 * stays in the entry's own count. */
static void remember(struct get *get, struct cache_entry *entry)
{
    const struct hmreg_mr *mr = &entry->mr;
    struct thread_cache *tcache = get->tcache;
    struct pin_slot *pin_slot =
        tcache ? thread_cache_pin_slot(tcache, pin_slot_number(mr->slot_offset)) : NULL;
    bool asks = mr->ask_monitor || mr->ask_identity;
    uint64_t addr = get->want.start;
    uint32_t check;

    if (!pin_slot)
        return;
    check = atomic_load_explicit(&mr->sequence, memory_order_relaxed) ^ mr->access;
    if (asks || !thread_cache_is_usual(tcache, mr->cache, &cache_of(get, entry)->stats))
        check |= THREAD_CACHE_ASIDE;
    if (get->want.variant) {
        addr ^= variant_salt(get->want.variant);
        check |= THREAD_CACHE_ASIDE | THREAD_CACHE_VARIED;
    }
    if (check % 2) /* even: the entry may have ended meanwhile */
        thread_cache_remember(tcache, addr, pin_slot_number(mr->slot_offset), check);
}

/* ---- hits ------------------------------------------------------------------------------- */

/* Keeps a pinned live entry if it is valid; else drops and unpins it. Without an identity the
 * monitor is responsible: an invalid entry would not be live. */
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

/* If no entry serves, none can be stale: pending notifications can only invalidate the entry that
 * this get is about to publish. Not used while events are being read, or once a registration of
 * this get was discarded: then such a change is likely. With hooks settling costs no system call
 * anyway. */
static bool need_not_settle(const struct get *get)
{
    struct cache_set *set = get->set;
    unsigned state = atomic_load(&set->pool.thread_caches.gate->state);

    return !(state & GATE_CHANGES) && !get->discarded &&
           monitor_kind(set->monitor) != HMREG_MONITOR_MEMHOOKS &&
           !cache_serves(&set->pool, 0, HOST_CACHES, &get->want);
}

/* If neither a vendor must be asked what the memory is, nor the kernel what changed, the claim
 * searches for an entry under the same hold of the lock. */
static bool finds_at_claim(const struct get *get)
{
    enum hmreg_monitor kind = monitor_kind(get->set->monitor);

    return !get->domain->lib->vendors && !(get->domain->caps.mr_mode & HMREG_MR_ALLOCATED) &&
           (kind == HMREG_MONITOR_MEMHOOKS || kind == HMREG_MONITOR_IMPORT);
}

/* Searches the devices' caches first, which need not wait for the kernel's events on host memory.
 * *sure: host memory may be cached. */
static struct cache_entry *find_anywhere(struct get *get, bool *sure)
{
    struct cache_entry *entry;

    cache_drain(&get->set->pool); /* the application's notices may concern device memory */
    entry = find_among(get, HOST_CACHES, get->set->count);
    *sure = true;
    if (entry || need_not_settle(get))
        return entry;
    *sure = settle(get);
    return *sure ? find_among(get, 0, HOST_CACHES) : NULL;
}

/* ---- registering ------------------------------------------------------------------------ */

/* Only these errors may be due to a resource that cached regions occupy: memory, the fabric's room
 * for regions, a key. */
static bool eviction_helps(int rc)
{
    return rc == -ENOMEM || rc == -ENOSPC || rc == -HMREG_ENOKEY;
}

/* Evicts at most `count` regions, of the same cache first. Returns 0 if nothing is left to evict.
 * code: the registration's error. */
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
    int rc = rails_make(get->domain, get->request, get->found, &entry->mr);

    if (!rc)
        cache_stats_done(&cache->stats, start);
    return rc;
}

/* Deregisters ended entries. True: some were deregistered since `forgotten` was read, by any
 * thread. */
static bool reap_helps(struct cache_set *set, unsigned forgotten)
{
    cache_set_reap_dead(set);
    return cache_forgotten(&set->pool) != forgotten;
}

/* Binds a registered region to its endpoint and enables it. If that fails, the entry's end
 * deregisters the region. */
static int ready(const struct get *get, struct hmreg_mr *mr)
{
    int rc;

    if (!get->request->endpoint)
        return 0;
    rc = hmreg_mr_bind(mr, get->request->endpoint, 0);
    return rc ? rc : hmreg_mr_enable(mr);
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
    entry->mr.registered = !rc;
    rc = rc ? rc : ready(get, &entry->mr);
    hmreg_error_unguard(&guard, !rc);
    if (rc)
        cache_stats_add(&cache->stats, STATS_FAILURES, 1);
    else
        callbacks_made(&entry->mr);
    return rc;
}

static bool is_host(const struct get *get)
{
    enum hmreg_mem_kind kind = get->found->range.kind;

    return kind == HMREG_MEM_HOST || kind == HMREG_MEM_HOST_PINNED;
}

/* Pinned host memory belongs to a device in name only: the kernel's events are applied to the
 * host's caches, so its entries must be there. */
static struct cache *cache_for(struct get *get)
{
    if (get->found->iface >= HMREG_IFACE_COUNT)
        return cache_set_at(get->set, HMREG_IFACE_SYSTEM, -1);
    return cache_set_at(get->set, get->found->iface, is_host(get) ? -1 : get->found->range.device);
}

static int fail_short(void)
{
    return hmreg_fail(-ENOMEM, "no memory to remember a region");
}

/* Registers a region that no other get will find; its put deregisters it. */
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
    for (unsigned i = 0; i < MAPPED_KNOWN; i++) {
        const struct mapped_range *mapped = &get->tcache->mapped[i];

        if (mapped->start <= get->want.start && get->want.end <= mapped->end)
            return monitor_is_unchanged(get->set->monitor, mapped->when);
    }
    return false;
}

/* Replaces what was known about the same addresses, else the oldest. */
static void know_anonymous(struct thread_cache *tcache, const struct hmem_range *range,
                           uint64_t when)
{
    struct mapped_range mapped = {range->alloc_base, range->alloc_base + range->alloc_len, when};
    unsigned at = tcache->mapped_next;

    for (unsigned i = 0; i < MAPPED_KNOWN; i++)
        if (tcache->mapped[i].start < mapped.end && mapped.start < tcache->mapped[i].end)
            at = i;
    tcache->mapped[at] = mapped;
    if (at == tcache->mapped_next)
        tcache->mapped_next = (at + 1) % MAPPED_KNOWN;
}

/* Is the range private anonymous memory? Other memory may change without an event (truncation,
 * holes punched in a file). Called while the range is watched, so the answer holds. It is kept, and
 * the kernel is not asked about the mapping again, until a call that may change mappings begins: a
 * call that began before the question has ended by then, and a call that begins after it finds the
 * range watched. */
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

/* Will every change of the entry's memory be reported? Also records which checks hits need. */
static bool notice_changes(struct get *get, struct hmreg_mr *mr)
{
    struct monitor *monitor = get->set->monitor;
    bool always;

    if (get->request->dmabuf) /* a get of another dmabuf has another variant */
        return true;
    if (is_host(get))
        context_monitor(get->domain->lib);
    always = get->domain->check[get->found->iface] == HMREG_CHECK_ALWAYS;
    /* Also if the runtime reports changes: it does not know that memory it pinned was unmapped. */
    mr->watched = is_host(get) && monitor_watch(monitor, get->want.start, get->want.end);
    mr->monitored = mr->watched;
    /* Hooks shut the gate before the kernel changes the memory, so hits need not ask. */
    mr->ask_monitor = mr->watched && always && monitor_kind(monitor) != HMREG_MONITOR_MEMHOOKS;
    mr->ask_identity = get->found->range.identity && always && !get->request->claim.trusted;
    if (get->found->range.identity || monitor_kind(monitor) == HMREG_MONITOR_IMPORT)
        return true;
    return mr->watched && is_anonymous(get);
}

static bool is_still_found(struct get *get)
{
    const struct hmem_range *range = &get->found->range;

    return !range->identity || get->request->dmabuf || get->request->claim.trusted ||
           cache_set_is_same(get->set, get->found->iface, get->want.start, get->want.end,
                             range->identity);
}

/* Makes room for a registered region, if necessary, and publishes it. */
static enum cache_publish publish(struct get *get, struct cache *cache, struct cache_entry *entry,
                                  struct cache_search *search)
{
    bool right = is_still_found(get);

    for (unsigned interrupted = 0; interrupted < MAX_SEARCHES;) {
        enum cache_publish result;

        cache_drain(&get->set->pool); /* an entry whose memory changed meanwhile is not published */
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

/* The region is registered, and its entry still pending. An entry for which others were evicted may
 * soon be evicted itself: threads remember it only after a second get. */
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
    if (!cached) { /* else other threads already read the adjacent flags */
        entry->mr.cached = false;
        cache_stats_add(&cache->stats, STATS_UNCACHED, 1);
    }
    if (cached && !search.evicted)
        remember(get, entry);
    *out = &entry->mr;
    return 0;
}

/* The entry is pending, and claimed by this thread. */
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

/* Uses the entry of another thread, which is live or pending. That thread inserted it after this
 * one's look-up, so a change that happened since may concern it: settle first. */
static int share(struct get *get, struct cache_entry *other, struct hmreg_mr **out)
{
    bool refused_room;

    if (other->mr.cache < HOST_CACHES && !settle(get)) {
        cache_set_release(get->set, other);
        return get_anew(get, out);
    }
    if (!cache_await(cache_of(get, other), other, &refused_room)) {
        cache_set_release(get->set, other);
        return refused_room ? get_anew(get, out) : AGAIN;
    }
    if (!keep_if_right(get, other))
        return AGAIN;
    *out = &other->mr;
    return 0;
}

/* Uses a live entry that this get's claim has found and pinned. */
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

bool get_claim_holds(const struct request *request, const struct hmreg_mr *mr)
{
    const struct claim *claim = &request->claim;

    if (!claim->made || claim->trusted) /* a get with another trusted claim has another variant */
        return true;
    return claim->iface == mr->iface &&
           (claim->device == HMREG_DEVICE_ANY || claim->device == mr_device(mr));
}

static int resolve_request(struct get *get)
{
    return request_resolve(get->domain, get->request, get->found);
}

/* Is this host memory that the monitor must watch: under its own address? */
static bool is_monitors(const struct get *get)
{
    enum hmreg_monitor kind;

    if (!is_host(get) || get->found->range.host_addr != get->want.start)
        return false;
    kind = context_monitor(get->domain->lib);
    return kind != HMREG_MONITOR_DISABLED && kind != HMREG_MONITOR_DEFAULT;
}

/* May the resolved memory be cached at all? */
static bool is_cacheable(const struct get *get, bool sure)
{
    enum hmreg_iface iface = get->found->iface;

    if (iface < HMREG_IFACE_COUNT && !get->domain->lib->settings.watch[iface])
        return false;
    return get->found->range.identity || get->request->dmabuf || (sure && is_monitors(get));
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
    if (entry && get_claim_holds(get->request, &entry->mr)) {
        *out = &entry->mr;
        return 0;
    }
    if (entry)
        cache_set_release(get->set, entry);
    cache_set_reap(get->set);
    rc = resolve_request(get); /* fails if the claim is wrong */
    if (rc)
        return rc;
    if (entry)
        return AGAIN;
    return is_cacheable(get, sure) ? miss(get, out) : get_anew(get, out);
}

static int get_region(struct get *get, bool caching, struct hmreg_mr **out)
{
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

int get_requested(struct hmreg_domain *domain, const struct request *request,
                  const struct cache_want *want, bool cacheable, struct hmreg_mr **mr)
{
    struct resolved found; /* set anew in each round */
    struct get get = {
        .set = domain->caches,
        .domain = domain,
        .request = request,
        .want = *want,
        .found = &found,
    };

    get.want.exact = domain->flags & HMREG_DOMAIN_EXACT;
    get.want.more = domain->more_rights;
    return get_region(&get, cacheable && !(domain->flags & HMREG_DOMAIN_NO_CACHE), mr);
}

bool get_may_share(const struct hmreg_domain *domain, const struct request *request)
{
    return request->endpoint || !(domain->caps.mr_mode & HMREG_MR_ENDPOINT);
}

int get_check(const struct hmreg_domain *domain)
{
    if (domain->caps.async)
        return hmreg_fail(-EOPNOTSUPP, "registrations of this domain complete in an event queue, "
                                       "which is yours to read: use hmreg_mr_reg()");
    return 0;
}

int get_slowly(struct hmreg_domain *domain, const void *addr, size_t len, uint64_t access,
               struct hmreg_mr **mr)
{
    struct iovec iov = {(void *)(uintptr_t)addr, len};
    struct request request = {.iov = &iov, .count = 1, .access = access, .any_key = true};
    struct cache_want want = {.start = (uint64_t)(uintptr_t)addr,
                              .end = (uint64_t)(uintptr_t)addr + len,
                              .access = access};
    int rc = domain_check(domain);

    rc = rc ? rc : validate_pointer(mr, "mr");
    rc = rc ? rc : validate_range(addr, len);
    rc = rc ? rc : validate_access(access);
    rc = rc ? rc : request_check_length(domain, &iov, 1);
    rc = rc ? rc : get_check(domain);
    return rc ? rc : get_requested(domain, &request, &want, get_may_share(domain, &request), mr);
}
