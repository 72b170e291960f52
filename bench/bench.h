/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A measurement: subjects (caches) do the same work in turns, A B A B ..., so that a machine that
 * drifts drifts for both; what is compared is the ratio of neighbours, and of those the median.
 * Work is a loop of get + put over regions of 4 KiB in one shuffled order, the same for all.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stddef.h>
#include <stdint.h>

#define REGION_BYTES 4096

/* A cache that can be measured. Its state is one per process; threads share it. Registration
 * below it does nothing, so that what is measured is the cache's alone. */
struct subject {
    const char *name;
    /* Makes the cache, with room for this many regions. */
    void *(*open)(size_t regions);
    void (*close)(void *state);
    /* get and put of `count` regions base + order[i] * REGION_BYTES, one after the other. */
    void (*hits)(void *state, char *base, const uint32_t *order, size_t count);
};

extern const struct subject subject_hmreg, subject_ucx;

enum crew { ONE_THREAD, TWO_THREADS, TWO_PROCESSES };

struct work {
    size_t regions;
    size_t gets; /* get + put pairs, for each thread or process, at least */
    enum crew crew;
    int same;   /* two threads: both walk the same order from the same start */
    int misses; /* each region is got once, for the first time */
};

/* ns per get + put of one worker, the slower of two. */
double bed_run(const struct subject *subject, const struct work *work);

/* A row: what was measured, by whom, compared with whom. */
struct row {
    char name[96];
    double ours, peer, ratio; /* medians; ratio: ours / peer of neighbours */
    double target;            /* ratio that must be reached; 0: reported only */
};

/* json_path NULL: only the table. */
void report_begin(const char *json_path);
void report_row(const struct row *row);
int report_end(void); /* how many targets were missed */

#endif
