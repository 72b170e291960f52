/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The cache's behaviour: which requests a cached region serves, limits and the order of eviction,
 * counters, and argument checks. The application is the monitor here, so that nothing depends on a
 * kernel.
 */
#include "tests/support/world.h"

#define LEN 4096

static char memory[64][LEN];

/* ---- which region serves a request ------------------------------------------------------ */

TEST(get__same_again__same_region)
{
    struct hmreg_mr *first, *second;

    world_open();
    first = world_get(memory[0], LEN);
    second = world_get(memory[0], LEN);
    assert_ptr_equal(first, second);
    assert_true(test_info_of(first).cached);
    hmreg_mr_put(first);
    hmreg_mr_put(second);
    assert_int_equal(world_calls("reg"), 1);
    assert_int_equal(world_stats().hits, 1);
    assert_int_equal(world_stats().misses, 1);
}

TEST(get__contained_range__the_larger_region)
{
    struct hmreg_mr *whole, *part;

    world_open();
    whole = world_get(memory[0], 3 * LEN);
    part = world_get(memory[0] + 1, 2 * LEN);
    assert_ptr_equal(whole, part);
    assert_int_equal(test_info_of(part).addr, (uintptr_t)memory[0]);
    assert_int_equal(test_info_of(part).len, 3 * LEN);
    hmreg_mr_put(whole);
    hmreg_mr_put(part);
}

TEST(get__no_cache_domain__registered_each_time_deregistered_at_put)
{
    struct hmreg_mr *first, *second;

    world_open(.domain.flags = HMREG_DOMAIN_NO_CACHE);
    first = world_get(memory[0], LEN);
    second = world_get(memory[0], LEN);
    assert_ptr_not_equal(first, second);
    assert_false(test_info_of(first).cached);
    hmreg_mr_put(first);
    assert_int_equal(world_live(0), 1);
    hmreg_mr_put(second);
    assert_int_equal(world_live(0), 0);
    assert_int_equal(world_stats().uncached, 2);
    assert_int_equal(world_stats().misses, 0);
}

TEST(get__max_count_0_in_the_environment__not_cached)
{
    test_setenv("FI_MR_CACHE_MAX_COUNT", "0");
    world_open();
    world_key(memory[0], LEN);
    world_key(memory[0], LEN);
    assert_int_equal(world_calls("reg"), 2);
    assert_int_equal(world_live(0), 0);
}

TEST(get__monitor_disabled__host_memory_is_not_cached)
{
    world_open(.monitor = HMREG_MONITOR_DISABLED);
    world_key(memory[0], LEN);
    world_key(memory[0], LEN);
    assert_int_equal(world_calls("reg"), 2);
    assert_int_equal(world_stats().uncached, 2);
}

TEST(get__two_domains__a_cache_each)
{
    struct hmreg_domain *other;
    struct hmreg_mr *mr;

    world_open();
    other = world_add();
    assert_int_equal(world_key(memory[0], LEN), 1);
    assert_ok(hmreg_mr_get(other, memory[0], LEN, HMREG_ACCESS_REMOTE, &mr));
    assert_int_equal(hmreg_mr_key(mr), 2);
    hmreg_mr_put(mr);
    world_change(memory[0], 1);
    assert_int_equal(world_key(memory[0], LEN), 3);
    assert_ok(hmreg_mr_get(other, memory[0], LEN, HMREG_ACCESS_REMOTE, &mr));
    assert_int_equal(hmreg_mr_key(mr), 4);
    hmreg_mr_put(mr);
}

/* ---- limits ----------------------------------------------------------------------------- */

static void touch(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        world_key(memory[i], LEN);
}

TEST(limit__working_set_of_exactly_the_limit__never_misses)
{
    world_open(.domain.max_regions = 8, .domain.max_bytes = 8 * LEN);
    for (int round = 0; round < 10; round++)
        touch(8);
    assert_int_equal(world_calls("reg"), 8);
    assert_int_equal(world_stats().regions, 8);
    assert_int_equal(world_stats().bytes, 8 * LEN);
    assert_int_equal(world_stats().evictions, 0);
    assert_int_equal(world_stats().hits, 72);
}

