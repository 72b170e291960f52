/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * get + put of regions that are not remembered, 10,000 of 4 KiB in the order of their addresses,
 * beyond what the provider costs: a provider that does nothing, called directly as often in the
 * same turn, is subtracted. Three ways:
 *   first:    into a cache made a moment ago; nothing of its memory was touched before
 *   again:    into the same cache after a flush, whose time does not count
 *   evicting: into a cache that is full, 20,000 regions in turn through room for 10,000: each get
 *             also evicts the oldest and has it deregistered
 */
#include "bench/actor.h"
#include "bench/bed.h"
#include "bench/bench.h"
#include "bench/subject.h"

#include <hmreg/hmreg.h>
#include <stdlib.h>
#include <sys/mman.h>

#define REGIONS 10000

enum { FIRST, AGAIN, EVICTING, PROVIDER, VALUES };

static const struct measure measures[VALUES] = {
    {"miss-first", "ns"}, {"miss-again", "ns"}, {"miss-evicting", "ns"}, {"miss-provider", "ns"}};

struct misses {
    const struct subject *subject;
    char *base;
    struct order once, twice;
};

static void *open_misses(const void *arg)
{
    struct misses *misses = calloc(1, sizeof(*misses));

    if (!misses)
        leave("no memory");
    misses->subject = arg;
    order_sorted(&misses->once, 0, REGIONS);
    order_sorted(&misses->twice, 0, 2 * REGIONS);
    return misses;
}

static double walk_ns(const struct misses *misses, void *cache, const struct order *order)
{
    double begun = now_ns();

    walk_once(misses->subject, cache, misses->base, order);
    return (now_ns() - begun) / (double)order->count;
}

/* UCX's has no call that empties it: all of its entries go, and it is made anew. */
static void *emptied(const struct misses *misses, void *cache)
{
    if (misses->subject != &subject_ucx) {
        hmreg_must(hmreg_domain_flush(((struct hmreg_state *)cache)->domain), "flush");
        return cache;
    }
    misses->subject->close(cache);
    return misses->subject->open(misses->subject, REGIONS);
}

static void sample_misses(void *state, int worker, double *values)
{
    struct misses *misses = state;
    void *cache = misses->subject->open(misses->subject, REGIONS);
    double provider = hmreg_provider_ns();

    misses->base = bed_reserve(2 * REGIONS);
    values[PROVIDER] = provider;
    values[FIRST] = walk_ns(misses, cache, &misses->once) - provider;
    cache = emptied(misses, cache);
    values[AGAIN] = walk_ns(misses, cache, &misses->once) - provider;
    walk_once(misses->subject, cache, misses->base, &misses->twice);
    values[EVICTING] = walk_ns(misses, cache, &misses->twice) - provider;
    misses->subject->close(cache);
    munmap(misses->base, (size_t)2 * REGIONS * REGION_BYTES);
}

/* The two system calls that watching costs, alone. */
void measure_misses(void)
{
    static const struct job job = {open_misses, NULL, sample_misses};
    const struct subject *subjects[] = {&subject_hmreg_notice, &subject_hmreg_default,
                                        &subject_hmreg_import, &subject_hmreg_memhooks,
                                        &subject_ucx};
    struct contestant contestants[5];

    progress("misses: %d regions", REGIONS);
    for (size_t i = 0; i < 5; i++)
        contestants[i] = (struct contestant){.who = subjects[i]->who,
                                             .job = &job,
                                             .arg = subjects[i],
                                             .absent = subjects[i]->absent};
    contest(measures, VALUES, contestants, 5, plan.fresh, plan.turns);
}
