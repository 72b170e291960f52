/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A hit on CUDA memory, which queries the driver for the identity each time, compared with that
 * query alone: cuPointerGetAttribute() of the buffer id. Uses this machine's driver and GPU or, if
 * there is none, the tests' simulated driver, which says nothing about a GPU; the contestants'
 * names show which.
 */
#include "bench/actor.h"
#include "bench/fixture.h"
#include "bench/bench.h"

#include <dlfcn.h>
#include <hmreg/hmreg.h>
#include <hmreg/loopback.h>
#include <stdlib.h>

#define REGIONS   100
#define BUFFER_ID 7 /* CU_POINTER_ATTRIBUTE_BUFFER_ID */

typedef int (*attribute_fn)(void *out, int attribute, uint64_t address);

struct gpu {
    bool asks_only;
    struct hmreg *lib;
    struct hmreg_domain *domain;
    attribute_fn attribute;
    char *base;
    struct order order;
};

/* True if the driver loads and finds a GPU. */
static bool is_driver_usable(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    int (*init)(unsigned) = library ? (int (*)(unsigned))dlsym(library, "cuInit") : NULL;

    return init && init(0) == 0;
}

/* Loads the driver, or the simulated one, whose soname hmreg then finds already loaded. */
static attribute_fn open_driver(const char *simulated)
{
    void *library = dlopen(simulated ? simulated : "libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    attribute_fn attribute;

    if (!library)
        leave("no CUDA driver: %s", dlerror());
    attribute = (attribute_fn)dlsym(library, "cuPointerGetAttribute");
    if (!attribute)
        leave("a CUDA driver without cuPointerGetAttribute");
    return attribute;
}

static void open_cache(struct gpu *gpu)
{
    struct hmreg_config config = {.size = sizeof(config),
                                  .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_CUDA)};
    struct hmreg_domain_config limits = {.size = sizeof(limits), .max_regions = REGIONS};
    void *memory = NULL;

    hmreg_must(hmreg_open(&config, &gpu->lib), "hmreg_open");
    hmreg_must(hmreg_domain_open_loopback(gpu->lib, NULL, &limits, &gpu->domain),
               "hmreg_domain_open_loopback");
    hmreg_must(hmreg_mem_alloc(gpu->lib, HMREG_IFACE_CUDA, 0, HMREG_MEM_DEVICE,
                               (size_t)REGIONS * REGION_BYTES, &memory),
               "hmreg_mem_alloc");
    gpu->base = memory;
    order_shuffle(&gpu->order, 0, REGIONS, 1);
}

static void ask(struct gpu *gpu, const uint32_t *order, size_t count)
{
    uint64_t id;

    for (size_t i = 0; i < count; i++)
        if (gpu->attribute(&id, BUFFER_ID,
                           (uint64_t)(uintptr_t)gpu->base + (uint64_t)order[i] * REGION_BYTES))
            leave("cuPointerGetAttribute failed");
}

static void ask_or_hit(void *arg, char *base, const uint32_t *order, size_t count)
{
    struct gpu *gpu = arg;
    struct hmreg_state state = {gpu->lib, gpu->domain};

    if (gpu->asks_only)
        ask(gpu, order, count);
    else
        subject_hmreg_default.hits(&state, base, order, count);
}

struct task {
    bool asks_only;
    const char *simulated;
};

static void *open_gpu(const void *arg)
{
    const struct task *task = arg;
    struct gpu *gpu = calloc(1, sizeof(*gpu));

    if (!gpu)
        leave("no memory");
    gpu->asks_only = task->asks_only;
    gpu->attribute = open_driver(task->simulated);
    open_cache(gpu);
    return gpu;
}

static const struct subject gpu_subject = {.who = "GPU", .hits = ask_or_hit};

static void warm_gpu(void *state, int worker)
{
    struct gpu *gpu = state;

    walk_once(&gpu_subject, gpu, gpu->base, &gpu->order);
}

static void sample_gpu(void *state, int worker, double *values)
{
    struct gpu *gpu = state;
    struct hmreg_stats stats = {.size = sizeof(stats)};

    values[0] = walk_timed(&gpu_subject, gpu, gpu->base, &gpu->order);
    hmreg_must(hmreg_domain_stats(gpu->domain, &stats), "hmreg_domain_stats");
    if (!gpu->asks_only && (stats.uncached || stats.misses > REGIONS))
        leave("failed: device memory is not remembered");
}

void measure_device(void)
{
    static const struct job job = {
        .open = open_gpu, .warm = warm_gpu, .sample = sample_gpu, .steady = true};
    const struct measure measure = {"device-hit", "ns"};
    bool real = is_driver_usable();
    const char *simulated = real ? NULL : BENCH_FAKE_CUDA;
    struct task tasks[] = {{false, simulated}, {true, simulated}};
    const char *absent = real || BENCH_FAKE_CUDA[0] ? NULL : "no CUDA driver, and no tests built";
    const struct contestant contestants[] = {
        {.who = real ? WHO_DEFAULT ", GPU" : WHO_DEFAULT ", simulated",
         .job = &job,
         .arg = &tasks[0],
         .absent = absent},
        {.who = real ? "driver, GPU" : "driver, simulated",
         .job = &job,
         .arg = &tasks[1],
         .absent = absent},
    };

    progress("device: CUDA memory, %s", real ? "this machine's driver" : "simulated driver");
    contest(&measure, 1, contestants, 2, plan.fresh, plan.turns);
}
