/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A thread that only makes hits and reads the clock, to show how another thread's work affects
 * hits. A gap is the time of one get + put, clock included. If the thread slept in a gap (the
 * kernel counts a voluntary context switch), it waited for a lock, ours or the kernel's; any other
 * long gap is due to the machine.
 */
#ifndef BENCH_PROBE_H
#define BENCH_PROBE_H

#include "bench/fixture.h"

#include <stdatomic.h>

struct gaps {
    double mean_ns;    /* per get + put, clock not included */
    double p999_us;    /* 99.9th percentile of gaps */
    double longest_us; /* the longest gap */
    double slept_us;   /* the longest gap in which the thread slept, 0: none */
};

struct prober {
    const struct subject *subject;
    void *cache;
    char *base;
    struct order *order;
};

/* When a probe ends: after some time, and once the other thread has done enough units. */
struct until {
    double ns;
    const atomic_bool *stop;    /* not NULL: ends as soon as it is set, instead */
    const atomic_size_t *units; /* not NULL: the other thread's counter */
    size_t at_least;
};

/* Measures only the mean, or only gaps: reading the clock at each hit would distort the mean. */
void probe_mean(const struct prober *prober, const struct until *until, struct gaps *out);
void probe_gaps(const struct prober *prober, const struct until *until, struct gaps *out);

/* Another thread, on the second core: it sleeps, spins, or works unit by unit. */
enum other { OTHER_SLEEPS, OTHER_SPINS, OTHER_WORKS, OTHER_COUNT };
#define SPIN_NS 200e3 /* one unit of spinning */
struct companion;
struct companion *companion_new(void (*work)(void *arg), void *arg);
/* Returns its counter of units from now on; NULL if it sleeps. */
const atomic_size_t *companion_set(struct companion *companion, enum other what);

#endif
