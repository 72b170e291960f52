/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The fake libcuda.so.1: graphs of nodes that allocate and free memory. A node's address is chosen
 * when it is added, and is the same at each launch; the memory there is another at each, with the
 * same buffer id, since CUDA does not promise another. It ends by a node of any graph that frees
 * it, at that graph's launch, without a call that names it, by cuMemFree or cuMemFreeAsync, or by
 * the next launch of its own graph (AUTO_FREE_ON_LAUNCH). Nodes run in the order in which they were
 * added. What the driver has reserved for graphs stays reserved until it is trimmed.
 */
#include "simulated/cuda/cuda_fake.h"

#include <stdlib.h>
#include <string.h>

struct cuda_node {
    struct cuda_node *next;
    bool frees;
    uint64_t addr; /* reserved for an allocation as long as its graph and what was made of it */
    size_t size;
    uint64_t id; /* of an allocation, at each launch: CUDA promises no other; 0: none was made */
    int device;
};

struct cuda_graph {
    struct cuda_graph *next;
    struct cuda_node *nodes, **last;
    unsigned users; /* itself, and what was instantiated of it */
};

struct cuda_graph_exec {
    struct cuda_graph *graph;
    bool auto_free;
};

static struct cuda_graph *graphs;
static struct cuda_pool graph_pool; /* of their memory */
static uint64_t reserved[8];        /* bytes, by device */

/* ---- graphs and nodes -------------------------------------------------------------------- */

struct cuda_graph *fake_cuda_graph(void)
{
    struct cuda_graph *made = calloc(1, sizeof(*made));

    if (!made)
        abort();
    made->last = &made->nodes;
    made->users = 1;
    made->next = graphs;
    graphs = made;
    return made;
}

unsigned cuGraphCreate(struct cuda_graph **graph, unsigned flags)
{
    ENTER();
    if (!graph || flags)
        return CUDA_INVALID_VALUE;
    *graph = fake_cuda_graph();
    return CUDA_OK;
}

static bool is_graph(const struct cuda_graph *graph)
{
    const struct cuda_graph *known = graphs;

    while (known && known != graph)
        known = known->next;
    return known;
}

void fake_cuda_put_graph(struct cuda_graph *graph)
{
    struct cuda_graph **link = &graphs;
    struct cuda_node *node;

    if (--graph->users)
        return;
    while (*link != graph)
        link = &(*link)->next;
    *link = graph->next;
    while ((node = graph->nodes)) {
        graph->nodes = node->next;
        if (!node->frees)
            fake_unreserve(node->addr);
        free(node);
    }
    free(graph);
}

unsigned cuGraphDestroy(struct cuda_graph *graph)
{
    ENTER();
    if (!is_graph(graph))
        return CUDA_INVALID_VALUE;
    fake_cuda_put_graph(graph);
    return CUDA_OK;
}

static struct cuda_node *add(struct cuda_graph *graph, const struct cuda_node *node)
{
    struct cuda_node *made = malloc(sizeof(*made));

    if (!made)
        abort();
    *made = *node;
    made->next = NULL;
    *graph->last = made;
    graph->last = &made->next;
    return made;
}

static struct cuda_node *last_added;

unsigned fake_cuda_graph_alloc(struct cuda_graph *graph, int device, size_t size,
                               unsigned long long *addr)
{
    struct cuda_node made = {.device = device, .id = fake_cuda_id()};

    made.size = (size + fake_page() - 1) & ~(fake_page() - 1);
    made.addr = fake_reserve(device, made.size, 0);
    if (!made.addr)
        return CUDA_OUT_OF_MEMORY;
    last_added = add(graph, &made);
    *addr = made.addr;
    return CUDA_OK;
}

unsigned cuGraphAddMemAllocNode(struct cuda_node **node, struct cuda_graph *graph,
                                struct cuda_node *const *after, size_t count,
                                struct cuda_alloc_node *params)
{
    unsigned result;

    ENTER();
    if (!node || !is_graph(graph) || !params || !params->size ||
        params->pool.type != CUDA_MEMORY_PINNED || params->pool.handle_types ||
        params->pool.location.type != CUDA_LOCATION_DEVICE ||
        !fake_cuda_device(params->pool.location.id))
        return CUDA_INVALID_VALUE;
    result = fake_cuda_graph_alloc(graph, params->pool.location.id, params->size, &params->addr);
    if (!result)
        *node = last_added;
    return result;
}

/* Only what a node allocates can be freed by one. */
static bool is_a_nodes(uint64_t addr)
{
    for (const struct cuda_graph *graph = graphs; graph; graph = graph->next)
        for (const struct cuda_node *node = graph->nodes; node; node = node->next)
            if (!node->frees && node->addr == addr)
                return true;
    return false;
}

