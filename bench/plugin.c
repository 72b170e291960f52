/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Registration as a NCCL network plugin does it: reg.c of example 7, on hmreg, beside its
 * reg_list.c, ibv_reg_mr(3) behind a linear list. Buffers of a page, which do not touch, are
 * registered for the first time, again while they are held, in random order, and again after their
 * deregistration. The device is the tests' simulated one, which pins nothing. A real device adds
 * the time of a first registration to both, and none to the others.
 */
#include "bench/actor.h"
#include "bench/bench.h"
#include "bench/subject.h"
#include "examples/7-nccl-net/plugin.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FIRST, AGAIN, AFTER, VALUES };

#define MEASURES(n)                                                                                \
    {                                                                                              \
        {"plugin-first-" #n, "ns"}, {"plugin-again-" #n, "ns"}, {"plugin-after-" #n, "ns"},        \
    }

static const struct {
    unsigned count; /* buffers held at a time */
    struct measure measures[VALUES];
} sizes[] = {{1, MEASURES(1)}, {100, MEASURES(100)}, {10000, MEASURES(10000)}};

#define AGAINS    2000  /* registrations of held buffers, between two readings of the clock */
#define PASSES    5     /* at least this many: each of the 10,000 buffers is used */
#define PASSES_NS 200e6 /* as many passes as this time allows in a sample */
#define FIRSTS    10000 /* first registrations of a sample */

struct task {
    const char *library; /* with reg_get() and reg_put() */
    unsigned count;
};

#ifdef BENCH_IBVERBS
#include <infiniband/verbs.h>

struct plugin {
    struct device device;
    unsigned count;
    size_t page;
    struct hmreg_mr **mrs;
    __typeof__(reg_get) *get;
    __typeof__(reg_put) *put;
};

/* ---- opening ----------------------------------------------------------------------------- */

static void *find(void *library, const char *name)
{
    void *found = library ? dlsym(library, name) : NULL;

    if (!found)
        leave("%s", dlerror());
    return found;
}

static struct ibv_pd *open_pd(void *verbs)
{
    __typeof__(ibv_get_device_list) *list = (__typeof__(list))find(verbs, "ibv_get_device_list");
    __typeof__(ibv_open_device) *open = (__typeof__(open))find(verbs, "ibv_open_device");
    __typeof__(ibv_alloc_pd) *alloc = (__typeof__(alloc))find(verbs, "ibv_alloc_pd");
    struct ibv_pd *pd = alloc(open(*list(NULL)));

    if (!pd)
        leave("the simulated device has no protection domain");
    return pd;
}

/* A group of one, as the plugin's. */
static struct hmreg_domain *open_group(struct ibv_pd *pd, const struct hmreg_domain_config *policy)
{
    const struct hmreg_config config = {.size = sizeof(config),
                                        .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_SYSTEM)};
    int (*open)(struct hmreg *, struct ibv_pd *, const struct hmreg_domain_config *,
                struct hmreg_domain **);
    const struct hmreg_group_config group = {.size = sizeof(group), .domain = policy};
    struct hmreg_domain *member = NULL, *domain = NULL;
    struct hmreg *lib = NULL;

    open = (__typeof__(open))find(dlopen(BENCH_HMREG_VERBS, RTLD_NOW), "hmreg_domain_open_verbs");
    hmreg_must(hmreg_open(&config, &lib), "hmreg_open");
    hmreg_must(open(lib, pd, policy, &member), "hmreg_domain_open_verbs");
    hmreg_must(hmreg_group_open(lib, &member, 1, &group, &domain), "hmreg_group_open");
    return domain;
}

/* The simulated libibverbs is loaded first: the libraries that need it find its soname. */
static void *open_plugin(const void *arg)
{
    const struct task *task = arg;
    struct plugin *plugin = calloc(1, sizeof(*plugin));
    void *verbs = dlopen(BENCH_IBVERBS, RTLD_NOW | RTLD_GLOBAL), *library;
    struct ibv_pd *pd = open_pd(verbs);

    if (!plugin)
        leave("no memory");
    library = dlopen(task->library, RTLD_NOW);
    plugin->get = (__typeof__(plugin->get))find(library, "reg_get");
    plugin->put = (__typeof__(plugin->put))find(library, "reg_put");
    plugin->device.rails = 1;
    plugin->device.native[0] = pd;
    plugin->device.domain = open_group(pd, find(library, "reg_policy"));
    plugin->count = task->count;
    plugin->page = (size_t)sysconf(_SC_PAGESIZE);
    plugin->mrs = calloc(task->count, sizeof(*plugin->mrs));
    return plugin;
}

