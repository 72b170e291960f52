/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The cache over many calls where the model of tests/model, which knows the usual rules, does not
 * go. What one call does is in hmreg_mr_get.c, hmreg_mr_put.c and hmreg_invalidate.c. The
 * application is the monitor here, so that nothing depends on a kernel.
 */
#include "tests/support/world.h"

#define LEN  4096
#define MANY 500

static char memory[MANY][LEN];

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

/* ---- ends ------------------------------------------------------------------------------- */

/* Deregistering filled the hole with the last entry in another library, which broke the order for
 * look-ups. */
TEST(invalidate__some_of_many__all_others_are_found)
{
    static uint64_t keys[MANY];

    world_open();
    for (unsigned i = 0; i < MANY; i++)
        keys[i] = world_key(memory[(i * 7) % MANY], LEN);
    for (unsigned i = 0; i < MANY; i += 3)
        world_change(memory[(i * 7) % MANY], LEN);
    for (unsigned i = 0; i < MANY; i++) {
        uint64_t key = world_key(memory[(i * 7) % MANY], LEN);

        assert_int_equal(key == keys[i], i % 3 != 0);
    }
}

TEST_MAIN()
