/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The statistics of one cache. Counting takes no lock, and a hit is counted in a row that only its
 * thread writes, so it shares no cache line. Sums are exact while no thread counts. The counts are
 * on the stats page, which other processes may read (stats_page.h), or, if the page has no free
 * block or row, in the structs below.
 */
#ifndef HMREG_CORE_STATS_CACHE_STATS_H
#define HMREG_CORE_STATS_CACHE_STATS_H

#include "core/stats/stats_page.h"

#include <pthread.h>

/* A thread's hits. */
struct cache_stats_row {
    struct stats_row *shown; /* a row of the stats page; else own */
    struct cache_stats_row *previous, *next;
    struct stats_row own;
};

struct cache_stats {
    enum hmreg_iface iface;
    int device; /* -1: host memory */
    struct stats_page *stats_page;
    struct stats_block *block; /* a block of the stats page; else own */
    pthread_mutex_t lock;      /* guards the rows; a hit never takes it */
    struct cache_stats_row *rows;
    struct stats_block own;
};

/* Opens the statistics of the cache for a device of an iface (-1: for host memory), and shows them
 * on the stats page with the cache's domain. */
void cache_stats_open(struct cache_stats *stats, struct stats_page *stats_page,
                      const struct stats_domain *domain, enum hmreg_iface iface, int device);
void cache_stats_close(struct cache_stats *stats); /* after cache_stats_leave() of every row */

/* Adds n, which may be negative, to a count. */
static inline void cache_stats_add(struct cache_stats *stats, enum stats_count what, int64_t n)
{
    atomic_fetch_add_explicit(&stats->block->counts[what], (uint64_t)n, memory_order_relaxed);
}

/* Likewise for a count that one thread at a time writes. */
static inline void cache_stats_count(struct cache_stats *stats, enum stats_count what, uint64_t n)
{
    _Atomic uint64_t *count = &stats->block->counts[what];

    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* Sets a count; one thread at a time. */
static inline void cache_stats_set(struct cache_stats *stats, enum stats_count what, uint64_t value)
{
    atomic_store_explicit(&stats->block->counts[what], value, memory_order_relaxed);
}

/* Sets the regions and bytes that the cache holds now, and raises their high-water marks; one
 * thread at a time. */
void cache_stats_used(struct cache_stats *stats, uint64_t regions, uint64_t bytes);

/* The regions, or bytes, that the cache holds now. Any thread. */
static inline uint64_t cache_stats_regions(const struct cache_stats *stats)
{
    return atomic_load_explicit(&stats->block->counts[STATS_REGIONS], memory_order_relaxed);
}

static inline uint64_t cache_stats_bytes(const struct cache_stats *stats)
{
    return atomic_load_explicit(&stats->block->counts[STATS_BYTES], memory_order_relaxed);
}

/* The kind of registration for which a region is evicted. */
enum cache_for {
    CACHE_FOR_GET,      /* a get of its domain, or its limit */
    CACHE_FOR_EXPLICIT, /* another registration of its domain */
    CACHE_FOR_OTHERS,   /* a registration, or the get, of another domain */
};

/* Counts n evicted regions; one thread at a time. code: 0: evicted for a limit; else the error of
 * the registration for which they were evicted. */
void cache_stats_evicted(struct cache_stats *stats, int code, enum cache_for who, unsigned n);

/* A registration's time, by the difference of two readings of the clock. */
uint64_t cache_stats_clock(void);
void cache_stats_took(struct cache_stats *stats, uint64_t ns);

/* Gets a row for the calling thread, which counts its hits there with cache_stats_hit(). Any thread
 * may release the row with cache_stats_leave() once it is no longer used: when the thread or the
 * cache ends. NULL: no memory; use cache_stats_add(). */
struct cache_stats_row *cache_stats_join(struct cache_stats *stats);
void cache_stats_leave(struct cache_stats *stats, struct cache_stats_row *row);

static inline void cache_stats_hit(struct stats_row *row)
{
    /* Only this thread writes the row, so no count is lost between the load and the store. */
    uint64_t hits = atomic_load_explicit(&row->hits, memory_order_relaxed);

    atomic_store_explicit(&row->hits, hits + 1, memory_order_relaxed);
}

/* Adds the cache's counts to *out. */
void cache_stats_sum(struct cache_stats *stats, struct hmreg_stats *out);

#endif
