/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See cache_stats.h. All counts are relaxed atomics: each is correct by itself, and none orders
 * anything. cache_stats_leave() adds a row's hits to the block under the lock, so that a sum
 * neither misses them nor counts them twice.
 */
#include "core/stats/cache_stats.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

static uint64_t load(const _Atomic uint64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static struct stats_block *shown_block(struct cache_stats *stats)
{
    return stats->block == &stats->own ? NULL : stats->block;
}

void cache_stats_open(struct cache_stats *stats, struct stats_page *stats_page,
                      const struct stats_domain *domain, enum hmreg_iface iface, int device)
{
    struct stats_block *shown = stats_page_block(stats_page, domain, iface, device);

    *stats = (struct cache_stats){.iface = iface,
                                  .device = device,
                                  .stats_page = stats_page,
                                  .block = shown ? shown : &stats->own};
    pthread_mutex_init(&stats->lock, NULL);
}

void cache_stats_close(struct cache_stats *stats)
{
    stats_page_end_block(stats->stats_page, shown_block(stats));
    pthread_mutex_destroy(&stats->lock);
}

/* ---- counting --------------------------------------------------------------------------- */

static void raise_to(_Atomic uint64_t *most, uint64_t value)
{
    uint64_t before = load(most);

    while (before < value && !atomic_compare_exchange_weak_explicit(
                                 most, &before, value, memory_order_relaxed, memory_order_relaxed))
        ;
}

void cache_stats_used(struct cache_stats *stats, uint64_t regions, uint64_t bytes)
{
    cache_stats_set(stats, STATS_REGIONS, regions);
    cache_stats_set(stats, STATS_BYTES, bytes);
    if (regions > load(&stats->block->counts[STATS_REGIONS_MAX]))
        cache_stats_set(stats, STATS_REGIONS_MAX, regions);
    if (bytes > load(&stats->block->counts[STATS_BYTES_MAX]))
        cache_stats_set(stats, STATS_BYTES_MAX, bytes);
}

static void count_evicted(struct cache_stats *stats, int code, unsigned n)
{
    switch (-code) {
    case 0:
        cache_stats_count(stats, STATS_EVICTED_LIMIT, n);
        break;
    case ENOMEM:
        cache_stats_count(stats, STATS_EVICTED_MEMORY, n);
        break;
    case ENOSPC:
        cache_stats_count(stats, STATS_EVICTED_ROOM, n);
        break;
    default:
        cache_stats_count(stats, STATS_EVICTED_KEYS, n);
    }
}

void cache_stats_evicted(struct cache_stats *stats, int code, enum cache_for who, unsigned n)
{
    count_evicted(stats, code, n);
    if (who != CACHE_FOR_GET)
        cache_stats_count(stats,
                          who == CACHE_FOR_EXPLICIT ? STATS_GAVE_EXPLICIT : STATS_GAVE_OTHERS, n);
}

/* ---- time ------------------------------------------------------------------------------- */

uint64_t cache_stats_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The bucket n of [2^n, 2^(n+1)) ns; the last bucket has no upper bound. */
static unsigned bucket_of(uint64_t ns)
{
    unsigned n = 63 - (unsigned)__builtin_clzll(ns | 1);

    return n < HMREG_STATS_TIMES ? n : HMREG_STATS_TIMES - 1;
}

void cache_stats_took(struct cache_stats *stats, uint64_t ns)
{
    atomic_fetch_add_explicit(&stats->block->times[bucket_of(ns)], 1, memory_order_relaxed);
    cache_stats_add(stats, STATS_REG_NS, (int64_t)ns);
    raise_to(&stats->block->counts[STATS_REG_LONGEST_NS], ns);
}

/* ---- rows of threads -------------------------------------------------------------------- */

struct cache_stats_row *cache_stats_join(struct cache_stats *stats)
{
    struct cache_stats_row *row = aligned_alloc(_Alignof(struct cache_stats_row), sizeof(*row));

    if (!row)
        return NULL;
    *row = (struct cache_stats_row){.shown = stats_page_row(stats->stats_page, shown_block(stats))};
    if (!row->shown)
        row->shown = &row->own;
    pthread_mutex_lock(&stats->lock);
    row->next = stats->rows;
    if (row->next)
        row->next->previous = row;
    stats->rows = row;
    pthread_mutex_unlock(&stats->lock);
    return row;
}

void cache_stats_leave(struct cache_stats *stats, struct cache_stats_row *row)
{
    if (!row)
        return;
    pthread_mutex_lock(&stats->lock);
    stats_page_begin_change(&stats->block->sequence);
    cache_stats_add(stats, STATS_HITS, (int64_t)load(&row->shown->hits));
    stats_page_end_row(stats->stats_page, row->shown == &row->own ? NULL : row->shown);
    stats_page_end_change(&stats->block->sequence);
    if (row->previous)
        row->previous->next = row->next;
    else
        stats->rows = row->next;
    if (row->next)
        row->next->previous = row->previous;
    pthread_mutex_unlock(&stats->lock);
    free(row);
}

static uint64_t sum_hits(struct cache_stats *stats)
{
    uint64_t hits;

    pthread_mutex_lock(&stats->lock);
    hits = load(&stats->block->counts[STATS_HITS]);
    for (struct cache_stats_row *row = stats->rows; row; row = row->next)
        hits += load(&row->shown->hits);
    pthread_mutex_unlock(&stats->lock);
    return hits;
}

/* ---- sums ------------------------------------------------------------------------------- */

static void sum_evictions(const _Atomic uint64_t *counts, struct hmreg_stats *out)
{
    uint64_t limit = load(&counts[STATS_EVICTED_LIMIT]);
    uint64_t memory = load(&counts[STATS_EVICTED_MEMORY]);
    uint64_t room = load(&counts[STATS_EVICTED_ROOM]);
    uint64_t keys = load(&counts[STATS_EVICTED_KEYS]);

    out->evictions += limit + memory + room + keys;
    out->evicted_limit += limit;
    out->evicted_memory += memory;
    out->evicted_room += room;
    out->evicted_keys += keys;
    out->gave_explicit += load(&counts[STATS_GAVE_EXPLICIT]);
    out->gave_others += load(&counts[STATS_GAVE_OTHERS]);
}

static void sum_times(const struct stats_block *block, struct hmreg_stats *out)
{
    uint64_t longest = load(&block->counts[STATS_REG_LONGEST_NS]);

    out->reg_ns += load(&block->counts[STATS_REG_NS]);
    if (longest > out->reg_longest_ns)
        out->reg_longest_ns = longest;
    for (unsigned i = 0; i < HMREG_STATS_TIMES; i++)
        out->reg_times[i] += load(&block->times[i]);
}

void cache_stats_sum(struct cache_stats *stats, struct hmreg_stats *out)
{
    const _Atomic uint64_t *counts = stats->block->counts;

    out->caches++;
    out->shown += shown_block(stats) != NULL;
    out->hits += sum_hits(stats);
    out->misses += load(&counts[STATS_MISSES]);
    out->invalidations += load(&counts[STATS_INVALIDATIONS]);
    out->uncached += load(&counts[STATS_UNCACHED]);
    out->regions += load(&counts[STATS_REGIONS]);
    out->bytes += load(&counts[STATS_BYTES]);
    out->retired += load(&counts[STATS_RETIRED]);
    out->failures += load(&counts[STATS_FAILURES]);
    out->regions_max += load(&counts[STATS_REGIONS_MAX]);
    out->bytes_max += load(&counts[STATS_BYTES_MAX]);
    out->waits += load(&counts[STATS_WAITS]);
    out->waiting += load(&counts[STATS_WAITING]);
    out->wrong_puts += load(&counts[STATS_WRONG_PUTS]);
    sum_evictions(counts, out);
    sum_times(stats->block, out);
}
