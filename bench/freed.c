/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * How long freed device memory stays registered. The program gets and puts regions of device
 * memory, frees the memory and makes no further call; the provider notes when each region is
 * deregistered. Where the vendor reports the end of memory, the report wakes the library's thread.
 * Elsewhere that thread finds it when it compares the identities. On the tests' simulated runtimes.
 */
#include "bench/bench.h"
#include "bench/fakes.h"
#include "bench/fixture.h"
#include "bench/series.h"
#include "core/contract/provider.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define FREED   20    /* allocations in a turn */
#define BYTES   65536 /* of each */
#define PATIENT 60e9  /* ns: far more than any of this takes */

/* A contestant. */
struct task {
    const char *library;
    enum hmreg_iface iface;
    bool asks; /* HMREG_DEVICE_MONITOR=off: no end is reported */
};

/* The allocation of a registered region. */
struct freed {
    void *memory;
    double freed_ns;
    _Atomic double deregistered_ns; /* 0: it is registered */
};

struct bench {
    const struct task *task;
    struct hmreg *lib;
    struct hmreg_domain *domain;
    struct freed freed[FREED];
};

/* ---- the provider ------------------------------------------------------------------------- */

static int can(void *self, enum hmreg_path path, enum hmreg_iface iface, int device,
               struct hmreg_reason *why)
{
    return 0;
}

static int reg(void *self, const struct provider_request *req, struct hmreg_mr_keys *out,
               struct hmreg_reason *why)
{
    *out = (struct hmreg_mr_keys){.key = req->requested_key, .priv = req->context};
    return 0;
}

static int dereg(void *self, struct hmreg_mr_keys *mr)
{
    atomic_store(&((struct freed *)mr->priv)->deregistered_ns, now_ns());
    return 0;
}

static const struct provider_ops noting = {
    .name = "noting", .can = can, .reg = reg, .dereg = dereg};

/* ---- a contestant ------------------------------------------------------------------------- */

static void *open_bench(const void *arg)
{
    struct provider_caps caps = {.fabric = "noting",
                                 .key_size = 8,
                                 .iov_limit = 1,
                                 .max_len = UINT64_MAX,
                                 .any_thread = true};
    struct hmreg_domain_config domain = {.size = sizeof(domain), .order = {HMREG_PATH_DMABUF}};
    struct hmreg_config config = {.size = sizeof(config)};
    struct bench *bench = calloc(1, sizeof(*bench));

    if (!bench)
        leave("no memory");
    bench->task = arg;
    config.ifaces = HMREG_IFACE_BIT(bench->task->iface);
    setenv("HMREG_DEVICE_MONITOR", bench->task->asks ? "off" : "on", 1);
    fakes_load(bench->task->iface, bench->task->library);
    hmreg_must(hmreg_open(&config, &bench->lib), "hmreg_open");
    hmreg_must(hmreg_domain_create(bench->lib, &noting, &caps, NULL, &domain, &bench->domain),
               "hmreg_domain_create");
    return bench;
}

/* The region stays in the cache. */
static void register_one(const struct bench *bench, struct freed *freed)
{
    const uint32_t expected = bench->task->asks ? HMREG_ASKS_RUNTIME : 0;
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_mr_attr attr = {.size = sizeof(attr)};
    struct iovec iov = {.iov_len = BYTES};
    struct hmreg_mr *mr;

    hmreg_must(
        hmreg_mem_alloc(bench->lib, bench->task->iface, 0, HMREG_MEM_DEVICE, BYTES, &iov.iov_base),
        "hmreg_mem_alloc");
    freed->memory = iov.iov_base;
    atomic_store(&freed->deregistered_ns, 0);
    attr.iov = &iov;
    attr.iov_count = 1;
    attr.access = HMREG_ACCESS_ALL;
    attr.context = freed;
    hmreg_must(hmreg_mr_get_attr(bench->domain, &attr, 0, &mr), "hmreg_mr_get_attr");
    hmreg_must(hmreg_mr_query(mr, &info), "hmreg_mr_query");
    if (!info.cached || info.asks != expected)
        leave("failed: the memory is not remembered, or its end is reported otherwise");
    hmreg_mr_put(mr);
}

static void free_one(const struct bench *bench, struct freed *freed)
{
    freed->freed_ns = now_ns();
    hmreg_must(hmreg_mem_free(bench->lib, freed->memory), "hmreg_mem_free");
}

/* The program sleeps, as one that waits for its devices. Returns ms. */
static double wait_for(const struct freed *freed)
{
    const struct timespec some = {.tv_nsec = 200000};

    while (atomic_load(&freed->deregistered_ns) == 0) {
        if (now_ns() > freed->freed_ns + PATIENT)
            leave("failed: it stays registered");
        nanosleep(&some, NULL);
    }
    return (atomic_load(&freed->deregistered_ns) - freed->freed_ns) / 1e6;
}

/* One after the other where the end is reported; else all at once, since the library's thread
 * finds them together. */
static void sample_freed(void *state, int worker, double *values)
{
    struct bench *bench = state;
    double ms[FREED];

    for (int i = 0; i < FREED; i++) {
        register_one(bench, &bench->freed[i]);
        if (bench->task->asks)
            continue;
        free_one(bench, &bench->freed[i]);
        ms[i] = wait_for(&bench->freed[i]);
    }
    for (int i = 0; i < FREED && bench->task->asks; i++)
        free_one(bench, &bench->freed[i]);
    for (int i = 0; i < FREED && bench->task->asks; i++)
        ms[i] = wait_for(&bench->freed[i]);
    values[0] = spread_of(ms, FREED).median;
    values[1] = 0;
    for (int i = 0; i < FREED; i++)
        values[1] = fmax(values[1], ms[i]);
}

/* ---- the part ------------------------------------------------------------------------------- */

void measure_freed(void)
{
    static const struct job job = {.open = open_bench, .sample = sample_freed};
    static const struct task tasks[] = {{CUDA_FAKE, HMREG_IFACE_CUDA, false},
                                        {ROCR_FAKE, HMREG_IFACE_ROCR, false},
                                        {ZE_LOADER, HMREG_IFACE_ZE, false},
                                        {CUDA_FAKE, HMREG_IFACE_CUDA, true}};
    static const struct measure measures[] = {{"freed-median", "ms"}, {"freed-longest", "ms"}};
    const char *absent = FAKES_ABSENT;
    const struct contestant reported[] = {
        {.who = WHO_CUDA, .job = &job, .arg = &tasks[0], .absent = absent},
        {.who = WHO_ROCR, .job = &job, .arg = &tasks[1], .absent = absent},
        {.who = WHO_ZE, .job = &job, .arg = &tasks[2], .absent = absent},
    };
    const struct contestant asking = {.who = WHO_CUDA ", not reported",
                                      .job = &job,
                                      .arg = &tasks[3],
                                      .absent = plan.quick ? "takes ten seconds a turn" : absent};

    progress("freed: device memory whose end is reported");
    contest(measures, 2, reported, 3, plan.fresh, plan.turns);
    progress("freed: device memory whose end is not reported");
    contest(measures, 2, &asking, 1, 1, 3);
}