unsigned fake_cuda_graph_free(struct cuda_graph *graph, uint64_t addr)
{
    if (!is_a_nodes(addr))
        return CUDA_INVALID_VALUE;
    last_added = add(graph, &(struct cuda_node){.frees = true, .addr = addr});
    return CUDA_OK;
}

unsigned cuGraphAddMemFreeNode(struct cuda_node **node, struct cuda_graph *graph,
                               struct cuda_node *const *after, size_t count,
                               unsigned long long addr)
{
    ENTER();
    if (!node || !is_graph(graph) || fake_cuda_graph_free(graph, addr))
        return CUDA_INVALID_VALUE;
    *node = last_added;
    return CUDA_OK;
}

/* ---- launches ---------------------------------------------------------------------------- */

unsigned cuGraphInstantiateWithFlags(struct cuda_graph_exec **exec, struct cuda_graph *graph,
                                     unsigned long long flags)
{
    ENTER();
    if (!exec || !is_graph(graph) || flags & ~(unsigned long long)CUDA_GRAPH_AUTO_FREE)
        return CUDA_INVALID_VALUE;
    *exec = malloc(sizeof(**exec));
    if (!*exec)
        abort();
    (*exec)->graph = graph;
    (*exec)->auto_free = flags;
    graph->users++;
    return CUDA_OK;
}

unsigned cuGraphExecDestroy(struct cuda_graph_exec *exec)
{
    ENTER();
    if (!exec)
        return CUDA_INVALID_VALUE;
    fake_cuda_put_graph(exec->graph);
    free(exec);
    return CUDA_OK;
}

/* Bytes of a device that launches have allocated. */
static uint64_t used(int device)
{
    uint64_t sum = 0;

    for (const struct cuda_graph *graph = graphs; graph; graph = graph->next)
        for (const struct cuda_node *node = graph->nodes; node; node = node->next)
            if (!node->frees && node->device == device && fake_cuda_memory(node->addr))
                sum += node->size;
    return sum;
}

static void reserve(int device)
{
    uint64_t bytes = used(device);

    if (reserved[device] < bytes)
        reserved[device] = bytes;
}

static unsigned run_alloc(struct cuda_node *node, struct cuda_context *context, bool auto_free)
{
    struct memory *made = fake_cuda_memory(node->addr);
    struct fake_block *block;

    if (made && !auto_free)
        return CUDA_INVALID_VALUE; /* not freed since the last launch */
    if (made)
        fake_cuda_leave_memory(made);
    block = fake_block_new(node->device, node->size);
    if (!block || !fake_map(node->addr, node->size, block, 0))
        return CUDA_OUT_OF_MEMORY;
    fake_block_put(block); /* the mapping holds it */
    made = fake_cuda_enter_memory(MEMORY_POOL, node->addr, 0, node->size, context);
    made->device = node->device;
    made->pool = &graph_pool;
    made->context = NULL;
    made->of_graph = true;
    node->id = made->id = node->id ? node->id : made->id;
    reserve(node->device);
    return CUDA_OK;
}

static unsigned run_free(const struct cuda_node *node)
{
    struct memory *m = fake_cuda_memory(node->addr);

    if (!m)
        return CUDA_INVALID_VALUE;
    fake_cuda_leave_memory(m);
    return CUDA_OK;
}

unsigned cuGraphLaunch(struct cuda_graph_exec *exec, struct cuda_stream *stream)
{
    struct cuda_context *context = NULL;
    unsigned result;

    ENTER();
    result = fake_cuda_context(&context);
    if (!exec || !fake_cuda_is_stream(stream))
        return CUDA_INVALID_VALUE;
    if (!result)
        result = fake_cuda_use(stream, NULL); /* a graph in a graph is not simulated */
    for (struct cuda_node *node = exec->graph->nodes; !result && node; node = node->next)
        result = node->frees ? run_free(node) : run_alloc(node, context, exec->auto_free);
    return result;
}

/* ---- what is reserved -------------------------------------------------------------------- */

/* The most that there was is not kept. */
unsigned cuDeviceGetGraphMemAttribute(int device, unsigned attribute, void *value)
{
    ENTER();
    if (!fake_cuda_device(device))
        return CUDA_INVALID_DEVICE;
    if (!value || attribute > CUDA_GRAPH_MEM_RESERVED_HIGH)
        return CUDA_INVALID_VALUE;
    *(uint64_t *)value = attribute < CUDA_GRAPH_MEM_RESERVED ? used(device) : reserved[device];
    return CUDA_OK;
}

unsigned cuDeviceGraphMemTrim(int device)
{
    ENTER();
    if (!fake_cuda_device(device))
        return CUDA_INVALID_DEVICE;
    reserved[device] = used(device);
    return CUDA_OK;
}
