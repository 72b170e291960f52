/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A domain's caches, one for each (iface, device): the steps of a get, of a put, and of a change of
 * memory, each under one hold of the pool's lock. They let threads wait for each other, and never
 * call a vendor or a fabric. cache_set.c does, and drives them; hot.h is what a hit looks at
 * instead.
 */
#ifndef HMREG_CORE_CACHE_H
#define HMREG_CORE_CACHE_H

#include "core/evict.h"
#include "core/userfault.h"

/* A live entry that serves, pinned, of the first of these caches that has one; NULL: none. Threads
 * may remember it from now on, if so asked. */
struct cache_entry *cache_find(struct cache_pool *pool, unsigned from, unsigned to,
                               const struct cache_want *want, bool heat);

enum cache_claim {
    CACHE_CLAIMED,  /* *entry is pending, and the caller's: register, then publish or abandon it */
    CACHE_SERVED,   /* *entry is another's, live or pending, and pinned */
    CACHE_FULL,     /* there is no room that eviction could make: *entry is not to be remembered */
    CACHE_SQUEEZED, /* all caches together have no room: evict one anywhere, and call again */
    CACHE_SHORT,    /* no memory is at hand: call cache_grow(), and again */
    CACHE_STIRRED,  /* call cache_settle(), and again */
};

/* Lets one thread register what is wanted. Room for it is made, and counted, now; *evicted says
 * whether others had to go. like: what is known of the region (domain, iface, device, rights). */
enum cache_claim cache_claim(struct cache *cache, const struct cache_want *want,
                             const struct hmreg_mr *like, struct cache_stir *stir, bool *evicted,
                             struct cache_entry **entry);
/* An entry that is never served, pinned by the caller; NULL: call cache_grow(), and again. */
struct cache_entry *cache_admit(struct cache *cache, const struct cache_want *want,
                                const struct hmreg_mr *like);
/* The region is there, and by its identity right or not. False: it is not, or its memory changed
 * meanwhile: the entry is not served. hot: threads may remember it. */
bool cache_publish(struct cache *cache, struct cache_entry *entry, bool right, bool hot);
/* There is none, or none to remember. */
void cache_abandon(struct cache *cache, struct cache_entry *entry);
/* Waits until a pinned entry is no longer pending. Is it live? */
bool cache_await(struct cache *cache, struct cache_entry *entry);

/* Takes a pin away, or has taken it from a cell. Not NULL: it was the last of an entry that is not
 * served: the caller deregisters it. */
struct cache_entry *cache_release(struct cache_pool *pool, struct cache_entry *entry);
struct cache_entry *cache_released(struct cache_pool *pool, struct cache_entry *entry);

/* Memory changed: what touches it dies, or a part of that: true, and there is more. Takes the lock
 * only, see struct userfault_client. */
bool cache_invalidate(struct cache *cache, const struct change *change);
/* The first entry in the order of addresses, of those that serve or will, in [start, end). */
bool cache_first_in(struct cache *cache, uint64_t start, uint64_t end, struct span *out);
/* One entry dies, which its identity has betrayed. */
void cache_drop(struct cache *cache, struct cache_entry *entry);

void cache_stats(struct cache *cache, struct hmreg_stats *out); /* adds up */

#endif
