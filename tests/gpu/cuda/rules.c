/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The driver's documented rules for the rarer kinds of memory: the simulated driver follows them,
 * and the real one is compared with them. More are in strict.c.
 */
#include "tests/gpu/cuda/driver.h"

#include <sys/mman.h>

#define BYTES 100000

/* ---- pools ------------------------------------------------------------------------------ */

static struct cuda_pool_prop pool_prop(unsigned handle_types)
{
    return (struct cuda_pool_prop){.type = CUDA_MEMORY_PINNED,
                                   .handle_types = handle_types,
                                   .location = {CUDA_LOCATION_DEVICE, 0}};
}

TEST(pool__handle_types__of_its_memory)
{
    for (unsigned types = 0; types <= CUDA_HANDLE_POSIX_FD; types++) {
        struct cuda_pool_prop prop = pool_prop(types);
        struct bench bench = bench_begin();
        unsigned long long addr;
        struct cuda_pool *pool = cu_pool(&prop, BYTES, &addr);
        int fd = -1;

        assert_int_equal(cu.pool_export(&fd, pool, CUDA_HANDLE_POSIX_FD, 0) == CUDA_OK, types);
        assert_int_equal(fd >= 0, types);
        if (fd >= 0)
            close(fd);
        CU(cu.free_async(addr, NULL));
        CU(cu.stream_wait(NULL));
        CU(cu.pool_destroy(pool));
        bench_end(&bench);
    }
}

TEST(pool__destroyed_first__its_memory_stays)
{
    struct cuda_pool_prop prop = pool_prop(0);
    struct bench bench = bench_begin();
    struct cuda_pool *pool = NULL;
    unsigned long long addr = 0;
    char byte = 'y', got = 0;

    CU(cu.pool_create(&pool, &prop));
    CU(cu.alloc_from_pool(&addr, BYTES, pool, NULL));
    CU(cu.stream_wait(NULL));
    CU(cu.pool_destroy(pool));
    CU(cu.copy_to_device(addr, &byte, 1));
    CU(cu.copy_to_host(&got, addr, 1));
    CU(cu.context_wait());
    assert_int_equal(got, 'y');
    CU(cu.free_async(addr, NULL));
    CU(cu.stream_wait(NULL));
}

/* ---- allocations ------------------------------------------------------------------------ */

TEST(pitch__rows__one_allocation)
{
    struct bench bench = bench_begin();
    unsigned long long addr = 0, base = 0;
    size_t pitch = 0, size = 0;

    assert_int_equal(cu.alloc_pitch(&addr, &pitch, 100, 10, 3), CUDA_INVALID_VALUE);
    CU(cu.alloc_pitch(&addr, &pitch, 100, 10, 4));
    assert_true(pitch >= 100);
    CU(cu.address_range(&base, &size, addr + 9 * pitch));
    assert_int_equal(base, addr);
    assert_true(size >= 9 * pitch + 100);
    CU(cu.free(addr));
}

TEST(ipc__handles__of_cumemalloc_and_for_others_only)
{
    struct bench bench = bench_begin();
    unsigned long long plain = cu_alloc(BYTES), pool = 0, addr = 0;
    struct cuda_ipc handle;

    CU(cu.alloc_async(&pool, BYTES, NULL));
    CU(cu.stream_wait(NULL));
    assert_true(cu.ipc_handle(&handle, pool) != CUDA_OK);
    CU(cu.ipc_handle(&handle, plain));
    assert_true(cu.ipc_open(&addr, handle, CUDA_IPC_LAZY_PEER_ACCESS) != CUDA_OK);
    CU(cu.free_async(pool, NULL));
    CU(cu.stream_wait(NULL));
    CU(cu.free(plain));
}

/* ---- access of the CPU ------------------------------------------------------------------ */

static unsigned long long access_of(unsigned long long addr, unsigned type)
{
    struct cuda_location location = {type, 0};
    unsigned long long flags = 99;

    return cu.access(&flags, &location, addr) ? 0 : flags;
}

TEST(access__host_memory__of_the_cpu_when_given)
{
    struct cuda_access access = {{CUDA_LOCATION_HOST_NUMA, 0}, CUDA_ACCESS_READWRITE};
    struct cuda_memory_prop prop = prop_on(0);
    unsigned long long addr;
    struct bench bench;
    size_t granule;

    driver_need_fake(); /* real drivers support it on some devices only */
    bench = bench_begin();
    granule = cu_granule();
    prop.location = access.location;
    addr = cu_reserve(granule);
    cu_map(addr, granule, &prop);
    assert_int_equal(access_of(addr, CUDA_LOCATION_HOST_NUMA), 0);
    CU(cu.set_access(addr, granule, &access, 1));
    assert_int_equal(access_of(addr, CUDA_LOCATION_HOST_NUMA), CUDA_ACCESS_READWRITE);
    *(char *)as_pointer(addr + 5) = 'z';
    assert_int_equal(*cu.fake->peek(addr + 5), 'z');
    CU(cu.unmap(addr, granule));
    CU(cu.unreserve(addr, granule));
}

