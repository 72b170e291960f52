/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Hits on device memory. Where the vendor reports the end of memory a hit makes no query: it is
 * compared with a hit on host memory, on one domain and on a group. Elsewhere it queries the
 * runtime for the identity: it is compared with those queries alone. Uses the tests' simulated
 * runtimes, whose times do not apply to a GPU; for CUDA this machine's driver, if it has a GPU. The
 * contestants' names show which. Then what a hook on the driver's function costs its callers.
 */
#include "bench/bench.h"
#include "bench/fakes.h"
#include "bench/fixture.h"

#include <hmreg/group.h>
#include <hmreg/hmreg.h>
#include <hmreg/loopback.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RAILS     8
#define ASKING    100 /* regions */
#define BUFFER_ID 7   /* CU_POINTER_ATTRIBUTE_BUFFER_ID */

/* A contestant. */
struct task {
    const char *library; /* loads the runtime; hmreg then finds its soname already loaded */
    size_t regions;
    enum hmreg_iface iface;
    bool group;
    bool asks;        /* HMREG_DEVICE_MONITOR=off: each hit asks */
    bool query_alone; /* the runtime's queries of such a hit, without hmreg */
};

struct memory {
    const struct task *task;
    struct hmreg_state state;
    struct hmreg_domain *rails[RAILS];
    void (*query)(uint64_t addr);
    char *base;
    struct order order;
};

/* ---- the runtimes' queries ---------------------------------------------------------------- */

static int (*attribute)(void *out, int attribute, uint64_t addr);

static void query_cuda(uint64_t addr)
{
    uint64_t id;

    if (attribute(&id, BUFFER_ID, addr))
        leave("cuPointerGetAttribute failed");
}

/* True if this machine's driver loads and finds a GPU. */
static bool is_driver_usable(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    int (*init)(unsigned) = library ? (int (*)(unsigned))dlsym(library, "cuInit") : NULL;

    return init && init(0) == 0;
}

static void open_runtime(struct memory *memory)
{
    const struct task *task = memory->task;
    void *library;

    setenv("HMREG_DEVICE_MONITOR", task->asks ? "off" : "on", 1);
    if (!task->library)
        return;
    library = fakes_load(task->iface, task->library);
    if (!task->query_alone)
        return;
    attribute = (int (*)(void *, int, uint64_t))dlsym(library, "cuPointerGetAttribute");
    if (!attribute)
        leave("a CUDA driver without cuPointerGetAttribute");
    memory->query = query_cuda;
}

/* ---- a contestant --------------------------------------------------------------------------- */

static void open_domain(struct memory *memory)
{
    struct hmreg_domain_config cache = {
        .size = sizeof(cache), .max_regions = memory->task->regions, .max_bytes = HMREG_LIMIT_NONE};
    struct hmreg_group_config config = {.size = sizeof(config), .domain = &cache};
    struct hmreg_state *state = &memory->state;

    for (int i = 0; i < (memory->task->group ? RAILS : 1); i++)
        hmreg_must(hmreg_domain_open_loopback(state->lib, NULL, &cache, &memory->rails[i]),
                   "hmreg_domain_open_loopback");
    state->domain = memory->rails[0];
    if (memory->task->group)
        hmreg_must(hmreg_group_open(state->lib, memory->rails, RAILS, &config, &state->domain),
                   "hmreg_group_open");
}

static void *open_memory(const void *arg)
{
    struct memory *memory = calloc(1, sizeof(*memory));
    struct hmreg_config config = {.size = sizeof(config)};
    void *base = NULL;

    if (!memory)
        leave("no memory");
    memory->task = arg;
    config.ifaces = HMREG_IFACE_BIT(memory->task->iface);
    open_runtime(memory);
    hmreg_must(hmreg_open(&config, &memory->state.lib), "hmreg_open");
    open_domain(memory);
    if (memory->task->iface == HMREG_IFACE_SYSTEM)
        base = fixture_reserve(memory->task->regions);
    else
        hmreg_must(hmreg_mem_alloc(memory->state.lib, memory->task->iface, 0, HMREG_MEM_DEVICE,
                                   memory->task->regions * REGION_BYTES, &base),
                   "hmreg_mem_alloc");
    memory->base = base;
    order_shuffle(&memory->order, 0, memory->task->regions, 1);
    return memory;
}

