/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Cached gets on groups whose members bind regions to endpoints: each rail is bound to its own and
 * enabled, the endpoints are part of the key, and a rail that cannot be bound counts as one that
 * cannot be registered.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/vendors.h"

#include <hmreg/group.h>
#include <hmreg/suspend.h>

#define LEN   4096
#define RAILS 3

static char memory[4][LEN] __attribute__((aligned(LEN)));
static int ends[4];

/* fixture.domain becomes the group. Members 0 and 2 bind, member 1 does not. */
static struct group {
    struct fixture fixture;
    struct hmreg_domain *members[RAILS];
    void *endpoints[RAILS]; /* of the next get */
} group;

static void close_group(void)
{
    assert_ok(hmreg_domain_close(group.fixture.domain));
    for (size_t i = 0; i < RAILS; i++)
        assert_ok(hmreg_domain_flush(group.members[i]));
    assert_int_equal(atomic_load(&counter.regions), 0);
    for (size_t i = 0; i < RAILS; i += 2)
        assert_ok(hmreg_domain_close(group.members[i]));
    group.fixture.domain = group.members[1];
    fixture_close_in(&group.fixture);
}

static void open_group(uint32_t flags)
{
    struct hmreg_group_config config = {.size = sizeof(config), .flags = flags};

    vendors_reset();
    group = (struct group){.endpoints = {&ends[0], NULL, &ends[2]}};
    fixture_open_in(&group.fixture, HMREG_MONITOR_IMPORT, NULL);
    test_after(close_group);
    group.members[1] = group.fixture.domain;
    for (size_t i = 0; i < RAILS; i += 2)
        group.members[i] = counter_open_binding(group.fixture.lib, NULL);
    assert_ok(
        hmreg_group_open(group.fixture.lib, group.members, RAILS, &config, &group.fixture.domain));
}

static int get_len(void *addr, size_t len, uint64_t rails, struct hmreg_mr **mr)
{
    struct iovec iov = {addr, len};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = HMREG_ACCESS_REMOTE,
                                 .rails = rails,
                                 .endpoints = group.endpoints,
                                 .endpoint_count = RAILS};

    return hmreg_mr_get_attr(group.fixture.domain, &attr, 0, mr);
}

static struct hmreg_mr *get(void *addr)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(get_len(addr, LEN, 0, &mr));
    return mr;
}

/* Gets and puts; the number of registrations that took. */
static unsigned cost_of(void *addr)
{
    unsigned before = atomic_load(&counter.regs);

    hmreg_mr_put(get(addr));
    return atomic_load(&counter.regs) - before;
}

static unsigned regions(void)
{
    return atomic_load(&counter.regions);
}

/* ---- suspended -------------------------------------------------------------------------- */

TEST(suspend__held_region_with_endpoints__unbound_and_bound_again)
{
    struct hmreg_mr *mr;

    open_group(0);
    mr = get(memory[0]);
    assert_ok(hmreg_suspend(group.fixture.lib, memory[0], LEN));
    assert_int_equal(regions(), 0);
    assert_ok(hmreg_resume(group.fixture.lib, memory[0], LEN, NULL));
    assert_int_equal(atomic_load(&counter.binds), 4);
    assert_ptr_equal(counter_endpoint(hmreg_mr_rail(mr, 0)), &ends[0]);
    assert_ptr_equal(counter_endpoint(hmreg_mr_rail(mr, 2)), &ends[2]);
    hmreg_mr_put(mr);
}

/* ---- hits ------------------------------------------------------------------------------- */

TEST(get__endpoints__each_rail_enabled_on_its_own_and_hit)
{
    struct hmreg_mr *first, *second, *part = NULL;

    open_group(0);
    first = get(memory[0]);
    assert_ptr_equal(counter_endpoint(hmreg_mr_rail(first, 0)), &ends[0]);
    assert_null(counter_endpoint(hmreg_mr_rail(first, 1)));
    assert_ptr_equal(counter_endpoint(hmreg_mr_rail(first, 2)), &ends[2]);
    second = get(memory[0]);
    assert_ptr_equal(second, first);
    assert_ok(get_len(memory[0] + 5, 9, 0, &part));
    assert_ptr_equal(part, first);
    assert_int_equal(atomic_load(&counter.binds), 2);
    assert_int_equal(atomic_load(&counter.enables), 2);
    assert_int_equal(fixture_stats_in(&group.fixture).hits, 2);
    hmreg_mr_put(first);
    hmreg_mr_put(second);
    hmreg_mr_put(part);
}

