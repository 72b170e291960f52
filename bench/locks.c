/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The longest time that a lock is held while 100,000 regions are invalidated. Runs this program
 * again with lockwatch.c preloaded, which times every hold of every lock in the process.
 */
#include "bench/again.h"
#include "bench/fixture.h"
#include "bench/bench.h"
#include "bench/series.h"

#include <dlfcn.h>
#include <hmreg/hmreg.h>
#include <stdio.h>

#define MANY 100000

static const struct subject *const subjects[] = {&subject_hmreg_notice, &subject_hmreg_userfault,
                                                 &subject_hmreg_import};

typedef void (*longest_fn)(int64_t *wall, int64_t *own);

static void print_longest(longest_fn longest)
{
    int64_t wall, own;

    longest(&wall, &own);
    printf(" %.1f %.1f", (double)wall / 1e3, (double)own / 1e3);
}

/* Prints a line per turn, in microseconds: the longest hold during the invalidation, by both
 * clocks, and during the flush after it. */
int locks_inside(const char *who)
{
    const struct subject *subject = subject_find(who);
    longest_fn longest = (longest_fn)dlsym(RTLD_DEFAULT, "lockwatch_longest");
    struct hmreg_state *state;
    struct order order;
    int64_t before[2];
    char *base;

    if (!subject || !longest)
        die("lockwatch is not preloaded, or no subject is called %s", who);
    state = subject->open(subject, MANY);
    base = fixture_reserve(MANY);
    order_sorted(&order, 0, MANY);
    for (int turn = 0; turn < 5; turn++) {
        walk_once(subject, state, base, &order);
        longest(&before[0], &before[1]);
        hmreg_must(hmreg_invalidate(state->lib, base, (size_t)MANY * REGION_BYTES), "invalidate");
        printf("held");
        print_longest(longest);
        hmreg_must(hmreg_domain_flush(state->domain), "flush");
        print_longest(longest);
        printf("\n");
    }
    return 0;
}

static const char *const measures[] = {"invalidate-held", "invalidate-held-own",
                                       "invalidate-flush-held", "invalidate-flush-held-own"};

static void watch(const struct subject *subject)
{
    const char *const argv[] = {again_path(), "--inside", "locks", subject->who, NULL};
    FILE *output = again_begin(argv, "LD_PRELOAD=" BENCH_LOCKWATCH);
    char line[200], last[150] = "it said nothing";
    double held[4];

    while (fgets(line, sizeof(line), output)) {
        snprintf(last, sizeof(last), "failed: %.*s", 120, line);
        if (sscanf(line, "held %lf %lf %lf %lf", &held[0], &held[1], &held[2], &held[3]) != 4)
            continue;
        for (int i = 0; i < 4; i++)
            series_add(measures[i], subject->who, "us", held[i]);
    }
    if (again_end(output))
        series_absent(measures[0], subject->who, "us", last);
}

void measure_locks(void)
{
    progress("invalidation: how long locks are held");
    for (size_t i = 0; i < sizeof(subjects) / sizeof(subjects[0]); i++) {
        if (subjects[i]->absent)
            series_absent("invalidate-held", subjects[i]->who, "us", subjects[i]->absent);
        else
            watch(subjects[i]);
    }
}
