/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Reused addresses of CUDA's rarer kinds of memory under the cache.
 */
#include "tests/gpu/cuda/driver.h"
#include "tests/gpu/reuse.h"

#include <sys/mman.h>

/* ---- virtual memory: one reservation, mapped repeatedly ---------------------------------- */

#define RESERVED 8

static struct {
    uint64_t addr;
    size_t granule;
    bool mapped[RESERVED];
} reserved;

static void *map_somewhere(int device, size_t len)
{
    struct cuda_memory_prop prop = prop_on(0);
    unsigned at = 0;

    while (reserved.mapped[at])
        at++;
    reserved.mapped[at] = true;
    cu_map(reserved.addr + at * reserved.granule, reserved.granule, &prop);
    return as_pointer(reserved.addr + at * reserved.granule);
}

static void unmap_it(void *addr)
{
    CU(cu.unmap((uintptr_t)addr, reserved.granule));
    reserved.mapped[((uintptr_t)addr - reserved.addr) / reserved.granule] = false;
}

TEST(reuse__mappings__never_stale)
{
    static const struct reuse mappings = {HMREG_IFACE_CUDA, map_somewhere, unmap_it, false};
    struct bench bench;

    driver_need_fake();
    bench = bench_begin();
    reserved.granule = cu_granule();
    reserved.addr = cu_reserve(RESERVED * reserved.granule);
    reuse_addresses(&mappings, 100000);
    CU(cu.unreserve(reserved.addr, RESERVED * reserved.granule));
}

/* ---- a stream's pool --------------------------------------------------------------------- */

static void *alloc_from_pool(int device, size_t len)
{
    unsigned long long addr = 0;

    CU(cu.alloc_async(&addr, len, NULL));
    CU(cu.stream_wait(NULL));
    return as_pointer(addr);
}

static void free_to_pool(void *addr)
{
    CU(cu.free_async((uintptr_t)addr, NULL));
    CU(cu.stream_wait(NULL));
}

TEST(reuse__pool__never_stale)
{
    static const struct reuse pool = {HMREG_IFACE_CUDA, alloc_from_pool, free_to_pool, false};
    struct bench bench;

    driver_need_fake();
    test_setenv("HMREG_FAKE_CUDA_POOL_EXPORT", "1");
    bench = bench_begin();
    reuse_addresses(&pool, 100000);
    bench_end(&bench);
}

/* ---- host memory ------------------------------------------------------------------------- */

/* The process's own memory, registered: sometimes with other pages, sometimes with the same. */
#define REGISTERED 16384

static char *place;
static unsigned registrations;

static void *register_anew(int device, size_t len)
{
    if (registrations++ % 4)
        assert_ptr_equal(mmap(place, REGISTERED, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                         place);
    CU(cu.host_register(place, len, 0));
    return place;
}

static void unregister_it(void *addr)
{
    CU(cu.host_unregister(addr));
    if (registrations % 4 == 1)
        assert_int_equal(madvise(place, REGISTERED, MADV_DONTNEED), 0);
    if (registrations % 4 == 2)
        assert_int_equal(munmap(place, REGISTERED), 0);
}

TEST(reuse__registered_host_memory__never_stale)
{
    static const struct reuse host = {HMREG_IFACE_CUDA, register_anew, unregister_it, false};
    struct bench bench;

    driver_need_fake();
    bench = bench_begin();
    registrations = 0;
    place = test_map(REGISTERED);
    reuse_host_addresses(&host, 100000);
    munmap(place, REGISTERED);
}

TEST_MAIN()
