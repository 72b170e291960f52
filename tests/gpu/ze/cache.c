/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Level Zero memory's addresses used again under the cache.
 */
#include "tests/gpu/reuse.h"
#include "tests/gpu/ze/bench.h"

static struct app app;

static void *alloc_on(int device, size_t len)
{
    return (void *)(uintptr_t)app_alloc(&app, app.devices[device], len);
}

static void free_it(void *addr)
{
    app_free(&app, (uintptr_t)addr);
}

static const struct reuse level_zero = {HMREG_IFACE_ZE, alloc_on, free_it};

static void reuse__addresses__never_stale(void **state)
{
    app_open(&app, 0);
    reuse_addresses(&level_zero, 100000);
    app_close(&app);
}

/* Its writes take a way of some 50 us: fewer do. */
static void reuse__peer_in_another_process__never_stale(void **state)
{
    test_forks_with_threads();
    app_open(&app, 0);
    reuse_from_a_process(&level_zero, 5000);
    app_close(&app);
}

static void reuse__while_a_region_is_held__never_stale(void **state)
{
    app_open(&app, 0);
    reuse_held(&level_zero, 200);
    app_close(&app);
}

static void *alloc_on_the_host(int device, size_t len)
{
    ze_host_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    void *made = NULL;

    assert_int_equal(zeMemAllocHost(app.context, &desc, len, 0, &made), ZE_RESULT_SUCCESS);
    return made;
}

static void reuse__host_memory__never_stale(void **state)
{
    static const struct reuse host = {HMREG_IFACE_ZE, alloc_on_the_host, free_it};

    app_open(&app, 0);
    reuse_host_addresses(&host, 10000);
    app_close(&app);
}

TEST_MAIN(TEST(reuse__host_memory__never_stale), TEST(reuse__addresses__never_stale),
          TEST(reuse__peer_in_another_process__never_stale),
          TEST(reuse__while_a_region_is_held__never_stale))
