/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Memory in one piece of the rarer kinds: of another device or context, of the host, of a pool.
 */
#include "tests/gpu/cuda/driver.h"

#include <sys/mman.h>

#define MIB 1048576ul

/* ---- host memory ------------------------------------------------------------------------ */

/* Write-combined memory has two addresses for the same bytes; both resolve to the CPU's address. */
TEST(resolve__device_address_of_host_memory__canonical)
{
    struct bench bench = bench_begin();
    unsigned long long device = 0;
    struct hmem_range range;
    void *host = NULL;

    CU(cu.alloc_host(&host, MIB, CUDA_HOSTALLOC_WRITECOMBINED));
    CU(cu.host_device_pointer(&device, host, 0));
    if (cu.fake)
        assert_true(device != (uintptr_t)host);
    assert_ok(bench_resolve(&bench, device + 5, 10, &range));
    assert_int_equal(range.kind, HMREG_MEM_HOST_PINNED);
    assert_int_equal(range.host_addr, (uintptr_t)host + 5);
    assert_int_equal(range.alloc_base, device);
    assert_ok(bench_resolve(&bench, (uintptr_t)host + 5, 10, &range));
    assert_int_equal(range.host_addr, (uintptr_t)host + 5);
    assert_int_equal(range.identity, identity_of(&bench, device, 1));
    CU(cu.free_host(host));
}

/* Its end is the driver's, unlike that of memory which the program has registered. On a thread
 * without a context too. */
TEST(resolve__host_memory__allocated_or_registered)
{
    struct bench bench = bench_begin();
    char *memory = test_map(MIB);
    struct hmem_range range;
    void *host = NULL;

    CU(cu.alloc_host(&host, MIB, 0));
    CU(cu.host_register(memory, MIB, 0));
    for (int i = 0; i < 2; i++) {
        assert_ok(bench_resolve(&bench, (uintptr_t)host + 5, 10, &range));
        assert_true(range.allocated_if_unnamed);
        assert_false(range.allocated);
        assert_ok(bench_resolve(&bench, (uintptr_t)memory + 5, 10, &range));
        assert_false(range.allocated_if_unnamed);
        assert_false(range.allocated);
        if (!i)
            CU(cu.context_set(NULL));
    }
    CU(cu.context_set(bench.context));
    CU(cu.host_unregister(memory));
    CU(cu.free_host(host));
    munmap(memory, MIB);
}

/* ---- pools ------------------------------------------------------------------------------ */

struct other_thread {
    const struct bench *bench;
    uint64_t addr;
    size_t len;
    int inside, beyond;
    struct hmem_range range;
};

static void *resolve_there(void *arg)
{
    struct other_thread *there = arg;
    struct hmem_range ignored;

    there->inside = bench_resolve(there->bench, there->addr, there->len, &there->range);
    there->beyond = bench_resolve(there->bench, there->addr, there->len + 1, &ignored);
    return NULL;
}

/* Pool memory belongs to no context. A thread without one retains the primary context to query the
 * bounds; if that is inactive too, both ends are compared instead. */
TEST(resolve__pool_memory__on_a_thread_without_context)
{
    struct bench bench = bench_begin();
    struct other_thread there = {.bench = &bench, .len = MIB};
    struct cuda_context *created = NULL;
    unsigned long long addr = 0;

    CU(cu.context_create(&created, 0, 0));
    CU(cu.alloc_async(&addr, MIB, NULL));
    CU(cu.stream_wait(NULL));
    there.addr = addr;
    test_on_a_thread(resolve_there, &there);
    assert_int_equal(there.inside, 0);
    assert_int_equal(there.range.alloc_len, MIB);
    assert_int_equal(there.beyond, -ERANGE);
    CU(cu.free_async(addr, NULL));
    CU(cu.stream_wait(NULL));
    CU(cu.context_pop(NULL));
    CU(cu.context_destroy(created));
}

TEST(resolve__pool_memory__no_context_anywhere)
{
    struct other_thread there = {.len = MIB};
    struct cuda_context *created = NULL;
    unsigned long long addr = 0;
    struct bench bench = {0};

    driver_need_fake();
    bench.hmem = vendor_open();
    CU(cu.context_create(&created, 0, 0));
    CU(cu.alloc_async(&addr, MIB, NULL));
    there.bench = &bench;
    there.addr = addr;
    test_on_a_thread(resolve_there, &there);
    assert_int_equal(there.inside, 0);
    assert_int_equal(there.range.alloc_base, addr);
    assert_int_equal(there.beyond, -ERANGE);
    assert_int_equal(cu.contexts(), 1);
    CU(cu.free_async(addr, NULL));
    CU(cu.context_destroy(created));
    hmem_cuda_ops.close(bench.hmem);
}

TEST_MAIN()
