/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What each thread has of a domain's caches for itself: a table of the requests it made last, a
 * pin slot for each entry with its pins of it, and its counts. Only the thread writes there, so a
 * hit shares no line with anybody. Others read the pin slots, to add them up when an entry is to
 * go; docs/cache.md proves that the sum is right.
 *
 * A thread's part stays with the domain when the thread ends, pins and all, and the next thread
 * takes it over.
 */
#ifndef HMREG_CORE_CACHE_THREAD_CACHE_H
#define HMREG_CORE_CACHE_THREAD_CACHE_H

#include "core/base/barrier.h"
#include "core/base/stable_array.h"
#include "core/monitor/gate.h"
#include "core/stats/cache_stats.h"

#if defined(__SANITIZE_ADDRESS__)
#define THREAD_CACHE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define THREAD_CACHE_ASAN 1
#endif
#endif

/* What a thread has of an entry: its pins, less those it put for others, which count only together,
 * modulo 2^32; whether it used the entry since eviction last considered it, which eviction clears;
 * and how it knows the entry. That is good while the
 * entry's sequence is the same. Of entries that need more than a look, or are not of the thread's
 * usual cache, the sequence is here with THREAD_CACHE_ASIDE, so that no entry's is equal. */
struct pin_slot {
    atomic_uint pins, used;
    uint32_t check; /* sequence ^ access: they have no bit in common */
    uint32_t hash;  /* of the last request that the entry served */
};

/* An entry's name is its pin slot's offset in bytes: nothing has to be multiplied to find that. */
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

#define THREAD_CACHE_ASIDE 0x80000000u

/* The same bit in an entry's sequence, which is even then: no put ends the entry. It is live and
 * cold, or free. */
#define HOT_UNENDING THREAD_CACHE_ASIDE

/* The next of a sequence's values: 25 bits around those of access rights. It comes to 0 again after
 * 2^25 steps; an entry that has done them all is not used any more, lest a pin slot be good again.
 */
static inline uint32_t thread_cache_next(uint32_t sequence)
{
    return ((sequence | HMREG_ACCESS_ALL) + 1) & ~(THREAD_CACHE_ASIDE | HMREG_ACCESS_ALL);
}

/* What a hit reads, in one line: a thread has it in a place of its own (tls_views). */
struct tls_view {
    uint64_t serial;     /* the domain's; ~serial if each request takes more than a look */
    uint32_t *slots;     /* names of entries, see pin_slot_offset(); 0: free */
    uint32_t mask, room; /* of a slot, in bytes; names that have pin slots end here */
    char *entries;       /* as struct stable_array's base */
    struct pin_slot *pin_slots;
    const struct gate *gate;
    _Atomic uint64_t *hits; /* of the usual cache; NULL before the first */
    struct thread_cache *tcache;
};

/* Addresses that are mapped, privately and without a file, unless calls have begun since `when`
 * that may change what is mapped (monitor_is_unchanged()). */
struct hot_mapped {
    uint64_t start, end, when;
};
#define HOT_MAPPED 4

struct thread_cache {
    struct tls_view view; /* the thread's is a copy, if it has one */
    struct hot_mapped mapped[HOT_MAPPED];
    unsigned mapped_next; /* the one to go */
    uint16_t usual;       /* a cache */
    bool fenced;          /* barrier_here() is ours to call */
    bool exact;           /* only the range itself will do */
    uint32_t used;        /* slots */
    uint32_t others;      /* of those, second and further requests of an entry */
    struct thread_cache_set *set;
    struct thread_cache *next;
    _Atomic uint64_t owner;         /* a thread; 0: whoever comes */
    struct cache_stats_row *rows[]; /* of each cache; NULL before the first hit */
};

/* One for each domain. */
struct thread_cache_set {
    uint64_t serial; /* never used again */
    struct gate *gate;
    const struct stable_array *entries; /* of struct cache_entry; not empty */
    pthread_mutex_t *lock;              /* theirs; held by who adds pin slots up */
    unsigned caches;
    bool fenced, exact;
    _Atomic(struct thread_cache *) first;
    struct thread_cache_set *next; /* of all sets of the process */
};

