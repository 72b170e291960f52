/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What each thread has of a domain's caches for itself: a table of the requests it made last, a
 * cell for each entry with its pins of it, and its counts. Only the thread writes there, so a hit
 * shares no line with anybody. Others read the cells, to add them up when an entry is to go;
 * docs/cache.md proves that the sum is right.
 *
 * A thread's part stays with the domain when the thread ends, pins and all, and the next thread
 * takes it over.
 */
#ifndef HMREG_CORE_HOT_H
#define HMREG_CORE_HOT_H

#include "core/barrier.h"
#include "core/ledger.h"
#include "core/gate.h"
#include "core/shelf.h"

#if defined(__SANITIZE_ADDRESS__)
#define HOT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HOT_ASAN 1
#endif
#endif

/* What a thread has of an entry: its pins, less those it put for others, which count only together,
 * modulo 2^32; whether it used the entry since eviction last considered it, which eviction clears;
 * and how it knows the entry. That is good while the
 * entry's sequence is the same. Of entries that need more than a look, or are not of the thread's
 * usual cache, the sequence is here with HOT_ASIDE, so that no entry's is equal. */
struct cell {
    atomic_uint pins, used;
    uint32_t check; /* sequence ^ access: they have no bit in common */
    uint32_t hash;  /* of the last request that the entry served */
};

/* An entry's name is its cell's offset in bytes: nothing has to be multiplied to find that. */
static inline uint32_t hot_name(uint32_t number)
{
    return number * (uint32_t)sizeof(struct cell);
}

static inline uint32_t hot_number(uint32_t name)
{
    return name / (uint32_t)sizeof(struct cell);
}

static inline struct cell *hot_cell_of(struct cell *cells, uint32_t name)
{
    return (struct cell *)((char *)cells + name);
}

#define HOT_ASIDE 0x80000000u

/* The same bit in an entry's sequence, which is even then: no put ends the entry. It is live and
 * cold, or free. */
#define HOT_UNENDING HOT_ASIDE

/* The next of a sequence's values: 25 bits around those of access rights. It comes to 0 again after
 * 2^25 steps; an entry that has done them all is not used any more, lest a cell be good again. */
static inline uint32_t hot_next(uint32_t sequence)
{
    return ((sequence | HMREG_ACCESS_ALL) + 1) & ~(HOT_ASIDE | HMREG_ACCESS_ALL);
}

/* What a hit reads, in one line: a thread has it in a place of its own (hot_desks). */
struct hot_desk {
    uint64_t serial;     /* the domain's; ~serial if each request takes more than a look */
    uint32_t *slots;     /* names of entries, see hot_name(); 0: free */
    uint32_t mask, room; /* of a slot, in bytes; names that have cells end here */
    char *entries;       /* as struct shelf's base */
    struct cell *cells;
    const struct gate *gate;
    _Atomic uint64_t *hits; /* of the usual cache; NULL before the first */
    struct hot *hot;
};

/* Addresses that are mapped, privately and without a file, unless calls have begun since `when`
 * that may change what is mapped (monitor_is_unchanged()). */
struct hot_mapped {
    uint64_t start, end, when;
};
#define HOT_MAPPED 4

struct hot {
    struct hot_desk desk; /* the thread's is a copy, if it has one */
    struct hot_mapped mapped[HOT_MAPPED];
    unsigned mapped_next; /* the one to go */
    uint16_t usual;       /* a cache */
    bool fenced;          /* barrier_here() is ours to call */
    bool exact;           /* only the range itself will do */
    uint32_t used;        /* slots */
    uint32_t others;      /* of those, second and further requests of an entry */
    struct hot_set *set;
    struct hot *next;
    _Atomic uint64_t owner;    /* a thread; 0: whoever comes */
    struct ledger_row *rows[]; /* of each cache; NULL before the first hit */
};

