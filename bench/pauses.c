/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The longest single calls beside many cached regions: a get while the cache fills, an munmap(2) of
 * the memory of all regions, a get of other memory after it, the end of the cache, and a fork(2).
 * The clock is the calling thread's processor time, so other programs do not count; but interrupts
 * do, and in a virtual machine the time of others. Among a million gets some always meet such. So
 * equal gets fill two caches, and the quicker one of each pair counts: the cache's own work at a
 * get occurs in both. UCX has its memory events here, without which it would not notice the
 * munmap(2).
 */
#include "bench/actor.h"
#include "bench/bench.h"
#include "bench/fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OTHERS 4096 /* regions of other memory, and gets after the munmap(2) */
#define FORKS  5

enum { FILL, UNMAP, AFTER, CLOSE, FORK, VALUES };

struct task {
    const struct subject *subject;
    size_t regions;
};

static void *open_task(const void *arg)
{
    return (void *)arg;
}

static double own_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* The longest get + put of `count` regions, ns. */
static double longest(const struct task *task, void *cache, char *base, size_t count)
{
    double most = 0;

    for (uint32_t i = 0; i < count; i++) {
        double begun = own_ns();

        task->subject->hits(cache, base, &i, 1);
        most = fmax(most, own_ns() - begun);
    }
    return most;
}

/* The longest get + put while a cache fills, ns. *least: the quickest so far of each. */
static double longest_filling(const struct task *task, void *cache, char *base, double *least)
{
    double most = 0;

    for (uint32_t i = 0; i < task->regions; i++) {
        double begun = own_ns();

        task->subject->hits(cache, base, &i, 1);
        least[i] = fmin(least[i], own_ns() - begun);
        most = fmax(most, least[i]);
    }
    return most;
}

static double *unknown_times(size_t count)
{
    double *least = malloc(count * sizeof(*least));

    if (!least)
        leave("no memory for %zu times", count);
    for (size_t i = 0; i < count; i++)
        least[i] = INFINITY;
    return least;
}

/* Fills a second cache; the first one stays, so that this one has new memory too. */
static double fill_again(const struct task *task, char *base, char *others, double *least)
{
    void *second = task->subject->open(task->subject, task->regions + OTHERS);
    double most;

    longest(task, second, others, OTHERS / 2);
    most = longest_filling(task, second, base, least);
    task->subject->close(second);
    return most;
}

static double unmap_ns(char *base, size_t regions)
{
    double begun = own_ns();

    munmap(base, regions * REGION_BYTES);
    return own_ns() - begun;
}

static double fork_ns(void)
{
    double least = INFINITY;

    for (int i = 0; i < FORKS; i++) {
        double begun = own_ns();
        pid_t child = fork();

        if (!child)
            _exit(0);
        least = fmin(least, own_ns() - begun);
        waitpid(child, NULL, 0);
    }
    return least;
}

static double close_ns(const struct task *task, void *cache)
{
    double begun = own_ns();

    task->subject->close(cache);
    return own_ns() - begun;
}

static void sample_pauses(void *state, int worker, double *values)
{
    const struct task *task = state;
    char *base = fixture_reserve(task->regions), *others = fixture_reserve(OTHERS), *again;
    double *least = unknown_times(task->regions), before = fork_ns();
    void *cache = task->subject->open(task->subject, task->regions + OTHERS);

    longest(task, cache, others, OTHERS / 2); /* the first get starts the monitor */
    longest_filling(task, cache, base, least);
    values[FORK] = (fork_ns() - before) / 1e6;
    values[FILL] = fill_again(task, base, others, least) / 1e3;
    again = fixture_reserve(task->regions); /* elsewhere */
    values[UNMAP] = unmap_ns(base, task->regions) / 1e3;
    values[AFTER] = longest(task, cache, others, OTHERS) / 1e3;
    longest(task, cache, again, task->regions);
    values[CLOSE] = close_ns(task, cache) / (double)task->regions;
    free(least);
}

static void pauses_of(size_t regions)
{
    static const struct job job = {.open = open_task, .sample = sample_pauses};
    static const char *const what[VALUES] = {"fill", "unmap", "after", "close", "fork"};
    static const char *const units[VALUES] = {"us", "us", "us", "ns", "ms"};
    const struct subject *subjects[] = {&subject_hmreg_default, &subject_hmreg_userfault,
                                        &subject_ucx_events};
    struct contestant contestants[3];
    struct measure measures[VALUES];
    char names[VALUES][40];
    struct task tasks[3];

    progress("pauses: %zu regions", regions);
    for (int i = 0; i < VALUES; i++) {
        snprintf(names[i], sizeof(names[i]), "pause-%s-%zu", what[i], regions);
        measures[i] = (struct measure){names[i], units[i]};
    }
    for (size_t i = 0; i < 3; i++) {
        tasks[i] = (struct task){subjects[i], regions};
        contestants[i] = (struct contestant){
            .who = subjects[i]->who, .job = &job, .arg = &tasks[i], .absent = subjects[i]->absent};
    }
    contest(measures, VALUES, contestants, 3, plan.fresh, 1);
}

void measure_pauses(void)
{
    for (size_t regions = 100000; regions <= plan.most_regions; regions *= 10)
        pauses_of(regions);
}
