/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Reused addresses of a vendor's memory under the cache; see reuse.h.
 */
#include "tests/gpu/gpu.h"
#include "tests/gpu/reuse.h"

static void *alloc_device(int device, size_t len)
{
    return (void *)(uintptr_t)gpu.alloc(device, HMREG_MEM_DEVICE, len);
}

static void free_device(void *addr)
{
    gpu.free((uintptr_t)addr, HMREG_MEM_DEVICE);
}

static void *alloc_pinned(int device, size_t len)
{
    return (void *)(uintptr_t)gpu.alloc(device, HMREG_MEM_HOST_PINNED, len);
}

static void free_pinned(void *addr)
{
    gpu.free((uintptr_t)addr, HMREG_MEM_HOST_PINNED);
}

/* The CPU may be unable to map a real device's memory, so only simulated ones are tested. */
static void reuse(void (*check)(const struct reuse *, unsigned), unsigned times)
{
    const struct reuse device = {gpu.ops->iface, alloc_device, free_device};
    struct hmem *self;

    gpu_need_fake();
    self = gpu.begin();
    check(&device, times);
    gpu.end(self);
}

static void reuse__addresses__never_stale(void **state)
{
    reuse(reuse_addresses, 100000);
}

static void reuse__peer_in_another_process__never_stale(void **state)
{
    test_forks_with_threads();
    reuse(reuse_from_a_process, 100000);
}

static void reuse__threads_free_while_others_get__never_stale(void **state)
{
    reuse(reuse_by_threads, 100000);
}

static void reuse__while_a_region_is_held__never_stale(void **state)
{
    reuse(reuse_held, 200);
}

static void reuse__host_memory__never_stale(void **state)
{
    const struct reuse host = {gpu.ops->iface, alloc_pinned, free_pinned};
    struct hmem *self;

    gpu_need_fake();
    self = gpu.begin();
    reuse_host_addresses(&host, 10000);
    gpu.end(self);
}

TEST_MAIN(TEST(reuse__host_memory__never_stale), TEST(reuse__addresses__never_stale),
          TEST(reuse__peer_in_another_process__never_stale),
          TEST(reuse__threads_free_while_others_get__never_stale),
          TEST(reuse__while_a_region_is_held__never_stale))
