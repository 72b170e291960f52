/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * ROCm memory's addresses used again under the cache.
 */
#include "tests/gpu/reuse.h"
#include "tests/gpu/rocr/app.h"

static void *alloc_on(int device, size_t len)
{
    return app_alloc((unsigned)device, len);
}

static const struct reuse rocr = {HMREG_IFACE_ROCR, alloc_on, app_free};

static void reuse__addresses__never_stale(void **state)
{
    app_start();
    reuse_addresses(&rocr, 100000);
    app_stop();
}

/* Its writes take a way of some 50 us: fewer do. */
static void reuse__peer_in_another_process__never_stale(void **state)
{
    test_forks_with_threads();
    app_start();
    reuse_from_a_process(&rocr, 5000);
    app_stop();
}

static void reuse__while_a_region_is_held__never_stale(void **state)
{
    app_start();
    reuse_held(&rocr, 200);
    app_stop();
}

static void *alloc_on_the_host(int device, size_t len)
{
    return app_alloc_host(len);
}

static void reuse__host_memory__never_stale(void **state)
{
    static const struct reuse host = {HMREG_IFACE_ROCR, alloc_on_the_host, app_free};

    app_start();
    reuse_host_addresses(&host, 10000);
    app_stop();
}

TEST_MAIN(TEST(reuse__host_memory__never_stale), TEST(reuse__addresses__never_stale),
          TEST(reuse__peer_in_another_process__never_stale),
          TEST(reuse__while_a_region_is_held__never_stale))
