/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The block that a domain's caches share: their entries, what each cache holds and may hold, and
 * the lists of entries on their way out. What is true of all this whenever the lock is free stands
 * in cache_pool.c.
 *
 * To pin an entry is to keep it from being deregistered; each get that was served holds one pin
 * until its put. An entry is hot while threads may pin it by their own tables (hot.h), without the
 * lock; it is cold once no thread can any more, and only then a sum of its pins can be believed.
 */
#ifndef HMREG_CORE_CACHE_CACHE_POOL_H
#define HMREG_CORE_CACHE_CACHE_POOL_H

#include "core/base/itree.h"
#include "core/cache/clock_list.h"
#include "core/cache/thread_cache.h"
#include "core/context/quota.h"
#include "core/monitor/change_queue.h"
#include "core/mr/mr.h"
#include "core/stats/cache_stats.h"

#include <pthread.h>
#include <stdatomic.h>

/* What is done under one hold of the lock, so that it is short: so many entries end, and so many
 * are looked at. */
#define CACHE_BATCH  8
#define CACHE_PASSED 256

/* With check_puts (put_check.h): entries that have ended, and are not used again yet. */
#define CACHE_QUARANTINE (1u << 16)

/* A domain's first caches are of memory of no device, one for each iface. */
#define HOST_CACHES HMREG_IFACE_COUNT

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
    uint32_t place;     /* live: its index in the clock list; else the next in the list it is in */
    uint32_t pins;      /* that no thread's pin slot has: add those up with thread_cache_pins() */
};

struct cache_list {
    uint32_t first, last; /* numbers; 0: empty */
    atomic_uint count;    /* may be read without the lock */
};

/* What all caches of a domain share. */
struct cache_pool {
    pthread_mutex_t lock;   /* everything here and in the caches, but the counters */
    pthread_cond_t decided; /* an entry is no longer pending */
    struct stable_array entries;
    struct thread_cache_set thread_caches;
    struct cache *caches;
    struct quota *quota;          /* of all domains' caches */
    struct quota_owed owed;       /* to it, while the lock is held: see cache_unlock() */
    bool counted;                 /* the quota is a limit, and has what these caches hold */
    unsigned waiters;             /* for `decided` */
    uint32_t free;                /* the first of the entries that can be used again; 0: none */
    bool check_puts;              /* see put_check.h */
    struct cache_list quarantine; /* with check_puts: entries that cannot be used again yet */
    uint32_t fresh;               /* entries from this number on have never been used */
    unsigned count;               /* of entries in use */
    struct cache_list dying;      /* to be looked at, once threads have passed a barrier */
    struct cache_list dead;       /* to be deregistered by whoever comes next */
    struct cache_list busy;       /* whose deregistration the fabric answered with EBUSY */
    struct change_reader changes;
    struct change change; /* the one that is being applied, if there is one */
    bool applying;
    /* Entries whose regions were deregistered: the first of those that are to become free (see
     * cache_collect()), and, << 32, how many there were in all. */
    _Atomic uint64_t forgotten;
    atomic_bool served; /* the reaper deregisters what is dead: calls need not */
};

struct cache_use {
    uint64_t regions, bytes;
};

struct cache {
    struct cache_pool *pool;
    uint16_t index; /* pool->caches[index] */
    struct itree tree;
    struct clock_list live; /* entries, pinned or not */
    unsigned pending;       /* entries, which have room in that list */
    struct cache_use limit;
    struct cache_use used; /* by live entries; never above the limit */
    unsigned zombies;      /* entries that serve no more, but are pinned or busy below */
    struct cache_stats stats;
};

/* What a get asks for. */
struct cache_want {
    uint64_t start, end;
    uint64_t access;
    bool exact; /* a larger region will not do */
};

/* For these caches, which cache_init() initializes afterwards. False: no memory. */
bool cache_pool_open(struct cache_pool *pool, struct cache *caches, unsigned count, bool exact,
                     struct quota *quota);
/* When no entry is left, and before the caches' statistics are closed. */
void cache_pool_close(struct cache_pool *pool);
void cache_init(struct cache *cache, struct cache_pool *pool, unsigned index, uint64_t max_regions,
                uint64_t max_bytes);

static inline struct cache_entry *cache_entry_at(const struct cache_pool *pool, uint32_t number)
{
    return stable_array_at(&pool->entries, number);
}

/* ---- one entry, with the pool's lock held ----------------------------------------------- */

static inline struct cache *entry_cache(const struct cache_pool *pool,
                                        const struct cache_entry *entry)
{
    return &pool->caches[entry->mr.cache];
}

