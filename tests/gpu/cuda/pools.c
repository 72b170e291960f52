/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Device memory that ends without a call that names it: a stream-ordered pool that the driver trims
 * while the program waits, memory that a graph's nodes allocate and free, variables of modules and
 * mapped graphics. Cached regions of it: what a peer writes is in the memory that is at the address
 * now.
 */
#include "core/patch/entry_hook.h"
#include "tests/gpu/cuda/peer.h"
#include "tests/support/queries.h"

#define BYTES 100000

/* ---- pools ------------------------------------------------------------------------------- */

/* The free itself ends the region: what the driver says of the memory afterwards is undefined. */
TEST(free__in_stream_order__ends_the_region_and_nothing_is_asked)
{
    struct peer fixture = peer_begin();
    unsigned long long memory = 0;
    struct hmreg_mr *mr = NULL;
    unsigned long asked, undefined = cu.undefined();

    CU(cu.alloc_async(&memory, BYTES, NULL));
    assert_ok(hmreg_mr_get(fixture.domain, as_pointer(memory), BYTES, HMREG_ACCESS_REMOTE, &mr));
    assert_int_equal(test_info_of(mr).asks, HMREG_ASKS_RUNTIME);
    assert_true(test_info_of(mr).cached);
    hmreg_mr_put(mr);
    if (entry_hooks_refusal())
        test_skip("the driver's functions cannot be hooked");
    CU(cu.free_async(memory, NULL));
    asked = cu.fake->calls("cuPointerGetAttribute") + cu.fake->calls("cuPointerGetAttributes");
    assert_ok(hmreg_domain_progress(fixture.domain));
    assert_int_equal(test_stats_of(fixture.domain).regions, 0);
    assert_int_equal(
        cu.fake->calls("cuPointerGetAttribute") + cu.fake->calls("cuPointerGetAttributes"), asked);
    assert_int_equal(cu.undefined(), undefined);
    peer_end(&fixture);
}

TEST(get__trimmed_by_the_driver__the_new_memory)
{
    struct peer fixture = peer_begin();
    unsigned long long first = 0, again = 0;

    CU(cu.alloc_async(&first, BYTES, NULL));
    peer_write(&fixture, first, BYTES, 1);
    CU(cu.free_async(first, NULL));
    CU(cu.alloc_async(&again, BYTES, NULL)); /* what the pool kept */
    assert_int_equal(again, first);
    peer_write(&fixture, again, BYTES, 2);
    CU(cu.free_async(again, NULL));
    CU(cu.context_wait()); /* the pool keeps nothing any more */
    CU(cu.alloc_async(&again, BYTES, NULL));
    assert_int_equal(again, first);
    peer_write(&fixture, again, BYTES, 3);
    assert_int_equal(test_stats_of(fixture.domain).misses, 3);
    CU(cu.free_async(again, NULL));
    peer_end(&fixture);
}

/* ---- graphs ------------------------------------------------------------------------------ */

struct graph {
    struct cuda_graph *graph;
    struct cuda_graph_exec *exec;
};

static struct graph instantiate(struct cuda_graph *graph, unsigned long long flags)
{
    struct graph made = {.graph = graph};

    CU(cu.graph_instantiate(&made.exec, graph, flags));
    return made;
}

static struct graph allocating(unsigned long long *addr, unsigned long long flags)
{
    struct cuda_alloc_node params = {.size = BYTES};
    struct cuda_graph *graph = NULL;
    struct cuda_node *node = NULL;

    params.pool.type = CUDA_MEMORY_PINNED;
    params.pool.location.type = CUDA_LOCATION_DEVICE;
    CU(cu.graph_create(&graph, 0));
    CU(cu.graph_alloc(&node, graph, NULL, 0, &params));
    *addr = params.addr;
    return instantiate(graph, flags);
}

static struct graph freeing(unsigned long long addr)
{
    struct cuda_graph *graph = NULL;
    struct cuda_node *node = NULL;

    CU(cu.graph_create(&graph, 0));
    CU(cu.graph_free(&node, graph, NULL, 0, addr));
    return instantiate(graph, 0);
}

static void destroy(const struct graph *graph)
{
    CU(cu.graph_exec_destroy(graph->exec));
    CU(cu.graph_destroy(graph->graph));
}

TEST(get__freed_by_a_graphs_node__the_new_memory)
{
    struct peer fixture = peer_begin();
    unsigned long long addr = 0, pool = 0;
    struct graph allocates = allocating(&addr, 0), frees = freeing(addr);
    struct cuda_node *node = NULL;

    for (unsigned char launch = 1; launch <= 3; launch++) {
        CU(cu.graph_launch(allocates.exec, NULL));
        peer_write(&fixture, addr, BYTES, launch);
        CU(cu.graph_launch(frees.exec, NULL));
    }
    /* no answer tells the launches apart */
    assert_int_equal(test_stats_of(fixture.domain).uncached, 6);
    CU(cu.alloc_async(&pool, BYTES, NULL)); /* of no node */
    assert_int_equal(cu.graph_free(&node, frees.graph, NULL, 0, pool), CUDA_INVALID_VALUE);
    CU(cu.free_async(pool, NULL));
    destroy(&frees);
    destroy(&allocates);
    CU(cu.graph_trim(0));
    peer_end(&fixture);
}

