/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See ledger.h. All counts are relaxed: each is right by itself, and none orders anything. A row
 * that is given back is added to the book under the lock, so that a sum never misses it or has it
 * twice.
 */
#include "core/ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define TIMED_ALWAYS_NS 1000 /* registrations at least this long are all timed */
#define TIMED_ONE_IN    16

static uint64_t load(const _Atomic uint64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static struct stats_book *shown_book(struct ledger *ledger)
{
    return ledger->book == &ledger->own ? NULL : ledger->book;
}

void ledger_open(struct ledger *ledger, struct board *board, const struct stats_domain *domain,
                 enum hmreg_iface iface, int device)
{
    struct stats_book *shown = board_book(board, domain, iface, device);

    *ledger = (struct ledger){
        .iface = iface, .device = device, .board = board, .book = shown ? shown : &ledger->own};
    pthread_mutex_init(&ledger->lock, NULL);
}

void ledger_close(struct ledger *ledger)
{
    board_end_book(ledger->board, shown_book(ledger));
    pthread_mutex_destroy(&ledger->lock);
}

/* ---- counting --------------------------------------------------------------------------- */

static void raise_to(_Atomic uint64_t *most, uint64_t value)
{
    uint64_t before = load(most);

    while (before < value && !atomic_compare_exchange_weak_explicit(
                                 most, &before, value, memory_order_relaxed, memory_order_relaxed))
        ;
}

void ledger_used(struct ledger *ledger, uint64_t regions, uint64_t bytes)
{
    ledger_set(ledger, STATS_REGIONS, regions);
    ledger_set(ledger, STATS_BYTES, bytes);
    if (regions > load(&ledger->book->counts[STATS_REGIONS_MAX]))
        ledger_set(ledger, STATS_REGIONS_MAX, regions);
    if (bytes > load(&ledger->book->counts[STATS_BYTES_MAX]))
        ledger_set(ledger, STATS_BYTES_MAX, bytes);
}

void ledger_evicted(struct ledger *ledger, int code, unsigned n)
{
    switch (-code) {
    case 0:
        ledger_count(ledger, STATS_EVICTED_LIMIT, n);
        break;
    case ENOMEM:
        ledger_count(ledger, STATS_EVICTED_MEMORY, n);
        break;
    case ENOSPC:
        ledger_count(ledger, STATS_EVICTED_ROOM, n);
        break;
    default:
        ledger_count(ledger, STATS_EVICTED_KEYS, n);
    }
}

/* ---- time ------------------------------------------------------------------------------- */

static uint64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* 0: this one is not timed. Threads that meet here may time one more or fewer. */
uint64_t ledger_start(struct ledger *ledger)
{
    unsigned untimed = atomic_load_explicit(&ledger->untimed, memory_order_relaxed);

    if (!untimed)
        return clock_ns();
    atomic_store_explicit(&ledger->untimed, untimed - 1, memory_order_relaxed);
    return 0;
}

/* The bucket of [2^n, 2^(n+1)) ns; the last has no end. */
static unsigned bucket_of(uint64_t ns)
{
    unsigned n = 63 - (unsigned)__builtin_clzll(ns | 1);

    return n < HMREG_STATS_TIMES ? n : HMREG_STATS_TIMES - 1;
}

void ledger_took(struct ledger *ledger, uint64_t ns)
{
    atomic_fetch_add_explicit(&ledger->book->times[bucket_of(ns)], 1, memory_order_relaxed);
    ledger_add(ledger, STATS_REG_NS, (int64_t)ns);
    raise_to(&ledger->book->counts[STATS_REG_LONGEST_NS], ns);
    atomic_store_explicit(&ledger->untimed, ns < TIMED_ALWAYS_NS ? TIMED_ONE_IN - 1 : 0,
                          memory_order_relaxed);
}

void ledger_done(struct ledger *ledger, uint64_t start)
{
    if (start)
        ledger_took(ledger, clock_ns() - start);
}

/* ---- rows of threads -------------------------------------------------------------------- */

struct ledger_row *ledger_join(struct ledger *ledger)
{
    struct ledger_row *row = aligned_alloc(_Alignof(struct ledger_row), sizeof(*row));

    if (!row)
        return NULL;
    *row = (struct ledger_row){.shown = board_row(ledger->board, shown_book(ledger))};
    if (!row->shown)
        row->shown = &row->own;
    pthread_mutex_lock(&ledger->lock);
    row->next = ledger->rows;
    if (row->next)
        row->next->previous = row;
    ledger->rows = row;
    pthread_mutex_unlock(&ledger->lock);
    return row;
}

void ledger_leave(struct ledger *ledger, struct ledger_row *row)
{
    if (!row)
        return;
    pthread_mutex_lock(&ledger->lock);
    board_begin_change(&ledger->book->sequence);
    ledger_add(ledger, STATS_HITS, (int64_t)load(&row->shown->hits));
    board_end_row(ledger->board, row->shown == &row->own ? NULL : row->shown);
    board_end_change(&ledger->book->sequence);
    if (row->previous)
        row->previous->next = row->next;
    else
        ledger->rows = row->next;
    if (row->next)
        row->next->previous = row->previous;
    pthread_mutex_unlock(&ledger->lock);
    free(row);
}

static uint64_t sum_hits(struct ledger *ledger)
{
    uint64_t hits;

    pthread_mutex_lock(&ledger->lock);
    hits = load(&ledger->book->counts[STATS_HITS]);
    for (struct ledger_row *row = ledger->rows; row; row = row->next)
        hits += load(&row->shown->hits);
    pthread_mutex_unlock(&ledger->lock);
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
}

static void sum_times(const struct stats_book *book, struct hmreg_stats *out)
{
    uint64_t longest = load(&book->counts[STATS_REG_LONGEST_NS]);

    out->reg_ns += load(&book->counts[STATS_REG_NS]);
    if (longest > out->reg_longest_ns)
        out->reg_longest_ns = longest;
    for (unsigned i = 0; i < HMREG_STATS_TIMES; i++)
        out->reg_times[i] += load(&book->times[i]);
}

void ledger_sum(struct ledger *ledger, struct hmreg_stats *out)
{
    const _Atomic uint64_t *counts = ledger->book->counts;

    out->caches++;
    out->shown += shown_book(ledger) != NULL;
    out->hits += sum_hits(ledger);
    out->misses += load(&counts[STATS_MISSES]);
    out->invalidations += load(&counts[STATS_INVALIDATIONS]);
    out->uncached += load(&counts[STATS_UNCACHED]);
    out->regions += load(&counts[STATS_REGIONS]);
    out->bytes += load(&counts[STATS_BYTES]);
    out->zombies += load(&counts[STATS_ZOMBIES]);
    out->failures += load(&counts[STATS_FAILURES]);
    out->regions_max += load(&counts[STATS_REGIONS_MAX]);
    out->bytes_max += load(&counts[STATS_BYTES_MAX]);
    out->waits += load(&counts[STATS_WAITS]);
    out->waiting += load(&counts[STATS_WAITING]);
    out->wrong_puts += load(&counts[STATS_WRONG_PUTS]);
    sum_evictions(counts, out);
    sum_times(ledger->book, out);
}
