/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A domain's caches, one for each (iface, device): the steps of a get, of a put, and of a change of
 * memory, each under one hold of the pool's lock. They let threads wait for each other, and never
 * call a vendor or a fabric. cache_set.c does, and drives them; hot.h is what a hit looks at
 * instead.
 */
#ifndef HMREG_CORE_CACHE_CACHE_H
#define HMREG_CORE_CACHE_CACHE_H

#include "core/cache/evict.h"
#include "core/monitor/userfaultfd/userfault.h"

/* Is there a live entry that contains what is wanted with the same rights, in one of the caches
 * numbered from <= number < to? */
bool cache_serves(struct cache_pool *pool, unsigned from, unsigned to,
                  const struct cache_want *want);

/* A live entry that contains what is wanted with the same rights, pinned: of the first cache that
 * has one, among those numbered from <= number < to. heat: threads may remember it from now on.
 * NULL: none. */
struct cache_entry *cache_find(struct cache_pool *pool, unsigned from, unsigned to,
                               const struct cache_want *want, bool heat);

enum cache_claim {
    CACHE_CLAIMED, /* *entry is pending, and the caller's: register, then publish or abandon it */
    CACHE_FOUND,   /* *entry is live, and pinned */
    CACHE_SERVED,  /* *entry is another's, pending, and pinned */
    CACHE_FULL,    /* a limit is less than the range alone: *entry is not to be published */
    CACHE_SHORT,   /* no memory is at hand: call cache_grow(), and again */
};

/* Finds a live entry, or decides who registers what is wanted: of several threads one. like:
 * what is known of the region (domain, iface, device, rights). heat: as cache_find(). */
enum cache_claim cache_claim(struct cache *cache, const struct cache_want *want,
                             const struct hmreg_mr *like, bool heat, struct cache_entry **entry);

/* An entry for the caller alone, pinned, which no other get will find. NULL: call cache_grow() and
 * try again. */
struct cache_entry *cache_admit(struct cache *cache, const struct cache_want *want,
                                const struct hmreg_mr *like);

enum cache_publish {
    CACHE_PUBLISHED,
    CACHE_DISCARDED,   /* it was not right, or its memory has changed since the claim */
    CACHE_ROOMLESS,    /* what is in use leaves no room for it */
    CACHE_SQUEEZED,    /* all caches together have no room: evict one anywhere, and call again */
    CACHE_INTERRUPTED, /* call cache_finish_withdrawal(), and again */
};

/* A claimed entry's region is registered: makes room for it and publishes it. right: its memory's
 * identity is still the one before. hot: threads may remember it, unless others had to be evicted
 * for it. DISCARDED and ROOMLESS: the region is the caller's alone. The caller holds the entry's
 * pin still. */
enum cache_publish cache_publish(struct cache *cache, struct cache_entry *entry, bool right,
                                 bool tcache, struct cache_search *search);
/* A claimed entry's registration failed, or must not be remembered; or it is registered, and the
 * caller has given up making room. The caller still holds the pin. */
void cache_abandon(struct cache *cache, struct cache_entry *entry);
void cache_forgo(struct cache *cache, struct cache_entry *entry);
/* Waits until an entry that the caller has pinned is no longer pending. Is it live? *roomless: out,
 * it is not because there was no room for it. */
bool cache_await(struct cache *cache, struct cache_entry *entry, bool *roomless);

/* Gives back a pin that is in the entry; or one that the caller has just given back in its pin
 * slot, before a barrier. Not NULL: it was the last one of an entry that serves no more, and the
 * caller deregisters that.
 */
struct cache_entry *cache_release(struct cache_pool *pool, struct cache_entry *entry);
struct cache_entry *cache_released(struct cache_pool *pool, struct cache_entry *entry);
/* As cache_release(), with its result in *gone. False: no get holds the entry; it is counted, and
 * nothing else is done. */
bool cache_release_checked(struct cache_pool *pool, struct cache_entry *entry,
                           struct cache_entry **gone);

/* Reads the changes that were pushed before the call and ends the entries they touch. When it
 * returns, no entry that one of them has ended is served. Where nothing was pushed it is one load.
 * Several threads may drain a pool at once; each holds the lock for some entries at a time. */
void cache_drain(struct cache_pool *pool);
/* The first range, by address, of a live or pending entry that touches [start, end). False: none.
 */
bool cache_first_in(struct cache *cache, uint64_t start, uint64_t end, struct span *out);
/* Ends a live entry whose memory's identity is not what it was; of one that ended already, nothing.
 */
void cache_drop(struct cache *cache, struct cache_entry *entry);

#endif
