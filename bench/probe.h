/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A thread that does nothing but hits, and looks at the clock: how they go while another thread
 * does something. A gap is the time of one get + put, clock included. In a gap where the thread
 * was put to sleep (the kernel counts that: a voluntary context switch) it waited for a lock, ours
 * or the kernel's, that someone held; in any other gap the machine was doing something else.
 */
#ifndef BENCH_PROBE_H
#define BENCH_PROBE_H

#include "bench/fixture.h"

#include <stdatomic.h>

struct gaps {
    double mean_ns;    /* of a get + put, clock not included */
    double p999_us;    /* of gaps */
    double longest_us; /* of all gaps */
    double slept_us;   /* the longest gap in which the thread slept, 0: none */
};

struct prober {
    const struct subject *subject;
    void *cache;
    char *base;
    struct order *order;
};

/* When a probe is over: after some time, and once the other thread has got on by so many units. */
struct until {
    double ns;
    const atomic_bool *stop;    /* not NULL: as soon as it is set, instead */
    const atomic_size_t *units; /* not NULL: the other thread's */
    size_t at_least;
};

/* The mean alone, or the gaps alone: looking at the clock each time costs too much for the mean. */
void probe_mean(const struct prober *prober, const struct until *until, struct gaps *out);
void probe_gaps(const struct prober *prober, const struct until *until, struct gaps *out);

/* Another thread, on the second core: it sleeps, or spins, or works, a unit after another. */
enum other { OTHER_SLEEPS, OTHER_SPINS, OTHER_WORKS, OTHER_COUNT };
#define SPIN_NS 200e3 /* a unit of spinning */
struct companion;
struct companion *companion_new(void (*work)(void *arg), void *arg);
/* The result counts its units from now on; NULL where it sleeps. */
const atomic_size_t *companion_set(struct companion *companion, enum other what);

#endif