/* ---- one sample -------------------------------------------------------------------------- */

static struct hmreg_mr *reg_page(const struct plugin *plugin, char *memory, unsigned i)
{
    struct hmreg_mr *mr = NULL;

    if (plugin->get(&plugin->device, memory + (size_t)i * 2 * plugin->page, plugin->page,
                    HMREG_REMOTE_WRITE | HMREG_RECV, -1, 0, &mr))
        leave("a registration failed: %s", hmreg_last_error()->text);
    return mr;
}

/* ns of each. */
static double reg_all(struct plugin *plugin, char *memory)
{
    double begun = now_ns();

    for (unsigned i = 0; i < plugin->count; i++)
        plugin->mrs[i] = reg_page(plugin, memory, i);
    return (now_ns() - begun) / plugin->count;
}

/* ns of each, in random order: each buffer once before one comes again. */
static double reg_again(const struct plugin *plugin, char *memory, unsigned pass)
{
    double begun = now_ns();

    for (uint64_t i = pass * AGAINS; i < (pass + 1) * AGAINS; i++)
        plugin->put(reg_page(plugin, memory, (unsigned)(i * 2654435761u % plugin->count)));
    return (now_ns() - begun) / AGAINS;
}

/* The shortest of many passes: another process on the processor also evicts its caches, whose
 * content is measured here. */
static double reg_again_often(const struct plugin *plugin, char *memory, double ns)
{
    double begun = now_ns(), shortest = INFINITY;

    for (unsigned pass = 0; pass < PASSES || now_ns() - begun < ns; pass++)
        shortest = fmin(shortest, reg_again(plugin, memory, pass));
    return shortest;
}

static void put_all(struct plugin *plugin)
{
    for (unsigned i = 0; i < plugin->count; i++)
        plugin->put(plugin->mrs[i]);
}

static void sample_once(struct plugin *plugin, unsigned rounds, double *values)
{
    size_t bytes = (size_t)plugin->count * 2 * plugin->page;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (memory == MAP_FAILED)
        leave("no memory");
    values[FIRST] += reg_all(plugin, memory);
    values[AGAIN] += reg_again_often(plugin, memory, PASSES_NS / rounds);
    put_all(plugin);
    values[AFTER] += reg_all(plugin, memory);
    put_all(plugin);
    munmap(memory, bytes);
}

/* New memory in each round, so that a first registration really is the first. */
static void sample_plugin(void *state, int worker, double *values)
{
    struct plugin *plugin = state;
    unsigned rounds = plugin->count < 100 ? 100 : FIRSTS / plugin->count;

    for (int i = 0; i < VALUES; i++)
        values[i] = 0;
    for (unsigned i = 0; i < rounds; i++)
        sample_once(plugin, rounds, values);
    for (int i = 0; i < VALUES; i++)
        values[i] /= rounds;
}

#define ABSENT NULL
#else
static void *open_plugin(const void *arg)
{
    leave("built without libibverbs, or without tests");
}

static void sample_plugin(void *state, int worker, double *values)
{
}

#define BENCH_PLUGIN_HMREG NULL
#define BENCH_PLUGIN_LIST  NULL
#define ABSENT             "built without libibverbs, or without tests"
#endif

void measure_plugin(void)
{
    static const struct job job = {.open = open_plugin, .sample = sample_plugin, .steady = true};

    progress("plugin: a NCCL plugin's registration, by hmreg and by a list");
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const struct task tasks[] = {{BENCH_PLUGIN_HMREG, sizes[i].count},
                                     {BENCH_PLUGIN_LIST, sizes[i].count}};
        const struct contestant contestants[] = {
            {.who = WHO_PLUGIN, .job = &job, .arg = &tasks[0], .absent = ABSENT},
            {.who = WHO_LIST, .job = &job, .arg = &tasks[1], .absent = ABSENT}};

        contest(sizes[i].measures, VALUES, contestants, 2, plan.fresh, plan.turns);
    }
}
