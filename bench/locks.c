/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * For how long is a lock held while all of 100,000 regions are invalidated? This program is run
 * once more with lockwatch.c preloaded, which times every hold of every lock of the process.
 */
#include "bench/again.h"
#include "bench/bed.h"
#include "bench/bench.h"
#include "bench/series.h"

#include <dlfcn.h>
#include <hmreg/hmreg.h>
#include <stdio.h>

#define MANY 100000

static const struct subject *const subjects[] = {&subject_hmreg_notice, &subject_hmreg_default,
                                                 &subject_hmreg_import};

/* Prints a line for each turn: microseconds, during the invalidation, and the flush after it. */
int locks_inside(const char *who)
{
    const struct subject *subject = subject_find(who);
    int64_t (*longest)(void) = (int64_t(*)(void))dlsym(RTLD_DEFAULT, "lockwatch_longest");
    struct hmreg_state *state;
    struct order order;
    char *base;

    if (!subject || !longest)
        die("lockwatch is not preloaded, or no subject is called %s", who);
    state = subject->open(subject, MANY);
    base = bed_reserve(MANY);
    order_sorted(&order, 0, MANY);
    for (int turn = 0; turn < 5; turn++) {
        walk_once(subject, state, base, &order);
        longest();
        hmreg_must(hmreg_invalidate(state->lib, base, (size_t)MANY * REGION_BYTES), "invalidate");
        printf("held %.1f", (double)longest() / 1e3);
        hmreg_must(hmreg_domain_flush(state->domain), "flush");
        printf(" %.1f\n", (double)longest() / 1e3);
    }
    return 0;
}

static void watch(const struct subject *subject)
{
    const char *const argv[] = {again_path(), "--inside", "locks", subject->who, NULL};
    FILE *output = again_begin(argv, "LD_PRELOAD=" BENCH_LOCKWATCH);
    char line[200], last[150] = "it said nothing";
    double during, after;

    while (fgets(line, sizeof(line), output)) {
        snprintf(last, sizeof(last), "failed: %.*s", 120, line);
        if (sscanf(line, "held %lf %lf", &during, &after) != 2)
            continue;
        series_add("invalidate-held", subject->who, "us", during);
        series_add("invalidate-flush-held", subject->who, "us", after);
    }
    if (again_end(output))
        series_absent("invalidate-held", subject->who, "us", last);
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
