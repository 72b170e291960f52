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

TEST(rights__unknown_policy__inval)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .rights = 3};
    struct hmreg_domain *domain = NULL;

    open_fixture(NULL);
    assert_fails(counter_try(fixture.lib, &config, &domain), -EINVAL, "HMREG_RIGHTS_EXACT");
    assert_null(domain);
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
