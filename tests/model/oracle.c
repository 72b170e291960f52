/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See oracle.h. All in arrays with linear searches: a model must be too simple to be wrong.
 */
#include "tests/model/oracle.h"
#include "tests/support/kernel_monitor.h"

#include "tests/model/world.h"

#include <inttypes.h>
#include <string.h>

#define ENTRIES   1024
#define GONE      ENTRIES
#define UNLIMITED (UINT64_C(1) << 30) /* bytes that are never reached here */

enum state {
    DEAD,  /* never returned again */
    MAYBE, /* evicted or found invalid; or not */
    LIVE,
};

struct entry {
    uint64_t key; /* 0: no entry */
    unsigned area;
    uint64_t start, end;
    uint64_t next_start, next_end; /* of a list of two: the second */
    uint64_t access;
    unsigned attributes;
    bool claimed;
    bool ends;  /* with its last put */
    bool whole; /* serves its range only, since nothing watches the memory */
    enum state state;
    bool right;      /* its memory has not changed since it was registered */
    bool was_cached; /* it was LIVE once */
    unsigned pins;
    bool was_hit;
    uint64_t hit; /* the clock at its last hit */
};

struct use {
    uint64_t regions, bytes;
};

static struct {
    struct plan_kind kind;
    bool exact, no_cache;
    uint64_t more;      /* rights that the region of a hit may have beyond those asked for */
    struct use max;     /* of each cache */
    struct use all_max; /* of all together */
    struct entry entries[ENTRIES];
    unsigned count; /* used part of the array */
    struct pinned gone[GONE];
    unsigned gone_count;
    uint64_t clock; /* advances with each call that may evict */
    uint64_t hits, misses, uncached;
    bool busy;      /* the fabric has answered EBUSY in this episode */
    bool meanwhile; /* a region died within this get: its evictions are not judged */
    uint64_t died_surely, died_perhaps; /* ended by changes */
    uint64_t unread; /* of those: maybe not yet reported by the kernel's events */
} oracle;

/* ---- entries ---------------------------------------------------------------------------- */

#define each(entry)                                                                                \
    struct entry *entry = oracle.entries;                                                          \
    entry < oracle.entries + oracle.count;                                                         \
    entry++

static struct entry *find(uint64_t key)
{
    for (each(entry))
        if (entry->key == key)
            return entry;
    return NULL;
}

static struct entry *new_entry(void)
{
    struct entry *place = find(0);

    if (place)
        return place;
    if (oracle.count == ENTRIES)
        oracle_fail("more than %d regions are registered", ENTRIES);
    return &oracle.entries[oracle.count++];
}

static bool touches(const struct entry *entry, uint64_t start, uint64_t end)
{
    return (entry->start < end && start < entry->end) ||
           (entry->next_start < end && start < entry->next_end);
}

static uint64_t bytes_of(const struct entry *entry)
{
    return entry->end - entry->start + entry->next_end - entry->next_start;
}

static bool has_rights(uint64_t access, uint64_t wanted)
{
    return (access & wanted) == wanted && !(access & ~(wanted | oracle.more));
}

/* A list, and a region that nothing watches, serve gets of the same only. */
static bool has_range(const struct entry *entry, const struct oracle_want *want)
{
    bool whole = oracle.exact || entry->whole || entry->next_end || want->next_end;

    if (whole)
        return entry->start == want->start && entry->end == want->end &&
               entry->next_start == want->next_start && entry->next_end == want->next_end;
    return entry->start <= want->start && want->end <= entry->end;
}

/* Is it one of those that serve such a get, whatever the policy? */
static bool has_what(const struct entry *entry, const struct oracle_want *want)
{
    return entry->key && entry->state != DEAD && entry->area == want->area &&
           has_rights(entry->access, want->access) && has_range(entry, want) &&
           entry->attributes == want->attributes && (want->claims || !entry->claimed);
}

static bool serves(const struct entry *entry, const struct oracle_want *want)
{
    return has_what(entry, want) && (entry->ends ? entry->pins > 0 : !want->ends);
}

