/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A domain's caches, one for each (iface, device), and what drives them: frees, with no lock held,
 * the entries that are retired, and keeps the limits that span several caches.
 */
#ifndef HMREG_CORE_CACHE_CACHE_SET_H
#define HMREG_CORE_CACHE_CACHE_SET_H

#include "core/base/reaper.h"
#include "core/cache/cache.h"
#include "core/cache/sweep.h"
#include "core/context/domain.h"
#include "core/monitor/monitor.h"

/* The most caches that the devices of a runtime get that is started after the domain was opened. */
#define CACHES_LATER 16

/* A length that did not fit into an empty cache of late: see room.c. */
struct room_misfit {
    _Atomic uint64_t bytes;                      /* 0: none */
    _Atomic(const struct hmreg_domain *) member; /* which had no room, */
    atomic_int code;                             /* by which error, */
    atomic_uint kinds;                           /* of what: see struct room */
    _Atomic uint64_t limit;                      /* of locked memory, which it may have met */
    _Atomic uint64_t returned; /* regions that ended but did not give way, by then */
    _Atomic uint64_t number;   /* of the last region that was registered before */
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
    atomic_bool untidy;       /* the monitor may have memory to be left: monitor_tidy() */
    atomic_bool told;         /* the log, that the reaper's thread cannot be started */
    _Atomic int64_t retry_at; /* not before this time; 0: it has not failed */
    struct room_misfit misfit;
    unsigned visitors; /* threads of other domains that unpublish regions here */
    struct cache_pool pool;
    struct variants variants;
    struct stats_domain *shown; /* on the library's stats page; NULL: no space was left there */
    /* Index of the cache of an iface's device 0, and how many caches its devices have. 0: the iface
     * has none yet. */
    atomic_uint first[HMREG_IFACE_COUNT];
    unsigned devices[HMREG_IFACE_COUNT];
    struct cache caches[]; /* those for memory on no device first, one for each iface */
};

static inline struct cache_set *cache_set_of(struct thread_cache_set *tcache)
{
    return (struct cache_set *)((char *)tcache - offsetof(struct cache_set, pool.thread_caches));
}

/* Makes a domain's caches, empty, and joins them to the library's sets. The domain's limits are set
 * before. NULL: no memory. */
struct cache_set *cache_set_new(struct hmreg_domain *domain);

/* How many caches the set has by now. */
static inline unsigned cache_set_count(struct cache_set *set)
{
    return atomic_load(&set->pool.known_caches);
}

/* The cache of an iface's device, whose runtime is present; device -1: of its memory that is on no
 * device. Makes the caches of an iface's devices if the runtime was started after the domain was
 * opened; then the devices from CACHES_LATER on share the first devices' caches. */
struct cache *cache_set_at(struct cache_set *set, enum hmreg_iface iface, int device);

/* When it returns true, no entry is served any more that a change touches which had happened at the
 * call. False: the kernel did not deliver its events in time, or there are too many changes to
 * apply in one call. */
bool cache_set_sync(struct cache_set *set);

/* Deregisters all that is unpublished and not pinned, busy regions included, except what other
 * threads are deregistering. */
void cache_set_retire(struct cache_set *set);

/* Evicts and deregisters every region that is not pinned. Returns how many are left: pinned, or
 * busy in the fabric. */
unsigned cache_set_flush(struct cache_set *set);

/* Ends all regions of a lost domain: idle ones now, others with their last put. */
void cache_set_end_lost(struct hmreg_domain *domain);

/* join: other domains may evict regions here from now on, when all caches together are full. leave:
 * they no longer may; it waits for those that do. */
void cache_set_join(struct cache_set *set);
void cache_set_leave(struct cache_set *set);

/* Call it after cache_set_leave() and a flush that returned 0. */
void cache_set_free(struct cache_set *set);

/* Adds the counts of all caches to *out. It waits for the reaper's current step. */
void cache_set_stats(struct cache_set *set, struct hmreg_stats *out);

/* Calls the domain's callback `made`, once the region is registered and not published yet; `ended`
 * is called once for it, before the first try to deregister it. The thread's last error stays. */
void cache_set_made(struct hmreg_mr *mr);

/* Frees as many entries as a call has evicted; they may be others, retired earlier. */
void cache_set_free_evicted(struct cache_set *set, unsigned count);
/* Leaves a retired entry without pins to be freed by the reaper or, where that does not serve or
 * has ended, by the domain's next call. */
void cache_set_leave_entry(struct cache_set *set, struct hmreg_mr *entry);
/* free_entry: frees a retired entry without pins. release: removes a pin from the entry's own count
 * and, if that was the last pin of a retired entry, frees the entry. A failure of the fabric leaves
 * the thread's last error as it was. */
void cache_set_free_entry(struct cache_set *set, struct hmreg_mr *entry);
void cache_set_release(struct cache_set *set, struct hmreg_mr *entry);

/* The limits of each cache, which do not change. */
void cache_set_limits(struct cache_set *set, uint64_t *max_regions, uint64_t *max_bytes);

/* Evicts one idle region for the limit of all caches together: from `first` if possible, else from
 * the rest of `own` (which contains `first`), else from another domain, whose own calls
 * or reaper deregister it. False: no region is idle. visits: as for cache_evict(). */
bool cache_set_evict_anywhere(struct hmreg *lib, struct cache_set *own, struct cache *first,
                              unsigned *visits);

/* Calls call() for the set of each of the library's domains, which is not closed meanwhile.
 * Returns the first failure, but -EBUSY if there was one. all: goes on after a failure. */
int cache_set_each(struct hmreg *lib, int (*call)(struct cache_set *set, void *context),
                   void *context, bool all);

/* Starts the reaper's thread if it does not run: from now on it frees retired entries, if the
 * domain's fabric permits that. Called before each region is cached, with its entry pending; costs
 * a few loads if the thread runs. If the thread cannot be started, the domain's calls free the
 * entries, and a call some time later tries again. */
void cache_set_serve(struct cache_set *set);
/* Ends that before the domain is closed. A later cache_set_serve() starts it again. */
void cache_set_stop_serving(struct cache_set *set);
/* Memory is about to be unwatched, of which the monitor may keep something for the reaper to tidy.
 */
void cache_set_unwatches(struct cache_set *set);
/* The entry, which is unpublished and held, needs to be watched no more. */
void cache_set_unwatch(struct cache_set *set, struct hmreg_mr *entry);
/* An entry was not published though its memory was watched: starts the thread if the monitor may
 * have something to be tidied. */
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

/* Asks the vendor whether all memory of a region that has `ask_identity` set is still the same. */
bool cache_set_is_found(struct cache_set *set, const struct hmreg_mr *mr);

/* Calls call() for each open group that has this member, without a lock. A group does not end
 * while it is visited. */
void cache_set_each_group(struct hmreg_domain *member,
                          void (*call)(struct hmreg_domain *group, struct hmreg_domain *member));

#endif
