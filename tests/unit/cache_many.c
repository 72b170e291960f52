/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Gets and puts of many regions in one call: each region is as one of hmreg_mr_get(), and a call
 * that fails leaves nothing behind.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/vendors.h"

#include <hmreg/loopback.h>
#include <pthread.h>
#include <sys/mman.h>

#define LEN  4096
#define MANY 148

static char memory[MANY][LEN] __attribute__((aligned(LEN)));
static struct iovec iov[MANY];
static struct hmreg_mr *mrs[MANY];

static void open_with(const struct hmreg_domain_config *config)
{
    vendors_reset();
    fixture_open(HMREG_MONITOR_IMPORT, config);
    for (size_t i = 0; i < MANY; i++) {
        iov[i] = (struct iovec){memory[i], LEN};
        mrs[i] = (struct hmreg_mr *)1;
    }
}

static void open_flagged(uint32_t flags, uint64_t max_regions)
{
    struct hmreg_domain_config config = {
        .size = sizeof(config), .flags = flags, .max_regions = max_regions};

    open_with(&config);
}

static void get_many(size_t count)
{
    assert_ok(hmreg_mr_get_many(fixture.domain, iov, count, HMREG_ACCESS_REMOTE, mrs));
}

static void assert_none(size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_null(mrs[i]);
}

static uint64_t pins_of(void);

/* Gets and puts all; the number of registrations that took. */
static unsigned cost_of(size_t count)
{
    unsigned before = atomic_load(&counter.regs);

    get_many(count);
    hmreg_mr_put_many(mrs, count);
    assert_int_equal(pins_of(), 0);
    return atomic_load(&counter.regs) - before;
}

static int add_pins(const struct hmreg_entry_info *entry, void *context)
{
    *(uint64_t *)context += entry->pins;
    return 0;
}

static uint64_t pins_of(void)
{
    uint64_t pins = 0;

    assert_ok(hmreg_domain_dump(fixture.domain, add_pins, &pins));
    return pins;
}

/* ---- what is got ------------------------------------------------------------------------ */

TEST(get_many__again__each_as_a_get)
{
    open_flagged(0, 0);
    get_many(MANY);
    for (size_t i = 0; i < MANY; i++) {
        assert_true(fixture_is_cached(mrs[i]));
        assert_int_equal(hmreg_mr_key(mrs[i]), fixture_key(memory[i], LEN));
    }
    assert_int_equal(pins_of(), MANY);
    hmreg_mr_put_many(mrs, MANY);
    assert_int_equal(cost_of(MANY), 0);
    assert_int_equal(fixture_stats().misses, MANY);
    assert_int_equal(fixture_stats().hits, 2 * MANY);
}

TEST(get_many__exact_domain__parts_are_regions_of_their_own)
{
    open_flagged(HMREG_DOMAIN_EXACT, 0);
    iov[1] = (struct iovec){memory[0], 20};
    assert_int_equal(cost_of(MANY), MANY);
    assert_int_equal(cost_of(MANY), 0);
}

TEST(get_many__host_and_devices__each_in_its_cache)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};
    struct vendor_claim *claims[2];

    open_flagged(0, 0);
    claims[0] = vendor_claim(HMREG_IFACE_CUDA, memory[5], LEN, HMREG_MEM_DEVICE, 0);
    claims[1] = vendor_claim(HMREG_IFACE_ZE, memory[70], LEN, HMREG_MEM_DEVICE, 1);
    assert_int_equal(cost_of(MANY), MANY);
    assert_int_equal(cost_of(MANY), 0);
    assert_ok(hmreg_domain_cache_stats(fixture.domain, HMREG_IFACE_CUDA, 0, &stats));
    assert_int_equal(stats.regions, 1);
    get_many(MANY);
    hmreg_mr_put_many(mrs, MANY);
    for (int i = 0; i < 2; i++)
        vendor_renew(claims[i]);
    get_many(MANY); /* a hit of device memory asks its vendor */
    assert_int_equal(hmreg_mr_key(mrs[5]), MANY + 1);
    assert_int_equal(hmreg_mr_key(mrs[70]), MANY + 2);
    hmreg_mr_put_many(mrs, MANY);
}

