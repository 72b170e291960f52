/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Mistakes that other registration caches have made, one test each; docs/cache.md has the list,
 * with those that are tested elsewhere.
 */
#include "tests/support/cache_bed.h"
#include "tests/support/vendors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LEN  4096
#define MANY 500

static char memory[MANY][LEN] __attribute__((aligned(65536)));

static void open_bed(struct bed *bed, const struct hmreg_domain_config *config)
{
    vendors_reset();
    bed_open(bed, HMREG_MONITOR_IMPORT, config);
}

static uint64_t key_for(const struct bed *bed, void *addr, size_t len, uint64_t access)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_mr *mr = NULL;
    uint64_t key;

    assert_ok(hmreg_mr_get(bed->domain, addr, len, access, &mr));
    assert_ok(hmreg_mr_query(mr, &info));
    assert_int_equal(info.access, access);
    key = hmreg_mr_key(mr);
    hmreg_mr_put(mr);
    return key;
}

/* The key of the cache left out what the region was registered for. */
static void key_without_rights__other_rights__another_region(void **state)
{
    static const uint64_t rights[] = {HMREG_REMOTE_READ, HMREG_REMOTE_WRITE, HMREG_ACCESS_REMOTE,
                                      HMREG_ACCESS_ALL, HMREG_SEND};
    struct bed bed;

    open_bed(&bed, NULL);
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++)
            assert_int_equal(key_for(&bed, memory[0], LEN, rights[i]), i + 1);
    bed_close(&bed);
}

/* Buffers in one page shared an entry whose key was rounded to the page. */
static void key_rounded_to_pages__two_buffers_in_one_page__two_regions(void **state)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_mr *mr;
    struct bed bed;

    open_bed(&bed, NULL);
    assert_int_equal(bed_key(&bed, memory[0] + 64, 64), 1);
    assert_int_equal(bed_key(&bed, memory[0] + 1024, 64), 2);
    assert_int_equal(bed_key(&bed, memory[0], LEN), 3);
    mr = bed_get(&bed, memory[0] + 64, 64);
    assert_ok(hmreg_mr_query(mr, &info));
    assert_true(info.addr <= (uintptr_t)memory[0] + 64);
    assert_true(info.addr + info.len >= (uintptr_t)memory[0] + 128);
    hmreg_mr_put(mr);
    bed_close(&bed);
}

/* The range's end was computed without a look at the overflow. */
static void range_that_wraps__einval(void **state)
{
    struct hmreg_mr *mr = NULL;
    struct bed bed;

    open_bed(&bed, NULL);
    assert_fails(hmreg_mr_get(bed.domain, memory[0], SIZE_MAX, HMREG_SEND, &mr), -EINVAL, "wraps");
    assert_fails(hmreg_mr_get(bed.domain, (void *)(UINTPTR_MAX - 10), 11, HMREG_SEND, &mr), -EINVAL,
                 "wraps");
    assert_fails(hmreg_invalidate(bed.lib, (void *)(UINTPTR_MAX - 10), 12), -EINVAL, "wraps");
    assert_null(mr);
    bed_close(&bed);
}

/* Deregistering filled the hole with the last entry, which broke the order for look-ups. */
static void removal_breaks_the_order__some_go__all_others_are_found(void **state)
{
    static uint64_t keys[MANY];
    struct bed bed;

    open_bed(&bed, NULL);
    for (unsigned i = 0; i < MANY; i++)
        keys[i] = bed_key(&bed, memory[(i * 7) % MANY], LEN);
    for (unsigned i = 0; i < MANY; i += 3)
        assert_ok(hmreg_invalidate(bed.lib, memory[(i * 7) % MANY], LEN));
    for (unsigned i = 0; i < MANY; i++) {
        uint64_t key = bed_key(&bed, memory[(i * 7) % MANY], LEN);

        if (i % 3)
            assert_int_equal(key, keys[i]);
        else
            assert_true(key > MANY);
    }
    bed_close(&bed);
}

static void exceed(enum hmreg_monitor monitor, uint32_t flags, bool device)
{
    struct hmreg_domain_config config = {
        .size = sizeof(config), .flags = flags, .max_regions = 5, .max_bytes = 5 * LEN};
    char *host = bed_map(40);
    struct bed bed;

    vendors_reset();
    bed_open(&bed, monitor, &config);
    if (device)
        vendor_claim(HMREG_IFACE_CUDA, host, 40 * bed_page(), HMREG_MEM_DEVICE, 0);
    for (unsigned i = 0; i < 40; i++) {
        bed_key(&bed, host + i * bed_page(), LEN);
        assert_in_range(bed_stats(&bed).regions, 0, 5);
        assert_in_range(bed_stats(&bed).bytes, 0, 5 * LEN);
    }
    assert_int_equal(bed_stats(&bed).evictions, 35);
    assert_int_equal(atomic_load(&counter.most), 6); /* one is registered before one goes */
    bed_close(&bed);
    munmap(host, 40 * bed_page());
}

