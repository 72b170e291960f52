/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg-bench: what a cached registration costs, beside UCX's registration cache in the same run.
 */
#include "bench/bench.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ROUNDS 31

static size_t rounds = 7, gets = 2000000, most_regions = 1000000;

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), by_size);
    return values[count / 2];
}

/* Ours and the peer's, in turns. */
static void compare(struct row *row, const struct subject *us, const struct work *our_work,
                    const struct subject *peer, const struct work *peer_work)
{
    double ours[MOST_ROUNDS], theirs[MOST_ROUNDS], ratios[MOST_ROUNDS];

    for (size_t i = 0; i < rounds; i++) {
        ours[i] = bed_run(us, our_work);
        theirs[i] = bed_run(peer, peer_work);
        ratios[i] = ours[i] / theirs[i];
    }
    row->ours = median(ours, rounds);
    row->peer = median(theirs, rounds);
    row->ratio = median(ratios, rounds);
    report_row(row);
}

static void compare_hits(size_t regions, double target)
{
    struct work work = {.regions = regions, .gets = gets, .crew = ONE_THREAD};
    struct row row = {.target = target};

    if (regions > most_regions)
        return;
    snprintf(row.name, sizeof(row.name), "hits, 1 thread, %zu regions, vs UCX", regions);
    compare(&row, &subject_hmreg, &work, &subject_ucx, &work);
}

static void compare_threads(size_t regions, int same)
{
    struct work threads = {.regions = regions, .gets = gets, .crew = TWO_THREADS, .same = same};
    struct work processes = {.regions = regions, .gets = gets, .crew = TWO_PROCESSES};
    const char *how = same ? " on the same" : "";
    struct row row = {.target = 1.15};

    snprintf(row.name, sizeof(row.name), "hits, 2 threads%s, %zu regions, vs 2 processes of ours",
             how, regions);
    compare(&row, &subject_hmreg, &threads, &subject_hmreg, &processes);
    row.target = 0;
    snprintf(row.name, sizeof(row.name), "hits, 2 threads%s, %zu regions, vs UCX", how, regions);
    compare(&row, &subject_hmreg, &threads, &subject_ucx, &threads);
}

static void compare_misses(size_t regions)
{
    struct work work = {.regions = regions, .gets = regions, .crew = ONE_THREAD, .misses = 1};
    struct row row = {.target = 0};

    snprintf(row.name, sizeof(row.name), "misses, registration free, %zu regions, vs UCX", regions);
    compare(&row, &subject_hmreg, &work, &subject_ucx, &work);
}

static void compare_all(void)
{
    for (size_t regions = 1; regions <= 1000; regions *= 10)
        compare_hits(regions, 1 / 8.0);
    compare_hits(10000, 1 / 6.0);
    compare_hits(100000, 1 / 7.0);
    compare_threads(1000, 0);
    compare_threads(1, 1);
    compare_misses(most_regions < 10000 ? most_regions : 10000);
}

static void usage(FILE *to)
{
    fprintf(to, "usage: hmreg-bench [--json FILE] [--quick]\n\n"
                "Measures cached registration beside UCX's registration cache, in turns, and\n"
                "prints medians of %zu rounds. --quick: one short round, to see that it runs.\n"
                "Exit status: 0 all targets met, 1 some missed (never with --quick), 2 usage.\n",
            rounds);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", required_argument, NULL, 'j'},
        {"quick", no_argument, NULL, 'q'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    const char *json = NULL;
    int option, missed;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'j':
            json = optarg;
            break;
        case 'q':
            rounds = 1;
            gets = 20000;
            most_regions = 1000;
            break;
        case 'h':
            usage(stdout);
            return 0;
        default:
            usage(stderr);
            return 2;
        }
    }
    report_begin(json);
    compare_all();
    missed = report_end();
    return rounds > 1 && missed;
}
