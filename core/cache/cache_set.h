/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A domain's caches, one for each (iface, device). Frees retired entries with no lock held, and
 * keeps the limits that span several caches.
 */
#ifndef HMREG_CORE_CACHE_CACHE_SET_H
#define HMREG_CORE_CACHE_CACHE_SET_H

#include "core/base/reaper.h"
#include "core/cache/cache.h"
#include "core/cache/sweep.h"
#include "core/context/domain.h"
#include "core/monitor/monitor.h"

/* The most caches for the devices of a runtime that starts after the domain was opened. */
#define CACHES_LATER 16

/* A length that did not fit recently although the caches were emptied: see room.c. */
struct room_misfit {
    _Atomic uint64_t bytes;                      /* 0: none */
    _Atomic(const struct hmreg_domain *) member; /* the domain without room, */
    atomic_int code;                             /* its error, */
    atomic_uint kinds;                           /* the shortage: see struct room */
    _Atomic uint64_t limit;    /* the limit of locked memory that it may have met */
    _Atomic uint64_t returned; /* regions that had ended without being evicted, by then */
    _Atomic uint64_t number;   /* number of the last registration before it */
    _Atomic int64_t until;
};

struct cache_set {
    struct hmreg_domain *domain;
    struct monitor *monitor;
    struct listener listener;
    struct cache_set *next; /* in the list of the library's sets */
    struct reaper_client reaper;
    struct sweep sweep;
    atomic_bool joined;       /* the reaper has the set among its clients */
    atomic_bool reaping;      /* the reaper frees entries */
    atomic_bool untidy;       /* the monitor may have memory to tidy: monitor_tidy() */
    atomic_bool told;         /* the log says that the reaper's thread cannot be started */
    _Atomic int64_t retry_at; /* do not start the thread before this time; 0: no start has failed */
    struct room_misfit misfit;
    unsigned visitors; /* threads of other domains that are unpublishing regions here */
    struct cache_pool pool;
    struct variants variants;
    struct stats_domain *shown; /* on the library's stats page; NULL: no space was left there */
    /* The index of the cache for an iface's device 0, and the number of caches for its devices. 0:
     * the iface has none yet. */
    atomic_uint first[HMREG_IFACE_COUNT];
    unsigned devices[HMREG_IFACE_COUNT];
    struct cache caches[]; /* first those for memory on no device, one for each iface */
};

static inline struct cache_set *cache_set_of(struct thread_cache_set *tcache)
{
    return (struct cache_set *)((char *)tcache - offsetof(struct cache_set, pool.thread_caches));
}

/* Opens a domain's caches, and joins them to the library's sets. Set the domain's limits before.
 * NULL: no memory. */
struct cache_set *cache_set_new(struct hmreg_domain *domain);

/* The present number of caches. */
static inline unsigned cache_set_count(struct cache_set *set)
{
    return atomic_load(&set->pool.known_caches);
}

/* The cache for an iface's device, whose runtime is present; device -1: for the iface's memory on
 * no device. If the runtime started after the domain was opened, opens the caches for its devices.
 * Devices from CACHES_LATER on then share the first devices' caches. */
struct cache *cache_set_at(struct cache_set *set, enum hmreg_iface iface, int device);

/* After it has returned true, no get returns an entry that a change before the call touches. False:
 * the kernel did not deliver its events in time, or there are more changes than one call applies.
 */
bool cache_set_sync(struct cache_set *set);

/* Deregisters all unpublished entries without pins, busy ones included, except those that other
 * threads are deregistering. */
void cache_set_retire(struct cache_set *set);

/* Evicts and deregisters every region that is not pinned. Returns how many remain: pinned, or busy
 * in the fabric. */
unsigned cache_set_flush(struct cache_set *set);

/* Ends all regions of a lost domain: idle ones now, others with their last put. */
void cache_set_end_lost(struct hmreg_domain *domain);

/* join: when all caches together are full, other domains may evict regions here from now on. leave:
 * they no longer may; waits for domains that are evicting. */