/* Host memory stays while it is held, unless the application reports what it changes. */
static bool is_unwatched(const struct oracle_want *want)
{
    return want->ends && !want->area && oracle.kind.monitor != HMREG_MONITOR_IMPORT;
}

bool oracle_keeps(unsigned area, uint64_t start, uint64_t end)
{
    for (each(entry))
        if (entry->key && entry->whole && entry->state == LIVE && entry->area == area &&
            touches(entry, start, end))
            return true;
    return false;
}

void oracle_open(const struct plan *plan)
{
    memset(&oracle, 0, sizeof(oracle));
    oracle.kind = *plan->kind;
    oracle.exact = plan->flags & HMREG_DOMAIN_EXACT;
    oracle.more = plan->rights == HMREG_RIGHTS_EXACT   ? 0
                  : plan->rights == HMREG_RIGHTS_LOCAL ? HMREG_ACCESS_LOCAL
                                                       : HMREG_ACCESS_ALL;
    oracle.no_cache = plan->flags & HMREG_DOMAIN_NO_CACHE;
    oracle.clock = 1;
    oracle.all_max.regions = plan->all_regions;
    oracle.all_max.bytes = plan->all_bytes;
}

/* ---- room ------------------------------------------------------------------------------- */

/* Counts an area's entries of at least this state; pinned_only: without idle ones. */
static struct use used(unsigned area, enum state least, bool pinned_only)
{
    struct use use = {0, 0};

    for (each(entry)) {
        if (!entry->key || entry->area != area || entry->state < least)
            continue;
        if (pinned_only && !entry->pins)
            continue;
        use.regions++;
        use.bytes += bytes_of(entry);
    }
    return use;
}

static bool fits(struct use max, struct use use, uint64_t bytes)
{
    return use.regions < max.regions && bytes <= max.bytes && use.bytes <= max.bytes - bytes;
}

static bool over(struct use max, struct use use)
{
    return use.regions > max.regions || use.bytes > max.bytes;
}

/* The same of all caches together. */
static struct use used_everywhere(enum state least, bool pinned_only)
{
    struct use all = {0, 0};

    for (unsigned area = 0; area < WORLD_AREAS; area++) {
        struct use use = used(area, least, pinned_only);

        all.regions += use.regions;
        all.bytes += use.bytes;
    }
    return all;
}

#define ANYWHERE WORLD_AREAS

/* Can it have been evicted from this area? */
static bool is_candidate(const struct entry *entry, unsigned area)
{
    return entry->key && (area == ANYWHERE || entry->area == area) && entry->state != DEAD &&
           !entry->pins;
}

static bool is_gone(const struct entry *entry)
{
    for (unsigned i = 0; i < oracle.gone_count; i++)
        if (oracle.gone[i].key == entry->key)
            return true;
    return false;
}

/* Second chance: regions used since the last call that could evict are evicted only after those
 * that were never used again. */
static void judge_second_chance(unsigned area)
{
    const struct entry *spared = NULL, *first = NULL;

    for (each(entry)) {
        if (!is_candidate(entry, area))
            continue;
        if (is_gone(entry) && entry->right && entry->was_hit && entry->hit == oracle.clock)
            first = entry;
        if (!is_gone(entry) && entry->state == LIVE && !entry->was_hit)
            spared = entry;
    }
    if (first && spared && first->area == spared->area)
        oracle_fail("region %" PRIu64 " was evicted, which was just used, and region %" PRIu64
                    ", which was not, stayed",
                    first->key, spared->key);
}

/* If all deregistered candidates were LIVE and their number is that of the evictions, they are the
 * evicted ones; else any candidate may be. */
static void evicted(unsigned area, uint64_t count)
{
    uint64_t gone = 0;
    bool known;

    for (each(entry))
        gone += is_candidate(entry, area) && is_gone(entry) ? entry->state == LIVE ? 1 : GONE : 0;
    known = gone == count;
    if (count && area != ANYWHERE && !oracle.meanwhile)
        judge_second_chance(area);
    for (each(entry))
        if (count && is_candidate(entry, area) && (!known || is_gone(entry)))
            entry->state = MAYBE;
    oracle.clock++;
}