TEST(limit__one_region_more__what_was_not_used_goes)
{
    world_open(.domain.max_regions = 3);
    touch(3);
    assert_int_equal(world_key(memory[0], LEN), 1); /* a hit */
    assert_int_equal(world_key(memory[3], LEN), 4); /* spares 0, evicts 1 */
    assert_int_equal(world_key(memory[0], LEN), 1);
    assert_int_equal(world_key(memory[2], LEN), 3);
    assert_int_equal(world_key(memory[1], LEN), 5); /* it was evicted; this evicts 3 */
    assert_int_equal(world_stats().evictions, 2);
    assert_int_equal(world_stats().regions, 3);
    assert_int_equal(world_most(), 4); /* the fourth evicts after it is registered */
    assert_int_equal(world_key(memory[0], LEN), 1);
    assert_int_equal(world_key(memory[2], LEN), 3);
}

/* Used twice, then not during a whole turn of the clock. */
TEST(limit__not_used_for_a_turn__goes)
{
    world_open(.domain.max_regions = 8);
    touch(8);
    touch(8);
    for (unsigned i = 8; i < 16; i++)
        world_key(memory[i], LEN);
    assert_int_equal(world_stats().evictions, 8);
    for (unsigned i = 8; i < 16; i++)
        assert_int_equal(world_key(memory[i], LEN), i + 1);
}

/* An error that eviction cannot cure evicts nothing, neither one region nor all. */
TEST(limit__registration_fails_for_good__nothing_is_evicted)
{
    struct hmreg_mr *mr = NULL;

    world_open(.domain.max_regions = 8, .domain.max_bytes = 8 * LEN);
    touch(8);
    world_fail("reg", 1, -1, -EINVAL);
    for (size_t len = LEN; len <= 8 * LEN; len += LEN)
        assert_fails(hmreg_mr_get(world.domain, memory[20], len, HMREG_ACCESS_REMOTE, &mr), -EINVAL,
                     "asked to fail");
    world_heal();
    touch(8);
    assert_int_equal(world_stats().hits, 8);
    assert_int_equal(world_stats().evictions, 0);
    assert_int_equal(world_calls("dereg"), 0);
}

TEST(limit__of_bytes__holds_exactly)
{
    world_open(.domain.max_bytes = 4 * LEN);
    touch(4);
    assert_int_equal(world_stats().evictions, 0);
    world_key(memory[10], LEN + 1); /* evicts two of them */
    assert_int_equal(world_stats().evictions, 2);
    assert_int_equal(world_stats().bytes, 3 * LEN + 1);
    assert_int_equal(world_key(memory[2], LEN), 3);
}

TEST(limit__everything_pinned__served_uncached)
{
    struct hmreg_mr *held[3];

    world_open(.domain.max_regions = 2);
    for (int i = 0; i < 3; i++)
        held[i] = world_get(memory[i], LEN);
    assert_true(test_info_of(held[1]).cached);
    assert_false(test_info_of(held[2]).cached);
    assert_int_equal(world_stats().uncached, 1);
    assert_int_equal(world_stats().evictions, 0);
    for (int i = 0; i < 3; i++)
        hmreg_mr_put(held[i]);
    assert_int_equal(world_live(0), 2);
}

TEST(limit__none__nothing_is_evicted)
{
    world_open(.domain.max_regions = HMREG_LIMIT_NONE, .domain.max_bytes = HMREG_LIMIT_NONE);
    touch(64);
    touch(64);
    assert_int_equal(world_stats().regions, 64);
    assert_int_equal(world_calls("reg"), 64);
}

/* ---- invalidation and flush ------------------------------------------------------------- */

TEST(invalidate__each_region_that_touches_it__and_no_other)
{
    world_open();
    touch(4);
    world_change(memory[1] + LEN - 1, 2); /* the last byte of 1, the first of 2 */
    assert_int_equal(world_stats().invalidations, 2);
    assert_int_equal(world_key(memory[0], LEN), 1);
    assert_int_equal(world_key(memory[3], LEN), 4);
    assert_int_equal(world_key(memory[1], LEN), 5);
    assert_int_equal(world_key(memory[2], LEN), 6);
}

TEST(invalidate__another_library__ends_none_of_this_one)
{
    struct hmreg *other = NULL;

    world_open();
    touch(1);
    assert_ok(hmreg_open(NULL, &other));
    assert_ok(hmreg_invalidate(other, memory[0], LEN));
    assert_int_equal(world_key(memory[0], LEN), 1);
    assert_ok(hmreg_close(other));
}

