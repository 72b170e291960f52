/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The state that the caches of a domain share: their entries, the usage and limits of each cache,
 * and the lists of entries that are unpublished. cache_pool.c lists the invariants that hold
 * whenever the lock is free.
 *
 * A pin keeps an entry from being deregistered. Each successful get holds one pin until its put.
 * The sum of pins is exact only for a cold entry, which threads cannot pin through their own tables
 * (thread_cache.h). An entry that ends with its last put has holders instead (holders.h), whose
 * number is exact at any time: it is neither hot nor ever idle.
 */
#ifndef HMREG_CORE_CACHE_CACHE_POOL_H
#define HMREG_CORE_CACHE_CACHE_POOL_H

#include "core/base/itree.h"
#include "core/cache/holders.h"
#include "core/cache/thread_cache.h"
#include "core/cache/variant.h"
#include "core/context/quota.h"
#include "core/monitor/change/change_queue.h"
#include "core/mr/claim.h"
#include "core/mr/mr.h"
#include "core/stats/cache_stats.h"

#include <pthread.h>
#include <stdatomic.h>

/* The most steps of a get, put or hook of the program. A step is an entry that it unpublishes,
 * examines, moves in a table or makes free, or a change that it reads (core/base/work.h). Later
 * calls and the reaper do the remaining steps. If a get's own registration fails for lack of room,
 * its deregistrations do not count. */
#define CACHE_WORK_MOST 2048

/* Bounds on the work under one hold of the lock: unpublished entries, and examined ones. */
#define CACHE_BATCH  8
#define CACHE_PASSED 256

/* The most changes that may have cut entries in a cache at one time. */
#define CACHE_CUTS 8

/* With check_puts (put_check.h): the number of freed entries that are not reused yet. */
#define CACHE_QUARANTINE (1u << 16)

_Static_assert(sizeof(struct pin_slot) == MR_SLOT, "a pin slot's offset names its entry");

_Static_assert(ENDS_WITH_PUT == MR_ENDS_WITH_PUT, "this bit shows a region's policy");

/* A domain's first caches are for memory on no device, one for each iface. */
#define HOST_CACHES HMREG_IFACE_COUNT
/* The greatest index of a cache, for mr_body.cache. */
#define CACHE_INDEX_MOST 0x3fffu

/* An entry is a region of hmreg_mr_get(), cached or not. Its memory holds entries only while the
 * domain is open, so threads may read any entry that they remember. */
enum cache_state {
    CACHE_FREE,
    CACHE_PENDING,     /* being registered by the thread that reserved it */
    CACHE_LIVE,        /* serves gets; if it ends with its last put: while it has holders */
    CACHE_UNPUBLISHED, /* unpublished; its pins are not known yet */
    CACHE_HELD,        /* retired or never published, and pinned: its last put frees it */
    CACHE_ENDING,      /* retired, without pins: to be freed */
};

struct cache_list {
    uint32_t first, last; /* entry numbers; 0: empty */
    atomic_uint count;    /* may be read without the lock */
};

/* Live entries that a change has cut from the tree: see cuts.h. */
struct cache_cut {
    struct itree tree; /* empty: not in use */
    struct change change;
};

/* The state that all caches of a domain share. */
struct cache_pool {
    struct hmreg_domain *domain;
    pthread_mutex_t lock;        /* guards everything here and in the caches, except counters */
    pthread_mutex_t emptying;    /* held by cache_empty(), around the lock */
    pthread_cond_t decided;      /* signalled when an entry is no longer pending */
    struct stable_array entries; /* struct hmreg_mr, and struct mr_body */
    struct thread_cache_set thread_caches;
    struct cache *caches;
    atomic_uint known_caches; /* later caches are for devices that are not known yet; grows under
                                 the lock */
    struct quota *quota;      /* shared by all domains' caches */
    bool counted;     /* the quota limits regions or bytes: these caches are charged to it */
    unsigned waiters; /* threads that wait for `decided` */
    /* The first free entry; 0: none. [1]: entries that end with their last put in each use. */
    uint32_t free[2];
    bool check_puts;               /* see put_check.h */
    struct cache_list quarantine;  /* with check_puts: freed entries that must not be reused yet */
    uint32_t fresh;                /* entries from this number on have never been used */
    unsigned count;                /* entries in use */
    unsigned serving;              /* entries that are pending or live */
    struct cache_list unpublished; /* examined after the next barrier in every thread */
    bool unpublished_hot;          /* ... the barrier is needed, because one of them was not cold */
    struct cache_list settled;     /* retired next: the barrier was passed */
    struct cache_list to_free;     /* freed by the next caller */
    struct cache_list busy;        /* their deregistration failed with EBUSY */
    struct change_reader changes;
    struct change change; /* the change being applied, if `applying` */
    bool applying;
    atomic_uint cuts;    /* cuts that are not empty, in all caches */
    atomic_uint freed;   /* entries made free so far, by any thread */
    atomic_bool served;  /* the reaper frees retired entries: calls need not */
    atomic_bool wanting; /* some cache has a wanted region */
};

