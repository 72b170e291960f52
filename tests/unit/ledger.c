/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What a cache counts besides hits and misses: causes of evictions, failures, high-water marks,
 * the time registrations take; of a domain and of each cache.
 */
#include "tests/support/cache_bed.h"
#include "tests/support/vendors.h"

#include "core/ledger.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define LEN 4096

static char memory[64][LEN];

static void open_bed(struct bed *bed, uint64_t max_regions)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .max_regions = max_regions};

    vendors_reset();
    bed_open(bed, HMREG_MONITOR_IMPORT, &config);
}

static void touch(const struct bed *bed, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        bed_key(bed, memory[i], LEN);
}

static void fail_reg(int code, int times)
{
    atomic_store(&counter.reg_code, code);
    atomic_store(&counter.reg_times, times);
}

static struct hmreg_stats stats_of(const struct bed *bed, enum hmreg_iface iface, int device)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};

    assert_ok(hmreg_cache_stats(bed->domain, iface, device, &stats));
    return stats;
}

/* One that nobody else sees. */
static void open_ledger(struct ledger *ledger)
{
    static struct board none;

    ledger_open(ledger, &none, NULL, HMREG_IFACE_SYSTEM, -1);
}

static uint64_t timed(const struct hmreg_stats *stats)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < HMREG_STATS_TIMES; i++)
        sum += stats->reg_times[i];
    return sum;
}

/* ---- counts ----------------------------------------------------------------------------- */

static void evictions__each_cause__counted_by_itself(void **state)
{
    static const int codes[] = {-ENOMEM,       -ENOSPC,       -ENOSPC,
                                -HMREG_ENOKEY, -HMREG_ENOKEY, -HMREG_ENOKEY};
    struct hmreg_stats stats;
    struct bed bed;

    open_bed(&bed, 8);
    touch(&bed, 8);
    for (unsigned i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        fail_reg(codes[i], 1);
        bed_key(&bed, memory[8 + i], LEN); /* one goes for the limit, one for the code */
        bed_key(&bed, memory[20 + i], LEN);
    }
    stats = bed_stats(&bed);
    assert_int_equal(stats.evicted_memory, 1);
    assert_int_equal(stats.evicted_room, 2);
    assert_int_equal(stats.evicted_keys, 3);
    assert_int_equal(stats.evicted_limit, 6);
    assert_int_equal(stats.evictions, 12);
    bed_close(&bed);
}

static void failures__for_good__counted_once_whatever_was_tried(void **state)
{
    struct hmreg_mr *mr;
    struct bed bed;

    open_bed(&bed, 0);
    touch(&bed, 3);
    fail_reg(-EIO, 1);
    assert_int_equal(hmreg_mr_get(bed.domain, memory[9], LEN, HMREG_SEND, &mr), -EIO);
    assert_int_equal(bed_stats(&bed).failures, 1);
    fail_reg(-ENOMEM, -1); /* evicts all, tries three times */
    assert_int_equal(hmreg_mr_get(bed.domain, memory[9], LEN, HMREG_SEND, &mr), -ENOMEM);
    assert_int_equal(bed_stats(&bed).failures, 2);
    assert_int_equal(bed_stats(&bed).evicted_memory, 3);
    fail_reg(-ENOMEM, 1); /* nothing to evict; then something */
    assert_int_equal(hmreg_mr_get(bed.domain, memory[9], LEN, HMREG_SEND, &mr), -ENOMEM);
    touch(&bed, 1);
    fail_reg(-ENOMEM, 1);
    touch(&bed, 2);
    assert_int_equal(bed_stats(&bed).failures, 3);
    bed_close(&bed);
}

static void high_water__stays_when_regions_go(void **state)
{
    struct bed bed;

    open_bed(&bed, 0);
    touch(&bed, 5);
    assert_ok(hmreg_domain_flush(bed.domain));
    bed_key(&bed, memory[0], 2 * LEN);
    assert_int_equal(bed_stats(&bed).regions, 1);
    assert_int_equal(bed_stats(&bed).regions_max, 5);
    assert_int_equal(bed_stats(&bed).bytes, 2 * LEN);
    assert_int_equal(bed_stats(&bed).bytes_max, 5 * LEN);
    bed_close(&bed);
}

/* ---- one cache -------------------------------------------------------------------------- */

static void cache_stats__each_cache__its_own_and_the_domain_the_sum(void **state)
{
    struct bed bed;

    open_bed(&bed, 0);
    vendor_claim(HMREG_IFACE_CUDA, memory[10], LEN, HMREG_MEM_DEVICE, 1);
    vendor_claim(HMREG_IFACE_ZE, memory[11], LEN, HMREG_MEM_HOST_PINNED, 0);
    touch(&bed, 12);
    bed_key(&bed, memory[10], LEN);
    assert_int_equal(stats_of(&bed, HMREG_IFACE_SYSTEM, -1).misses, 10);
    assert_int_equal(stats_of(&bed, HMREG_IFACE_SYSTEM, 0).misses, 10);
    assert_int_equal(stats_of(&bed, HMREG_IFACE_CUDA, 1).misses, 1);
    assert_int_equal(stats_of(&bed, HMREG_IFACE_CUDA, 1).hits, 1);
    assert_int_equal(stats_of(&bed, HMREG_IFACE_CUDA, 0).misses, 0);
    assert_int_equal(stats_of(&bed, HMREG_IFACE_ZE, -1).misses, 1); /* whatever device pinned it */
    assert_int_equal(stats_of(&bed, HMREG_IFACE_ZE, 0).misses, 0);
    assert_int_equal(bed_stats(&bed).misses, 12);
    assert_int_equal(bed_stats(&bed).regions_max, 12);
    bed_close(&bed);
}

