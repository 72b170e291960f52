/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See fixture.h.
 */
#include "bench/fixture.h"

#include "bench/actor.h"
#include "bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

char *fixture_reserve(size_t regions)
{
    char *base = mmap(NULL, regions * REGION_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (base == MAP_FAILED)
        leave("no address space for %zu regions", regions);
    return base;
}

static void shuffle(uint32_t *at, size_t count, uint64_t *seed)
{
    for (size_t i = count; i > 1; i--) {
        uint32_t swap = at[i - 1];
        size_t other;

        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        other = (size_t)(*seed >> 33) % i;
        at[i - 1] = at[other];
        at[other] = swap;
    }
}

void order_sorted(struct order *order, size_t first, size_t regions)
{
    order->count = regions;
    order->next = 0;
    order->at = malloc(regions * sizeof(*order->at));
    if (!order->at)
        leave("no memory for an order of %zu regions", regions);
    for (size_t i = 0; i < regions; i++)
        order->at[i] = (uint32_t)(first + i);
}

void order_shuffle(struct order *order, size_t first, size_t regions, uint64_t seed)
{
    size_t times = regions < ORDER_AT_LEAST ? ORDER_AT_LEAST / regions : 1;

    order_sorted(order, first, regions * times);
    for (size_t i = 0; i < times; i++) {
        for (size_t r = 0; r < regions; r++)
            order->at[i * regions + r] = (uint32_t)(first + r);
        shuffle(order->at + i * regions, regions, &seed);
    }
}

/* Each step is invertible, so no two numbers become one. */
void order_scatter(struct order *order)
{
    for (size_t i = 0; i < order->count; i++) {
        uint32_t at = order->at[i];

        at = (at ^ at >> 11) * 0x9e3779b1u % SCATTERED;
        at = (at ^ at >> 11) * 0x85ebca6bu % SCATTERED;
        order->at[i] = at ^ at >> 11;
    }
}

void walk_once(const struct subject *subject, void *state, char *base, const struct order *order)
{
    subject->hits(state, base, order->at, order->count);
}

double walk_timed(const struct subject *subject, void *state, char *base, struct order *order)
{
    double begun = now_ns(), end = begun + plan.sample_ms * 1e6, now;
    size_t done = 0;

    do {
        size_t left = order->count - order->next, count = left < CHUNK ? left : CHUNK;

        subject->hits(state, base, order->at + order->next, count);
        order->next = count < left ? order->next + count : 0;
        done += count;
        now = now_ns();
    } while (now < end);
    return (now - begun) / (double)done;
}

double anonymous_bytes(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    unsigned long kib = 0;
    char line[200];

    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "Anonymous: %lu kB", &kib) == 1)
            break;
    if (file)
        fclose(file);
    if (!kib)
        leave("/proc/self/smaps_rollup does not tell");
    return (double)kib * 1024;
}