TEST(get__another_endpoint_of_one_rail__another_region)
{
    open_group(0);
    assert_int_equal(cost_of(memory[0]), RAILS);
    group.endpoints[2] = &ends[3];
    assert_int_equal(cost_of(memory[0]), RAILS);
    assert_int_equal(cost_of(memory[0]), 0);
    group.endpoints[2] = &ends[2];
    assert_int_equal(cost_of(memory[0]), 0);
    assert_int_equal(fixture_stats_in(&group.fixture).regions, 2);
}

/* Rail 1 needs no endpoint, so its region serves other gets, whether they list endpoints or not. */
TEST(get__only_rails_that_do_not_bind__cached_without_endpoints)
{
    struct iovec iov = {memory[0], LEN};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = HMREG_ACCESS_REMOTE,
                                 .rails = 2};
    struct hmreg_mr *mr = NULL, *again = NULL;

    open_group(0);
    assert_ok(hmreg_mr_get_attr(group.fixture.domain, &attr, 0, &mr));
    group.endpoints[0] = group.endpoints[2] = NULL;
    assert_ok(get_len(memory[0], LEN, 2, &again));
    assert_ptr_equal(again, mr);
    assert_int_equal(atomic_load(&counter.regs), 1);
    assert_int_equal(atomic_load(&counter.binds), 0);
    hmreg_mr_put(mr);
    hmreg_mr_put(again);
}

/* Each get has a region of its own, whose rails the caller binds. */
TEST(get__without_endpoints__not_shared)
{
    struct hmreg_mr *mrs[2];

    open_group(0);
    for (int i = 0; i < 2; i++)
        mrs[i] = fixture_get_in(&group.fixture, memory[0], LEN);
    assert_ptr_not_equal(mrs[0], mrs[1]);
    assert_int_equal(regions(), 2 * RAILS);
    assert_int_equal(atomic_load(&counter.binds), 0);
    hmreg_mr_put(mrs[0]);
    hmreg_mr_put(mrs[1]);
    assert_int_equal(regions(), 0);
}

/* ---- ends ------------------------------------------------------------------------------- */

/* A bound region of this fabric is deregistered only after the library has unbound it. */
TEST(flush_invalidate_and_eviction__bound_rails__deregistered)
{
    open_group(0);
    cost_of(memory[0]);
    assert_int_equal(regions(), RAILS);
    assert_ok(hmreg_domain_flush(group.fixture.domain));
    assert_int_equal(regions(), 0);
    cost_of(memory[0]);
    assert_ok(hmreg_invalidate(group.fixture.lib, memory[0], 1));
    assert_ok(hmreg_domain_progress(group.fixture.domain));
    assert_int_equal(regions(), 0);
    cost_of(memory[0]);
    atomic_store(&counter.reg_code, -HMREG_ENOKEY);
    atomic_store(&counter.reg_times, 1);
    cost_of(memory[1]);
    assert_int_equal(regions(), RAILS);
    assert_int_equal(fixture_stats_in(&group.fixture).evictions, 1);
}

TEST(put__uncached_and_bound__deregistered)
{
    struct hmreg_domain_config off = {.size = sizeof(off), .flags = HMREG_DOMAIN_NO_CACHE};
    struct hmreg_group_config config = {.size = sizeof(config), .domain = &off};
    struct hmreg_domain *cached;

    open_group(0);
    cached = group.fixture.domain;
    assert_ok(
        hmreg_group_open(group.fixture.lib, group.members, RAILS, &config, &group.fixture.domain));
    for (int i = 0; i < 2; i++)
        assert_int_equal(cost_of(memory[0]), RAILS);
    assert_int_equal(regions(), 0);
    assert_int_equal(atomic_load(&counter.enables), 4);
    assert_ok(hmreg_domain_close(group.fixture.domain));
    group.fixture.domain = cached;
}

/* ---- failures --------------------------------------------------------------------------- */

