/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The cache's counters besides hits and misses: causes of evictions, failures, high-water marks,
 * durations of registrations; of a domain and of each cache.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/vendors.h"

#include "core/cache/cache_set.h"

#include "core/stats/cache_stats.h"

#include <time.h>

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
    struct hmreg_stats stats = {.size = sizeof(stats)};

    fixture_stats(); /* the counts of all are complete */
    cache_stats_sum(&cache_set_at(fixture.domain->caches, iface, device)->stats, &stats);
    return stats;
}

/* Counters on no stats page. */
static void open_counters(struct cache_stats *counters)
{
    static struct stats_page none;

    cache_stats_open(counters, &none, NULL, HMREG_IFACE_SYSTEM, -1);
}

static uint64_t timed(const struct hmreg_stats *stats)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < HMREG_STATS_TIMES; i++)
        sum += stats->reg_times[i];
    return sum;
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

/* ---- sums ------------------------------------------------------------------------------- */

TEST(sum__two_caches__each_counter)
{
    struct hmreg_stats sum = {0};
    struct cache_stats counters;

    open_counters(&counters);
    for (int n = 0; n < STATS_COUNTS; n++)
        cache_stats_set(&counters, n, UINT64_C(1) << n);
    for (unsigned i = 0; i < HMREG_STATS_TIMES; i++)
        counters.block->times[i] = i;
    cache_stats_sum(&counters, &sum);
    cache_stats_set(&counters, STATS_REG_LONGEST_NS, 3);
    cache_stats_sum(&counters, &sum);
    assert_int_equal(sum.caches, 2);
    assert_int_equal(sum.shown, 0);
    assert_int_equal(sum.hits, 2 << STATS_HITS);
    assert_int_equal(sum.misses, 2 << STATS_MISSES);
    assert_int_equal(sum.uncached, 2 << STATS_UNCACHED);
    assert_int_equal(sum.failures, 2 << STATS_FAILURES);
    assert_int_equal(sum.evicted_limit, 2 << STATS_EVICTED_LIMIT);
    assert_int_equal(sum.evicted_memory, 2 << STATS_EVICTED_MEMORY);
    assert_int_equal(sum.evicted_room, 2 << STATS_EVICTED_ROOM);
    assert_int_equal(sum.evicted_keys, 2 << STATS_EVICTED_KEYS);
    assert_int_equal(sum.evictions,
                     sum.evicted_limit + sum.evicted_memory + sum.evicted_room + sum.evicted_keys);
    assert_int_equal(sum.invalidations, 2 << STATS_INVALIDATIONS);
    assert_int_equal(sum.waits, 2 << STATS_WAITS);
    assert_int_equal(sum.waiting, 2 << STATS_WAITING);
    assert_int_equal(sum.reg_ns, 2 << STATS_REG_NS);
    assert_int_equal(sum.reg_longest_ns, 1 << STATS_REG_LONGEST_NS);
    assert_int_equal(sum.regions_max, 2 << STATS_REGIONS_MAX);
    assert_int_equal(sum.bytes_max, 2 << STATS_BYTES_MAX);
    assert_int_equal(sum.regions, 2 << STATS_REGIONS);
    assert_int_equal(sum.bytes, 2 << STATS_BYTES);
    assert_int_equal(sum.retired, 2 << STATS_RETIRED);
    assert_int_equal(sum.wrong_puts, 2 << STATS_WRONG_PUTS);
    for (unsigned i = 0; i < HMREG_STATS_TIMES; i++)
        assert_int_equal(sum.reg_times[i], 2 * i);
    cache_stats_close(&counters);
}

/* ---- time ------------------------------------------------------------------------------- */

static void sleep_two_ms(const struct provider_request *request)
{
    const struct timespec moment = {.tv_nsec = 2000000};

    nanosleep(&moment, NULL);
}

TEST(times__slow_registrations__each_is_timed)
{
    struct hmreg_stats stats;

    open_fixture(0);
    counter.reg_hook = sleep_two_ms;
    touch(5);
    touch(5);
    stats = fixture_stats();
    assert_int_equal(timed(&stats), 5);
    for (unsigned i = 0; i < 20; i++) /* 2^20 ns are less than 2 ms */
        assert_int_equal(stats.reg_times[i], 0);
    assert_true(stats.reg_ns >= 5 * 2000000);
    assert_in_range(stats.reg_longest_ns, 2000000, stats.reg_ns);
}

TEST(times__powers_of_two__in_their_buckets)
{
    struct hmreg_stats stats = {0};
    struct cache_stats counters;

    open_counters(&counters);
    cache_stats_took(&counters, 0);
    cache_stats_took(&counters, 1);
    cache_stats_took(&counters, 4095);
    cache_stats_took(&counters, 4096);
    cache_stats_took(&counters, 8191);
    cache_stats_took(&counters, UINT64_C(1) << 60);
    cache_stats_sum(&counters, &stats);
    assert_int_equal(stats.reg_times[0], 2);
    assert_int_equal(stats.reg_times[11], 1);
    assert_int_equal(stats.reg_times[12], 2);
    assert_int_equal(stats.reg_times[HMREG_STATS_TIMES - 1], 1);
    assert_int_equal(timed(&stats), 6);
    assert_true(stats.reg_longest_ns == UINT64_C(1) << 60);
    assert_true(stats.reg_ns == 1 + 4095 + 4096 + 8191 + (UINT64_C(1) << 60));
    cache_stats_close(&counters);
}

/* ---- rows ------------------------------------------------------------------------------- */

static uint64_t hits_of(struct cache_stats *counters)
{
    struct hmreg_stats stats = {0};

    cache_stats_sum(counters, &stats);
    return stats.hits;
}

TEST(rows__hits_of_threads__summed_and_kept_when_they_leave)
{
    struct cache_stats_row *rows[3];
    struct cache_stats counters;

    open_counters(&counters);
    for (int i = 0; i < 3; i++) {
        rows[i] = cache_stats_join(&counters);
        assert_non_null(rows[i]);
        for (int n = 0; n <= i; n++)
            cache_stats_hit(rows[i]->shown);
    }
    cache_stats_add(&counters, STATS_HITS, 100);
    assert_int_equal(hits_of(&counters), 106);
    cache_stats_leave(&counters, rows[1]); /* the one in the middle, the last, the first */
    cache_stats_hit(rows[2]->shown);
    assert_int_equal(hits_of(&counters), 107);
    cache_stats_leave(&counters, rows[0]);
    cache_stats_leave(&counters, rows[2]);
    cache_stats_leave(&counters, NULL);
    assert_int_equal(hits_of(&counters), 107);
    cache_stats_close(&counters);
}

TEST_MAIN()
