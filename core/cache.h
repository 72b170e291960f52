/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * One cache: the book of what is registered for one (domain, iface, device). It keeps accounts
 * and lets threads wait for each other; it never calls a vendor, a fabric or the allocator.
 * cache_set.c does, and drives it.
 */
#ifndef HMREG_CORE_CACHE_H
#define HMREG_CORE_CACHE_H

#include "core/itree.h"
#include "core/ledger.h"
#include "core/mr.h"
#include "core/userfault.h"

#include <pthread.h>
#include <stdatomic.h>

enum cache_state {
    CACHE_PENDING, /* being registered by the thread that claimed it */
    CACHE_LIVE,    /* serves gets */
    CACHE_DEAD,    /* never, or no longer, served; goes with its last user */
};

/* One registration of hmreg_mr_get(), remembered or not. */
struct cache_entry {
    struct itree_node node; /* first; the bytes it covers, in the index while pending or live */
    struct cache *cache;
    struct hmreg_mr *mr; /* NULL: not registered (yet) */
    uint64_t access;
    uint64_t identity;
    unsigned pins; /* gets not yet put, and threads that look at it */
    enum cache_state state;
    bool watched; /* by the monitor */
    bool unmapped; /* nothing of it is left to stop watching */
    bool changed; /* its memory changed while it was pending */
    bool zombie;  /* was live, is dead, and something still keeps it */
    /* In one of the cache's lists. */
    struct cache_entry *previous, *next;
};

struct cache_list {
    struct cache_entry *first, *last;
    atomic_uint count; /* may be read without the lock */
};

struct cache_use {
    uint64_t regions, bytes;
};

struct cache {
    pthread_mutex_t lock;   /* everything but the counters */
    pthread_cond_t decided; /* an entry is no longer pending */
    struct itree index;
    struct cache_list idle; /* live and not pinned, the least recently used first */
    struct cache_list dead; /* not pinned either, to be deregistered by whoever comes next */
    struct cache_list busy; /* whose deregistration the fabric answered with EBUSY */
    struct cache_use limit;
    struct cache_use used;  /* by pending and live entries; never above the limit */
    struct cache_use spare; /* of that, by idle ones */
    unsigned entries;       /* of any state, until cache_forget() */
    unsigned held;          /* of them, pinned */
    unsigned zombies;
    struct ledger ledger;
};

/* What a get asks for. */
struct cache_want {
    uint64_t start, end;
    uint64_t access;
    bool exact; /* a larger region will not do */
};

void cache_init(struct cache *cache, uint64_t max_regions, uint64_t max_bytes);
void cache_destroy(struct cache *cache); /* which has no entries */

/* A new entry's life begins, dead and pinned by the caller; and ends, when nothing keeps it. */
void cache_admit(struct cache *cache, struct cache_entry *entry);
void cache_forget(struct cache_entry *entry);

/* A live entry that serves, pinned; NULL: none. */
struct cache_entry *cache_find(struct cache *cache, const struct cache_want *want);

enum cache_claim {
    CACHE_CLAIMED, /* the entry is pending: register it, then publish or abandon it */
    CACHE_SERVED,  /* another entry is live or pending, and pinned: *other */
    CACHE_FULL,    /* there is no room that eviction could make: register without remembering */
};

/* Lets one thread register what is wanted. Room for it is made, and counted, now. */
enum cache_claim cache_claim(struct cache_entry *entry, const struct cache_want *want,
                             struct cache_entry **other);

/* The region is there, and by its identity right or not. False: it is not, or its memory changed
 * meanwhile: the entry is dead. */
bool cache_publish(struct cache_entry *entry, struct hmreg_mr *mr, bool right);
/* There is none, or none to remember. */
void cache_abandon(struct cache_entry *entry);
/* Waits until a pinned entry is no longer pending. Is it live? */
bool cache_await(struct cache_entry *entry);

/* Unpins. Not NULL: the entry is dead and this was its last pin: the caller deregisters it. */
struct cache_entry *cache_release(struct cache_entry *entry);

/* Memory changed: what touches it dies, or a part of that: true, and there is more. Takes the lock
 * only, see struct userfault_client. */
bool cache_invalidate(struct cache *cache, const struct change *change);
/* The first entry in the order of addresses, of those that are not dead, in [start, end). */
bool cache_first_in(struct cache *cache, uint64_t start, uint64_t end, struct span *out);
/* The same for one entry, which its identity has betrayed. */
void cache_drop(struct cache_entry *entry);

/* The least recently used die, so many at the most, for a registration that failed with code. How
 * many did? */
unsigned cache_evict(struct cache *cache, unsigned count, int code);
/* All that nobody holds die. */
void cache_empty(struct cache *cache);

/* Takes the next to be deregistered; NULL: none. */
struct cache_entry *cache_take_dead(struct cache *cache);
struct cache_entry *cache_take_busy(struct cache *cache);
/* Its deregistration was answered with EBUSY: keeps it for another try. */
void cache_keep_busy(struct cache_entry *entry);

/* Entries that are left; those of them that are pinned, and that are busy. */
unsigned cache_entries(struct cache *cache);
unsigned cache_held(struct cache *cache);
unsigned cache_busy(struct cache *cache);

void cache_stats(struct cache *cache, struct hmreg_stats *out); /* adds up */

#endif
