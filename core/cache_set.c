/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See cache_set.h; docs/cache.md has the picture. A get looks into the caches for an entry that
 * contains the range, and makes sure that it is still right; only a miss asks what the memory is
 * and registers it.
 *
 * Never stale. Host memory: an entry is watched before the memory is registered, and published
 * only if nothing changed since; a look-up first lets the monitor settle, so that every change
 * that has happened has reached the caches. Device memory: the identity is taken before
 * registering, compared after, and asked again at every hit, over the whole entry. What can be
 * neither watched nor identified is registered and not remembered.
 *
 * Everything slow is done here, with no lock held: vendors, fabrics, the monitor's system calls,
 * allocation. Whoever brings an entry to its end deregisters it; what the monitor has killed is
 * left to the next call (reap), since the monitor may not.
 */
#include "core/cache_set.h"

#include "core/cache.h"
#include "core/error.h"
#include "core/monitor.h"
#include "core/register.h"
#include "core/validate.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* A get is served uncached after so many registrations of its own whose memory changed meanwhile,
 * or so many rounds in which others' came to nothing. */
#define MAX_DISCARDED 2
#define MAX_ROUNDS    16

/* A round that led to nothing: look again. */
#define AGAIN 1

struct cache_set {
    struct hmreg_domain *domain;
    struct monitor *monitor;
    struct listener listener;
    atomic_uint sure;
    struct stats_domain *shown; /* on the library's board; NULL: it has no place */
    unsigned first[HMREG_IFACE_COUNT]; /* the cache of an iface's device 0 */
    unsigned count;
    struct cache caches[]; /* those of memory of no device first, one for each iface */
};

#define HOST_CACHES HMREG_IFACE_COUNT

/* One call of hmreg_mr_get(). */
struct get {
    struct cache_set *set;
    struct hmreg_domain *domain;
    struct request request;
    struct cache_want want;
    struct resolved found; /* in this round */
    unsigned discarded;    /* registrations, in all rounds */
};

/* ---- life ------------------------------------------------------------------------------- */

static struct cache_set *set_of(struct listener *listener)
{
    return (struct cache_set *)((char *)listener - offsetof(struct cache_set, listener));
}

