/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Each thread's private part of a domain's caches: a table of the requests it made last, one pin
 * slot for each entry, with the thread's pins of it, and its hit counts. Only the thread writes
 * there (except `used`, which eviction clears), so a hit shares no cache line with another thread.
 * Other threads read the pin slots to add up an entry's pins when it is retired; docs/hit.md
 * proves that the sum is exact.
 *
 * When a thread ends, its thread cache stays with the domain, pins included, and the next new
 * thread takes it over.
 */
#ifndef HMREG_CORE_CACHE_THREAD_CACHE_H
#define HMREG_CORE_CACHE_THREAD_CACHE_H

#include "core/base/barrier.h"
#include "core/base/stable_array.h"
#include "core/cache/range_list.h"
#include "core/monitor/change/gate.h"
#include "core/stats/cache_stats.h"

/* One thread's view of an entry. pins: its pins, perhaps negative (puts for other threads). Only
 * the sum over all threads, modulo 2^32, has a meaning. used: set by each hit, cleared by eviction
 * when its hand visits the entry. cache: the entry's cache, for counting hits. check: valid while
 * it matches the entry's sequence. If hits need more checks it includes THREAD_CACHE_OUT_OF_LINE:
 * then it matches no sequence, and the hit goes out of line. VARIED: the entry has attributes, or
 * serves trusted claims only. whole: it serves exactly its range.
 */
struct pin_slot {
    atomic_uint pins;
    atomic_uchar used;
    bool whole;
    uint16_t cache;
    uint32_t check; /* sequence ^ access rights: they have no bit in common */
    uint32_t : 32;  /* for the size: see MR_SLOT */
};

/* Tables name an entry by the offset of its pin slot in bytes, which saves a multiplication. */
static inline uint32_t pin_slot_offset(uint32_t number)
{
    return number * (uint32_t)sizeof(struct pin_slot);
}

static inline uint32_t pin_slot_number(uint32_t name)
{
    return name / (uint32_t)sizeof(struct pin_slot);
}

static inline struct pin_slot *pin_slot_at(struct pin_slot *pin_slots, uint32_t name)
{
    return (struct pin_slot *)((char *)pin_slots + name);
}

#define THREAD_CACHE_OUT_OF_LINE 0x80000000u
#define THREAD_CACHE_VARIED      0x40000000u
/* The bits of a pin slot's check that no sequence has. */
#define THREAD_CACHE_NO_SEQUENCE (THREAD_CACHE_OUT_OF_LINE | THREAD_CACHE_VARIED | HMREG_ACCESS_ALL)

/* A bit in the sequence of every entry that ends with its last put (holders.h). It stays as long as
 * the domain: a put reads it although the entry may already have another use. The sequence of such
 * an entry is always even, so that each put checks. */
#define ENDS_WITH_PUT THREAD_CACHE_VARIED

/* The next value of a sequence, which has 24 bits around the bits of the access rights. It returns
 * to 0 after 2^24 steps. An entry that has reached 0 is never reused, so no old pin slot becomes
 * valid again. */
static inline uint32_t thread_cache_next(uint32_t sequence)
{
    return ((sequence | HMREG_ACCESS_ALL) + 1) & ~(uint32_t)THREAD_CACHE_NO_SEQUENCE;
}

/* The part of its thread cache that a hit reads, in one cache line of thread-local storage
 * (tls_views). */
struct tls_view {
    uint64_t serial;     /* the domain's serial; ~serial: every request goes out of line */
    uint32_t *slots;     /* slot offsets of entries, see pin_slot_offset(); 0: free. The kernel may
                            zero them at any time, so each is read once */
    uint32_t mask, room; /* mask: a slot's mask, in bytes; room: where pin slots end, in bytes */
    char *entries;       /* the base of the stable array of entries */
    struct pin_slot *pin_slots;
    const struct gate *gate;
    struct cache_stats_row **rows; /* stats of each cache; NULL before the first hit */
    struct thread_cache *tcache;
};

/* Addresses known to be mapped privately and anonymously, unless a call that may change mappings
 * has begun since `when` (monitor_is_unchanged()): a miss there does not ask the kernel. */
struct mapped_range {
    uint64_t start, end, when;
};
#define MAPPED_KNOWN 4

struct thread_cache {
    struct tls_view view;  /* the thread's tls_views may have a copy */
    uint32_t reserved_end; /* pin slots before this one have addresses; 0: they are on the heap */
    char *old_slots;       /* the part of a replaced table that is not freed yet; NULL: none */
    size_t old_bytes;
    struct mapped_range mapped[MAPPED_KNOWN];
    unsigned mapped_next;     /* index of the next one to replace */
    struct range_list larger; /* slot offsets of entries that have served parts of their ranges */
    bool fenced;    /* the kernel lacks membarrier(2): hits and puts call barrier_here() */
    bool exact;     /* only a region of exactly the requested range serves */
    uint32_t used;  /* slots in use */
    uint32_t parts; /* how many of them are slots of requests for parts of entries */
    struct thread_cache_set *set;
    struct thread_cache *next;
    _Atomic uint64_t owner;         /* number of a thread; 0: free for the next thread */
    struct cache_stats_row *rows[]; /* view.rows */
};

