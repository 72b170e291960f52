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
#include "core/pulse.h"
#include "core/shelf.h"

/* A thread's pins of an entry, less those it put for others: they count only together, modulo 2^32;
 * and when it used the entry last. */
struct cell {
    atomic_uint pins, stamp;
};

/* A request that an entry served, by its address: good while that entry's sequence is the same, and
 * then the entry contains the address. Of requests that need more than a look, or are not of the
 * thread's usual cache, the sequence is here with HOT_ASIDE, so that no entry's is equal. */
struct slot {
    uint64_t addr; /* 0: free */
    uint32_t number;
    uint32_t check; /* sequence ^ access: they have no bit in common */
};

#define HOT_ASIDE 0x80000000u

/* The next of a sequence's values: 25 bits around those of access rights. It comes to 0 again after
 * 2^25 steps; an entry that has done them all is not used any more, lest a slot be good again. */
static inline uint32_t hot_next(uint32_t sequence)
{
    return ((sequence | HMREG_ACCESS_ALL) + 1) & ~(HOT_ASIDE | HMREG_ACCESS_ALL);
}

struct hot {
    /* What a hit reads, in one line. */
    const struct pulse *pulse;
    struct slot *slots;
    uint64_t span; /* of the slots, in bytes; hash / 2^32 of it is where a search begins */
    char *entries; /* as struct shelf's base, and size */
    uint64_t entry_size;
    struct cell *cells;
    uint32_t room;          /* cells */
    uint16_t usual;         /* a cache */
    bool fenced;            /* barrier_here() is ours to call */
    bool exact;             /* only the range itself will do */
    _Atomic uint64_t *hits; /* of the usual cache */
    struct hot_set *set;
    struct hot *next;
    _Atomic uint64_t owner;    /* a thread; 0: whoever comes */
    uint32_t used, size;       /* slots */
    struct ledger_row *rows[]; /* of each cache; NULL before the first hit */
};

/* One for each domain. */
struct hot_set {
    uint64_t serial; /* never used again */
    struct pulse *pulse;
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

/* The calling thread's part, made if need be. NULL: no memory. */
struct hot *hot_join(struct hot_set *set);

/* Where this thread has been lately. A part that takes more than a look has another serial here. */
#define HOT_PLACES 8
struct hot_place {
    uint64_t serial;
    struct hot *hot;
};
extern _Thread_local struct hot_place hot_places[HOT_PLACES]
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Where, for a domain: in bytes. */
static inline uint64_t hot_place_of(uint64_t serial)
{
    return serial % HOT_PLACES * sizeof(struct hot_place);
}

static inline struct hot_place *hot_place(uint64_t offset)
{
    return (struct hot_place *)((char *)hot_places + offset);
}

static inline uint64_t hot_other_serial(uint64_t serial)
{
    return ~serial;
}

/* Of either kind. */
static inline struct hot *hot_known(uint64_t serial)
{
    const struct hot_place *place = hot_place(hot_place_of(serial));

    return place->serial == serial || place->serial == hot_other_serial(serial) ? place->hot : NULL;
}

/* This thread's cell of an entry, made if need be. NULL: no memory. */
struct cell *hot_cell(struct hot *hot, uint32_t number);

/* Where an address's slots begin: one of HOT_PROBES, before the first free one. */
#define HOT_PROBES 64
static inline struct slot *hot_slot(const struct hot *hot, uint64_t addr)
{
    /* By the product's highest bits: lower ones put neighbouring pages into neighbouring slots.
     * The factor is one of many tried: with it pages side by side do not meet, and buffers of any
     * usual size, 64 bytes to 4 MiB, seldom. */
    uint64_t hash = addr * UINT64_C(0xa5ca5f3aaeed3367) >> 32;

    return (struct slot *)((char *)hot->slots + (hash * hot->span >> 32 & -sizeof(struct slot)));
}

/* Remembers that an entry, which has a cell, served a request at this address. check: as a slot's.
 */
void hot_remember(struct hot *hot, uint64_t addr, uint32_t number, uint32_t check);

/* Counts a hit. */
void hot_count(struct hot *hot, unsigned cache, struct ledger *ledger);
/* Is it the cache whose hits are counted at hot->hits? It is the first that asks. */
bool hot_is_usual(struct hot *hot, unsigned cache, struct ledger *ledger);

/* Over all threads, with the lock held: the pins of an entry; and its last use, if that was after
 * `known`. */
uint32_t hot_pins(const struct hot_set *set, uint32_t number);
uint32_t hot_last_use(const struct hot_set *set, uint32_t number, uint32_t known);

#endif
