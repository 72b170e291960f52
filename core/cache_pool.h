/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The book of a domain's caches: entries, which threads may look at as long as the domain is open;
 * what each cache may hold and holds; and the lists of those that end. The rules that are true
 * whenever the lock is free are in cache_pool.c.
 */
#ifndef HMREG_CORE_CACHE_POOL_H
#define HMREG_CORE_CACHE_POOL_H

#include "core/hot.h"
#include "core/itree.h"
#include "core/ledger.h"
#include "core/lru.h"
#include "core/mr.h"
#include "core/quota.h"

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

/* ---- one entry, with the pool's lock held ----------------------------------------------- */

static inline struct cache *entry_cache(const struct cache_pool *pool,
                                        const struct cache_entry *entry)
{
    return &pool->caches[entry->mr.cache];
}

/* The clock's steps, so that there is a time for what is in use (1) and for what is new (2) between
 * the hits before and the hits after. */
#define CLOCK_STEP 4

static inline uint32_t clock_now(const struct cache_pool *pool)
{
    return atomic_load_explicit(&pool->hot.pulse->clock, memory_order_relaxed);
}

/* Returns when it was before. */
static inline uint32_t clock_tick(struct cache_pool *pool)
{
    return atomic_fetch_add_explicit(&pool->hot.pulse->clock, CLOCK_STEP, memory_order_relaxed);
}

/* True only if the entry is cold; else somebody may pin it at this moment. */
static inline uint32_t entry_pins(const struct cache_pool *pool, const struct cache_entry *entry)
{
    return entry->pins + hot_pins(&pool->hot, entry->mr.number);
}

static inline uint32_t entry_sequence(const struct cache_entry *entry)
{
    return atomic_load_explicit(&entry->mr.sequence, memory_order_relaxed);
}

static inline bool entry_is_hot(const struct cache_entry *entry)
{
    return entry_sequence(entry) % 2;
}

/* Release: who remembers an entry by a new sequence sees all of it. */
static inline void entry_next_sequence(struct cache_entry *entry)
{
    atomic_store_explicit(&entry->mr.sequence, hot_next(entry_sequence(entry)),
                          memory_order_release);
}

static inline void cache_use_add(struct cache_use *use, const struct cache_entry *entry)
{
    use->regions++;
    use->bytes += mr_len(&entry->mr);
}

static inline void cache_use_subtract(struct cache_use *use, const struct cache_entry *entry)
{
    use->regions--;
    use->bytes -= mr_len(&entry->mr);
}

/* An entry, pinned by the caller, that serves nobody yet. like: what is known of the region
 * (domain, iface, device, rights). NULL: call cache_grow(), and again. */
struct cache_entry *cache_take_entry(struct cache *cache, const struct cache_want *want,
                                     const struct hmreg_mr *like);
/* Found from now on, and counted; and no more. */
void cache_link(struct cache *cache, struct cache_entry *entry);
void cache_unlink(struct cache *cache, struct cache_entry *entry);
/* Ends a live entry; and one that has left the order of use already. */
void cache_kill(struct cache *cache, struct cache_entry *entry);
void cache_bury(struct cache *cache, struct cache_entry *entry);

/* ---- without it ------------------------------------------------------------------------- */

/* False: no memory. */
bool cache_grow(struct cache *cache);
/* It ends, when nothing keeps it. */
void cache_forget(struct cache_pool *pool, struct cache_entry *entry);

/* Finds out which of the dying are pinned. */
void cache_examine(struct cache_pool *pool);
/* Takes the next to be deregistered; NULL: none. */
struct cache_entry *cache_take(struct cache_pool *pool, struct cache_list *list);
/* Its deregistration was answered with EBUSY: keeps it for another try. */
void cache_keep_busy(struct cache_pool *pool, struct cache_entry *entry);

/* Entries that are left; those of them that are pinned. */
unsigned cache_entries(struct cache_pool *pool);
unsigned cache_held(struct cache_pool *pool);

#endif
