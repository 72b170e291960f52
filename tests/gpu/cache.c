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

static void *alloc_managed(int device, size_t len)
{
    return (void *)(uintptr_t)gpu.alloc(device, HMREG_MEM_MANAGED, len);
}

static void free_managed(void *addr)
{
    gpu.free((uintptr_t)addr, HMREG_MEM_MANAGED);
}

/* The CPU may be unable to map a real device's memory, so only simulated ones are tested. */
static void reuse_kind(enum hmreg_mem_kind kind, void (*check)(const struct reuse *, unsigned),
                       unsigned times)
{
    struct reuse reuse = {.iface = gpu.ops->iface, .alloc = alloc_device, .free = free_device};
    struct hmem *self;

    gpu_need_fake();
    if (kind == HMREG_MEM_HOST_PINNED)
        reuse = (struct reuse){.iface = gpu.ops->iface, .alloc = alloc_pinned, .free = free_pinned};
    if (kind == HMREG_MEM_MANAGED)
        reuse =
            (struct reuse){.iface = gpu.ops->iface, .alloc = alloc_managed, .free = free_managed};
    self = gpu.begin();
    check(&reuse, times);
    gpu.end(self);
}

static void reuse(void (*check)(const struct reuse *, unsigned), unsigned times)
{
    reuse_kind(HMREG_MEM_DEVICE, check, times);
}

TEST(reuse__addresses__never_stale)
{
    reuse(reuse_addresses, 100000);
}

/* Pinned and managed memory. The peer's bytes reach memory that is registered by its address also
 * through a stale region, so here the counters show it: each allocation is a miss and then a hit.
 */
TEST(reuse__by_address__never_stale)
{
    for (unsigned k = 1; k < gpu.kinds; k++)
        reuse_kind(gpu_kinds[k], reuse_addresses, 100000);
}

TEST(reuse__threads_free_while_others_get__never_stale)
{
    reuse(reuse_by_threads, 50000);
}

TEST(reuse__while_a_region_is_held__never_stale)
{
    reuse(reuse_held, 200);
}

TEST(reuse__host_memory__never_stale)
{
    reuse_kind(HMREG_MEM_HOST_PINNED, reuse_host_addresses, 10000);
}

TEST_MAIN()