static void query_or_hit(void *arg, char *base, const uint32_t *order, size_t count)
{
    struct memory *memory = arg;

    if (!memory->query) {
        subject_hmreg_default.hits(&memory->state, base, order, count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        memory->query((uint64_t)(uintptr_t)base + (uint64_t)order[i] * REGION_BYTES);
}

static const struct subject device_subject = {.who = "device", .hits = query_or_hit};

static void warm_memory(void *state, int worker)
{
    struct memory *memory = state;

    walk_once(&device_subject, memory, memory->base, &memory->order);
}

static void sample_memory(void *state, int worker, double *values)
{
    struct memory *memory = state;
    struct hmreg_stats stats = {.size = sizeof(stats)};

    values[0] = walk_timed(&device_subject, memory, memory->base, &memory->order);
    hmreg_must(hmreg_domain_stats(memory->state.domain, &stats), "hmreg_domain_stats");
    if (!memory->query && (stats.uncached || stats.misses > memory->task->regions))
        leave("failed: the memory is not remembered");
}

static const struct job device_job = {
    .open = open_memory, .warm = warm_memory, .sample = sample_memory, .steady = true};

/* ---- the parts ------------------------------------------------------------------------------ */

/* Memory of CUDA and Level Zero and pool memory of ROCm, whose end is reported, beside host
 * memory. */
static void reported_over(size_t regions)
{
    const struct task tasks[] = {
        {.iface = HMREG_IFACE_SYSTEM, .regions = regions},
        {.iface = HMREG_IFACE_CUDA, .library = CUDA_FAKE, .regions = regions},
        {.iface = HMREG_IFACE_ROCR, .library = ROCR_FAKE, .regions = regions},
        {.iface = HMREG_IFACE_ZE, .library = ZE_LOADER, .regions = regions},
        {.iface = HMREG_IFACE_SYSTEM, .regions = regions, .group = true},
        {.iface = HMREG_IFACE_CUDA, .library = CUDA_FAKE, .regions = regions, .group = true},
        {.iface = HMREG_IFACE_ROCR, .library = ROCR_FAKE, .regions = regions, .group = true},
        {.iface = HMREG_IFACE_ZE, .library = ZE_LOADER, .regions = regions, .group = true},
    };
    static const char *const names[] = {WHO_HOST,
                                        WHO_CUDA,
                                        WHO_ROCR,
                                        WHO_ZE,
                                        WHO_HOST ", 8 rails",
                                        WHO_CUDA ", 8 rails",
                                        WHO_ROCR ", 8 rails",
                                        WHO_ZE ", 8 rails"};
    enum { COUNT = sizeof(tasks) / sizeof(tasks[0]) };
    struct contestant contestants[COUNT];
    char name[40];
    const struct measure measure = {name, "ns"};

    snprintf(name, sizeof(name), "device-hit-%zu", regions);
    progress("device: memory whose end is reported, %zu regions", regions);
    for (int i = 0; i < COUNT; i++)
        contestants[i] = (struct contestant){.who = names[i],
                                             .job = &device_job,
                                             .arg = &tasks[i],
                                             .absent = tasks[i].library ? FAKES_ABSENT : NULL};
    contest(&measure, 1, contestants, COUNT, plan.fresh, plan.turns);
}

/* CUDA memory, as if its end were not reported, beside the driver's query. */
static void asking(void)
{
    bool real = is_driver_usable();
    const char *library = real ? "libcuda.so.1" : CUDA_FAKE;
    const struct task tasks[] = {
        {.iface = HMREG_IFACE_CUDA, .library = library, .regions = ASKING, .asks = true},
        {.iface = HMREG_IFACE_CUDA, .library = library, .regions = ASKING, .query_alone = true},
    };
    const char *absent = real || BENCH_FAKES[0] ? NULL : "no CUDA driver, and no tests built";
    const struct contestant contestants[] = {
        {.who = real ? WHO_DEFAULT ", GPU" : WHO_DEFAULT ", simulated",
         .job = &device_job,
         .arg = &tasks[0],
         .absent = absent},
        {.who = real ? "driver, GPU" : "driver, simulated",
         .job = &device_job,
         .arg = &tasks[1],
         .absent = absent},
    };
    const struct measure measure = {"device-asks", "ns"};

    progress("device: CUDA memory, %s", real ? "this machine's driver" : "simulated driver");
    contest(&measure, 1, contestants, 2, plan.fresh, plan.turns);
}

/* ---- what a hook costs ---------------------------------------------------------------------- */

/* A cuMemFree() of nothing, which returns at once. */
static void sample_free(void *state, int worker, double *values)
{
    enum { CALLS = 100000 };
    void *function = dlsym(RTLD_DEFAULT, "cuMemFree_v2");
    int (*call)(uint64_t addr) = NULL;
    double before;

    memcpy(&call, &function, sizeof(call));
    if (!call)
        leave("a CUDA driver without cuMemFree_v2");
    before = now_ns();
    for (int i = 0; i < CALLS; i++)
        if (call(0))
            leave("cuMemFree_v2 failed");
    values[0] = (now_ns() - before) / CALLS;
}

static void hooked(void)
{
    static const struct job job = {
        .open = open_memory, .warm = warm_memory, .sample = sample_free, .steady = true};
    static const struct task tasks[] = {
        {.iface = HMREG_IFACE_CUDA, .library = CUDA_FAKE, .regions = 1},
        {.iface = HMREG_IFACE_CUDA, .library = CUDA_FAKE, .regions = 1, .asks = true},
    };
    const char *absent = FAKES_ABSENT;
    const struct contestant contestants[] = {
        {.who = "hooked, simulated", .job = &job, .arg = &tasks[0], .absent = absent},
        {.who = "not hooked, simulated", .job = &job, .arg = &tasks[1], .absent = absent},
    };
    const struct measure measure = {"device-free", "ns"};

    progress("device: cuMemFree, hooked and not");
    contest(&measure, 1, contestants, 2, plan.fresh, plan.turns);
}

void measure_device(void)
{
    for (size_t regions = 1; regions <= 10000; regions *= 100)
        reported_over(regions);
    asking();
    hooked();
}