static void evicted_anywhere(uint64_t count)
{
    evicted(ANYWHERE, count);
}

/* Another call may have ended entries whose events were not read yet; a get of host memory reads
 * them. */
static void end_unread(void)
{
    oracle.died_surely -= oracle.unread;
    oracle.died_perhaps += oracle.unread;
    oracle.unread = 0;
}

void oracle_limits(uint64_t max_regions, uint64_t max_bytes)
{
    oracle.max.regions = max_regions;
    oracle.max.bytes = max_bytes;
}

/* Could the limit of all caches have required an eviction? Dead entries count there until their
 * events are read, and so may those that died within this get. */
static bool may_be_squeezed(uint64_t bytes)
{
    struct use most = used_everywhere(MAYBE, false);

    if (!fits(oracle.all_max, most, bytes))
        return true;
    return (oracle.unread || oracle.meanwhile) &&
           (oracle.all_max.regions != HMREG_LIMIT_NONE || oracle.all_max.bytes < UNLIMITED);
}

/* If only the number of regions is limited, the number of evictions is known. */
static void judge_squeeze(unsigned area, uint64_t evictions)
{
    uint64_t here = used(area, MAYBE, false).regions, all = used_everywhere(MAYBE, false).regions;
    uint64_t needed = here < oracle.max.regions ? 0 : here + 1 - oracle.max.regions;

    if (all >= oracle.all_max.regions && all + 1 - oracle.all_max.regions > needed)
        needed = all + 1 - oracle.all_max.regions;
    if (evictions > needed && oracle.max.bytes >= UNLIMITED && oracle.all_max.bytes >= UNLIMITED &&
        !oracle.unread && !oracle.meanwhile)
        oracle_fail("%" PRIu64 " regions were evicted for all limits, where %" PRIu64 " would do",
                    evictions, needed);
    end_unread();
    evicted_anywhere(evictions);
}

/* Did the cache evict what it had to for a new region of so many bytes, and no more? */
static void judge_eviction(unsigned area, uint64_t bytes, uint64_t evictions)
{
    struct use most = used(area, MAYBE, false);

    if (evictions && may_be_squeezed(bytes)) {
        judge_squeeze(area, evictions);
        return;
    }

    if (evictions && fits(oracle.max, most, bytes) && !oracle.meanwhile)
        oracle_fail("%" PRIu64 " regions were evicted, though there was room", evictions);
    /* If only the number of regions is limited, the number of evictions is known. */
    if (oracle.max.bytes >= UNLIMITED && !oracle.meanwhile &&
        evictions > most.regions + 1 - oracle.max.regions)
        oracle_fail("%" PRIu64 " regions were evicted, where %" PRIu64 " would do", evictions,
                    most.regions + 1 - oracle.max.regions);
    evicted(area, evictions);
}

/* ---- gets ------------------------------------------------------------------------------- */

static bool cacheable(const struct oracle_want *want)
{
    if (oracle.no_cache)
        return false;
    return want->area || is_unwatched(want) || oracle.kind.monitor != HMREG_MONITOR_DISABLED;
}

static void judge_pages(const struct pinned *region, const struct area *area, uint64_t start,
                        uint64_t end)
{
    for (uint64_t at = start & ~(uint64_t)(world_page() - 1); at < end; at += world_page())
        if (pinned_tag(region, at) != world_tag(area, at))
            oracle_fail("stale: the page at %#" PRIx64 " has tag %" PRIu64 ", region %" PRIu64
                        " was registered when it had %" PRIu64,
                        at, world_tag(area, at), region->key, pinned_tag(region, at));
}

