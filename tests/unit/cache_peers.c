/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Mistakes of other registration caches, one test each; docs/cache-proof.md has the list, with
 * those that are tested elsewhere.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/queries.h"
#include "tests/support/vendors.h"

#include <sys/mman.h>

#define LEN  4096
#define MANY 500

static char memory[MANY][LEN] __attribute__((aligned(65536)));

static void open_fixture(const struct hmreg_domain_config *config)
{
    vendors_reset();
    fixture_open(HMREG_MONITOR_IMPORT, config);
}

static uint64_t key_for(void *addr, size_t len, uint64_t access)
{
    struct hmreg_mr *mr = NULL;
    uint64_t key;

    assert_ok(hmreg_mr_get(fixture.domain, addr, len, access, &mr));
    assert_int_equal(test_info_of(mr).access, access);
    key = hmreg_mr_key(mr);
    hmreg_mr_put(mr);
    return key;
}

/* The cache's key did not include the access rights. */
TEST(key_without_rights__other_rights__another_region)
{
    static const uint64_t rights[] = {HMREG_REMOTE_READ, HMREG_REMOTE_WRITE, HMREG_ACCESS_REMOTE,
                                      HMREG_ACCESS_ALL, HMREG_SEND};

    open_fixture(NULL);
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++)
            assert_int_equal(key_for(memory[0], LEN, rights[i]), i + 1);
}

static void open_with_rights(enum hmreg_rights rights)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .rights = rights};

    fixture_open(HMREG_MONITOR_IMPORT, &config);
}

/* The region may have more rights than these. */
static uint64_t key_served(void *addr, size_t len, uint64_t access)
{
    struct hmreg_mr *mr = NULL;
    uint64_t key;

    assert_ok(hmreg_mr_get(fixture.domain, addr, len, access, &mr));
    key = hmreg_mr_key(mr);
    hmreg_mr_put(mr);
    return key;
}

TEST(rights__more_local_ones__serve_where_the_domain_says_so)
{
    open_with_rights(HMREG_RIGHTS_LOCAL);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(key_served(memory[0], LEN, HMREG_ACCESS_ALL), 1);
        assert_int_equal(key_served(memory[0], LEN, HMREG_ACCESS_REMOTE), 1);
        assert_int_equal(key_served(memory[0], LEN, HMREG_ACCESS_REMOTE | HMREG_SEND), 1);
        assert_int_equal(key_served(memory[0], LEN, HMREG_SEND), 2); /* no remote one */
        assert_int_equal(key_served(memory[0], LEN, HMREG_SEND | HMREG_RECV), 3);
        assert_int_equal(key_served(memory[0], LEN, HMREG_REMOTE_READ), 4);
    }
}

TEST(rights__unknown_policy__inval)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .rights = 3};
    struct hmreg_domain *domain = NULL;

    open_fixture(NULL);
    assert_fails(counter_try(fixture.lib, &config, &domain), -EINVAL, "HMREG_RIGHTS_EXACT");
    assert_null(domain);
}

/* Buffers in one page shared an entry whose key was rounded to the page. */
TEST(key_rounded_to_pages__two_buffers_in_one_page__two_regions)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_mr *mr;

    open_fixture(NULL);
    assert_int_equal(fixture_key(memory[0] + 64, 64), 1);
    assert_int_equal(fixture_key(memory[0] + 1024, 64), 2);
    assert_int_equal(fixture_key(memory[0], LEN), 3);
    mr = fixture_get(memory[0] + 64, 64);
    assert_ok(hmreg_mr_query(mr, &info));
    assert_true(info.addr <= (uintptr_t)memory[0] + 64);
    assert_true(info.addr + info.len >= (uintptr_t)memory[0] + 128);
    hmreg_mr_put(mr);
}

/* The range's end was computed without a check for overflow. */
TEST(range_that_wraps__einval)
{
    struct hmreg_mr *mr = NULL;

    open_fixture(NULL);
    assert_fails(hmreg_mr_get(fixture.domain, memory[0], SIZE_MAX, HMREG_SEND, &mr), -EINVAL,
                 "wraps");
    assert_fails(hmreg_mr_get(fixture.domain, (void *)(UINTPTR_MAX - 10), 11, HMREG_SEND, &mr),
                 -EINVAL, "wraps");
    assert_fails(hmreg_invalidate(fixture.lib, (void *)(UINTPTR_MAX - 10), 12), -EINVAL, "wraps");
    assert_null(mr);
}