TEST(invalidate__in_use__found_no_more_and_ends_with_the_last_put)
{
    struct hmreg_mr *first, *second, *anew;

    world_open();
    first = world_get(memory[0], LEN);
    second = world_get(memory[0], LEN);
    world_change(memory[0], LEN);
    assert_int_equal(world_stats().retired, 1);
    anew = world_get(memory[0], LEN);
    assert_ptr_not_equal(anew, first);
    assert_int_equal(hmreg_mr_key(anew), 2);
    hmreg_mr_put(first);
    assert_int_equal(hmreg_mr_key(second), 1);
    assert_int_equal(world_calls("dereg"), 0);
    hmreg_mr_put(second);
    assert_int_equal(world_calls("dereg"), 1);
    assert_int_equal(world_stats().retired, 0);
    hmreg_mr_put(anew);
}

/* ---- deregistration that fails with EBUSY ----------------------------------------------- */

TEST(put__deregistration_busy__retired_until_a_later_call)
{
    world_open(.domain.flags = HMREG_DOMAIN_NO_CACHE);
    world_fail("dereg", 1, 1, -EBUSY);
    world_key(memory[0], LEN);
    assert_int_equal(world_stats().retired, 1);
    hmreg_mr_put(world_get(memory[1], LEN)); /* EBUSY once more, then success */
    assert_int_equal(world_stats().retired, 0);
    assert_int_equal(world_live(0), 0);
}

TEST(flush__one_busy_among_many_idle__tried_once)
{
    world_open();
    touch(5);
    world_change(memory[0], LEN);
    world_fail("dereg", 1, 0, -EBUSY);
    world_key(memory[1], LEN);
    assert_int_equal(world_stats().retired, 1);
    world_fail("dereg", 1, 0, -EBUSY);
    assert_ok(hmreg_domain_flush(world.domain));
    assert_int_equal(world_stats().retired, 1);
    assert_int_equal(world_calls("dereg"), 6);
}

TEST(close__deregistration_busy__ebusy_then_closes)
{
    world_open();
    touch(2);
    world.busy = WORLD_EACH;
    assert_fails(hmreg_domain_close(world.domain), -EBUSY, "2 cached regions");
    assert_int_equal(world_live(0), 2);
    world_heal();
}

/* ---- close ------------------------------------------------------------------------------ */

TEST(close__regions_held__ebusy_and_nothing_changed)
{
    struct hmreg_mr *held;

    world_open();
    touch(3);
    held = world_get(memory[0], LEN);
    assert_fails(hmreg_domain_close(world.domain), -EBUSY, "1 cached regions");
    assert_int_equal(world_calls("dereg"), 0);
    assert_int_equal(world_stats().regions, 3);
    hmreg_mr_put(held);
}

static void *put_it(void *mr)
{
    hmreg_mr_put(mr);
    return NULL;
}

TEST(put__from_another_thread)
{
    world_open();
    test_on_a_thread(put_it, world_get(memory[0], LEN));
    assert_int_equal(world_key(memory[0], LEN), 1);
}

TEST(put__null__nothing)
{
    hmreg_mr_put(NULL);
}

static int childs_part(struct hmreg_mr *held)
{
    struct hmreg_mr *mr;

    if (hmreg_mr_get(world.domain, memory[0], LEN, HMREG_SEND, &mr) != -EPERM)
        return 1;
    if (hmreg_invalidate(world.lib, memory[0], LEN) != -EPERM ||
        hmreg_domain_flush(world.domain) != -EPERM)
        return 2;
    hmreg_mr_put(held);
    return world_calls("dereg") ? 3 : 0;
}

TEST(fork__the_child_deregisters_nothing)
{
    struct hmreg_mr *held;

    world_open();
    held = world_get(memory[0], LEN);
    test_in_child(childs_part(held));
    hmreg_mr_put(held);
}

/* ---- argument checks -------------------------------------------------------------------- */

/* Those of a get are in hmreg_mr_get.c. */
TEST(invalidate__wrong_arguments__inval)
{
    world_open();
    assert_fails(hmreg_invalidate(NULL, memory, LEN), -EINVAL, "lib is NULL");
    assert_fails(hmreg_invalidate(world.lib, memory, 0), -EINVAL, "len is 0");
}

TEST(get__success__leaves_the_last_error)
{
    struct hmreg_mr *mr;

    world_open(.domain.max_regions = 1);
    world_key(memory[0], LEN);
    world_fail("dereg", 1, 0, -EIO);
    assert_fails(hmreg_mr_get(world.domain, memory[0], 0, HMREG_SEND, &mr), -EINVAL, "len is 0");
    world_key(memory[1], LEN); /* evicts the other, whose deregistration fails */
    assert_int_equal(world_calls("dereg"), 1);
    assert_int_equal(hmreg_last_error()->code, -EINVAL);
}

TEST_MAIN()