static void judge_region(const struct oracle_want *want, const struct pinned *region)
{
    const struct area *area = &world[want->area];

    if (region->start > want->start || region->end < want->end)
        oracle_fail("[%#" PRIx64 ", %#" PRIx64 ") was asked for, the region is [%#" PRIx64
                    ", %#" PRIx64 ")",
                    want->start, want->end, region->start, region->end);
    if (oracle.exact && (region->start != want->start || region->end != want->end))
        oracle_fail("the region is larger than the range, in a domain that is exact");
    if (region->next_start != want->next_start || region->next_end != want->next_end)
        oracle_fail("the region has another second range than was asked for");
    if (!has_rights(region->access, want->access))
        oracle_fail("rights %#" PRIx64 " were asked for, the region has %#" PRIx64, want->access,
                    region->access);
    if (region->iface != area->iface || (region->device != area->device && want->area))
        oracle_fail("the region is of %s's device %d", hmreg_iface_name(region->iface),
                    region->device);
    judge_pages(region, area, want->start, want->end);
    judge_pages(region, area, want->next_start, want->next_end);
}

static void judge_hit(const struct oracle_want *want, const struct oracle_seen *seen)
{
    struct entry *entry = find(seen->region->key);

    if (!entry)
        oracle_fail("a hit on region %" PRIu64 ", which is not registered", seen->region->key);
    if (!serves(entry, want))
        oracle_fail("a hit on region %" PRIu64 ", which is dead or does not serve", entry->key);
    if (!seen->cached)
        oracle_fail("a hit on a region that says it is not cached");
    entry->state = LIVE;
    entry->pins++;
    entry->was_hit = true;
    entry->hit = oracle.clock;
    oracle.hits++;
}

static void judge_miss(const struct oracle_want *want)
{
    for (each(entry))
        if (serves(entry, want) && entry->state == LIVE && entry->right)
            oracle_fail("registered, though region %" PRIu64 " is cached, right and covers it",
                        entry->key);
}

/* A miss of a region that ends with its last put ends the kept ones that it replaces, before it
 * registers. Returns how many evictions that were. */
static uint64_t replaced(const struct oracle_want *want, uint64_t evictions)
{
    uint64_t surely = 0, perhaps = 0;

    if (!want->ends || !cacheable(want))
        return 0;
    for (each(entry))
        if (!entry->ends && has_what(entry, want)) {
            surely += entry->state == LIVE;
            perhaps += entry->state == MAYBE;
            entry->state = DEAD;
        }
    if (evictions < surely)
        oracle_fail("%" PRIu64 " kept regions were to end, and %" PRIu64 " did", surely, evictions);
    oracle.meanwhile |= perhaps > 0;
    return surely;
}

/* The cache finds out which regions others hold by evicting, and may find no room in the end. A
 * region larger than the limit of all caches never fits. */
static bool in_vain_for_all(uint64_t bytes)
{
    return oracle.all_max.regions && bytes <= oracle.all_max.bytes &&
           !fits(oracle.all_max, used_everywhere(LIVE, true), bytes);
}

/* After a miss: was the region to be cached, or not? */
static void judge_remembering(const struct oracle_want *want, const struct oracle_seen *seen,
                              uint64_t evictions)
{
    uint64_t bytes = pinned_bytes(seen->region);

    if (seen->cached && !cacheable(want))
        oracle_fail("cached, though no monitor would notice a change");
    if (seen->cached && (!fits(oracle.max, used(want->area, LIVE, true), bytes) ||
                         !fits(oracle.all_max, used_everywhere(LIVE, true), bytes)))
        oracle_fail("cached, though the regions in use leave no room");
    if (!seen->cached && !oracle.meanwhile && cacheable(want) &&
        fits(oracle.max, used(want->area, MAYBE, true), bytes) &&
        fits(oracle.all_max, used_everywhere(MAYBE, true), bytes))
        oracle_fail("not cached, though there is room");
    if (!seen->cached && evictions && !seen->others_evicted_too && !oracle.meanwhile &&
        !in_vain_for_all(bytes))
        oracle_fail("evicted without need");
}

static void add_entry(const struct oracle_want *want, const struct oracle_seen *seen)
{
    struct entry *entry = new_entry();

    *entry = (struct entry){.key = seen->region->key,
                            .area = want->area,
                            .start = seen->region->start,
                            .end = seen->region->end,
                            .next_start = want->next_start,
                            .next_end = want->next_end,
                            .access = want->access,
                            .attributes = want->attributes,
                            .claimed = want->claims,
                            .ends = want->ends,
                            .whole = is_unwatched(want),
                            .state = seen->cached ? LIVE : DEAD,
                            .right = true,
                            .was_cached = seen->cached,
                            .pins = 1};
    oracle.misses += seen->cached;
    oracle.uncached += !seen->cached;
}