/* Deregistering filled the hole with the last entry, which broke the order for look-ups. */
TEST(removal_breaks_the_order__some_go__all_others_are_found)
{
    static uint64_t keys[MANY];

    open_fixture(NULL);
    for (unsigned i = 0; i < MANY; i++)
        keys[i] = fixture_key(memory[(i * 7) % MANY], LEN);
    for (unsigned i = 0; i < MANY; i += 3)
        assert_ok(hmreg_invalidate(fixture.lib, memory[(i * 7) % MANY], LEN));
    for (unsigned i = 0; i < MANY; i++) {
        uint64_t key = fixture_key(memory[(i * 7) % MANY], LEN);

        if (i % 3)
            assert_int_equal(key, keys[i]);
        else
            assert_true(key > MANY);
    }
}

static void exceed(enum hmreg_monitor monitor, uint32_t flags, bool device)
{
    struct hmreg_domain_config config = {
        .size = sizeof(config), .flags = flags, .max_regions = 5, .max_bytes = 5 * LEN};
    char *host = fixture_map(40);

    vendors_reset();
    fixture_open(monitor, &config);
    if (device)
        vendor_claim(HMREG_IFACE_CUDA, host, 40 * fixture_page(), HMREG_MEM_DEVICE, 0);
    for (unsigned i = 0; i < 40; i++) {
        fixture_key(host + i * fixture_page(), LEN);
        assert_in_range(fixture_stats().regions, 0, 5);
        assert_in_range(fixture_stats().bytes, 0, 5 * LEN);
    }
    assert_int_equal(fixture_stats().evictions, 35);
    assert_int_equal(atomic_load(&counter.most),
                     6); /* the new one is registered before one is evicted */
    fixture_close();
    munmap(host, 40 * fixture_page());
}

/* One mode did not evict, and so ignored the limit. */
TEST(limit_ignored_in_a_mode__every_mode__it_holds)
{
    exceed(HMREG_MONITOR_IMPORT, 0, false);
    exceed(HMREG_MONITOR_IMPORT, HMREG_DOMAIN_EXACT, false);
    exceed(HMREG_MONITOR_IMPORT, 0, true);
    exceed(HMREG_MONITOR_DISABLED, HMREG_DOMAIN_EXACT, true);
    exceed(HMREG_MONITOR_USERFAULTFD, 0, false);
}

/* Each later get retried a failed registration twice. */
TEST(failure_retried__each_later_get__one_try)
{
    struct hmreg_mr *mr = NULL;

    open_fixture(NULL);
    atomic_store(&counter.reg_code, -EINVAL);
    atomic_store(&counter.reg_times, -1);
    for (unsigned i = 1; i <= 5; i++) {
        assert_int_equal(hmreg_mr_get(fixture.domain, memory[0], LEN, HMREG_SEND, &mr), -EINVAL);
        assert_int_equal(atomic_load(&counter.regs), i);
    }
    atomic_store(&counter.reg_times, 0);
}

/* A caller took the negative error number of a check for true. */
TEST(error_taken_for_yes__the_vendor_fails__no_hit)
{
    static const int codes[] = {-EIO, -ERANGE, -ENODEV, -ENXIO, -1};
    struct hmreg_mr *held;

    open_fixture(NULL);
    vendor_claim(HMREG_IFACE_CUDA, memory[0], LEN, HMREG_MEM_DEVICE, 0);
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        held = fixture_get(memory[0], LEN);
        vendors[HMREG_IFACE_CUDA].identity_code = codes[i];
        assert_int_not_equal(fixture_key(memory[0], LEN), hmreg_mr_key(held));
        vendors[HMREG_IFACE_CUDA].identity_code = 0;
        hmreg_mr_put(held);
    }
    assert_int_equal(fixture_stats().hits, 0);
}

/* Memory stayed pinned for ever after it was freed. */
TEST(pinned_after_free__later_calls__deregister)
{
    char *freed = fixture_map(10), *kept = fixture_map(1);

    vendors_reset();
    fixture_open(HMREG_MONITOR_USERFAULTFD, NULL);
    fixture_key(kept, LEN);
    for (unsigned i = 0; i < 10; i++)
        fixture_key(freed + i * fixture_page(), LEN);
    munmap(freed, 10 * fixture_page());
    assert_int_equal(fixture_stats().regions, 1);
    /* Eight per call, once the reaper has retired them. */
    test_wait_until((fixture_key(kept, LEN), atomic_load(&counter.regions) == 1));
    fixture_close();
    munmap(kept, fixture_page());
}

TEST_MAIN()