/* Of the rails that bind, 0 and 2, each fails to bind, and then to enable. */
TEST(get__a_rail_cannot_be_bound_or_enabled__nothing_stays)
{
    for (unsigned i = 0; i < 4; i++) {
        const char *words = i % 2 ? "rail 2 (test)" : "rail 0 (test)";
        struct hmreg_mr *mr = NULL;

        open_group(0);
        counter.ready_code = -EIO;
        *(i < 2 ? &counter.bind_fails : &counter.enable_fails) = i % 2 + 1;
        assert_fails(get_len(memory[0], LEN, 0, &mr), -EIO, words);
        assert_int_equal(hmreg_last_error()->vendor_code, 4713);
        assert_null(mr);
        assert_int_equal(regions(), 0);
        assert_int_equal(fixture_stats_in(&group.fixture).failures, 1);
        assert_int_equal(cost_of(memory[0]), RAILS);
        test_finish();
    }
}

TEST(get__partial_and_a_rail_cannot_be_bound__lacks_it_and_says_why)
{
    for (unsigned i = 0; i < 4; i++) {
        unsigned failing = i % 2 ? 2 : 0;
        struct hmreg_mr *mr, *again;

        open_group(HMREG_GROUP_PARTIAL);
        counter.ready_code = -EIO;
        *(i < 2 ? &counter.bind_fails : &counter.enable_fails) = i % 2 + 1;
        mr = get(memory[0]);
        assert_null(hmreg_mr_rail(mr, failing));
        assert_int_equal(hmreg_last_error()->code, -EIO);
        assert_int_equal(hmreg_last_error()->vendor_code, 4713);
        assert_ptr_equal(counter_endpoint(hmreg_mr_rail(mr, 2 - failing)), &ends[2 - failing]);
        assert_non_null(hmreg_mr_rail(mr, 1));
        assert_int_equal(regions(), RAILS - 1);
        again = get(memory[0]);
        assert_ptr_equal(again, mr);
        hmreg_mr_put(mr);
        hmreg_mr_put(again);
        assert_ok(hmreg_domain_flush(group.fixture.domain)); /* another chance */
        assert_int_equal(regions(), 0);
        assert_int_equal(cost_of(memory[0]), RAILS);
        assert_int_equal(regions(), RAILS);
        test_finish();
    }
}

/* ---- refusals --------------------------------------------------------------------------- */

TEST(get__wrong_endpoints__inval_and_named)
{
    void *none[RAILS] = {NULL}, *of_all[RAILS] = {&ends[0], &ends[1], &ends[2]};
    struct iovec iov = {memory[0], LEN};
    const struct hmreg_mr_attr right = {
        .size = sizeof(right), .iov = &iov, .iov_count = 1, .access = HMREG_ACCESS_REMOTE};
    struct hmreg_mr_attr attr = right;
    struct hmreg_mr *mr = NULL;

    open_group(0);
    attr.endpoint = &ends[0];
    assert_fails(hmreg_mr_get_attr(group.fixture.domain, &attr, 0, &mr), -EINVAL, "set endpoints");
    attr.endpoints = of_all;
    attr.endpoint_count = 1;
    assert_fails(hmreg_mr_get_attr(group.members[0], &attr, 0, &mr), -EINVAL, "set one of them");
    attr.endpoint = NULL;
    assert_fails(hmreg_mr_get_attr(group.fixture.domain, &attr, 0, &mr), -EINVAL,
                 "endpoint_count is 1; the domain has 3 rails");
    assert_fails(hmreg_mr_get_attr(group.members[1], &attr, 0, &mr), -EINVAL,
                 "the endpoint of rail 0 (test) is set");
    attr.endpoint_count = RAILS;
    assert_fails(hmreg_mr_get_attr(group.fixture.domain, &attr, 0, &mr), -EINVAL,
                 "the endpoint of rail 1 (test) is set");
    attr.endpoints = none;
    assert_fails(hmreg_mr_get_attr(group.fixture.domain, &attr, 0, &mr), -EINVAL,
                 "endpoints[0] is NULL");
    assert_fails(hmreg_mr_regattr(group.fixture.domain, &attr, 0, &mr), -EINVAL,
                 "endpoints is set");
    attr.endpoints = NULL;
    assert_fails(hmreg_mr_get_attr(group.fixture.domain, &attr, 0, &mr), -EINVAL,
                 "endpoint_count is 3, but endpoints is NULL");
    assert_fails(hmreg_mr_regattr(group.fixture.domain, &attr, 0, &mr), -EINVAL,
                 "endpoint_count is 3");
    assert_null(mr);
    assert_int_equal(atomic_load(&counter.regs), 0);
}

TEST_MAIN()
