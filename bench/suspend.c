/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Sleep and wake of 10,000 explicit regions of one buffer: hmreg_suspend() and hmreg_resume() of
 * all, beside the application's own close and registration of each. On a provider whose
 * registration takes 5 us.
 */
#include "bench/actor.h"
#include "bench/bench.h"
#include "bench/fixture.h"
#include "bench/series.h"
#include "bench/spinning.h"

#include <hmreg/suspend.h>
#include <stdlib.h>

#define REGIONS 10000
#define BYTES   4096
#define REG_NS  5e3

struct bench {
    struct hmreg *lib;
    struct hmreg_domain *domain;
    char *memory;
    struct hmreg_mr *mrs[REGIONS];
};

/* ---- the contestants ---------------------------------------------------------------------- */

static void register_all(struct bench *bench)
{
    for (size_t i = 0; i < REGIONS; i++)
        hmreg_must(hmreg_mr_reg(bench->domain, bench->memory + i * BYTES, BYTES, HMREG_ACCESS_ALL,
                                0, i + 1, 0, &bench->mrs[i], NULL),
                   "hmreg_mr_reg");
}

static void *open_bench(const void *arg)
{
    static double reg_ns = REG_NS;
    struct bench *bench = calloc(1, sizeof(*bench));

    if (!bench)
        leave("no memory");
    hmreg_must(hmreg_open(NULL, &bench->lib), "hmreg_open");
    bench->domain = spinning_domain(bench->lib, &reg_ns, NULL);
    bench->memory = calloc(REGIONS, BYTES);
    if (!bench->memory)
        leave("no memory");
    register_all(bench);
    return bench;
}

static void sample_suspend(void *state, int worker, double *values)
{
    const struct bench *bench = state;
    size_t len = (size_t)REGIONS * BYTES;
    double start = now_ns();

    hmreg_must(hmreg_suspend(bench->lib, bench->memory, len), "hmreg_suspend");
    hmreg_must(hmreg_resume(bench->lib, bench->memory, len, NULL), "hmreg_resume");
    values[0] = (now_ns() - start) / 1e6;
}

static void sample_close(void *state, int worker, double *values)
{
    struct bench *bench = state;
    double start = now_ns();

    for (size_t i = 0; i < REGIONS; i++)
        hmreg_must(hmreg_mr_close(bench->mrs[i]), "hmreg_mr_close");
    register_all(bench);
    values[0] = (now_ns() - start) / 1e6;
}

/* ---- the part ----------------------------------------------------------------------------- */

void measure_suspend(void)
{
    static const struct job suspends = {.open = open_bench, .sample = sample_suspend};
    static const struct job closes = {.open = open_bench, .sample = sample_close};
    static const struct measure measure = {"suspend-10000", "ms"};
    const struct contestant contestants[] = {
        {.who = "suspend and resume", .job = &suspends},
        {.who = "close and register", .job = &closes},
    };

    progress("suspend: 10,000 regions");
    contest(&measure, 1, contestants, 2, plan.fresh, plan.turns);
}