/* All thread caches of a domain. */
struct thread_cache_set {
    uint64_t serial; /* unique in the process, never reused */
    struct gate *gate;
    const struct stable_array *entries; /* of struct hmreg_mr; not empty */
    pthread_mutex_t *lock;              /* guards the entries; held while pin slots are added up */
    unsigned caches;
    bool fenced, exact;
    _Atomic(struct thread_cache *) first;
    struct thread_cache_set *next; /* in the list of all sets of the process */
};

/* entries, lock: as above. fenced: do not use membarrier(2). False: no memory. */
bool thread_cache_set_open(struct thread_cache_set *set, const struct stable_array *entries,
                           pthread_mutex_t *lock, unsigned caches, bool exact, bool fenced);
/* Call it when no thread is in a call with the domain. stats: returns the statistics of each
 * cache. */
void thread_cache_set_close(struct thread_cache_set *set,
                            struct cache_stats *(*stats)(struct thread_cache_set *, unsigned));

/* The calling thread's thread cache. find: NULL: it has none. join: takes over or allocates a
 * missing one; NULL: no memory. */
struct thread_cache *thread_cache_find(struct thread_cache_set *set);
struct thread_cache *thread_cache_join(struct thread_cache_set *set);
/* Copies of the views of the domains that this thread used last. There are few, because static
 * thread-local storage is scarce: thread_cache_find() gives a domain the TLS view that it shares
 * with others. */
#define TLS_VIEWS 4
extern _Thread_local struct tls_view tls_views[TLS_VIEWS]
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

static inline struct tls_view *tls_view_of(uint64_t serial)
{
    return &tls_views[serial % TLS_VIEWS];
}

/* Called between making a sequence even and adding up pins. Pairs with the compiler barriers of
 * hits and puts or, without membarrier(2), with their fences. */
static inline void thread_cache_barrier(const struct thread_cache_set *set)
{
    if (set->fenced)
        barrier_here();
    else
        barrier_everywhere();
}

/* Returns this thread's pin slot of an entry, allocated if need be. NULL: no memory. */
struct pin_slot *thread_cache_pin_slot(struct thread_cache *tcache, uint32_t number);

/* Hashes an address: takes bits from the middle of a product, since lower bits put neighbouring
 * pages into neighbouring slots. The factor was chosen from many: with it adjacent pages do not
 * collide, and buffers of the usual sizes, 64 bytes to 1 GiB, seldom do. */
static inline uint32_t thread_cache_hash(uint64_t addr)
{
    return (uint32_t)(addr * UINT64_C(0x5c207dbd) >> 33);
}

/* The first slot of an address's probe sequence, which has at most THREAD_CACHE_PROBES slots, up to
 * the first free one. */
#define THREAD_CACHE_PROBES 64
static inline uint32_t *thread_cache_slot(uint32_t *slots, uint32_t mask, uint32_t hash)
{
    return (uint32_t *)((char *)slots + (hash & mask));
}

static inline uint32_t thread_cache_read(const uint32_t *slot)
{
    return __atomic_load_n(slot, __ATOMIC_RELAXED);
}

/* has: false: the kernel has zeroed the table, or part of it, since the last mark. It does so when
 * memory is short. A restored process also gets the table zeroed, if the checkpointer leaves such
 * memory out. mark: marks a new table. */
bool thread_cache_is_whole(const struct thread_cache *tcache);
void thread_cache_mark_whole(struct thread_cache *tcache);

/* Remembers that an entry, which has a pin slot, served a request at this address. check: the pin
 * slot's new `check`. part: the request was for a part of the entry; a full, large table does not
 * grow for it. */
void thread_cache_remember(struct thread_cache *tcache, uint64_t addr, uint32_t number,
                           uint32_t check, bool part);

/* Keeps an entry that the thread remembers, and that has served [addr, addr + len), for other parts
 * of its range. range.number: its slot offset. */
void thread_cache_keep_larger(struct thread_cache *tcache, struct range range, uint64_t addr,
                              uint64_t len);

/* Counts a hit of a cache. */
void thread_cache_count(struct thread_cache *tcache, unsigned cache, struct cache_stats *stats);
/* Gives the thread a row for this cache's hits. False: no memory. */
static inline bool thread_cache_counts(struct thread_cache *tcache, unsigned cache,
                                       struct cache_stats *stats)
{
    if (!tcache->rows[cache])
        tcache->rows[cache] = cache_stats_join(stats);
    return tcache->rows[cache];
}

/* The sum of all threads' pins of an entry. The lock is held, as for the two functions below. */
uint32_t thread_cache_pins(const struct thread_cache_set *set, uint32_t number);
/* Has any thread used the entry since thread_cache_clear_used()? A concurrent use may count as
 * earlier. */
bool thread_cache_was_used(const struct thread_cache_set *set, uint32_t number);
void thread_cache_clear_used(const struct thread_cache_set *set, uint32_t number);

#endif
