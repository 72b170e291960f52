/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The cache over many calls: limits and the order of eviction, domains, children. What one call
 * does is in hmreg_mr_get.c, hmreg_mr_put.c and hmreg_invalidate.c. The application is the monitor
 * here, so that nothing depends on a kernel.
 */
#include "tests/support/world.h"

#define LEN 4096

static char memory[64][LEN];

/* ---- which region serves a request ------------------------------------------------------ */

TEST(get__max_count_0_in_the_environment__not_cached)
{
    test_setenv("FI_MR_CACHE_MAX_COUNT", "0");
    world_open();
    world_key(memory[0], LEN);
    world_key(memory[0], LEN);
    assert_int_equal(world_calls("reg"), 2);
    assert_int_equal(world_live(0), 0);
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

/* ---- threads and children --------------------------------------------------------------- */

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

TEST_MAIN()