struct cache_use {
    uint64_t regions, bytes;
};

struct cache {
    struct cache_pool *pool;
    uint16_t index;       /* pool->caches[index] */
    struct itree tree;    /* live entries, except cut ones */
    struct itree pending; /* pending entries */
    struct cache_cut cuts[CACHE_CUTS];
    struct clock_list live; /* live entries that are kept, pinned or not */
    struct cache_use limit;
    struct cache_use used; /* usage of live entries; at most the limit, unless that was lowered */
    unsigned fruitless;    /* consecutive searches for room that met no idle entry */
    unsigned retired;      /* retired entries that are still pinned, or busy in the fabric */
    struct {
        uint64_t bytes; /* bytes of a region that found no room, because too many entries had to go;
                           0: none */
        uint64_t idle;  /* bytes of idle entries before number `looked` */
        uint32_t looked;
    } wanted;
    struct cache_stats stats;
};

/* The request of a get. */
struct cache_want {
    uint64_t start, end; /* for a list of segments, which the variant has: the range around them */
    uint64_t access;
    uint64_t more;             /* rights that a region may have beyond these */
    struct variant *variant;   /* NULL: hmreg_mr_get() */
    const struct claim *claim; /* claim about the memory, unless the variant has it; NULL: none */
    bool exact;                /* only a region of exactly this range serves */
    bool whole;                /* a region registered for it serves no get of a part */
    enum hmreg_policy policy;  /* the get's, else the domain's. LAST_PUT: no other region serves */
    bool cover;                /* a miss may register the whole allocation */
    bool at_once;              /* the get must not wait: it makes no check and no deregistration */
};

/* The length of the request's region. */
static inline uint64_t want_len(const struct cache_want *want)
{
    return want->variant && want->variant->key.count ? want->variant->len : want->end - want->start;
}

/* Opens the pool for at most `count` caches, which cache_init() initializes afterwards, one after
 * the other. False: no memory. */
bool cache_pool_open(struct cache_pool *pool, struct hmreg_domain *domain, struct cache *caches,
                     unsigned count, struct quota *quota);
/* Call it when no entry is left, before the statistics of the caches are closed. */
void cache_pool_close(struct cache_pool *pool);
void cache_init(struct cache *cache, struct cache_pool *pool, unsigned index, uint64_t max_regions,
                uint64_t max_bytes);

static inline struct hmreg_mr *cache_entry_at(const struct cache_pool *pool, uint32_t number)
{
    return stable_array_at(&pool->entries, number);
}

static inline struct mr_body *cache_body_at(const struct cache_pool *pool, uint32_t number)
{
    return stable_array_second_at(&pool->entries, number);
}

/* ---- one entry, with the pool's lock held ----------------------------------------------- */

/* mr_body() of an entry. */
static inline struct mr_body *entry_body(const struct hmreg_mr *entry)
{
    return mr_body_in(entry->domain->entries, entry->slot_offset);
}

static inline struct cache *entry_cache(const struct cache_pool *pool, const struct hmreg_mr *entry)
{
    return &pool->caches[entry_body(entry)->cache];
}

/* The entry's index in the stable array. */
static inline uint32_t entry_number(const struct hmreg_mr *entry)
{
    return pin_slot_number(entry->slot_offset);
}

/* The attributes that are part of the entry's key; NULL: none. */
static inline struct variant *entry_variant(const struct hmreg_mr *entry)
{
    return entry_body(entry)->variant;
}

/* NULL: NULL. */
static inline struct hmreg_mr *entry_of(struct itree_node *node)
{
    return node ? (struct hmreg_mr *)((char *)node - offsetof(struct hmreg_mr, node)) : NULL;
}

/* Does the entry end with its last put? */
static inline bool entry_ends_with_put(const struct hmreg_mr *entry)
{
    return atomic_load_explicit(&entry->sequence, memory_order_relaxed) & ENDS_WITH_PUT;
}

static inline _Atomic uint64_t *entry_holders(const struct hmreg_mr *entry)
{
    return &entry_body(entry)->holders;
}

/* Does the caller's claim describe the entry's memory? A trusted claim of another caller
 * counts only for callers with the same claim; NULL: no claim. */
static inline bool entry_is_claimed(const struct hmreg_mr *entry, const struct claim *claim)
{
    const struct mr_body *body = entry_body(entry);

    if (!claim)
        return !body->claimed;
    return claim->iface == (enum hmreg_iface)body->iface && (claim->trusted || !body->claimed) &&
           (claim->device == HMREG_DEVICE_ANY || claim->device == mr_device(entry));
}

/* The number of an entry's holders, or the sum of its pins. The sum is exact only for a cold entry:
 * threads may be pinning hot ones now. */
static inline uint32_t entry_pins(const struct cache_pool *pool, const struct hmreg_mr *entry)
{
    if (entry_ends_with_put(entry))
        return holders_count(entry_holders(entry));
    return entry_body(entry)->pins + thread_cache_pins(&pool->thread_caches, entry_number(entry));
}