/* On the stable array. */
static inline uint32_t entry_number(const struct cache_entry *entry)
{
    return pin_slot_number(entry->mr.slot_offset);
}

/* All pins of an entry. To be believed only of a cold one: others may be pinned at this moment. */
static inline uint32_t entry_pins(const struct cache_pool *pool, const struct cache_entry *entry)
{
    return entry->pins + thread_cache_pins(&pool->thread_caches, entry_number(entry));
}

static inline uint32_t entry_sequence(const struct cache_entry *entry)
{
    return atomic_load_explicit(&entry->mr.sequence, memory_order_relaxed) & ~HOT_UNENDING;
}

/* Of one that is not hot: does no put end it? Who says that one may do so, and then adds up pins,
 * passes a barrier in between: hit.c does, between taking back a pin and reading this. */
static inline void entry_set_unending(struct cache_entry *entry, bool unending)
{
    atomic_store_explicit(&entry->mr.sequence,
                          entry_sequence(entry) | (unending ? HOT_UNENDING : 0),
                          memory_order_release);
}

static inline bool entry_is_hot(const struct cache_entry *entry)
{
    return entry_sequence(entry) % 2;
}

/* Hot becomes not hot, and the other way round; puts look at it again. Release: a thread that
 * matches the new sequence sees all of the entry. */
static inline void entry_next_sequence(struct cache_entry *entry)
{
    atomic_store_explicit(&entry->mr.sequence, thread_cache_next(entry_sequence(entry)),
                          memory_order_release);
}

/* How many entries' regions were deregistered so far, by whatever thread? */
static inline uint32_t cache_forgotten(const struct cache_pool *pool)
{
    return (uint32_t)(atomic_load(&pool->forgotten) >> 32);
}

/* For one more entry, in the clock list? */
static inline bool cache_has_place(const struct cache *cache)
{
    return cache->live.count + cache->pending < cache->live.size;
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

/* An unused entry for what is wanted, pinned by the caller; it serves nobody yet. like: what is
 * known of the region (domain, iface, device, rights). NULL: none is left, call cache_grow() and
 * try again.
 */
struct cache_entry *cache_take_entry(struct cache *cache, const struct cache_want *want,
                                     const struct hmreg_mr *like);
/* Entries that were forgotten become free. */
void cache_collect(struct cache_pool *pool);
/* A search by address finds the entry from now on, until it is unlinked. */
void cache_link(struct cache *cache, struct cache_entry *entry);
/* A linked entry that is not live serves no more: it is its users' alone. */
void cache_disown(struct cache *cache, struct cache_entry *entry);
/* A linked entry becomes live: it counts as used. The cache has room for it. */
void cache_enliven(struct cache *cache, struct cache_entry *entry);
/* Releases the lock, and gives to the quota what became free under it. */
void cache_unlock(struct cache_pool *pool);
/* Ends a live entry: it serves no more. */
void cache_kill(struct cache *cache, struct cache_entry *entry);
/* The same for one that is cold, idle and off the clock list: the caller deregisters it, or leaves
 * it to any later call. */
void cache_retire(struct cache *cache, struct cache_entry *entry);
void cache_leave_dead(struct cache_pool *pool, struct cache_entry *entry);
/* The same for one whose memory changed. How many pin it is for cache_examine() to find out. */
void cache_end(struct cache *cache, struct cache_entry *entry);

/* ---- taking the lock themselves --------------------------------------------------------- */

/* Makes room for entries, and in the clock list. False: no memory. */
bool cache_grow(struct cache *cache);
/* The entries' regions are deregistered, or never were: the entries can be used again. Takes the
 * lock only if one was counted as a zombie. */
void cache_forget(struct cache_pool *pool, struct cache_entry *const *entries, unsigned count);
/* From now on the quota has what the caches hold, for it is a limit. */
void cache_count_in(struct cache_pool *pool);

/* Finds out which of the dying are pinned, so many at the most, by a barrier in every thread; the
 * others become dead. */
void cache_examine(struct cache_pool *pool, unsigned most);
/* Takes the first of pool->dead or pool->busy, so many at the most, to be deregistered by the
 * caller. How many are there? */
unsigned cache_take(struct cache_pool *pool, struct cache_list *list, struct cache_entry **out,
                    unsigned most);
/* The fabric answered with EBUSY: the entry is kept for another try. */
void cache_keep_busy(struct cache_pool *pool, struct cache_entry *entry);

/* How many entries are left, in whatever state; and how many of them are pinned. */
unsigned cache_entries(struct cache_pool *pool);
unsigned cache_held(struct cache_pool *pool);

#endif