/* Entries that serve the request but are outdated were found invalid, or were not checked. */
static void find_out(const struct oracle_want *want)
{
    for (each(entry))
        if (serves(entry, want) && !entry->right) {
            entry->state = MAYBE;
            oracle.died_perhaps++;
        }
}

static void read_events(const struct oracle_want *want, bool others_evicted_too)
{
    if (want->area == 0)
        oracle.unread = 0;
    else if (others_evicted_too)
        end_unread();
}

/* A miss of host memory reads all events, and ends the entries that died. */
static void judge_left(const struct oracle_want *want)
{
    if (want->area || oracle.busy || oracle.meanwhile)
        return;
    for (each(entry))
        if (entry->key && entry->state == DEAD && !entry->pins)
            oracle_fail("region %" PRIu64 " is dead and unused, and was not deregistered",
                        entry->key);
}

void oracle_get(const struct oracle_want *want, const struct oracle_seen *seen)
{
    uint64_t evictions = seen->evictions;

    judge_region(want, seen->region);
    if (seen->registered && seen->region->access != want->access)
        oracle_fail("registered with other rights than were asked for");
    read_events(want, seen->others_evicted_too);
    find_out(want);
    if (!seen->registered) {
        judge_hit(want, seen);
    } else {
        judge_miss(want);
        evictions -= replaced(want, evictions);
        judge_remembering(want, seen, evictions);
        if (seen->others_evicted_too)
            evicted_anywhere(evictions);
        else
            judge_eviction(want->area, pinned_bytes(seen->region), evictions);
        add_entry(want, seen);
    }
    oracle_settle();
    if (seen->registered)
        judge_left(want);
    oracle.meanwhile = false;
    if (seen->registered && seen->cached && over(oracle.max, used(want->area, LIVE, false)))
        oracle_fail("the limits are exceeded");
    if (seen->registered && seen->cached && over(oracle.all_max, used_everywhere(LIVE, false)))
        oracle_fail("all caches' limits are exceeded");
}

void oracle_get_failed(const struct oracle_want *want, uint64_t evictions, bool others_evicted_too)
{
    judge_miss(want);
    read_events(want, others_evicted_too);
    find_out(want);
    evictions -= replaced(want, evictions);
    if (evictions && !others_evicted_too && !oracle.meanwhile)
        oracle_fail("evicted for an error that eviction cannot cure");
    evicted_anywhere(evictions);
    oracle.meanwhile = false;
    oracle_settle();
}

void oracle_put(uint64_t key)
{
    struct entry *entry = find(key);
    bool ends;

    if (!entry)
        oracle_fail("region %" PRIu64 " was put, and had ended", key);
    entry->pins--;
    ends = !entry->pins && (entry->ends || !entry->was_cached);
    if (ends)
        entry->state = DEAD;
    oracle_settle();
    if (ends && find(key) && !oracle.busy)
        oracle_fail("region %" PRIu64 " is left after its last put", key);
}

/* ---- ends ------------------------------------------------------------------------------- */

/* The last put may end a region before the cache learns of the change. */
static void die(struct entry *entry)
{
    bool surely = entry->state == LIVE && !entry->ends;

    if (entry->state == DEAD)
        return;
    oracle.died_surely += surely;
    oracle.died_perhaps += !surely;
    entry->state = DEAD;
}

void oracle_changed(unsigned area, uint64_t start, uint64_t end)
{
    uint64_t before = oracle.died_surely;

    for (each(entry))
        if (entry->key && entry->area == area && touches(entry, start, end))
            die(entry);
    oracle.unread += oracle.died_surely - before;
}

void oracle_invalidated(uint64_t start, uint64_t end)
{
    for (each(entry))
        if (entry->key && touches(entry, start, end))
            die(entry);
}

