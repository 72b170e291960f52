/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Hits of one thread while another registers memory new to the cache; the provider spins for 200 us
 * per registration. Compared with hits while the other thread sleeps, and while it spins without
 * calls, which separates the cost of two busy cores from that of our locks.
 */
#include "bench/actor.h"
#include "bench/fixture.h"
#include "bench/bench.h"
#include "bench/probe.h"

#include <stdlib.h>

#define HOT   1000      /* regions to hit */
#define FRESH (1 << 20) /* regions for the other thread to register */
#define UNITS 50        /* minimum of registrations per probe */

static const struct measure measures[] = {
    {"stall-mean-idle", "ns"},           {"stall-mean-spinning", "ns"},
    {"stall-mean-registering", "ns"},    {"stall-p999-idle", "us"},
    {"stall-p999-spinning", "us"},       {"stall-p999-registering", "us"},
    {"stall-longest-idle", "us"},        {"stall-longest-spinning", "us"},
    {"stall-longest-registering", "us"}, {"stall-slept-idle", "us"},
    {"stall-slept-spinning", "us"},      {"stall-slept-registering", "us"},
};

struct stalls {
    const struct subject *subject;
    struct prober prober;
    struct order order;
    struct companion *companion;
    uint32_t fresh; /* the next region to register */
};

static void register_one(void *arg)
{
    struct stalls *stalls = arg;
    uint32_t at = HOT + stalls->fresh++ % FRESH;

    stalls->subject->hits(stalls->prober.cache, stalls->prober.base, &at, 1);
}

static void *open_stalls(const void *arg)
{
    struct stalls *stalls = calloc(1, sizeof(*stalls));

    if (!stalls)
        leave("no memory");
    stalls->subject = arg;
    order_shuffle(&stalls->order, 0, HOT, 1);
    stalls->prober = (struct prober){stalls->subject, stalls->subject->open(arg, HOT + FRESH),
                                     fixture_reserve(HOT + FRESH), &stalls->order};
    walk_once(stalls->subject, stalls->prober.cache, stalls->prober.base, &stalls->order);
    registration_ns = 200e3;
    stalls->companion = companion_new(register_one, stalls);
    return stalls;
}

static void warm_stalls(void *state, int worker)
{
    struct stalls *stalls = state;

    walk_once(stalls->subject, stalls->prober.cache, stalls->prober.base, &stalls->order);
}

static void sample_stalls(void *state, int worker, double *values)
{
    struct stalls *stalls = state;

    for (int what = OTHER_SLEEPS; what < OTHER_COUNT; what++) {
        struct until until = {.ns = plan.sample_ms * 2e6, .at_least = UNITS};
        struct gaps gaps;

        until.units = companion_set(stalls->companion, what);
        probe_mean(&stalls->prober, &until, &gaps);
        until.units = companion_set(stalls->companion, what);
        probe_gaps(&stalls->prober, &until, &gaps);
        values[what] = gaps.mean_ns;
        values[OTHER_COUNT + what] = gaps.p999_us;
        values[2 * OTHER_COUNT + what] = gaps.longest_us;
        values[3 * OTHER_COUNT + what] = gaps.slept_us;
    }
    companion_set(stalls->companion, OTHER_SLEEPS);
}

void measure_stalls(void)
{
    static const struct job job = {
        .open = open_stalls, .warm = warm_stalls, .sample = sample_stalls};
    const struct subject *subjects[] = {&subject_hmreg_notice, &subject_hmreg_userfault,
                                        &subject_hmreg_import, &subject_hmreg_default,
                                        &subject_ucx};
    struct contestant contestants[5];

    progress("stalls: hits while another thread registers, 200 us each");
    for (size_t i = 0; i < 5; i++)
        contestants[i] = (struct contestant){.who = subjects[i]->who,
                                             .job = &job,
                                             .arg = subjects[i],
                                             .absent = subjects[i]->absent};
    contest(measures, sizeof(measures) / sizeof(measures[0]), contestants, 5, plan.fresh,
            plan.turns);
}
