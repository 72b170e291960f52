/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The measurements of this library, beside its peers, in one run.
 *
 * A part (hits, threads, misses ...) measures one thing. Its contestants do the same work in
 * turns, A B C B C A ..., each in processes of its own (actor.h), so that a machine that drifts
 * drifts for all. Each turn adds a value to the contestant's series (series.h). table.c has the
 * rows of the result: which series, beside which other, and the target. What is compared is the
 * ratio of values of the same turn, and of those ratios the median.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REGION_BYTES 4096

/* How much is measured. */
struct plan {
    bool quick;
    unsigned fresh;   /* how often the contestants' processes are made anew */
    unsigned turns;   /* of each such process */
    double sample_ms; /* how long one sample takes, about */
    size_t most_regions;
};

extern struct plan plan;

/* Each takes some seconds and says so on stderr. */
void measure_hits(void);
void measure_threads(void);
void measure_misses(void);
void measure_stalls(void);
void measure_invalidation(void);
void measure_locks(void);
void measure_footprint(void);
void measure_device(void);
void measure_unmap(void);
void measure_program(void);
void measure_instructions(void);

/* Runs inside another program's eyes; see instructions.c and locks.c. The result is the exit
 * status. */
int instructions_inside(const char *who, const char *count, const char *place);
int locks_inside(const char *who);

/* A line of progress on stderr, with the seconds since the beginning. */
void progress_begin(void);
void progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Ends the program: the measurement itself is broken, not what it measures. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

double now_ns(void);
/* Spins. */
void burn_ns(double ns);

#endif
