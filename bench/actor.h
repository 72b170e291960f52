/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Contestants: processes that are told when it is their turn. A contestant prepares once, then
 * sleeps until each of its turns. It may be a crew: several processes, each with several threads;
 * then every worker prepares its part, all begin at the same moment, and the values are the means
 * of theirs. Worker n runs on the n-th core that this program may use.
 */
#ifndef BENCH_ACTOR_H
#define BENCH_ACTOR_H

#include <stdbool.h>
#include <stddef.h>

#define MOST_VALUES  16
#define MOST_WORKERS 2

struct job {
    /* Once in each process. The result is the state. */
    void *(*open)(const void *arg);
    /* Each worker before its turn begins; may be NULL. */
    void (*warm)(void *state, int worker);
    /* Each worker's turn. NAN: a value it does not have. */
    void (*sample)(void *state, int worker, double *values);
    /* A turn in which the kernel took a worker's core away is tried again, a few times. Not for
     * what may itself be the reason: threads of the library that wake up. */
    bool steady;
};

struct contestant {
    const char *who;
    const struct job *job;
    const void *arg;
    int processes, threads; /* 0: one */
    const char *absent;     /* not NULL: why it cannot take part */
};

/* What a turn gives: one value of each measure. */
struct measure {
    const char *name, *unit;
};

/* Lets the contestants have their turns, as the plan says, and keeps the values. */
void contest(const struct measure *measures, size_t measure_count,
             const struct contestant *contestants, size_t contestant_count, unsigned fresh,
             unsigned turns);

/* In a contestant: it cannot take part, or must not be believed. */
_Noreturn void leave(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* This thread stays on the n-th core. */
void pin(int number);

#endif