static bool on_change(struct listener *listener, const struct change *change)
{
    struct cache_set *set = set_of(listener);
    unsigned count = change->host_only ? HOST_CACHES : set->count;
    bool more = false;

    for (unsigned i = 0; i < count; i++)
        more |= cache_invalidate(&set->caches[i], change);
    return more;
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

struct cache *cache_set_at(struct cache_set *set, enum hmreg_iface iface, int device)
{
    return &set->caches[device < 0 ? (unsigned)iface : set->first[iface] + (unsigned)device];
}

static void open_ledger(struct cache_set *set, struct cache *cache, enum hmreg_iface iface,
                        int device)
{
    ledger_open(&cache->ledger, &set->domain->lib->board, set->shown, iface, device);
    ledger_set(&cache->ledger, STATS_LIMIT_REGIONS, set->domain->max_regions);
    ledger_set(&cache->ledger, STATS_LIMIT_BYTES, set->domain->max_bytes);
}

static void open_ledgers(struct cache_set *set)
{
    const struct hmreg_domain *domain = set->domain;

    set->shown = board_domain(&domain->lib->board, domain->ops.name, domain->caps.fabric,
                              domain->flags);
    for (int iface = 0; iface < HMREG_IFACE_COUNT; iface++)
        for (int device = -1; device < domain->lib->runtimes[iface].devices; device++)
            open_ledger(set, cache_set_at(set, iface, device), iface, device);
}

static void close_ledgers(struct cache_set *set)
{
    for (unsigned i = 0; i < set->count; i++)
        ledger_close(&set->caches[i].ledger);
    board_end_domain(&set->domain->lib->board, set->shown);
}

struct cache_set *cache_set_new(struct hmreg_domain *domain)
{
    struct hmreg *lib = domain->lib;
    unsigned first[HMREG_IFACE_COUNT], count = HOST_CACHES;
    struct cache_set *set;

    for (int iface = 0; iface < HMREG_IFACE_COUNT; iface++) {
        first[iface] = count;
        count += (unsigned)lib->runtimes[iface].devices;
    }
    set = calloc(1, sizeof(*set) + count * sizeof(set->caches[0]));
    if (!set)
        return NULL;
    set->domain = domain;
    set->monitor = lib->monitor;
    memcpy(set->first, first, sizeof(first));
    set->count = count;
    for (unsigned i = 0; i < count; i++)
        cache_init(&set->caches[i], domain->max_regions, domain->max_bytes);
    atomic_init(&set->sure, 1);
    set->listener =
        (struct listener){.sure = &set->sure, .changed = on_change, .needs = needs};
    open_ledgers(set);
    monitor_attach(set->monitor, &set->listener);
    return set;
}

void cache_set_free(struct cache_set *set)
{
    monitor_detach(set->monitor, &set->listener);
    for (unsigned i = 0; i < set->count; i++)
        cache_destroy(&set->caches[i]);
    close_ledgers(set);
    free(set);
}

/* ---- entries' ends ---------------------------------------------------------------------- */

/* Nobody pins it. What fails here is not the failure of the call that does it. */
static void entry_destroy(struct cache_set *set, struct cache_entry *entry)
{
    struct hmreg_error before;
    int rc = 0;

    hmreg_error_save(&before);
    if (entry->watched)
        monitor_unwatch(set->monitor, entry->node.start, entry->node.end, entry->unmapped);
    if (entry->mr)
        rc = region_destroy(entry->mr);
    hmreg_error_restore(&before);
    if (rc == -EBUSY) {
        cache_keep_busy(entry);
        return;
    }
    cache_forget(entry);
    free(entry);
}

static void entry_release(struct cache_set *set, struct cache_entry *entry)
{
    struct cache_entry *gone = cache_release(entry);

    if (gone)
        entry_destroy(set, gone);
}

static void reap_dead(struct cache_set *set)
{
    struct cache_entry *entry;

    for (unsigned i = 0; i < set->count; i++)
        while ((entry = cache_take_dead(&set->caches[i])))
            entry_destroy(set, entry);
}

/* Tries those that were busy once more, so many of each cache at the most. */
static void retry_busy(struct cache_set *set, unsigned limit)
{
    for (unsigned i = 0; i < set->count; i++) {
        unsigned tries = cache_busy(&set->caches[i]);
        struct cache_entry *entry;

        for (tries = tries < limit ? tries : limit; tries; tries--) {
            entry = cache_take_busy(&set->caches[i]);
            if (entry)
                entry_destroy(set, entry);
        }
    }
}

/* What the last call, or the monitor, left behind. Busy ones are many at the worst, and each try
 * may cost a system call: one at a time will do. */
static void reap(struct cache_set *set)
{
    retry_busy(set, 1);
    reap_dead(set);
}

unsigned cache_set_flush(struct cache_set *set)
{
    unsigned left = 0;

    retry_busy(set, UINT_MAX);
    for (unsigned i = 0; i < set->count; i++)
        cache_empty(&set->caches[i]);
    reap_dead(set);
    for (unsigned i = 0; i < set->count; i++)
        left += cache_entries(&set->caches[i]);
    return left;
}

unsigned cache_set_held(struct cache_set *set)
{
    unsigned held = 0;

    for (unsigned i = 0; i < set->count; i++)
        held += cache_held(&set->caches[i]);
    return held;
}

void cache_set_stats(struct cache_set *set, struct hmreg_stats *out)
{
    for (unsigned i = 0; i < set->count; i++)
        cache_stats(&set->caches[i], out);
}

/* ---- hits ------------------------------------------------------------------------------- */

/* Is the memory of an iface's device still what it was, over the whole entry? A vendor that cannot
 * say is not believed: asking what the memory is now will tell the caller why. */
static bool same_identity(struct get *get, enum hmreg_iface iface, uint64_t start, uint64_t end,
                          uint64_t expected)
{
    struct runtime *runtime = context_runtime(get->domain->lib, iface);
    struct hmreg_error before;
    uint64_t identity = 0;
    int rc;

    hmreg_error_save(&before);
    rc = runtime->ops->identity(runtime->self, start, (size_t)(end - start), &identity);
    if (rc)
        hmreg_error_restore(&before);
    return !rc && identity == expected;
}

/* A pinned live entry: kept if it is right, else dropped and unpinned. One without identity is in
 * the monitor's care: were it not right, it would not be live. */
static bool keep_if_right(struct get *get, struct cache_entry *entry)
{
    if (!entry->identity ||
        same_identity(get, entry->mr->iface, entry->node.start, entry->node.end, entry->identity)) {
        ledger_add(&entry->cache->ledger, STATS_HITS, 1);
        return true;
    }
    cache_drop(entry);
    entry_release(get->set, entry);
    return false;
}

static struct cache_entry *find_right(struct get *get, struct cache *cache)
{
    struct cache_entry *entry = cache_find(cache, &get->want);

    while (entry && !keep_if_right(get, entry))
        entry = cache_find(cache, &get->want);
    return entry;
}

static struct cache_entry *find_among(struct get *get, unsigned from, unsigned to)
{
    struct cache_entry *entry = NULL;

    for (unsigned i = from; i < to && !entry; i++)
        entry = find_right(get, &get->set->caches[i]);
    return entry;
}

/* Devices' caches first: they need not wait for the kernel's word on host memory. *settled: host
 * memory may be served from a cache. */
static struct cache_entry *find_anywhere(struct get *get, bool *settled)
{
    struct cache_set *set = get->set;
    struct cache_entry *entry = find_among(get, HOST_CACHES, set->count);

    if (entry)
        return entry;
    *settled = monitor_settle_one(set->monitor, &set->listener);
    return *settled ? find_among(get, 0, HOST_CACHES) : NULL;
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
    reap_dead(set);
    return done;
}

static int create_once(struct get *get, struct cache *cache, struct hmreg_mr **out)
{
    uint64_t start = ledger_start(&cache->ledger);
    int rc = region_create(get->domain, &get->request, &get->found, out);

    if (!rc)
        ledger_done(&cache->ledger, start);
    return rc;
}

static int create(struct get *get, struct cache *cache, struct hmreg_mr **out)
{
    struct hmreg_error before;
    int rc;

    hmreg_error_save(&before);
    rc = create_once(get, cache, out);
    for (unsigned count = 1; eviction_helps(rc) && evict(get->set, cache, count, rc); count *= 2)
        rc = create_once(get, cache, out);
    if (!rc)
        hmreg_error_restore(&before);
    else
        ledger_add(&cache->ledger, STATS_FAILURES, 1);
    return rc;
}

static bool is_host(const struct get *get)
{
    enum hmreg_mem_kind kind = get->found.range.kind;

    return kind == HMREG_MEM_HOST || kind == HMREG_MEM_HOST_PINNED;
}

/* Pinned host memory belongs to a device in name only: the kernel's events reach the host's
 * caches, and so must find it there. */
static struct cache *cache_for(struct get *get)
{
    return cache_set_at(get->set, get->found.iface, is_host(get) ? -1 : get->found.range.device);
}

static struct cache_entry *entry_new(struct get *get)
{
    struct cache_entry *entry = calloc(1, sizeof(*entry));

    if (!entry) {
        hmreg_fail(-ENOMEM, "no memory to remember a region");
        return NULL;
    }
    entry->node.start = get->want.start;
    entry->node.end = get->want.end;
    entry->access = get->want.access;
    entry->identity = get->found.range.identity;
    cache_admit(cache_for(get), entry);
    return entry;
}

/* A region that nothing else will find, deregistered at its put. */
static int get_uncached(struct get *get, struct cache_entry *entry, struct hmreg_mr **out)
{
    struct hmreg_mr *mr = NULL;
    int rc = create(get, entry->cache, &mr);

    if (rc) {
        entry_release(get->set, entry);
        return rc;
    }
    entry->mr = mr;
    mr->entry = entry;
    ledger_add(&entry->cache->ledger, STATS_UNCACHED, 1);
    *out = mr;
    return 0;
}

static int get_anew(struct get *get, struct hmreg_mr **out)
{
    struct cache_entry *entry = entry_new(get);

    return entry ? get_uncached(get, entry, out) : -ENOMEM;
}

/* Anonymous memory of this process alone: others' ways to change a page's memory (truncating a
 * file, punching holes in it) give no event. Asked while it is watched, so the answer holds. */
static bool is_anonymous(struct get *get)
{
    struct runtime *system = context_runtime(get->domain->lib, HMREG_IFACE_SYSTEM);
    struct hmem_range range = {.anonymous = false};
    struct hmreg_error before;

    hmreg_error_save(&before);
    if (system->ops->resolve(system->self, get->want.start,
                             (size_t)(get->want.end - get->want.start), &range))
        hmreg_error_restore(&before);
    return range.anonymous;
}

/* Will every change of an entry's memory be noticed? */
static bool notice_changes(struct get *get, struct cache_entry *entry)
{
    struct monitor *monitor = get->set->monitor;
    /* Also where the runtime tells: it does not know that memory it pinned was unmapped. */
    entry->watched = is_host(get) && monitor_watch(monitor, get->want.start, get->want.end);
    if (entry->identity || monitor_kind(monitor) == HMREG_MONITOR_IMPORT)
        return true;
    return entry->watched && is_anonymous(get);
}

static bool is_still_found(struct get *get)
{
    const struct hmem_range *range = &get->found.range;

    return !range->identity ||
           same_identity(get, get->found.iface, get->want.start, get->want.end, range->identity);
}

/* The entry is pending, and this thread's. */
static int register_claimed(struct get *get, struct cache_entry *entry, struct hmreg_mr **out)
{
    struct hmreg_mr *mr = NULL;
    int rc;

    reap_dead(get->set); /* what had to make room is gone before this comes */
    if (!notice_changes(get, entry)) {
        cache_abandon(entry);
        entry_release(get->set, entry);
        return get_anew(get, out);
    }
    rc = create(get, entry->cache, &mr);
    if (rc) {
        cache_abandon(entry);
        entry_release(get->set, entry);
        return rc;
    }
    mr->entry = entry;
    mr->cached = true;
    if (!cache_publish(entry, mr, is_still_found(get))) {
        entry_release(get->set, entry);
        get->discarded++;
        return AGAIN;
    }
    ledger_add(&entry->cache->ledger, STATS_MISSES, 1);
    *out = mr;
    return 0;
}

/* Another thread has it, or is about to. */
static int share(struct get *get, struct cache_entry *other, struct hmreg_mr **out)
{
    if (!cache_await(other)) {
        entry_release(get->set, other);
        return AGAIN;
    }
    if (!keep_if_right(get, other))
        return AGAIN;
    *out = other->mr;
    return 0;
}

static int miss(struct get *get, struct hmreg_mr **out)
{
    struct cache_entry *entry = entry_new(get);
    struct cache_entry *other = NULL;

    if (!entry)
        return -ENOMEM;
    switch (cache_claim(entry, &get->want, &other)) {
    case CACHE_CLAIMED:
        return register_claimed(get, entry, out);
    case CACHE_SERVED:
        entry_release(get->set, entry);
        return share(get, other, out);
    default:
        return get_uncached(get, entry, out);
    }
}

/* ---- get and put ------------------------------------------------------------------------ */

static int resolve_request(struct get *get)
{
    return request_resolve(get->domain, &get->request, &get->found);
}

/* Host memory that no identity tells apart, under its own address, is left to the monitor. */
static bool is_monitors(const struct get *get)
{
    return is_host(get) && get->found.range.host_addr == get->want.start &&
           monitor_kind(get->set->monitor) != HMREG_MONITOR_DISABLED;
}

/* May what was found be remembered at all? */
static bool is_cacheable(const struct get *get, bool settled)
{
    if (!get->domain->lib->settings.watch[get->found.iface])
        return false;
    return get->found.range.identity || (settled && is_monitors(get));
}

static int get_round(struct get *get, struct hmreg_mr **out)
{
    bool settled = true;
    struct cache_entry *entry = find_anywhere(get, &settled);
    int rc;

    if (entry) {
        *out = entry->mr;
        return 0;
    }
    reap(get->set);
    rc = resolve_request(get);
    if (rc)
        return rc;
    return is_cacheable(get, settled) ? miss(get, out) : get_anew(get, out);
}

static int get_region(struct get *get, struct hmreg_mr **out)
{
    bool caching = !(get->domain->flags & HMREG_DOMAIN_NO_CACHE);
    int rc;

    for (int i = 0; caching && i < MAX_ROUNDS && get->discarded < MAX_DISCARDED; i++) {
        rc = get_round(get, out);
        if (rc != AGAIN)
            return rc;
    }
    reap(get->set);
    rc = resolve_request(get);
    return rc ? rc : get_anew(get, out);
}

int hmreg_mr_get(struct hmreg_domain *domain, const void *addr, size_t len, uint64_t access,
                 struct hmreg_mr **mr)
{
    struct iovec iov = {(void *)(uintptr_t)addr, len};
    struct get get = {
        .domain = domain,
        .request = {.iov = &iov, .count = 1, .access = access, .any_key = true},
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

void hmreg_mr_put(struct hmreg_mr *mr)
{
    struct cache_set *set;

    if (!mr || domain_check(mr->domain) || !mr->entry)
        return;
    set = mr->domain->caches;
    reap(set);
    entry_release(set, mr->entry);
}

int hmreg_invalidate(struct hmreg *lib, const void *addr, size_t len)
{
    struct change change = {.start = (uint64_t)(uintptr_t)addr,
                            .end = (uint64_t)(uintptr_t)addr + len};
    int rc = context_check(lib);

    rc = rc ? rc : validate_range(addr, len);
    if (!rc)
        monitor_tell(lib->monitor, &change);
    return rc;
}
