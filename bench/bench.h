/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Measures this library and its peers in one run.
 *
 * A part (hits, threads, misses ...) measures one thing. Its contestants do the same work in
 * turns, A B C B C A ..., each in separate processes (actor.h), so that a drift of the machine
 * affects all alike. Each turn adds a value to the contestant's series (series.h). table.c defines
 * the rows of the result: a series, the one it is compared with, and the target. The comparison is
 * the median of the ratios of values of the same turn.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REGION_BYTES 4096

/* The amount of measurement. */
struct plan {
    bool quick;
    unsigned fresh;   /* how often the contestants' processes are restarted */
    unsigned turns;   /* per restart */
    double sample_ms; /* approximate duration of one sample */
    size_t most_regions;
};

extern struct plan plan;

/* Each takes some seconds and reports its progress on stderr. */
void measure_hits(void);
void measure_groups(void);
void measure_threads(void);
void measure_misses(void);
void measure_stalls(void);
void measure_invalidation(void);
void measure_locks(void);
void measure_pauses(void);
void measure_footprint(void);
void measure_device(void);
void measure_freed(void);
void measure_cover(void);
void measure_suspend(void);
void measure_rails(void);
void measure_remotes(void);
void measure_explicit(void);
void measure_plugin(void);
void measure_large(void);
void measure_unmap(void);
void measure_program(void);
void measure_inlined(void);
void measure_instructions(void);

/* The part of a measurement that runs under valgrind, or with lockwatch preloaded; see
 * instructions.c and locks.c. Returns the exit status. */
int instructions_inside(const char *who, const char *count, const char *place);
int locks_inside(const char *who);

/* Prints a line of progress on stderr, with the seconds since progress_begin(). */
void progress_begin(void);
void progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* From now on the first SIGINT ends the measuring after the turn under way, so that what was
 * measured is reported; the second one ends the program. */
void interrupt_catch(void);
bool interrupted(void);
/* Exits: the measurement itself failed, not its subject. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

double now_ns(void);
/* Busy-waits. */
void burn_ns(double ns);

#endif