/* entries, lock: as above. False: no memory. */
bool thread_cache_set_open(struct thread_cache_set *set, const struct stable_array *entries,
                           pthread_mutex_t *lock, unsigned caches, bool exact);
/* No thread is in a call with the domain any more. statistics: of each cache. */
void thread_cache_set_close(struct thread_cache_set *set,
                            struct cache_stats *(*stats)(struct thread_cache_set *, unsigned));

/* The calling thread's part, if it has one; made if need be. NULL: it has none; no memory. */
struct thread_cache *thread_cache_find(struct thread_cache_set *set);
struct thread_cache *thread_cache_join(struct thread_cache_set *set);

/* Where this thread has been lately. Few, since memory of this kind is scarce. */
#define TLS_VIEWS 4
extern _Thread_local struct tls_view tls_views[TLS_VIEWS]
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

static inline struct tls_view *tls_view_of(uint64_t serial)
{
    return &tls_views[serial % TLS_VIEWS];
}

/* A domain's TLS view, read with the fewest instructions: on x86 relative to the thread's segment,
 * if the compiler has pointers of that kind. Sanitizers would not understand them. */
#if defined(__SEG_FS) && defined(__LP64__) && !defined(BARRIER_TSAN) && !defined(THREAD_CACHE_ASAN)
typedef const struct tls_view __seg_fs *tls_view_pointer;

static inline tls_view_pointer tls_view_at(uint64_t place)
{
    return (tls_view_pointer)place;
}

static inline uint64_t tls_view_offset(uint64_t serial)
{
    return (uint64_t)((char *)tls_view_of(serial) - (char *)__builtin_thread_pointer());
}
#else
typedef const struct tls_view *tls_view_pointer;

static inline tls_view_pointer tls_view_at(uint64_t place)
{
    return (tls_view_pointer)((char *)tls_views + place);
}

/* The same in all threads. */
static inline uint64_t tls_view_offset(uint64_t serial)
{
    return (uint64_t)((char *)tls_view_of(serial) - (char *)tls_views);
}
#endif

/* Between making a sequence even and adding up pins. Pairs with the fences of hits and puts, or
 * takes their place. */
static inline void thread_cache_barrier(const struct thread_cache_set *set)
{
    if (set->fenced)
        barrier_here();
    else
        barrier_everywhere();
}

/* This thread's pin slot of an entry, made if need be. NULL: no memory. */
struct pin_slot *thread_cache_pin_slot(struct thread_cache *tcache, uint32_t number);

/* Of an address: bits from the middle of a product, since lower ones put neighbouring pages into
 * neighbouring slots. The factor is one of many tried: with it pages side by side do not meet, and
 * buffers of any usual size, 64 bytes to 1 GiB, seldom. */
static inline uint32_t thread_cache_hash(uint64_t addr)
{
    return (uint32_t)(addr * UINT64_C(0x5c207dbd) >> 33);
}

/* Where an address's slots begin: one of THREAD_CACHE_PROBES, before the first free one. */
#define THREAD_CACHE_PROBES 64
static inline uint32_t *thread_cache_slot(uint32_t *slots, uint32_t mask, uint32_t hash)
{
    return (uint32_t *)((char *)slots + (hash & mask));
}

/* Remembers that an entry, which has a pin slot, served a request at this address. check: as a pin
 * slot's.
 */
void thread_cache_remember(struct thread_cache *tcache, uint64_t addr, uint32_t number,
                           uint32_t check);

/* Counts a hit. */
void thread_cache_count(struct thread_cache *tcache, unsigned cache, struct cache_stats *stats);
/* Is it the cache whose hits are counted at hits? It is the first that asks. */
bool thread_cache_is_usual(struct thread_cache *tcache, unsigned cache, struct cache_stats *stats);

/* Over all threads, with the lock held: the pins of an entry. */
uint32_t thread_cache_pins(const struct thread_cache_set *set, uint32_t number);
/* Has any thread used it since thread_cache_clear_used()? A use at the same time may count as
 * before it. */
bool thread_cache_was_used(const struct thread_cache_set *set, uint32_t number);
void thread_cache_clear_used(const struct thread_cache_set *set, uint32_t number);

#endif
