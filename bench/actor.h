/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Contestants: processes that measure in turns. A contestant prepares once and then sleeps between
 * its turns. It may be a crew of several processes, each with several threads (workers): every
 * worker prepares its part, all start a turn at the same moment, and the values are the means over
 * the workers. Worker n runs on the n-th core that this program may use.
 */
#ifndef BENCH_ACTOR_H
#define BENCH_ACTOR_H

#include <stdbool.h>
#include <stddef.h>

#define MOST_VALUES  16
#define MOST_WORKERS 2

struct job {
    /* Called once in each process. Returns the state. */
    void *(*open)(const void *arg);
    /* Called by a new worker thread before its turn; may be NULL. */
    void (*warm)(void *state, int worker);
    /* A worker's turn: measures. NAN: no value. */
    void (*sample)(void *state, int worker, double *values);
    /* Repeat, a few times, a turn in which the kernel preempted a worker. Not for jobs in which
     * threads of the library may be what preempts it. */
    bool steady;
};

struct contestant {
    const char *who;
    const struct job *job;
    const void *arg;
    int processes, threads; /* 0: one */
    const char *absent;     /* not NULL: why it cannot be measured */
};

/* A turn yields one value of each measure. */
struct measure {
    const char *name, *unit;
};

/* Runs all turns of the contestants and stores the values as series. fresh: how often each
 * contestant's processes are restarted; turns: per restart. */
void contest(const struct measure *measures, size_t measure_count,
             const struct contestant *contestants, size_t contestant_count, unsigned fresh,
             unsigned turns);

/* In a contestant: ends it; it cannot be measured, or its values would be invalid. */
_Noreturn void leave(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Pins this thread to the n-th core. */
void pin(int number);

#endif