static void cache_stats__no_such_cache__refused(void **state)
{
    struct hmreg_stats stats = {.size = sizeof(stats), .hits = 77};
    struct bed bed;

    open_bed(&bed, 0);
    assert_fails(hmreg_cache_stats(bed.domain, 9, 0, &stats), -EINVAL, "iface is 9");
    assert_fails(hmreg_cache_stats(bed.domain, HMREG_IFACE_CUDA, 2, &stats), -ENODEV,
                 "cuda has no device 2");
    assert_fails(hmreg_cache_stats(bed.domain, HMREG_IFACE_CUDA, -2, &stats), -ENODEV, "device -2");
    assert_fails(hmreg_cache_stats(bed.domain, HMREG_IFACE_SYSTEM, 1, &stats), -ENODEV,
                 "for system memory");
    assert_int_equal(stats.hits, 77);
    bed_close(&bed);
}

/* ---- time ------------------------------------------------------------------------------- */

static void sleep_two_ms(const struct provider_request *request)
{
    const struct timespec moment = {.tv_nsec = 2000000};

    nanosleep(&moment, NULL);
}

static void times__slow_registrations__each_is_timed(void **state)
{
    struct hmreg_stats stats;
    struct bed bed;

    open_bed(&bed, 0);
    counter.reg_hook = sleep_two_ms;
    touch(&bed, 5);
    touch(&bed, 5);
    stats = bed_stats(&bed);
    assert_int_equal(timed(&stats), 5);
    for (unsigned i = 0; i < 20; i++) /* 2^20 ns are less than 2 ms */
        assert_int_equal(stats.reg_times[i], 0);
    assert_true(stats.reg_ns >= 5 * 2000000);
    assert_in_range(stats.reg_longest_ns, 2000000, stats.reg_ns);
    bed_close(&bed);
}

static void times__failed_registration__not_among_them(void **state)
{
    struct hmreg_stats stats;
    struct hmreg_mr *mr;
    struct bed bed;

    open_bed(&bed, 0);
    fail_reg(-EIO, 1);
    assert_int_equal(hmreg_mr_get(bed.domain, memory[0], LEN, HMREG_SEND, &mr), -EIO);
    stats = bed_stats(&bed);
    assert_int_equal(timed(&stats), 0);
    assert_int_equal(stats.reg_ns, 0);
    bed_close(&bed);
}

static void times__powers_of_two__in_their_buckets(void **state)
{
    struct hmreg_stats stats = {0};
    struct ledger ledger;

    open_ledger(&ledger);
    ledger_took(&ledger, 0);
    ledger_took(&ledger, 1);
    ledger_took(&ledger, 4095);
    ledger_took(&ledger, 4096);
    ledger_took(&ledger, 8191);
    ledger_took(&ledger, UINT64_C(1) << 60);
    ledger_sum(&ledger, &stats);
    assert_int_equal(stats.reg_times[0], 2);
    assert_int_equal(stats.reg_times[11], 1);
    assert_int_equal(stats.reg_times[12], 2);
    assert_int_equal(stats.reg_times[HMREG_STATS_TIMES - 1], 1);
    assert_int_equal(timed(&stats), 6);
    assert_true(stats.reg_longest_ns == UINT64_C(1) << 60);
    ledger_close(&ledger);
}

static void times__short_registrations__one_in_sixteen(void **state)
{
    struct ledger ledger;

    open_ledger(&ledger);
    assert_true(ledger_start(&ledger) != 0);
    ledger_took(&ledger, 999);
    for (int i = 0; i < 15; i++)
        assert_true(ledger_start(&ledger) == 0);
    assert_true(ledger_start(&ledger) != 0);
    ledger_took(&ledger, 1000);
    for (int i = 0; i < 20; i++)
        assert_true(ledger_start(&ledger) != 0);
    ledger_close(&ledger);
}

/* ---- rows ------------------------------------------------------------------------------- */

static uint64_t hits_of(struct ledger *ledger)
{
    struct hmreg_stats stats = {0};

    ledger_sum(ledger, &stats);
    return stats.hits;
}

static void rows__hits_of_threads__summed_and_kept_when_they_leave(void **state)
{
    struct ledger_row *rows[3];
    struct ledger ledger;

    open_ledger(&ledger);
    for (int i = 0; i < 3; i++) {
        rows[i] = ledger_join(&ledger);
        assert_non_null(rows[i]);
        for (int n = 0; n <= i; n++)
            ledger_hit(rows[i]->shown);
    }
    ledger_add(&ledger, STATS_HITS, 100);
    assert_int_equal(hits_of(&ledger), 106);
    ledger_leave(&ledger, rows[1]); /* the one in the middle, the last, the first */
    ledger_hit(rows[2]->shown);
    assert_int_equal(hits_of(&ledger), 107);
    ledger_leave(&ledger, rows[0]);
    ledger_leave(&ledger, rows[2]);
    ledger_leave(&ledger, NULL);
    assert_int_equal(hits_of(&ledger), 107);
    ledger_close(&ledger);
}

TEST_MAIN(TEST(evictions__each_cause__counted_by_itself),
          TEST(failures__for_good__counted_once_whatever_was_tried),
          TEST(high_water__stays_when_regions_go),
          TEST(cache_stats__each_cache__its_own_and_the_domain_the_sum),
          TEST(cache_stats__no_such_cache__refused), TEST(times__slow_registrations__each_is_timed),
          TEST(times__failed_registration__not_among_them),
          TEST(times__powers_of_two__in_their_buckets),
          TEST(times__short_registrations__one_in_sixteen),
          TEST(rows__hits_of_threads__summed_and_kept_when_they_leave))
