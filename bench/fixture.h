/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Common set-up of the parts: adjacent regions of 4 KiB, and the order in which to walk them.
 */
#ifndef BENCH_FIXTURE_H
#define BENCH_FIXTURE_H

#include "bench/subject.h"

#include <stddef.h>
#include <stdint.h>

/* An order is repeated up to at least this length, so that few regions do not mean short calls. */
#define ORDER_AT_LEAST 8192
/* Regions between two readings of the clock. */
#define CHUNK 1024

struct order {
    uint32_t *at;
    size_t count;
    size_t next; /* where the walk continues */
};

/* Reserves address space for this many regions; touches no page. */
char *fixture_reserve(size_t regions);

/* Regions first ... first + regions - 1 in random order, determined by the seed. */
void order_shuffle(struct order *order, size_t first, size_t regions, uint64_t seed);
/* Regions first ... first + regions - 1 in address order. */
void order_sorted(struct order *order, size_t first, size_t regions);
/* Replaces the regions of an order by others at scattered addresses. All numbers are below
 * SCATTERED, before and after, and stay distinct. */
#define SCATTERED ((size_t)1 << 22)
void order_scatter(struct order *order);

/* One get + put for each region of the order. */
void walk_once(const struct subject *subject, void *state, char *base, const struct order *order);
/* Continues the walk for about plan.sample_ms; returns ns per get + put. */
double walk_timed(const struct subject *subject, void *state, char *base, struct order *order);

/* The process's anonymous memory, by the kernel's count of pages. */
double anonymous_bytes(void);

#endif