void cache_set_join(struct cache_set *set);
void cache_set_leave(struct cache_set *set);

/* Call it after cache_set_leave() and a flush that returned 0. */
void cache_set_free(struct cache_set *set);

/* Adds the counts of all caches to *out. It waits for the reaper's current step. */
void cache_set_stats(struct cache_set *set, struct hmreg_stats *out);

/* Calls the domain's callback `made`, after the region is registered and before it is published.
 * `ended` is called once for it, before the first attempt to deregister it. The thread's last error
 * stays. */
void cache_set_made(struct hmreg_mr *mr);

/* Frees as many entries as a call has evicted, perhaps others that were retired earlier. */
void cache_set_free_evicted(struct cache_set *set, unsigned count);
/* Leaves a retired entry without pins to the reaper or, if that does not serve the domain or has
 * ended, to the domain's next call. */
void cache_set_leave_entry(struct cache_set *set, struct hmreg_mr *entry);
/* free_entry: frees a retired entry without pins. release: removes a pin from the entry's own count
 * and, if that was the last pin of a retired entry, frees the entry. A failure of the fabric leaves
 * the thread's last error as it was. */
void cache_set_free_entry(struct cache_set *set, struct hmreg_mr *entry);
void cache_set_release(struct cache_set *set, struct hmreg_mr *entry);

/* The limits of each cache, which are constant. */
void cache_set_limits(struct cache_set *set, uint64_t *max_regions, uint64_t *max_bytes);

/* Evicts one idle region for the limit of all caches together: from `first` if possible, else from
 * the other caches of `own` (which contains `first`), else from another domain, whose calls or
 * reaper deregister it. False: no region is idle. visits: as for cache_evict(). */
bool cache_set_evict_anywhere(struct hmreg *lib, struct cache_set *own, struct cache *first,
                              unsigned *visits);

/* Calls call() for the set of each of the library's domains, which stays open meanwhile. Returns
 * -EBUSY if a call did, else the first failure. all: continues after a failure. */
int cache_set_each(struct hmreg *lib, int (*call)(struct cache_set *set, void *context),
                   void *context, bool all);

/* Starts the reaper's thread if it does not run: it then frees retired entries, if the domain's
 * fabric permits that. Called before each region is cached, with its entry pending; costs a few
 * loads if the thread runs. If the thread cannot be started, the domain's calls free the entries,
 * and a later call tries again. */
void cache_set_serve(struct cache_set *set);
/* Undoes cache_set_serve() before the domain is closed. A later cache_set_serve() starts it
 * again. */
void cache_set_stop_serving(struct cache_set *set);
/* Call before memory is unwatched: the monitor may keep some memory for the reaper to tidy. */
void cache_set_unwatches(struct cache_set *set);
/* Stops watching an entry that is unpublished and held. */
void cache_set_unwatch(struct cache_set *set, struct hmreg_mr *entry);
/* Call if an entry was not published although its memory was watched: starts the thread if the
 * monitor may have memory to tidy. */
void cache_set_serve_untidy(struct cache_set *set);
/* After a flush: ends the library's threads that no cached region of the process needs. */
void cache_set_rest(struct cache_set *set);

/* Called by gets and puts: retries one busy entry, and frees some retired entries unless the
 * reaper does. */
void cache_set_reap(struct cache_set *set);
/* Frees all unpublished entries that are not pinned, also the entries of the reaper's current
 * step. */
void cache_set_free_unpublished(struct cache_set *set);
/* hmreg_domain_progress(), which replaces the reaper: cache_set_free_unpublished(), and one busy
 * entry. */
void cache_set_progress(struct cache_set *set);

/* Asks the vendor whether all memory of a region with `ask_identity` still has its identities. */
bool cache_set_is_found(struct cache_set *set, const struct hmreg_mr *mr);

/* Calls call() for each open group of this member, without a lock. A group cannot end while it is
 * visited. */
void cache_set_each_group(struct hmreg_domain *member,
                          void (*call)(struct hmreg_domain *group, struct hmreg_domain *member));

#endif
