/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What one cache did, counted: without locks of its own, and without cost to hits, each of which
 * is counted in a row that only its thread writes. Sums are exact while no thread counts. The
 * counts are on a stats page that other processes may see (stats_page.h), or in the statistics's
 * own rows.
 */
#ifndef HMREG_CORE_STATS_CACHE_STATS_H
#define HMREG_CORE_STATS_CACHE_STATS_H

#include "core/stats/stats_page.h"

#include <pthread.h>

/* A thread's hits: in a row of the stats page, or, where that has none, its own. */
struct cache_stats_row {
    struct stats_row *shown;
    struct cache_stats_row *previous, *next;
    struct stats_row own;
};

struct cache_stats {
    enum hmreg_iface iface;
    int device; /* -1: host memory */
    struct stats_page *stats_page;
    struct stats_block *block; /* of the stats page, or its own */
    pthread_mutex_t lock;      /* the rows; never held by a hit */
    struct cache_stats_row *rows;
    atomic_uint untimed; /* registrations to let pass before one is timed */
    struct stats_block own;
};

/* The statistics of an iface's device's cache (-1: of host memory), shown with its domain. */
void cache_stats_open(struct cache_stats *stats, struct stats_page *stats_page,
                      const struct stats_domain *domain, enum hmreg_iface iface, int device);
void cache_stats_close(struct cache_stats *stats); /* every row was given back */

/* Counts n more (or fewer) of what happened. */
static inline void cache_stats_add(struct cache_stats *stats, enum stats_count what, int64_t n)
{
    atomic_fetch_add_explicit(&stats->block->counts[what], (uint64_t)n, memory_order_relaxed);
}

/* The same of what is counted by one thread at a time. */
static inline void ledger_count(struct cache_stats *stats, enum stats_count what, uint64_t n)
{
    _Atomic uint64_t *count = &stats->block->counts[what];

    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* Says what is so now; one thread at a time. */
static inline void cache_stats_set(struct cache_stats *stats, enum stats_count what, uint64_t value)
{
    atomic_store_explicit(&stats->block->counts[what], value, memory_order_relaxed);
}

/* Regions and bytes that the cache holds now, and with them its high-water marks; one thread at a
 * time. */
void cache_stats_used(struct cache_stats *stats, uint64_t regions, uint64_t bytes);

/* So many regions were evicted, for the limit (0) or to help a registration that failed so; one
 * thread at a time. */
void cache_stats_evicted(struct cache_stats *stats, int code, unsigned n);

/* Times a registration: from _start to _done with what it gave. Where one takes less than a
 * microsecond, looking at the clock would be most of it: then one in 16 is timed. */
uint64_t cache_stats_start(struct cache_stats *stats);
void cache_stats_done(struct cache_stats *stats, uint64_t start);
void cache_stats_took(struct cache_stats *stats, uint64_t ns);

/* A row for the calling thread's hits, which it counts with cache_stats_hit() and, when it ends or
 * the cache does, gives back (any thread may, when it is used no more). NULL: no memory; use
 * cache_stats_add(). */
struct cache_stats_row *cache_stats_join(struct cache_stats *stats);
void cache_stats_leave(struct cache_stats *stats, struct cache_stats_row *row);

static inline void cache_stats_hit(struct stats_row *row)
{
    /* One writer: no one else's count can be lost between the two. */
    uint64_t hits = atomic_load_explicit(&row->hits, memory_order_relaxed);

    atomic_store_explicit(&row->hits, hits + 1, memory_order_relaxed);
}

/* Adds up. */
void cache_stats_sum(struct cache_stats *stats, struct hmreg_stats *out);

#endif