/* One for each domain. */
struct hot_set {
    uint64_t serial; /* never used again */
    struct gate *gate;
    const struct shelf *entries; /* of struct cache_entry; not empty */
    pthread_mutex_t *lock;       /* theirs; held by who adds cells up */
    unsigned caches;
    bool fenced, exact;
    _Atomic(struct hot *) first;
    struct hot_set *next; /* of all sets of the process */
};

/* entries, lock: as above. False: no memory. */
bool hot_set_open(struct hot_set *set, const struct shelf *entries, pthread_mutex_t *lock,
                  unsigned caches, bool exact);
/* No thread is in a call with the domain any more. ledger: of each cache. */
void hot_set_close(struct hot_set *set, struct ledger *(*ledger)(struct hot_set *, unsigned));

/* The calling thread's part, if it has one; made if need be. NULL: it has none; no memory. */
struct hot *hot_find(struct hot_set *set);
struct hot *hot_join(struct hot_set *set);

/* Where this thread has been lately. Few, since memory of this kind is scarce. */
#define HOT_DESKS 4
extern _Thread_local struct hot_desk hot_desks[HOT_DESKS]
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

static inline struct hot_desk *hot_desk_of(uint64_t serial)
{
    return &hot_desks[serial % HOT_DESKS];
}

/* A domain's desk, read with the fewest instructions: on x86 relative to the thread's segment, if
 * the compiler has pointers of that kind. Sanitizers would not understand them. */
#if defined(__SEG_FS) && defined(__LP64__) && !defined(BARRIER_TSAN) && !defined(HOT_ASAN)
typedef const struct hot_desk __seg_fs *hot_view;

static inline hot_view hot_desk_at(uint64_t place)
{
    return (hot_view)place;
}

static inline uint64_t hot_place_of(uint64_t serial)
{
    return (uint64_t)((char *)hot_desk_of(serial) - (char *)__builtin_thread_pointer());
}
#else
typedef const struct hot_desk *hot_view;

static inline hot_view hot_desk_at(uint64_t place)
{
    return (hot_view)((char *)hot_desks + place);
}

/* The same in all threads. */
static inline uint64_t hot_place_of(uint64_t serial)
{
    return (uint64_t)((char *)hot_desk_of(serial) - (char *)hot_desks);
}
#endif

/* Between making a sequence even and adding up pins. Pairs with the fences of hits and puts, or
 * takes their place. */
static inline void hot_barrier(const struct hot_set *set)
{
    if (set->fenced)
        barrier_here();
    else
        barrier_everywhere();
}

/* This thread's cell of an entry, made if need be. NULL: no memory. */
struct cell *hot_cell(struct hot *hot, uint32_t number);

/* Of an address: bits from the middle of a product, since lower ones put neighbouring pages into
 * neighbouring slots. The factor is one of many tried: with it pages side by side do not meet, and
 * buffers of any usual size, 64 bytes to 1 GiB, seldom. */
static inline uint32_t hot_hash(uint64_t addr)
{
    return (uint32_t)(addr * UINT64_C(0x5c207dbd) >> 33);
}

/* Where an address's slots begin: one of HOT_PROBES, before the first free one. */
#define HOT_PROBES 64
static inline uint32_t *hot_slot(uint32_t *slots, uint32_t mask, uint32_t hash)
{
    return (uint32_t *)((char *)slots + (hash & mask));
}

/* Remembers that an entry, which has a cell, served a request at this address. check: as a cell's.
 */
void hot_remember(struct hot *hot, uint64_t addr, uint32_t number, uint32_t check);

/* Counts a hit. */
void hot_count(struct hot *hot, unsigned cache, struct ledger *ledger);
/* Is it the cache whose hits are counted at hits? It is the first that asks. */
bool hot_is_usual(struct hot *hot, unsigned cache, struct ledger *ledger);

/* Over all threads, with the lock held: the pins of an entry. */
uint32_t hot_pins(const struct hot_set *set, uint32_t number);
/* Has any thread used it since hot_clear_used()? A use at the same time may count as before it. */
bool hot_was_used(const struct hot_set *set, uint32_t number);
void hot_clear_used(const struct hot_set *set, uint32_t number);

#endif
