/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The caches of a domain: the book of what is registered for each (iface, device). They keep
 * accounts and let threads wait for each other; they never call a vendor or a fabric. cache_set.c
 * does, and drives them; hot.h is what a hit looks at instead.
 */
#ifndef HMREG_CORE_CACHE_H
#define HMREG_CORE_CACHE_H

#include "core/hot.h"
#include "core/itree.h"
#include "core/ledger.h"
#include "core/lru.h"
#include "core/mr.h"
#include "core/quota.h"
#include "core/userfault.h"

#include <pthread.h>
#include <stdatomic.h>

enum cache_state {
    CACHE_FREE,
    CACHE_PENDING, /* being registered by the thread that claimed it */
    CACHE_LIVE,    /* serves gets */
    CACHE_DYING,   /* serves no more; who may still pin it is not known yet */
    CACHE_HELD,    /* never, or no longer, served, and pinned: ends with its last user */
    CACHE_ENDING,  /* nobody pins it: to be deregistered */
};

/* One registration of hmreg_mr_get(), remembered or not. Its memory never becomes anything else
 * while the domain is open, so that threads may look at what they remember. */
struct cache_entry {
    struct hmreg_mr mr; /* first */
    uint32_t place;     /* live: in the order of use; else the next in the list it is in */
    uint32_t pins;      /* that no thread's cell has: add those up with hot_pins() */
};

struct cache_list {
    uint32_t first, last; /* numbers; 0: empty */
    atomic_uint count;    /* may be read without the lock */
};

/* What all caches of a domain share. */
struct cache_pool {
    pthread_mutex_t lock;   /* everything here and in the caches, but the counters */
    pthread_cond_t decided; /* an entry is no longer pending */
    struct shelf entries;
    struct hot_set hot;
    struct cache *caches;
    struct quota *quota;     /* of all domains' caches */
    uint32_t free;           /* a list of entries */
    uint32_t fresh;          /* from here on they have never been used */
    unsigned count;          /* of entries in use */
    struct cache_list dying; /* to be looked at, once threads have passed a barrier */
    struct cache_list dead;  /* to be deregistered by whoever comes next */
    struct cache_list busy;  /* whose deregistration the fabric answered with EBUSY */
};

struct cache_use {
    uint64_t regions, bytes;
};

struct cache {
    struct cache_pool *pool;
    uint16_t index; /* pool->caches[index] */
    struct itree tree;
    struct lru lru; /* of live ones, in use or not */
    struct cache_use limit;
    struct cache_use used; /* by pending and live entries; never above the limit */
    unsigned zombies;
    bool marked; /* some in the order of use were found in use */
    struct ledger ledger;
};

/* What a get asks for. */
struct cache_want {
    uint64_t start, end;
    uint64_t access;
    bool exact; /* a larger region will not do */
};

/* caches: as many, to be initialized. False: no memory. */
bool cache_pool_open(struct cache_pool *pool, struct cache *caches, unsigned count, bool exact,
                     struct quota *quota);
void cache_pool_close(struct cache_pool *pool); /* no entry is left; the ledgers are open still */
void cache_init(struct cache *cache, struct cache_pool *pool, unsigned index, uint64_t max_regions,
                uint64_t max_bytes);

static inline struct cache_entry *cache_entry_at(const struct cache_pool *pool, uint32_t number)
{
    return shelf_at(&pool->entries, number);
}

/* A live entry that serves, pinned; NULL: none. Threads may remember it from now on, if so asked. */
struct cache_entry *cache_find(struct cache *cache, const struct cache_want *want, bool heat);

/* Entries that have left the threads' tables. Once they are settled, which takes a barrier, they are
 * cold: nobody pins them without the lock. */
#define COOLED 32
struct cache_stir {
    bool begun; /* one for each search for room, however often it is interrupted */
    bool barrier;
    unsigned count;
    struct {
        uint32_t number, sequence, stamp;
    } cooled[COOLED];
};
void cache_settle(struct cache_pool *pool, struct cache_stir *stir);

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
/* False: no memory. */
bool cache_grow(struct cache *cache);
/* It ends, when nothing keeps it. */
void cache_forget(struct cache_pool *pool, struct cache_entry *entry);

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

/* The least recently used die, so many at the most, for a registration that failed with code. How
 * many did? */
unsigned cache_evict(struct cache *cache, unsigned count, int code);
/* Changes the limits; what is above them and idle dies. */
void cache_change_limits(struct cache *cache, uint64_t max_regions, uint64_t max_bytes);
/* All that nobody holds die. */
void cache_empty(struct cache_pool *pool);

/* Finds out which of the dying are pinned. */
void cache_examine(struct cache_pool *pool);
/* Takes the next to be deregistered; NULL: none. */
struct cache_entry *cache_take(struct cache_pool *pool, struct cache_list *list);
/* Its deregistration was answered with EBUSY: keeps it for another try. */
void cache_keep_busy(struct cache_pool *pool, struct cache_entry *entry);

/* Entries that are left; those of them that are pinned. */
unsigned cache_entries(struct cache_pool *pool);
unsigned cache_held(struct cache_pool *pool);

void cache_stats(struct cache *cache, struct hmreg_stats *out); /* adds up */

#endif
