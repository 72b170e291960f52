/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Calls that end memory, and gets meanwhile: the driver may give the address to another thread's
 * memory before the call returns, and another thread may get the memory after the call has begun.
 * For each way in which memory ends, no region of the older memory is ever found afterwards.
 */
#include "core/patch/entry_hook.h"
#include "tests/gpu/cuda/peer.h"
#include "tests/support/queries.h"

#define BYTES 100000

static struct peer peer;
static uint64_t reserved; /* for mappings */
static struct cuda_context *context;
static struct cuda_green *green;
static struct cuda_module *module;
static struct cuda_library *library;

/* ---- ways in which memory ends ------------------------------------------------------------- */

struct way {
    const char *call; /* of the driver */
    uint64_t (*make)(void);
    void (*end)(uint64_t addr);
    int device;   /* whose context is needed */
    bool on_host; /* registered by its address: a stale region has the bytes too */
};

static uint64_t make_plain(void)
{
    return cu_alloc(BYTES);
}

static void free_plain(uint64_t addr)
{
    CU(cu.free(addr));
}

static void free_in_order(uint64_t addr)
{
    CU(cu.free_async(addr, NULL));
}

static uint64_t make_pooled(void)
{
    unsigned long long addr = 0;

    CU(cu.alloc_async(&addr, BYTES, NULL));
    return addr;
}

static uint64_t make_managed(void)
{
    unsigned long long addr = 0;

    CU(cu.alloc_managed(&addr, BYTES, CUDA_ATTACH_GLOBAL));
    return addr;
}

static uint64_t make_pinned(void)
{
    void *addr = NULL;

    CU(cu.alloc_host(&addr, BYTES, 0));
    return (uintptr_t)addr;
}

static void free_pinned(uint64_t addr)
{
    CU(cu.free_host(as_pointer(addr)));
}

static uint64_t make_mapping(void)
{
    struct cuda_memory_prop prop = prop_on(0);

    cu_map(reserved, 2 * cu_granule(), &prop);
    return reserved;
}

static void unmap(uint64_t addr)
{
    CU(cu.unmap(addr, 2 * cu_granule()));
}

static uint64_t make_in_a_context(void)
{
    uint64_t addr;

    CU(cu.context_create(&context, 0, 0));
    addr = cu_alloc(BYTES);
    CU(cu.context_pop(NULL));
    return addr;
}

static void destroy_context(uint64_t addr)
{
    CU(cu.context_destroy(context));
}

static uint64_t make_in_a_green_context(void)
{
    uint64_t addr;

    green = cu_green(1, &context);
    CU(cu.context_push(context));
    addr = cu_alloc(BYTES);
    CU(cu.context_pop(NULL));
    return addr;
}

static void destroy_green_context(uint64_t addr)
{
    CU(cu.green_destroy(green));
}

static uint64_t make_in_a_primary_context(void)
{
    uint64_t addr;

    CU(cu.primary_retain(&context, 1));
    CU(cu.context_push(context));
    addr = cu_alloc(BYTES);
    CU(cu.context_pop(NULL));
    return addr;
}

static void release_primary_context(uint64_t addr)
{
    CU(cu.primary_release(1));
}

static uint64_t make_variable(void)
{
    unsigned long long addr = 0;

    module = cu_module(false, &addr);
    return addr;
}

static uint64_t make_managed_variable(void)
{
    unsigned long long addr = 0;

    module = cu_module(true, &addr);
    return addr;
}

static void unload_module(uint64_t addr)
{
    CU(cu.module_unload(module));
}

static uint64_t make_variable_of_a_library(void)
{
    unsigned long long addr = 0;

    library = cu_library(false, &addr);
    return addr;
}

static uint64_t make_managed_variable_of_a_library(void)
{
    unsigned long long addr = 0;

    library = cu_library(true, &addr);
    return addr;
}

static void unload_library(uint64_t addr)
{
    CU(cu.library_unload(library));
}

static uint64_t make_external(void)
{
    return cu_external(BYTES);
}

