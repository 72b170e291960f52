/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What one cache did, counted: without locks of its own, and without cost to hits, each of which
 * is counted in a row that only its thread writes. Sums are exact while no thread counts. The
 * counts are on a board that other processes may see (stats_page.h), or in the ledger's own rows.
 */
#ifndef HMREG_CORE_LEDGER_H
#define HMREG_CORE_LEDGER_H

#include "core/board.h"

#include <pthread.h>

/* A thread's hits: in a row of the board, or, where that has none, its own. */
struct ledger_row {
    struct stats_row *shown;
    struct ledger_row *previous, *next;
    struct stats_row own;
};

struct ledger {
    enum hmreg_iface iface;
    int device; /* -1: host memory */
    struct board *board;
    struct stats_book *book; /* of the board, or its own */
    pthread_mutex_t lock;    /* the rows; never held by a hit */
    struct ledger_row *rows;
    atomic_uint untimed; /* registrations to let pass before one is timed */
    struct stats_book own;
};

/* The ledger of an iface's device's cache (-1: of host memory), shown with its domain. */
void ledger_open(struct ledger *ledger, struct board *board, const struct stats_domain *domain,
                 enum hmreg_iface iface, int device);
void ledger_close(struct ledger *ledger); /* every row was given back */

/* Counts n more (or fewer) of what happened. */
static inline void ledger_add(struct ledger *ledger, enum stats_count what, int64_t n)
{
    atomic_fetch_add_explicit(&ledger->book->counts[what], (uint64_t)n, memory_order_relaxed);
}

/* The same of what is counted by one thread at a time. */
static inline void ledger_count(struct ledger *ledger, enum stats_count what, uint64_t n)
{
    _Atomic uint64_t *count = &ledger->book->counts[what];

    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* Says what is so now; one thread at a time. */
static inline void ledger_set(struct ledger *ledger, enum stats_count what, uint64_t value)
{
    atomic_store_explicit(&ledger->book->counts[what], value, memory_order_relaxed);
}

/* Regions and bytes that the cache holds now, and with them its high-water marks; one thread at a
 * time. */
void ledger_used(struct ledger *ledger, uint64_t regions, uint64_t bytes);

/* So many regions were evicted, for the limit (0) or to help a registration that failed so; one
 * thread at a time. */
void ledger_evicted(struct ledger *ledger, int code, unsigned n);

/* Times a registration: from _start to _done with what it gave. Where one takes less than a
 * microsecond, looking at the clock would be most of it: then one in 16 is timed. */
uint64_t ledger_start(struct ledger *ledger);
void ledger_done(struct ledger *ledger, uint64_t start);
void ledger_took(struct ledger *ledger, uint64_t ns);

/* A row for the calling thread's hits, which it counts with ledger_hit() and, when it ends or the
 * cache does, gives back (any thread may, when it is used no more). NULL: no memory; use
 * ledger_add(). */
struct ledger_row *ledger_join(struct ledger *ledger);
void ledger_leave(struct ledger *ledger, struct ledger_row *row);

static inline void ledger_hit(struct stats_row *row)
{
    /* One writer: no one else's count can be lost between the two. */
    uint64_t hits = atomic_load_explicit(&row->hits, memory_order_relaxed);

    atomic_store_explicit(&row->hits, hits + 1, memory_order_relaxed);
}

/* Adds up. */
void ledger_sum(struct ledger *ledger, struct hmreg_stats *out);

#endif
