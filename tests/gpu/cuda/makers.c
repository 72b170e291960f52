/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * CUDA's rarer kinds of memory, for tests/gpu/fuzz.c, which runs with a driver that exports each of
 * them.
 */
#include "tests/gpu/cuda/driver.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/makers.h"

#include <stdatomic.h>
#include <sys/mman.h>

#define VARIABLE 100000 /* bytes */

/* Calls need a context, and the thread may have none. */
static struct cuda_context *enter(void)
{
    struct cuda_context *context = NULL;

    CU(cu.primary_retain(&context, 0));
    CU(cu.context_push(context));
    return context;
}

static void leave(void)
{
    CU(cu.context_pop(NULL));
    CU(cu.primary_release(0));
}

/* ---- pools ------------------------------------------------------------------------------- */

static uint64_t make_pooled(size_t *len)
{
    unsigned long long addr = 0;

    enter();
    CU(cu.alloc_async(&addr, *len, NULL));
    leave();
    return addr;
}

static void end_pooled(uint64_t addr)
{
    enter();
    CU(cu.free_async(addr, NULL));
    leave();
}

/* By the call that ends memory of any kind. */
static void end_at_once(uint64_t addr)
{
    enter();
    CU(cu.free(addr));
    leave();
}

/* ---- graphs ------------------------------------------------------------------------------ */

#define GRAPHS      4 /* they stay: launched again, one has other memory at the same address */
#define GRAPH_BYTES 100000

static struct graph {
    struct cuda_graph_exec *allocates, *frees;
    _Atomic uint64_t addr; /* 0: not made yet */
    atomic_bool used;
} graphs[GRAPHS];

static struct cuda_graph_exec *instantiate(struct cuda_graph *graph)
{
    struct cuda_graph_exec *exec = NULL;

    CU(cu.graph_instantiate(&exec, graph, 0));
    CU(cu.graph_destroy(graph)); /* what was instantiated stays */
    return exec;
}

static void make_graph(struct graph *graph)
{
    struct cuda_alloc_node params = {.size = GRAPH_BYTES};
    struct cuda_graph *allocates = NULL, *frees = NULL;
    struct cuda_node *node = NULL;

    params.pool.type = CUDA_MEMORY_PINNED;
    params.pool.location.type = CUDA_LOCATION_DEVICE;
    CU(cu.graph_create(&allocates, 0));
    CU(cu.graph_alloc(&node, allocates, NULL, 0, &params));
    CU(cu.graph_create(&frees, 0));
    CU(cu.graph_free(&node, frees, NULL, 0, params.addr));
    graph->allocates = instantiate(allocates);
    graph->frees = instantiate(frees);
    graph->addr = params.addr;
}

static uint64_t make_of_a_graph(size_t *len)
{
    struct graph *graph = graphs;

    while (graph < graphs + GRAPHS && atomic_exchange(&graph->used, true))
        graph++;
    if (graph == graphs + GRAPHS)
        return 0;
    enter();
    if (!graph->addr)
        make_graph(graph);
    CU(cu.graph_launch(graph->allocates, NULL));
    leave();
    *len = GRAPH_BYTES;
    return graph->addr;
}

static void end_by_a_graph(uint64_t addr)
{
    struct graph *graph = graphs;

    while (graph->addr != addr)
        graph++;
    enter();
    CU(cu.graph_launch(graph->frees, NULL));
    CU(cu.graph_trim(0)); /* else no memory of pools is cached any more */
    leave();
    atomic_store(&graph->used, false);
}

/* ---- virtual memory ---------------------------------------------------------------------- */

static struct makers_table mappings;

static uint64_t make_mapped(size_t *len, unsigned pieces)
{
    struct cuda_memory_prop prop = prop_on(0);
    size_t granule = cu_granule(), piece = (*len + granule - 1) / granule * granule;
    uint64_t addr;

    *len = pieces * piece;
    enter();
    addr = cu_reserve(*len);
    for (unsigned i = 0; i < pieces; i++)
        cu_map(addr + i * piece, piece, &prop);
    leave();
    makers_put(&mappings, addr, *len);
    return addr;
}

static uint64_t make_one_mapping(size_t *len)
{
    return make_mapped(len, 1);
}

static uint64_t make_three_mappings(size_t *len)
{
    return make_mapped(len, 3);
}

static void end_mapped(uint64_t addr)
{
    size_t len = makers_take(&mappings, addr);

    CU(cu.unmap(addr, len));
    CU(cu.unreserve(addr, len));
}

/* ---- registered memory of the process ----------------------------------------------------- */

static struct makers_table registered;

static uint64_t make_registered(size_t *len)
{
    void *pages;

    *len = (*len + 4095) & ~(size_t)4095;
    pages = mmap(NULL, *len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return 0;
    enter();
    CU(cu.host_register(pages, *len, 0));
    leave();
    makers_put(&registered, (uintptr_t)pages, *len);
    return (uintptr_t)pages;
}

static void end_registered(uint64_t addr)
{
    enter();
    CU(cu.host_unregister(as_pointer(addr)));
    leave();
    munmap(as_pointer(addr), makers_take(&registered, addr));
}

/* ---- what belongs to something --------------------------------------------------------------- */

static struct makers_table owners;

static uint64_t make_variable(size_t *len)
{
    unsigned long long addr = 0;
    struct cuda_module *module;

    enter();
    module = cu_module(false, &addr);
    leave();
    makers_put(&owners, addr, (uintptr_t)module);
    *len = VARIABLE;
    return addr;
}

static void end_variable(uint64_t addr)
{
    enter();
    CU(cu.module_unload((struct cuda_module *)as_pointer(makers_take(&owners, addr))));
    leave();
}

static uint64_t make_variable_of_a_library(size_t *len)
{
    unsigned long long addr = 0;
    struct cuda_library *library;

    enter();
    library = cu_library(false, &addr);
    leave();
    makers_put(&owners, addr, (uintptr_t)library);
    *len = VARIABLE;
    return addr;
}

static void end_variable_of_a_library(uint64_t addr)
{
    CU(cu.library_unload((struct cuda_library *)as_pointer(makers_take(&owners, addr))));
}

static uint64_t make_external(size_t *len)
{
    uint64_t addr;

    enter();
    addr = cu_external(*len);
    leave();
    return addr;
}

static uint64_t make_in_a_context(size_t *len)
{
    struct cuda_context *context = NULL;
    uint64_t addr;

    CU(cu.context_create(&context, 0, 0));
    addr = cu_alloc(*len);
    CU(cu.context_pop(NULL));
    makers_put(&owners, addr, (uintptr_t)context);
    return addr;
}

static void end_context(uint64_t addr)
{
    CU(cu.context_destroy((struct cuda_context *)as_pointer(makers_take(&owners, addr))));
}

const struct gpu_maker cuda_makers[] = {
    {"pool", make_pooled, end_pooled, false},
    {"pool, freed at once", make_pooled, end_at_once, false},
    {"graph", make_of_a_graph, end_by_a_graph, false},
    {"mapping", make_one_mapping, end_mapped, true},
    {"three mappings", make_three_mappings, end_mapped, true},
    {"registered", make_registered, end_registered, false},
    {"module's variable", make_variable, end_variable, true},
    {"library's variable", make_variable_of_a_library, end_variable_of_a_library, true},
    {"external", make_external, end_at_once, false},
    {"of a context", make_in_a_context, end_context, false},
    {0},
};
