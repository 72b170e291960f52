/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * HMREG_DEBUG=puts: a put without a get is reported and has no effect; valid ones work as usual.
 */
#include "tests/support/world.h"

#define LEN 4096

static char memory[4][LEN];

static void expect_found(struct hmreg_mr *mr, const char *words)
{
    world_old_error();
    hmreg_mr_put(mr);
    assert_int_equal(hmreg_last_error()->code, -EINVAL);
    if (!strstr(hmreg_last_error()->text, words))
        fail_msg("\"%s\" is not in \"%s\"", words, hmreg_last_error()->text);
}

static void open_checking(uint64_t max_regions)
{
    test_setenv("HMREG_DEBUG", "puts");
    world_open(.domain.max_regions = max_regions);
    world_old_error();
}

TEST(put__twice__found_and_the_region_serves_on)
{
    struct hmreg_mr *mr;

    open_checking(0);
    mr = world_get(memory[0], LEN);
    hmreg_mr_put(mr);
    assert_true(world_error_is_old());
    expect_found(mr, "no get holds it");
    expect_found(mr, "+4096");
    assert_int_equal(world_stats().wrong_puts, 2);
    assert_int_equal(world_key(memory[0], LEN), 1);
    assert_int_equal(world_calls("dereg"), 0);
}

/* No other region uses its entry yet. */
TEST(put__of_an_evicted_region__found)
{
    struct hmreg_mr *mr, *held, *uncached;

    open_checking(1);
    mr = world_get(memory[0], LEN);
    hmreg_mr_put(mr);
    held = world_get(memory[1], LEN);
    uncached = world_get(memory[2], LEN);
    expect_found(mr, "no get holds it");
    assert_int_equal(world_live(0), 2);
    hmreg_mr_put(uncached);
    hmreg_mr_put(held);
    world_old_error();
    world_key(memory[3], LEN);
    assert_true(world_error_is_old());
    assert_int_equal(world_stats().wrong_puts, 1);
}

TEST(put__of_an_explicit_region__found)
{
    struct hmreg_mr *mr = NULL;

    open_checking(0);
    assert_ok(hmreg_mr_reg(world.domain, memory[0], LEN, HMREG_SEND, 0, 0, 0, &mr, NULL));
    expect_found(mr, "hmreg_mr_close()");
    assert_ok(hmreg_mr_close(mr));
}

TEST(put__after_everything_was_closed__found)
{
    struct hmreg_mr *mr;

    open_checking(0);
    mr = world_get(memory[0], LEN);
    hmreg_mr_put(mr);
    test_finish();
    expect_found(mr, "its domain was closed");
}

/* So many that entries are reused, which takes 65536 others. */
TEST(put__right_ones__nothing_is_found)
{
    struct hmreg_mr *first, *second;

    open_checking(1);
    for (unsigned i = 0; i < 70000; i++)
        world_key(memory[i % 2], LEN);
    first = world_get(memory[0], LEN);
    second = world_get(memory[0], LEN);
    assert_ptr_equal(first, second);
    hmreg_mr_put(first);
    hmreg_mr_put(second);
    assert_true(world_error_is_old());
    assert_int_equal(world_stats().wrong_puts, 0);
}

TEST(open__wrong_value__einval)
{
    struct hmreg *lib = NULL;

    test_setenv("HMREG_DEBUG", "put");
    assert_fails(hmreg_open(NULL, &lib), -EINVAL, "HMREG_DEBUG=put: accepted are puts");
}

TEST_MAIN()