static const struct way ways[] = {
    {"cuMemFree_v2", make_plain, free_plain, 0, false},
    {"cuMemFreeAsync", make_plain, free_in_order, 0, false},
    {"cuMemFreeAsync", make_pooled, free_in_order, 0, false},
    {"cuMemFree_v2", make_managed, free_plain, 0, true},
    {"cuMemFreeHost", make_pinned, free_pinned, 0, true},
    {"cuMemUnmap", make_mapping, unmap, 0, false},
    {"cuCtxDestroy_v2", make_in_a_context, destroy_context, 0, false},
    {"cuGreenCtxDestroy", make_in_a_green_context, destroy_green_context, 1, false},
    {"cuDevicePrimaryCtxRelease_v2", make_in_a_primary_context, release_primary_context, 1, false},
    {"cuModuleUnload", make_variable, unload_module, 0, false},
    {"cuModuleUnload", make_managed_variable, unload_module, 0, true},
    {"cuLibraryUnload", make_variable_of_a_library, unload_library, 0, false},
    {"cuLibraryUnload", make_managed_variable_of_a_library, unload_library, 0, true},
    {"cuMemFree_v2", make_external, free_plain, 0, false},
};

/* ---- another thread, while the call runs ---------------------------------------------------- */

static const struct way *way; /* being tested */
static uint64_t addr;         /* of its memory */
static unsigned char value;   /* written last */
static void *(*meanwhile)(void *);
static bool at_end; /* it runs before the call returns, else before it does anything */
static _Thread_local bool armed;

static void run_meanwhile(const char *call, bool ended)
{
    if (!armed || ended != at_end || strcmp(call, way->call) != 0)
        return;
    armed = false;
    test_on_a_thread(meanwhile, NULL);
}

static unsigned long long registrations(void)
{
    return test_stats_of(peer.domain).misses + test_stats_of(peer.domain).uncached;
}

/* Memory that was not registered before is registered now. */
static void write_to_new_memory(void)
{
    unsigned long long before = registrations();

    if (way->on_host) {
        struct hmreg_mr *mr = NULL;

        assert_ok(hmreg_mr_get(peer.domain, as_pointer(addr), BYTES, HMREG_ACCESS_REMOTE, &mr));
        hmreg_mr_put(mr);
    } else {
        peer_write(&peer, addr, BYTES, ++value);
    }
    assert_true(registrations() > before);
}

/* The context that the way's memory is in must not be current when it ends. */
static void with_a_context(void (*run)(void))
{
    CU(cu.context_push(way->device ? context : peer.bench.context));
    run();
    CU(cu.context_pop(NULL));
}

static void make(void)
{
    uint64_t before = addr;

    CU(cu.context_push(peer.bench.context));
    addr = way->make();
    CU(cu.context_pop(NULL));
    assert_true(!before || addr == before);
}

static void write_again(void)
{
    if (!way->on_host)
        peer_write(&peer, addr, BYTES, ++value);
}

static void end(bool arm)
{
    armed = arm;
    way->end(addr);
    assert_false(armed);
}

static void run_ways(void (*run)(void))
{
    peer = peer_begin();
    driver_need_devices(2);
    if (!cu.green_create)
        test_skip("this driver has no green contexts");
    reserved = cu_reserve(2 * cu_granule());
    cu.around(run_meanwhile);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        way = &ways[i];
        addr = 0;
        CU(cu.context_wait()); /* pools keep nothing from here on */
        run();
    }
    cu.around(NULL);
    CU(cu.unreserve(reserved, 2 * cu_granule()));
    peer_end(&peer);
}

/* ---- cases ---------------------------------------------------------------------------------- */

static void *take_the_address(void *arg)
{
    make();
    with_a_context(write_to_new_memory);
    return NULL;
}

static void end_with_a_successor(void)
{
    meanwhile = take_the_address;
    at_end = true;
    make();
    with_a_context(write_to_new_memory);
    end(true);
    with_a_context(write_again);
    end(false);
}

TEST(end__address_is_reused_before_the_call_returns__the_new_memory)
{
    run_ways(end_with_a_successor);
}

static void get_and_put(void)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get(peer.domain, as_pointer(addr), BYTES, HMREG_ACCESS_REMOTE, &mr));
    hmreg_mr_put(mr);
}

static void *get_what_ends(void *arg)
{
    with_a_context(get_and_put);
    return NULL;
}

static void end_after_a_get(void)
{
    meanwhile = get_what_ends;
    at_end = false;
    make();
    end(true);
    make();
    with_a_context(write_to_new_memory);
    end(false);
}

TEST(end__the_memory_is_got_after_the_call_began__the_new_memory)
{
    run_ways(end_after_a_get);
}

TEST_MAIN()
