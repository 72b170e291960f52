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
#include "core/shelf.h"

/* What hits look at besides: seldom written, and in a page that the kernel wipes in the child of a
 * fork, so that the child, whose `sure` is 0, has no hits. */
struct pulse {
    atomic_uint sure;  /* see struct listener */
    atomic_uint clock; /* goes on by 4 with each region that is remembered */
    atomic_uint reap;  /* not 0: something is left for the next call to bring to its end */
};

/* A thread's pins of an entry, less those it put for others: they count only together, modulo 2^32;
 * and when it used the entry last. */
struct cell {
    atomic_uint pins, stamp;
};

/* A request that an entry served: good while that entry's sequence is the same. */
struct slot {
    uint64_t key; /* 0: free */
    uint32_t number, sequence;
};

struct hot_board {
    uintptr_t entries;       /* as struct shelf's */
    _Atomic uintptr_t cells; /* the same of cells, 0: none yet */
};

struct hot {
    const struct pulse *pulse;
    struct slot *slots;
    unsigned shift; /* of a hash, leaves the slot's index */
    bool fenced;    /* barrier_here() is ours to call */
    bool exact;     /* only the range itself will do */
    struct hot_board boards[SHELF_BOARDS];
    struct hot_set *set;
    struct hot *next;
    _Atomic uint64_t owner; /* a thread; 0: whoever comes */
    uint32_t used, size;    /* slots */
    struct ledger_row **rows;
    _Atomic uint64_t *hits[]; /* of each cache; NULL before the first */
};

/* One for each domain. */
struct hot_set {
    uint64_t serial; /* never used again */
    struct pulse *pulse;
    const struct shelf *entries; /* which begin with a struct hmreg_mr */
    unsigned caches;
    bool fenced, exact;
    _Atomic(struct hot *) first;
    struct hot_set *next; /* of all sets of the process */
};

/* False: no memory. */
bool hot_set_open(struct hot_set *set, const struct shelf *entries, unsigned caches, bool exact);
/* No thread is in a call with the domain any more. ledger: of each cache. */
void hot_set_close(struct hot_set *set, struct ledger *(*ledger)(struct hot_set *, unsigned));

/* The calling thread's part, made if need be. NULL: no memory. */
struct hot *hot_join(struct hot_set *set);

/* The same, where this thread has been here lately. */
#define HOT_PLACES 8
struct hot_place {
    uint64_t serial;
    struct hot *hot;
};
extern _Thread_local struct hot_place hot_places[HOT_PLACES]
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

static inline struct hot *hot_known(uint64_t serial)
{
    const struct hot_place *place = &hot_places[serial % HOT_PLACES];

    return place->serial == serial ? place->hot : NULL;
}

/* This thread's cell of an entry; NULL: it has none. */
static inline struct cell *hot_cell(const struct hot *hot, uint32_t number)
{
    /* Acquire, for others: pairs with the release in hot_make_cell(). */
    uintptr_t cells =
        atomic_load_explicit(&hot->boards[shelf_board(number)].cells, memory_order_acquire);

    return cells ? (struct cell *)(cells + number * sizeof(struct cell)) : NULL;
}

/* The same, made if need be. NULL: no memory. */
struct cell *hot_make_cell(struct hot *hot, uint32_t number);

static inline uint64_t hot_key(uint64_t addr, uint64_t access)
{
    return addr ^ access << 48;
}

/* Where a key's slots begin: one of HOT_PROBES, before the first free one. */
#define HOT_PROBES 64
static inline struct slot *hot_slot(const struct hot *hot, uint64_t key)
{
    return &hot->slots[(key * UINT64_C(0x9e3779b97f4a7c15)) >> hot->shift];
}

/* Remembers that an entry, which has a cell, served this; and counts its hits there from now on.
 * False: no memory. */
bool hot_remember(struct hot *hot, uint64_t key, uint32_t number, uint32_t sequence);
bool hot_count_hits(struct hot *hot, unsigned cache, struct ledger *ledger);

/* Over all threads: the pins of an entry; and its last use, if that was after `known`. */
uint32_t hot_pins(const struct hot_set *set, uint32_t number);
uint32_t hot_last_use(const struct hot_set *set, uint32_t number, uint32_t known);

#endif