TEST(get_many__endpoint_mode__each_has_its_own)
{
    struct hmreg_loopback_config config = {.size = sizeof(config), .mr_mode = HMREG_MR_ENDPOINT};
    struct hmreg_domain *domain = NULL;

    open_flagged(0, 0);
    assert_ok(hmreg_domain_open_loopback(fixture.lib, &config, NULL, &domain));
    iov[1] = iov[0];
    assert_ok(hmreg_mr_get_many(domain, iov, 2, HMREG_SEND, mrs));
    assert_ptr_not_equal(mrs[0], mrs[1]);
    assert_false(fixture_is_cached(mrs[0]));
    hmreg_mr_put_many(mrs, 2);
    assert_ok(hmreg_domain_close(domain));
}

TEST(get_many__more_than_the_limit__the_rest_is_not_cached)
{
    open_flagged(0, 10);
    get_many(MANY);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(fixture_is_cached(mrs[i]), i < 10);
    hmreg_mr_put_many(mrs, MANY);
    assert_int_equal(atomic_load(&counter.regions), 10);
}

TEST(get_many__put_checks__found)
{
    setenv("HMREG_DEBUG", "puts", 1);
    open_flagged(0, 0);
    unsetenv("HMREG_DEBUG");
    assert_int_equal(cost_of(MANY), MANY);
    assert_int_equal(cost_of(MANY), 0);
    hmreg_mr_put_many(mrs, 2);
    assert_int_equal(fixture_stats().wrong_puts, 2);
}

/* ---- memory that changes ---------------------------------------------------------------- */

TEST(get_many__memory_changed_before__registered_anew)
{
    char *place = fixture_map(MANY);

    vendors_reset();
    fixture_open(HMREG_MONITOR_MEMHOOKS, NULL);
    for (size_t i = 0; i < MANY; i++)
        iov[i] = (struct iovec){place + i * fixture_page(), fixture_page()};
    assert_int_equal(cost_of(MANY), MANY);
    munmap(iov[70].iov_base, 3 * fixture_page());
    assert_non_null(fixture_map_at(iov[70].iov_base, 3));
    assert_int_equal(cost_of(MANY), 3);
    assert_int_equal(cost_of(MANY), 0);
    munmap(place, MANY * fixture_page());
}

static struct hmreg *notified;

static void give_notice(const struct provider_request *request)
{
    counter.reg_hook = NULL;
    assert_ok(hmreg_invalidate(notified, memory[0], 4 * LEN));
}

/* The notice comes after ranges 0 to 2 were got, and while 3 is being registered. */
TEST(get_many__invalidated_meanwhile__ends_with_its_put)
{
    open_flagged(0, 0);
    notified = fixture.lib;
    for (size_t i = 0; i < 3; i++)
        fixture_key(memory[i], LEN);
    counter.reg_hook = give_notice;
    get_many(MANY);
    assert_int_equal(atomic_load(&counter.regs), MANY + 1); /* 3 was registered twice */
    assert_int_equal(fixture_stats().retired, 3);
    hmreg_mr_put_many(mrs, MANY);
    assert_int_equal(fixture_stats().retired, 0);
    assert_int_equal(atomic_load(&counter.regions), MANY - 3);
    assert_int_equal(cost_of(MANY), 3);
}

/* ---- failures --------------------------------------------------------------------------- */

static void fail_at_page(const struct provider_request *request)
{
    if (request->iov[0].iov_base == memory[71])
        atomic_store(&counter.reg_times, 1);
}

TEST(get_many__one_cannot_be_registered__none_is_got)
{
    open_flagged(0, 0);
    for (size_t i = 0; i < MANY; i += 2)
        fixture_key(memory[i], LEN);
    atomic_store(&counter.reg_times, 0);
    atomic_store(&counter.reg_code, -EIO);
    counter.reg_hook = fail_at_page;
    assert_fails(hmreg_mr_get_many(fixture.domain, iov, MANY, HMREG_ACCESS_REMOTE, mrs), -EIO,
                 "iov[71]: ");
    assert_none(MANY);
    assert_int_equal(pins_of(), 0);
    assert_int_equal(fixture_stats().failures, 1);
    atomic_store(&counter.reg_code, 0);
    counter.reg_hook = NULL;
    /* What was registered stays cached: 1 to 69. */
    assert_int_equal(cost_of(MANY), MANY / 2 - 35);
    assert_ok(hmreg_domain_flush(fixture.domain));
    assert_int_equal(atomic_load(&counter.regions), 0);
}

/* Of uncached regions nothing stays. */
TEST(get_many__fails_without_a_cache__all_are_deregistered)
{
    open_flagged(HMREG_DOMAIN_NO_CACHE, 0);
    atomic_store(&counter.reg_code, -ENOMEM);
    counter.reg_hook = fail_at_page;
    assert_fails(hmreg_mr_get_many(fixture.domain, iov, MANY, HMREG_ACCESS_REMOTE, mrs), -ENOMEM,
                 "iov[71]: ");
    assert_none(MANY);
    assert_int_equal(atomic_load(&counter.regions), 0);
}