/* Eviction was left out in one mode, where the limit then meant nothing. */
static void limit_ignored_in_a_mode__every_mode__it_holds(void **state)
{
    exceed(HMREG_MONITOR_IMPORT, 0, false);
    exceed(HMREG_MONITOR_IMPORT, HMREG_DOMAIN_EXACT, false);
    exceed(HMREG_MONITOR_IMPORT, 0, true);
    exceed(HMREG_MONITOR_DISABLED, HMREG_DOMAIN_EXACT, true);
    exceed(HMREG_MONITOR_USERFAULTFD, 0, false);
}

/* A registration that had failed was tried twice again by each later get. */
static void failure_retried__each_later_get__one_try(void **state)
{
    struct hmreg_mr *mr = NULL;
    struct bed bed;

    open_bed(&bed, NULL);
    atomic_store(&counter.reg_code, -EINVAL);
    atomic_store(&counter.reg_times, -1);
    for (unsigned i = 1; i <= 5; i++) {
        assert_int_equal(hmreg_mr_get(bed.domain, memory[0], LEN, HMREG_SEND, &mr), -EINVAL);
        assert_int_equal(atomic_load(&counter.regs), i);
    }
    atomic_store(&counter.reg_times, 0);
    bed_close(&bed);
}

static void fail_device_0(const struct provider_request *request)
{
    atomic_store(&counter.reg_code, -EINVAL);
    atomic_store(&counter.reg_times, request->iface == HMREG_IFACE_CUDA && request->device == 0);
}

/* One device's failure changed what was tried for all, for the process's life. */
static void failure_remembered__one_device_fails__the_other_and_the_next_time(void **state)
{
    struct hmreg_mr *mr = NULL;
    struct bed bed;

    open_bed(&bed, NULL);
    vendor_claim(HMREG_IFACE_CUDA, memory[0], LEN, HMREG_MEM_DEVICE, 0);
    vendor_claim(HMREG_IFACE_CUDA, memory[1], LEN, HMREG_MEM_DEVICE, 1);
    counter.reg_hook = fail_device_0;
    assert_int_equal(hmreg_mr_get(bed.domain, memory[0], LEN, HMREG_SEND, &mr), -EINVAL);
    assert_int_equal(bed_key(&bed, memory[1], LEN), 2);
    counter.reg_hook = NULL;
    atomic_store(&counter.reg_times, 0);
    assert_int_equal(bed_key(&bed, memory[0], LEN), 3);
    assert_int_equal(bed_key(&bed, memory[0], LEN), 3);
    bed_close(&bed);
}

/* A check that answered a negative error number was taken for true. */
static void error_taken_for_yes__the_vendor_fails__no_hit(void **state)
{
    static const int codes[] = {-EIO, -ERANGE, -ENODEV, -HMEM_NOT_MINE, -1};
    struct hmreg_mr *held;
    struct bed bed;

    open_bed(&bed, NULL);
    vendor_claim(HMREG_IFACE_CUDA, memory[0], LEN, HMREG_MEM_DEVICE, 0);
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        held = bed_get(&bed, memory[0], LEN);
        vendors[HMREG_IFACE_CUDA].identity_code = codes[i];
        assert_int_not_equal(bed_key(&bed, memory[0], LEN), hmreg_mr_key(held));
        vendors[HMREG_IFACE_CUDA].identity_code = 0;
        hmreg_mr_put(held);
    }
    assert_int_equal(bed_stats(&bed).hits, 0);
    bed_close(&bed);
}

/* Memory stayed pinned for ever after it was freed. */
static void pinned_after_free__later_calls__deregister(void **state)
{
    char *freed = bed_map(10), *kept = bed_map(1);
    struct bed bed;

    vendors_reset();
    bed_open(&bed, HMREG_MONITOR_USERFAULTFD, NULL);
    bed_key(&bed, kept, LEN);
    for (unsigned i = 0; i < 10; i++)
        bed_key(&bed, freed + i * bed_page(), LEN);
    munmap(freed, 10 * bed_page());
    assert_int_equal(bed_stats(&bed).regions, 1);
    for (int i = 0; i < 100000 && atomic_load(&counter.regions) > 1; i++)
        bed_key(&bed, kept,
                LEN); /* eight a call, once the reaper has found out that they are dead */
    assert_int_equal(atomic_load(&counter.regions), 1);
    bed_close(&bed);
    munmap(kept, bed_page());
}

TEST_MAIN(TEST(key_without_rights__other_rights__another_region),
          TEST(key_rounded_to_pages__two_buffers_in_one_page__two_regions),
          TEST(range_that_wraps__einval),
          TEST(removal_breaks_the_order__some_go__all_others_are_found),
          TEST(limit_ignored_in_a_mode__every_mode__it_holds),
          TEST(failure_retried__each_later_get__one_try),
          TEST(failure_remembered__one_device_fails__the_other_and_the_next_time),
          TEST(error_taken_for_yes__the_vendor_fails__no_hit),
          TEST(pinned_after_free__later_calls__deregister))
