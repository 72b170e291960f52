/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * CUDA memory's addresses used again under the cache.
 */
#include "tests/gpu/cuda/driver.h"
#include "tests/gpu/reuse.h"

static void *alloc_on(int device, size_t len)
{
    return as_pointer(cu_alloc(len)); /* on the current context's */
}

static void free_it(void *addr)
{
    CU(cu.free((uintptr_t)addr));
}

static const struct reuse cuda = {HMREG_IFACE_CUDA, alloc_on, free_it};

static void reuse__addresses__never_stale(void **state)
{
    struct bench bench;

    driver_need_fake(); /* a real device's memory cannot be mapped for the CPU */
    bench = bench_begin();
    reuse_addresses(&cuda, 2000);
    bench_end(&bench);
}

static void reuse__while_a_region_is_held__never_stale(void **state)
{
    struct bench bench;

    driver_need_fake();
    bench = bench_begin();
    reuse_held(&cuda, 200);
    bench_end(&bench);
}

TEST_MAIN(TEST(reuse__addresses__never_stale), TEST(reuse__while_a_region_is_held__never_stale))