TEST(get__freed_by_the_next_launch__the_new_memory)
{
    struct peer fixture = peer_begin();
    unsigned long long addr = 0;
    struct graph graph = allocating(&addr, CUDA_GRAPH_AUTO_FREE);

    for (unsigned char launch = 1; launch <= 3; launch++) {
        CU(cu.graph_launch(graph.exec, NULL));
        peer_write(&fixture, addr, BYTES, launch);
    }
    assert_int_equal(test_stats_of(fixture.domain).uncached, 6);
    CU(cu.free_async(addr, NULL));
    destroy(&graph);
    CU(cu.graph_trim(0));
    peer_end(&fixture);
}

/* It looks like a graph's. */
TEST(get__memory_of_a_pool__cached_unless_memory_is_reserved_for_graphs)
{
    struct peer fixture = peer_begin();
    unsigned long long addr = 0, pool = 0;
    struct graph graph = allocating(&addr, 0);

    CU(cu.alloc_async(&pool, BYTES, NULL));
    CU(cu.graph_launch(graph.exec, NULL));
    peer_write(&fixture, pool, BYTES, 1);
    assert_int_equal(test_stats_of(fixture.domain).uncached, 2);
    CU(cu.free_async(addr, NULL));
    peer_write(&fixture, pool, BYTES, 2); /* no graph uses it now, and yet it is reserved */
    assert_int_equal(test_stats_of(fixture.domain).uncached, 4);
    CU(cu.graph_trim(0));
    peer_write(&fixture, pool, BYTES, 3);
    assert_int_equal(test_stats_of(fixture.domain).uncached, 4);
    assert_int_equal(test_stats_of(fixture.domain).hits, 1);
    CU(cu.free_async(pool, NULL));
    destroy(&graph);
    peer_end(&fixture);
}

/* ---- virtual memory ---------------------------------------------------------------------- */

/* The id of physical memory may recur, and that a region's import keeps it is not promised. */
TEST(get__of_virtual_memory_whose_end_is_not_reported__not_cached)
{
    struct cuda_memory_prop prop = prop_on(0);
    unsigned long long addr;
    struct peer fixture;
    size_t len;

    test_setenv("HMREG_DEVICE_MONITOR", "off");
    test_setenv("HMREG_FAKE_CUDA_REUSE_IDS", "1");
    fixture = peer_begin();
    len = 2 * cu_granule();
    addr = cu_reserve(len);
    for (unsigned char turn = 1; turn <= 3; turn++) {
        cu_map(addr, len, &prop);
        peer_write(&fixture, addr, BYTES, turn);
        CU(cu.unmap(addr, len));
    }
    assert_int_equal(test_stats_of(fixture.domain).uncached, 6);
    CU(cu.unreserve(addr, len));
    peer_end(&fixture);
}

/* ---- modules and graphics ---------------------------------------------------------------- */

/* A hit asks the driver whether it is the same memory. */
static void check_hit_asks(const struct peer *fixture, uint64_t addr)
{
    unsigned long before = cu.fake->calls("cuPointerGetAttribute");
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get(fixture->domain, as_pointer(addr), BYTES, HMREG_ACCESS_REMOTE, &mr));
    hmreg_mr_put(mr);
    assert_true(cu.fake->calls("cuPointerGetAttribute") > before);
}

TEST(get__variable_of_an_unloaded_module__the_new_memory)
{
    struct peer fixture = peer_begin();

    for (unsigned char round = 1; round <= 3; round++) {
        unsigned long long addr = 0, base = 0;
        struct cuda_module *module = cu_module(false, &addr);
        size_t size = 0;

        CU(cu.address_range(&base, &size, addr));
        assert_true(base < addr && base + size > addr + BYTES);
        assert_int_equal(cu.free(base), CUDA_INVALID_VALUE);
        peer_write(&fixture, addr, BYTES, round);
        check_hit_asks(&fixture, addr);
        CU(cu.module_unload(module));
        peer_write_reused(&fixture, base, size, addr, BYTES, (unsigned char)(round + 10));
    }
    assert_int_equal(test_stats_of(fixture.domain).misses, 6);
    peer_end(&fixture);
}

TEST(get__unmapped_graphics__the_new_memory)
{
    struct peer fixture = peer_begin();
    struct cuda_graphics *graphics = cu.graphics(BYTES);

    for (unsigned char round = 1; round <= 3; round++) {
        unsigned long long addr = 0;
        size_t size = 0;

        assert_int_equal(cu.graphics_pointer(&addr, &size, graphics), CUDA_NOT_MAPPED);
        CU(cu.graphics_map(1, &graphics, NULL));
        CU(cu.graphics_pointer(&addr, &size, graphics));
        assert_int_equal(size, BYTES);
        peer_write(&fixture, addr, BYTES, round);
        check_hit_asks(&fixture, addr);
        CU(cu.graphics_unmap(1, &graphics, NULL));
        peer_write_reused(&fixture, addr, BYTES, addr, BYTES, (unsigned char)(round + 10));
    }
    assert_int_equal(test_stats_of(fixture.domain).misses, 6);
    CU(cu.graphics_unregister(graphics));
    peer_end(&fixture);
}

TEST_MAIN()
