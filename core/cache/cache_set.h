/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A domain's caches, one for each (iface, device), as they are driven: what ended in them is
 * deregistered here, with no lock held, and limits that go beyond one cache are kept here.
 */
#ifndef HMREG_CORE_CACHE_CACHE_SET_H
#define HMREG_CORE_CACHE_CACHE_SET_H

#include "core/base/reaper.h"
#include "core/cache/cache.h"
#include "core/context/domain.h"
#include "core/monitor/monitor.h"

struct cache_set {
    struct hmreg_domain *domain;
    struct monitor *monitor;
    struct listener listener;
    struct cache_set *next; /* of the library's */
    struct reaper_client reaper;
    atomic_bool asked; /* for the reaper, when the first region was to be cached */
    unsigned visitors; /* other domains' threads that unpublish regions here */
    struct cache_pool pool;
    struct stats_domain *shown;        /* on the library's stats page; NULL: it has no place */
    unsigned first[HMREG_IFACE_COUNT]; /* the cache of an iface's device 0 */
    unsigned count;
    struct cache caches[]; /* those of memory of no device first, one for each iface */
};

static inline struct cache_set *cache_set_of(struct thread_cache_set *tcache)
{
    return (struct cache_set *)((char *)tcache - offsetof(struct cache_set, pool.thread_caches));
}

/* The caches of a domain, made empty with it, and joined; its limits are set. NULL: no memory. */
struct cache_set *cache_set_new(struct hmreg_domain *domain);

/* The cache of an iface's device; device -1: of its memory that is on no device. */
struct cache *cache_set_at(struct cache_set *set, enum hmreg_iface iface, int device);

/* Makes sure that every change that had happened at the call has ended the entries it touches.
 * False: the kernel could not be waited for. */
bool cache_set_sync(struct cache_set *set);

/* How many regions somebody holds. */
unsigned cache_set_held(struct cache_set *set);

/* Deregisters what nobody holds. Returns how many regions are left: held, or busy below. */
unsigned cache_set_flush(struct cache_set *set);

/* Other domains evict here when all caches together are full: from the first on; not after the
 * second, which waits for those that do. */
void cache_set_join(struct cache_set *set);
void cache_set_leave(struct cache_set *set);

/* After it was left, and a flush that left none. */
void cache_set_free(struct cache_set *set);

/* Adds the counts of all its caches, or of one as cache_set_at(), to *out. Both wait for the step
 * of the reaper that is under way. */
void cache_set_stats(struct cache_set *set, struct hmreg_stats *out);
void cache_set_stats_of(struct cache_set *set, enum hmreg_iface iface, int device,
                        struct hmreg_stats *out);

/* Deregisters what a search for room evicted. */
void cache_set_end_evicted(struct cache_set *set, struct cache_search *search);
/* Deregisters an entry that serves no more and that nobody pins. Release: gives back a pin that is
 * in the entry, and does the same if that was the last of one that serves no more. Failures of the
 * fabric are not the caller's: the thread's error stays as it was. */
void cache_set_end(struct cache_set *set, struct cache_entry *entry);
void cache_set_release(struct cache_set *set, struct cache_entry *entry);

/* The limits of each cache. Changing them evicts what is above them and idle. */
void cache_set_limits(struct cache_set *set, uint64_t *max_regions, uint64_t *max_bytes);
void cache_set_change_limits(struct cache_set *set, uint64_t max_regions, uint64_t max_bytes);

/* Evicts one idle region for the limit of all caches together: of `first` if possible, else of the
 * rest of `own` (which has it; NULL: none), else of other domains', whose own calls deregister it.
 * False: nothing is idle. */
bool cache_set_evict_anywhere(struct hmreg *lib, struct cache_set *own, struct cache *first);

/* From now on the reaper deregisters what has ended, if the domain's fabric permits that and there
 * is a reaper. Called before the first region is cached; later calls cost a load. */
void cache_set_serve(struct cache_set *set);
/* Before the domain is closed. A later call of cache_set_serve() begins anew. */
void cache_set_serve_no_more(struct cache_set *set);

/* By calls that come by: deregisters some of what has ended, unless the reaper does, and tries once
 * more one that was busy. */
void cache_set_reap(struct cache_set *set);
/* All that has ended and is not pinned, also what the reaper was about to. */
void cache_set_reap_dead(struct cache_set *set);
/* The application's call that takes the reaper's place: all of that, and one that was busy. */
void cache_set_progress(struct cache_set *set);

/* Is the memory's identity still this one, over all of [start, end)? Calls the vendor. */
bool cache_set_is_same(struct cache_set *set, enum hmreg_iface iface, uint64_t start, uint64_t end,
                       uint64_t identity);

#endif
