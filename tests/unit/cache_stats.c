/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The cache's counters besides hits and misses: causes of evictions, failures, high-water marks; of
 * a domain and of each cache. stats_page.c has durations, and how the counters of threads add up.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/inside.h"
#include "tests/support/vendors.h"

#define LEN 4096

static char memory[64][LEN];

static void open_fixture(uint64_t max_regions)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .max_regions = max_regions};

    vendors_reset();
    fixture_open(HMREG_MONITOR_IMPORT, &config);
}

static void touch(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        fixture_key(memory[i], LEN);
}

static struct hmreg_stats stats_of(enum hmreg_iface iface, int device)
{
    fixture_stats(); /* the counts of all are complete */
    return inside_stats_of(fixture.domain, iface, device);
}

/* ---- counts ----------------------------------------------------------------------------- */

static void fail_reg(int code, int times)
{
    atomic_store(&counter.reg_code, code);
    atomic_store(&counter.reg_times, times);
}

TEST(failures__for_good__counted_once_whatever_was_tried)
{
    struct hmreg_mr *mr;

    open_fixture(0);
    touch(3);
    fail_reg(-EIO, 1);
    assert_int_equal(hmreg_mr_get(fixture.domain, memory[9], LEN, HMREG_SEND, &mr), -EIO);
    assert_int_equal(fixture_stats().failures, 1);
    fail_reg(-ENOMEM, -1); /* evicts a page's worth, tries three times */
    assert_int_equal(hmreg_mr_get(fixture.domain, memory[9], LEN, HMREG_SEND, &mr), -ENOMEM);
    assert_int_equal(fixture_stats().failures, 2);
    assert_int_equal(fixture_stats().evicted_memory, 2);
    assert_ok(hmreg_domain_flush(fixture.domain));
    fail_reg(-ENOMEM, 1); /* nothing to evict; then one region */
    assert_int_equal(hmreg_mr_get(fixture.domain, memory[9], LEN, HMREG_SEND, &mr), -ENOMEM);
    touch(1);
    fail_reg(-ENOMEM, 1);
    touch(2);
    assert_int_equal(fixture_stats().failures, 3);
}

/* ---- one cache -------------------------------------------------------------------------- */

TEST(cache_stats__each_cache__its_own_and_the_domain_the_sum)
{
    open_fixture(0);
    vendor_claim(HMREG_IFACE_CUDA, memory[10], LEN, HMREG_MEM_DEVICE, 1);
    vendor_claim(HMREG_IFACE_ZE, memory[11], LEN, HMREG_MEM_HOST_PINNED, 0);
    touch(12);
    fixture_key(memory[10], LEN);
    assert_int_equal(stats_of(HMREG_IFACE_SYSTEM, -1).misses, 10);
    assert_int_equal(stats_of(HMREG_IFACE_CUDA, 1).misses, 1);
    assert_int_equal(stats_of(HMREG_IFACE_CUDA, 1).hits, 1);
    assert_int_equal(stats_of(HMREG_IFACE_CUDA, 0).misses, 0);
    assert_int_equal(stats_of(HMREG_IFACE_ZE, -1).misses, 1); /* whichever device pinned it */
    assert_int_equal(stats_of(HMREG_IFACE_ZE, 0).misses, 0);
    assert_int_equal(fixture_stats().misses, 12);
    assert_int_equal(fixture_stats().regions_max, 12);
}

TEST_MAIN()