TEST(access__device_memory__not_of_the_cpu)
{
    struct cuda_access access = {{CUDA_LOCATION_HOST_NUMA, 0}, CUDA_ACCESS_READWRITE};
    struct cuda_memory_prop prop = prop_on(0);
    struct bench bench = bench_begin();
    size_t granule = cu_granule();
    unsigned long long addr = cu_reserve(granule);

    cu_map(addr, granule, &prop);
    assert_int_equal(access_of(addr, CUDA_LOCATION_DEVICE), CUDA_ACCESS_READWRITE);
    assert_true(cu.set_access(addr, granule, &access, 1) != CUDA_OK);
    CU(cu.unmap(addr, granule));
    CU(cu.unreserve(addr, granule));
}

/* ---- contexts --------------------------------------------------------------------------- */

static void *asked_there;

static void ask_for_a_pointer(void *arg)
{
    unsigned long long *addr = arg;

    if (cu.pointer_attribute(&asked_there, CUDA_PTR_CONTEXT, *addr) == CUDA_NOT_PERMITTED)
        *addr = 0;
}

TEST(host_function__any_call__not_permitted)
{
    unsigned long long addr, asked;
    struct bench bench;

    driver_need_fake(); /* a real driver may or may not detect it */
    bench = bench_begin();
    addr = cu_alloc(BYTES);
    asked = addr;
    CU(cu.host_function(NULL, ask_for_a_pointer, &asked));
    CU(cu.stream_wait(NULL));
    assert_int_equal(asked, 0);
    CU(cu.free(addr));
}

/* By this hmreg tells what the driver allocated from what the program allocated. */
TEST(host_flags__of_registered_memory__refused)
{
    struct bench bench = bench_begin();
    char *memory = test_map(2 * BYTES);
    void *allocated = NULL;
    unsigned flags = 0;

    CU(cu.alloc_host(&allocated, BYTES, CUDA_HOSTALLOC_PORTABLE));
    CU(cu.host_flags(&flags, allocated));
    CU(cu.host_flags(&flags, (char *)allocated + BYTES - 1));
    CU(cu.host_register(memory, 2 * BYTES, 0));
    assert_int_not_equal(cu.host_flags(&flags, memory), CUDA_OK);
    assert_int_not_equal(cu.host_flags(&flags, memory + BYTES), CUDA_OK);
    CU(cu.host_unregister(memory));
    assert_int_not_equal(cu.host_flags(&flags, memory), CUDA_OK);
    CU(cu.free_host(allocated));
    munmap(memory, 2 * BYTES);
}

TEST(primary_context__reset__loses_its_memory)
{
    struct bench bench = bench_begin();
    unsigned long long addr = cu_alloc_large();
    void *context = NULL;

    CU(cu.primary_reset(0));
    assert_true(cu.pointer_attribute(&context, CUDA_PTR_CONTEXT, addr) != CUDA_OK);
    if (!cu.fake) { /* the current context is destroyed */
        CU(cu.primary_retain(&bench.context, 0));
        CU(cu.context_set(bench.context));
    }
}

/* Such a call returns a descriptor or an error. */
TEST(export__pcie_mapping__answered)
{
    struct bench bench = bench_begin();
    unsigned long long addr = cu_alloc_large();
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int fd = -1;
    unsigned result;

    if (!cu.range_handle)
        test_skip("this driver has no dmabuf export");
    result = cu.range_handle(&fd, addr, page, CUDA_RANGE_DMABUF_FD, CUDA_RANGE_FLAG_PCIE);
    assert_int_equal(fd >= 0, result == CUDA_OK);
    if (fd >= 0)
        close(fd);
    CU(cu.free(addr));
}

TEST(device__by_its_pci_address__found)
{
    struct bench bench = bench_begin();
    int device = -1;
    char id[32];

    CU(cu.device_bus_id(id, sizeof(id), 0));
    CU(cu.device_by_bus_id(&device, id));
    assert_int_equal(device, 0);
    if (!strncmp(id, "0000:", 5)) {
        device = -1;
        CU(cu.device_by_bus_id(&device, id + 5)); /* without the domain */
        assert_int_equal(device, 0);
    }
    assert_int_equal(cu.device_by_bus_id(&device, "no address"), CUDA_INVALID_VALUE);
}

TEST_MAIN()
