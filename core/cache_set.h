/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Registrations remembered: a domain's caches, one per (iface, device), and what becomes of their
 * entries in the end.
 */
#ifndef HMREG_CORE_CACHE_SET_H
#define HMREG_CORE_CACHE_SET_H

#include "core/cache.h"
#include "core/domain.h"
#include "core/monitor.h"

struct cache_set {
    struct hmreg_domain *domain;
    struct monitor *monitor;
    struct listener listener;
    struct cache_set *next; /* of the library's */
    unsigned visitors;      /* threads of other domains that evict here */
    struct cache_pool pool;
    struct stats_domain *shown; /* on the library's board; NULL: it has no place */
    unsigned first[HMREG_IFACE_COUNT]; /* the cache of an iface's device 0 */
    unsigned count;
    struct cache caches[]; /* those of memory of no device first, one for each iface */
};

#define HOST_CACHES HMREG_IFACE_COUNT

static inline struct cache_set *cache_set_of(struct hot_set *hot)
{
    return (struct cache_set *)((char *)hot - offsetof(struct cache_set, pool.hot));
}

/* The caches of a domain, made empty with it, and joined; its limits are set. NULL: no memory. */
struct cache_set *cache_set_new(struct hmreg_domain *domain);

/* One of them; device -1 is memory of no device. */
struct cache *cache_set_at(struct cache_set *set, enum hmreg_iface iface, int device);

/* How many regions are in use. */
unsigned cache_set_held(struct cache_set *set);

/* Deregisters what nobody holds. Returns how many regions are left, in use or busy below. */
unsigned cache_set_flush(struct cache_set *set);

/* Other domains evict here when all caches together are full: from the first on; not after the
 * second, which waits for those that do. */
void cache_set_join(struct cache_set *set);
void cache_set_leave(struct cache_set *set);

/* After it was left, and a flush that left none. */
void cache_set_free(struct cache_set *set);

/* Adds up. */
void cache_set_stats(struct cache_set *set, struct hmreg_stats *out);

/* An entry that nobody pins ends; a pin is given back, and the entry ends if it was the last. */
void cache_set_end(struct cache_set *set, struct cache_entry *entry);
void cache_set_release(struct cache_set *set, struct cache_entry *entry);

/* The limits of each cache. Changing them evicts what is above them and idle. */
void cache_set_limits(struct cache_set *set, uint64_t *max_regions, uint64_t *max_bytes);
void cache_set_change_limits(struct cache_set *set, uint64_t max_regions, uint64_t max_bytes);
/* One idle region goes for the limit of all caches: of this set if possible, else of another's. */
bool cache_set_evict_anywhere(struct hmreg *lib, struct cache_set *own, struct cache *first);

/* What the last call, or the monitor, left behind is deregistered; also, once more, one that was
 * busy. */
void cache_set_reap(struct cache_set *set);
void cache_set_reap_dead(struct cache_set *set);

/* Is the memory of a region's device still what it was, over all of it? */
bool cache_set_is_same(struct cache_set *set, enum hmreg_iface iface, uint64_t start, uint64_t end,
                       uint64_t identity);

#endif
