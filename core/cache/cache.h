/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The caches of a domain, one for each (iface, device). The functions here are the steps of a get,
 * of a put, and of a change of memory. Each step holds the pool's lock once (cache_drain(): once
 * per batch) and may wait for another thread, but never calls a vendor or a fabric; cache_set.c
 * does that between the steps. A hit takes none of these steps: it reads its thread's cache
 * (thread_cache.h).
 */
#ifndef HMREG_CORE_CACHE_CACHE_H
#define HMREG_CORE_CACHE_CACHE_H

#include "core/cache/evict.h"
#include "core/monitor/userfaultfd/userfault.h"

/* Finds and pins a live entry that contains the wanted range and has the access rights, in the
 * first cache that has one, among the caches from <= number < to. heat: threads may remember the
 * entry from now on. NULL: no entry serves. */
struct hmreg_mr *cache_find(struct cache_pool *pool, unsigned from, unsigned to,
                            const struct cache_want *want, bool heat);

enum cache_reserve {
    CACHE_RESERVED, /* *entry is pending and the caller's: register, then publish or retire it */
    CACHE_SERVED,   /* *entry serves and is pinned: it is live, or pending and another thread's */
    CACHE_FULL,     /* the range alone exceeds a limit: *entry is pinned; do not publish it */
    CACHE_SHORT,    /* no free entry: call cache_grow() and try again */
};

/* Finds an entry that serves the request, or reserves a new one. If several threads miss on one
 * range, one of them registers it. iface: the memory's. heat: as for cache_find(). */
enum cache_reserve cache_reserve(struct cache *cache, const struct cache_want *want,
                                 enum hmreg_iface iface, bool heat, struct hmreg_mr **entry);

/* Returns a pinned entry that no other get will find. NULL: call cache_grow() and try again. */
struct hmreg_mr *cache_admit(struct cache *cache, const struct cache_want *want,
                             enum hmreg_iface iface);

enum cache_publish {
    CACHE_PUBLISHED,
    CACHE_DISCARDED,   /* its identity differs, or its memory has changed since it was reserved */
    CACHE_ROOMLESS,    /* the regions in use leave no room for it */
    CACHE_SQUEEZED,    /* the limit of all caches is reached: evict one region, call again */
    CACHE_INTERRUPTED, /* call cache_finish_cooling() and try again */
    CACHE_OUTDATED,    /* a group's members have changed: complete the region, try again */
};

/* Makes room for a pending entry whose region is registered, and publishes the entry.
 * same_identity: its memory's identity has not changed since before the registration. tcache:
 * threads may remember the entry, unless other entries were evicted for it. After CACHE_DISCARDED
 * and CACHE_ROOMLESS only the caller can use the region. The caller keeps its pin in every case. */
enum cache_publish cache_publish(struct cache *cache, struct hmreg_mr *entry, bool same_identity,
                                 bool tcache, struct cache_search *search);
/* Retires a pending entry instead of publishing it. refused_room: the entry is registered, but the
 * caller found no room for it, and calls cache_filled(). Otherwise its registration failed, or it
 * must not be cached. The caller keeps its pin. */
void cache_retire_reserved(struct cache *cache, struct hmreg_mr *entry, bool refused_room);
/* Call it once a get has registered an entry that no other get will find. False: a group's members
 * have changed: complete the region, try again. forced: it cannot be completed. */
bool cache_filled(struct cache_pool *pool, struct hmreg_mr *entry, bool forced);
/* Waits until an entry that the caller has pinned is no longer pending. Returns whether it is live.
 * *refused_room: true: it did not become live because the cache had no room, or it is announced and
 * not live yet. */
bool cache_await(struct cache *cache, struct hmreg_mr *entry, bool *refused_room);

/* Threads do not wait for a pending entry while it is announced: the application's callback may
 * never return. */
void cache_announce(struct cache *cache, struct hmreg_mr *entry, bool announcing);

/* unpin: removes one pin from the entry's own count. collect_unpinned: the caller has already
 * removed a pin from its pin slot and then passed a barrier. Not NULL: that was the last pin of an
 * entry that no longer serves, and the caller deregisters the entry. */
struct hmreg_mr *cache_unpin(struct cache_pool *pool, struct hmreg_mr *entry);
struct hmreg_mr *cache_collect_unpinned(struct cache_pool *pool, struct hmreg_mr *entry);
/* The last holder has left an entry that ends with its last put. Returns the entry, unpublished and
 * retired; the caller deregisters it. */
struct hmreg_mr *cache_retire_last_put(struct cache_pool *pool, struct hmreg_mr *entry);
/* As cache_unpin(), with its result in *gone. False: no get holds the entry; the wrong put is
 * counted, and nothing else changes. */
bool cache_unpin_checked(struct cache_pool *pool, struct hmreg_mr *entry, struct hmreg_mr **gone);

/* Reads the changes that were pushed before the call and unpublishes the entries they touch, or
 * cuts them from the tree (cuts.h). Once it has returned true, no get returns an entry that one of
 * these changes touches. False: there are more changes than one call reads; the caller then uses
 * and publishes no entry. all: returns when all touched entries are unpublished. With an empty
 * queue both cost one load. Several threads may drain a pool at once; each takes the lock for one
 * batch of entries at a time. */
bool cache_drain(struct cache_pool *pool);
void cache_drain_all(struct cache_pool *pool);
/* Unpublishes every entry, and stops the publication of pending ones. */
void cache_unpublish_all(struct cache_pool *pool);
/* Ends all waiting for pending entries, whose threads may be inside a fabric that does not return.
 * Gets of their ranges then register their own regions, uncached. */
void cache_leave_pending(struct cache_pool *pool);
/* Finds the lowest range of a live or pending entry that touches [start, end). False: none does. */
bool cache_first_in(struct cache *cache, uint64_t start, uint64_t end, struct span *out);
/* Unpublishes a live entry whose memory has another identity now. No effect if the entry is no
 * longer live. */
void cache_unpublish_stale(struct cache *cache, struct hmreg_mr *entry);

#endif