/* `get` hits up to the range that is wrong, or misses. */
static void wrong_range(struct iovec wrong, int code, const char *words)
{
    struct iovec right = iov[100];
    unsigned before = atomic_load(&counter.regs);

    iov[100] = wrong;
    assert_fails(hmreg_mr_get_many(fixture.domain, iov, MANY, HMREG_ACCESS_REMOTE, mrs), code,
                 words);
    assert_none(MANY);
    assert_int_equal(atomic_load(&counter.regs), before);
    assert_int_equal(pins_of(), 0);
    iov[100] = right;
}

static void wrong_ranges(void)
{
    wrong_range((struct iovec){NULL, LEN}, -EINVAL, "iov[100]: range: addr is NULL");
    wrong_range((struct iovec){memory[100], 0}, -EINVAL, "iov[100]: range: len is 0");
    wrong_range((struct iovec){memory[100], SIZE_MAX}, -EINVAL, "wraps");
    wrong_range((struct iovec){memory[100], (1ull << 50) + 1}, -EMSGSIZE,
                "iov[100]: the region is longer");
}

TEST(get_many__wrong_arguments__refused_before_the_fabric)
{
    open_flagged(0, 0);
    assert_fails(hmreg_mr_get_many(NULL, iov, 2, HMREG_SEND, mrs), -EINVAL, "domain is NULL");
    assert_none(2);
    assert_fails(hmreg_mr_get_many(fixture.domain, NULL, 2, HMREG_SEND, mrs), -EINVAL,
                 "iov is NULL");
    assert_fails(hmreg_mr_get_many(fixture.domain, iov, 2, HMREG_SEND, NULL), -EINVAL,
                 "mrs is NULL");
    assert_fails(hmreg_mr_get_many(fixture.domain, iov, 0, HMREG_SEND, mrs), -EINVAL, "count is 0");
    assert_fails(hmreg_mr_get_many(fixture.domain, iov, 2, 0, mrs), -EINVAL, "access is 0");
    assert_fails(hmreg_mr_get_many(fixture.domain, iov, 2, 1, mrs), -EINVAL, "unknown bits");
    wrong_ranges();
    assert_int_equal(atomic_load(&counter.regs), 0);
    assert_int_equal(cost_of(MANY), MANY);
    wrong_ranges();
}

static int childs_part(void)
{
    if (hmreg_mr_get_many(fixture.domain, iov, MANY, HMREG_ACCESS_REMOTE, mrs) != -EPERM)
        return 1;
    hmreg_mr_put_many(mrs, MANY);
    return atomic_load(&counter.deregs) ? 2 : 0;
}

TEST(get_many__forked_child__perm)
{
    test_forks_wipe();
    open_flagged(0, 0);
    get_many(MANY);
    test_in_child(childs_part());
    hmreg_mr_put_many(mrs, MANY);
    assert_int_equal(pins_of(), 0);
}

/* ---- threads ---------------------------------------------------------------------------- */

struct other {
    struct iovec iov[MANY];
    struct hmreg_mr *mrs[MANY];
    int rc;
};

static void *get_them(void *arg)
{
    struct other *other = arg;

    other->rc =
        hmreg_mr_get_many(fixture.domain, other->iov, MANY, HMREG_ACCESS_REMOTE, other->mrs);
    return NULL;
}

static void start(struct other *other, pthread_t *thread)
{
    for (size_t i = 0; i < MANY; i++)
        other->iov[i] = iov[MANY - 1 - i];
    assert_int_equal(pthread_create(thread, NULL, get_them, other), 0);
}

/* In opposite orders, again and again: neither waits for the other for ever. */
TEST(get_many__two_threads_in_opposite_orders__both_end)
{
    static struct other other;
    pthread_t thread;

    open_flagged(0, 0);
    for (int i = 0; i < 200; i++) {
        start(&other, &thread);
        get_many(MANY);
        pthread_join(thread, NULL);
        assert_ok(other.rc);
        hmreg_mr_put_many(mrs, MANY);
        hmreg_mr_put_many(other.mrs, MANY);
        assert_int_equal(atomic_load(&counter.regs), (i + 1) * MANY);
        assert_ok(hmreg_domain_flush(fixture.domain));
    }
}

TEST_MAIN()