/* May an entry be evicted, as far as is known? LAST_PUT entries are never evicted. */
static inline bool entry_is_idle(const struct cache_pool *pool, const struct hmreg_mr *entry)
{
    return !entry_ends_with_put(entry) && !entry_pins(pool, entry);
}

static inline uint32_t entry_sequence(const struct hmreg_mr *entry)
{
    return atomic_load_explicit(&entry->sequence, memory_order_relaxed) & ~ENDS_WITH_PUT;
}

static inline bool entry_is_hot(const struct hmreg_mr *entry)
{
    return entry_sequence(entry) % 2;
}

/* Advances the sequence: a hot entry becomes cold, a cold one hot. Release: a thread that matches
 * the new sequence sees the whole entry. */
static inline void entry_next_sequence(struct hmreg_mr *entry)
{
    atomic_store_explicit(&entry->sequence, thread_cache_next(entry_sequence(entry)),
                          memory_order_release);
}

/* Likewise for an entry that ends with its last put: threads that remember it no longer find it. */
static inline void entry_next_use(struct hmreg_mr *entry)
{
    uint32_t next = thread_cache_next(thread_cache_next(entry_sequence(entry)));

    atomic_store_explicit(&entry->sequence, next | ENDS_WITH_PUT, memory_order_release);
}

static inline void cache_use_add(struct cache_use *use, const struct hmreg_mr *entry)
{
    use->regions++;
    use->bytes += mr_len(entry);
}

static inline void cache_use_subtract(struct cache_use *use, const struct hmreg_mr *entry)
{
    use->regions--;
    use->bytes -= mr_len(entry);
}

/* Takes a free entry for the request, pinned by the caller; no get finds it yet. iface: the
 * memory's. NULL: no entry is free; call cache_grow() and try again. */
struct hmreg_mr *cache_take_entry(struct cache *cache, const struct cache_want *want,
                                  enum hmreg_iface iface);
/* Makes an entry pending: cache_reserve() and changes find it by address until it is retired or
 * live. */
void cache_link(struct cache *cache, struct hmreg_mr *entry);
/* Retires a pending entry, which its thread has pinned: cache_reserve() and changes no longer find
 * it. */
void cache_retire_pending(struct cache *cache, struct hmreg_mr *entry);
/* Makes a pending entry live and charges its usage. The cache must have room for it. */
void cache_enliven(struct cache *cache, struct hmreg_mr *entry);
/* Unpublishes and retires a live entry that is cold. */
void cache_retire(struct cache *cache, struct hmreg_mr *entry);
/* Likewise for a cold, idle entry that is off the clock list. */
void cache_retire_idle(struct cache *cache, struct hmreg_mr *entry);
/* Retires an entry that ends with its last put and has lost its last holder; unpublishes it if it
 * is still published. It is in no cut. The caller frees it. */
void cache_retire_put(struct cache *cache, struct hmreg_mr *entry);
/* Unpublishes an entry whose memory changed. cache_examine() will find out whether it is pinned,
 * and retire it; a LAST_PUT entry is left to its last put. unlinked: the entry has left the
 * tree. */
void cache_unpublish(struct cache *cache, struct hmreg_mr *entry);
void cache_unpublish_unlinked(struct cache *cache, struct hmreg_mr *entry);

/* ---- taking the lock themselves --------------------------------------------------------- */

/* Allocates entries if no free one has the kind that the request needs. False: no memory. */
bool cache_grow(struct cache *cache, const struct cache_want *want);
/* Frees a few retired entries, whose regions are not registered, or never were. */
void cache_free_entries(struct cache_pool *pool, struct hmreg_mr *const *entries, unsigned count);

/* Retires at most `most` of the unpublished entries: finds out which are pinned, with one barrier
 * in every thread for all of them. */
void cache_examine(struct cache_pool *pool, unsigned most);
/* Takes up to `most` entries from pool->to_free or pool->busy, for the caller to free. Returns
 * how many it took. */
unsigned cache_take(struct cache_pool *pool, struct cache_list *list, struct hmreg_mr **out,
                    unsigned most);
/* Leaves a retired entry without pins to the next cache_take() of to_free. */
void cache_leave(struct cache_pool *pool, struct hmreg_mr *entry);
/* Keeps an entry whose deregistration failed with EBUSY for another try. */
void cache_keep_busy(struct cache_pool *pool, struct hmreg_mr *entry);

/* Sets whether the reaper, or else calls of the domain, free retired entries. */
void cache_serve(struct cache_pool *pool, bool served);
/* May the reaper have work: is an entry pending, live, or retired for the reaper to free? Does not
 * wait for the lock: true while another thread holds it. */
bool cache_needs_reaper(struct cache_pool *pool);

/* The number of entries in use, in any state. */
unsigned cache_entries(struct cache_pool *pool);

/* The pinned entries, and the range and pins of the first one; for a list, its first range's
 * address and its whole length. */
struct cache_held {
    unsigned count, pins;
    uint64_t addr, len;
};
struct cache_held cache_held(struct cache_pool *pool);

#endif
