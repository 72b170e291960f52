/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What many parts begin with: memory with regions of 4 KiB side by side, an order to walk them in.
 */
#ifndef BENCH_FIXTURE_H
#define BENCH_FIXTURE_H

#include "bench/subject.h"

#include <stddef.h>
#include <stdint.h>

/* An order is repeated up to this length, so that few regions do not mean short calls. */
#define ORDER_AT_LEAST 8192
/* Regions between two looks at the clock. */
#define CHUNK 1024

struct order {
    uint32_t *at;
    size_t count;
    size_t next; /* where the walk goes on */
};

/* Address space for so many regions; none of its pages is touched. */
char *fixture_reserve(size_t regions);

/* Regions first ... first + regions - 1 in random order, the same for everybody with a seed. */
void order_shuffle(struct order *order, size_t first, size_t regions, uint64_t seed);
/* In the order of their addresses. */
void order_sorted(struct order *order, size_t first, size_t regions);

/* get + put of each region of the order once. */
void walk_once(const struct subject *subject, void *state, char *base, const struct order *order);
/* Walks on for about the plan's time of a sample; ns of one get + put. */
double walk_timed(const struct subject *subject, void *state, char *base, struct order *order);

#endif