void oracle_invalidated_meanwhile(const struct oracle_want *want, uint64_t start, uint64_t end)
{
    oracle.meanwhile = true;
    for (each(entry)) /* it may have been evicted or replaced before */
        if (entry->key && entry->state == LIVE && touches(entry, start, end) &&
            (!entry->pins || (want->ends && !entry->ends)))
            entry->state = MAYBE;
    oracle_invalidated(start, end);
}

void oracle_betrayed(unsigned area, uint64_t start, uint64_t end)
{
    for (each(entry))
        if (entry->key && entry->area == area && touches(entry, start, end))
            entry->right = false;
}

void oracle_busy(void)
{
    oracle.busy = true;
}

void oracle_flushed(bool busy)
{
    end_unread();
    for (each(entry))
        if (!entry->pins)
            entry->state = DEAD;
    oracle_settle();
    for (each(entry))
        if (entry->key && !entry->pins && !busy)
            oracle_fail("region %" PRIu64 " is left after a flush, though it is unused",
                        entry->key);
}

void oracle_deregistered(const struct pinned *region)
{
    if (oracle.gone_count == GONE)
        oracle_fail("more than %d regions were deregistered at once", GONE);
    oracle.gone[oracle.gone_count++] = *region;
}

void oracle_settle(void)
{
    for (unsigned i = 0; i < oracle.gone_count; i++) {
        struct entry *entry = find(oracle.gone[i].key);

        if (!entry)
            continue; /* never returned by a get */
        if (entry->pins)
            oracle_fail("region %" PRIu64 " was deregistered, and is held", entry->key);
        if (entry->state == LIVE && entry->right)
            oracle_fail("region %" PRIu64 " was deregistered, and others were to go first",
                        entry->key);
        /* A later get of the same call found it outdated, and is judged after this. */
        oracle.died_perhaps += entry->state != DEAD && !entry->right;
        *entry = (struct entry){.key = 0};
    }
    oracle.gone_count = 0;
}

/* ---- counters --------------------------------------------------------------------------- */

static char difference[128];

static bool within(const char *what, uint64_t is, uint64_t least, uint64_t most)
{
    if (is >= least && is <= most)
        return true;
    snprintf(difference, sizeof(difference),
             "the counter %s is %" PRIu64 ", not %" PRIu64 " to %" PRIu64, what, is, least, most);
    return false;
}

static bool use_is_right(const struct hmreg_stats *stats)
{
    struct use least = {0, 0}, most = {0, 0};

    for (unsigned area = 0; area < WORLD_AREAS; area++) {
        least.regions += used(area, LIVE, false).regions;
        least.bytes += used(area, LIVE, false).bytes;
        most.regions += used(area, MAYBE, false).regions;
        most.bytes += used(area, MAYBE, false).bytes;
    }
    return within("regions", stats->regions, least.regions, most.regions) &&
           within("bytes", stats->bytes, least.bytes, most.bytes);
}

static bool retired_are_right(const struct hmreg_stats *stats)
{
    uint64_t least = 0, most = atomic_load(&pinning.alive); /* some were never returned by a get */

    for (each(entry)) {
        least += entry->key && entry->state == DEAD && entry->was_cached && entry->pins;
        most -= entry->key && entry->state == LIVE;
    }
    return within("retired", stats->retired, least, most);
}

/* Registering for writing copies a page that is shared, the zero page say. The kernel module counts
 * that, and the get registers again. */
static uint64_t discarded_perhaps(void)
{
    return kernel_monitor() == HMREG_MONITOR_COUNTER ? oracle.misses : 0;
}

const char *oracle_compare(const struct hmreg_stats *stats)
{
    bool right = within("hits", stats->hits, oracle.hits, oracle.hits) &&
                 within("misses", stats->misses, oracle.misses, oracle.misses) &&
                 within("uncached", stats->uncached, oracle.uncached, oracle.uncached) &&
                 within("invalidations", stats->invalidations, oracle.died_surely,
                        oracle.died_surely + oracle.died_perhaps + discarded_perhaps()) &&
                 use_is_right(stats) && retired_are_right(stats);

    return right ? NULL : difference;
}
