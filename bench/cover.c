/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Gets of a model's tensors, as an engine registers its weights: 1,265 in 60 allocations of device
 * memory, each got once. Exactly, and with each miss covering its allocation; on a provider whose
 * registration takes 20 us. On the tests' simulated CUDA.
 */
#include "bench/bench.h"
#include "bench/fakes.h"
#include "bench/fixture.h"
#include "bench/series.h"
#include "bench/spinning.h"

#include <stdlib.h>

#define TENSORS     1265
#define ALLOCATIONS 60
#define BYTES       65536 /* of a tensor */
#define REG_NS      20e3

struct bench {
    struct hmreg *lib;
    struct hmreg_domain *domain;
    char *allocation[ALLOCATIONS];
};

/* ---- a contestant ------------------------------------------------------------------------- */

/* arg: enum hmreg_cover */
static void *open_bench(const void *arg)
{
    static double reg_ns = REG_NS;
    struct hmreg_domain_config domain = {.size = sizeof(domain),
                                         .order = {HMREG_PATH_DMABUF},
                                         .cover = *(const enum hmreg_cover *)arg};
    struct hmreg_config config = {.size = sizeof(config),
                                  .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_CUDA)};
    struct bench *bench = calloc(1, sizeof(*bench));

    if (!bench)
        leave("no memory");
    fakes_load(HMREG_IFACE_CUDA, CUDA_FAKE);
    hmreg_must(hmreg_open(&config, &bench->lib), "hmreg_open");
    bench->domain = spinning_domain(bench->lib, &reg_ns, &domain);
    for (int i = 0; i < ALLOCATIONS; i++)
        hmreg_must(hmreg_mem_alloc(bench->lib, HMREG_IFACE_CUDA, 0, HMREG_MEM_DEVICE,
                                   (TENSORS / ALLOCATIONS + 1) * (size_t)BYTES,
                                   (void **)&bench->allocation[i]),
                   "hmreg_mem_alloc");
    return bench;
}

static void sample_cover(void *state, int worker, double *values)
{
    const struct bench *bench = state;
    struct hmreg_mr *mr;
    double start = now_ns();

    for (int i = 0; i < TENSORS; i++) {
        hmreg_must(hmreg_mr_get(bench->domain,
                                bench->allocation[i % ALLOCATIONS] + i / ALLOCATIONS * BYTES, BYTES,
                                HMREG_ACCESS_LOCAL, &mr),
                   "hmreg_mr_get");
        hmreg_mr_put(mr);
    }
    values[0] = (now_ns() - start) / 1e6;
    hmreg_must(hmreg_domain_flush(bench->domain), "hmreg_domain_flush");
}

/* ---- the part ------------------------------------------------------------------------------- */

void measure_cover(void)
{
    static const struct job job = {.open = open_bench, .sample = sample_cover};
    static const enum hmreg_cover exact = HMREG_COVER_EXACT, cover = HMREG_COVER_ALLOCATION;
    static const struct measure measure = {"cover-tensors", "ms"};
    const struct contestant contestants[] = {
        {.who = "each exactly", .job = &job, .arg = &exact, .absent = FAKES_ABSENT},
        {.who = "covering", .job = &job, .arg = &cover, .absent = FAKES_ABSENT},
    };

    progress("cover: 1,265 tensors in 60 allocations");
    contest(&measure, 1, contestants, 2, plan.fresh, plan.turns);
}
