/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Hits that are not in the first slot of their request: of requests that share a slot, of parts of
 * larger regions, of regions with more rights. They take no lock and read no change: the tests hide
 * the thread caches from searches, and count what only the out-of-line path calls.
 */
#include "tests/unit/hits.h"

#include <sys/mman.h>

static void hide_tables(void)
{
    if (inside_is_fenced(fixture.domain))
        test_skip("no membarrier(2) here: every hit takes the other path");
    inside_hide_tables(fixture.domain);
}

/* Where the domain permits more rights than were asked for. */
TEST(rights__fewer_than_the_regions__hit_without_a_search)
{
    static const uint64_t rights[] = {HMREG_REMOTE_READ, HMREG_ACCESS_REMOTE, HMREG_REMOTE_WRITE};
    struct hmreg_domain_config config = {.size = sizeof(config), .rights = HMREG_RIGHTS_ANY};
    struct hmreg_mr *first, *mr = NULL;

    fixture_open(HMREG_MONITOR_IMPORT, &config);
    first = fixture_get(memory[0], 2 * LEN);
    hmreg_mr_put(first);
    assert_int_equal(fixture_key(memory[1], LEN), hmreg_mr_key(first)); /* a part */
    hide_tables();
    drains = 0;
    for (unsigned i = 0; i < 9; i++) {
        assert_ok(hmreg_mr_get(fixture.domain, memory[0] + i / 3, LEN, rights[i % 3], &mr));
        assert_ptr_equal(mr, first);
        hmreg_mr_put(mr);
    }
    assert_int_equal(drains, 0);
    inside_show_tables(fixture.domain);
    mr = NULL;
    assert_fails(hmreg_mr_get(fixture.domain, memory[0], LEN, 0, &mr), -EINVAL, "access");
    assert_fails(hmreg_mr_get(fixture.domain, memory[0], LEN, HMREG_REMOTE_READ | 1, &mr), -EINVAL,
                 "unknown bits");
    assert_null(mr);
    assert_ok(hmreg_mr_get(fixture.domain, memory[0], LEN, HMREG_REMOTE_READ | HMREG_SEND, &mr));
    assert_ptr_not_equal(mr, first); /* which has not all of these */
    hmreg_mr_put(mr);
}

/* ---- parts of larger regions ------------------------------------------------------------ */

TEST(part__never_asked_before__hits_on_the_fast_path)
{
    open_fixture(0);
    fixture_key(memory[0], sizeof(memory));
    fixture_key(memory[1], LEN); /* from now on parts are expected */
    hide_tables();
    drains = 0;
    for (unsigned i = 2; i < 1000; i++)
        assert_int_equal(fixture_key(memory[i], LEN), 1);
    assert_int_equal(drains, 0);
    inside_show_tables(fixture.domain);
    assert_true(inside_table_used(fixture.domain) > 500); /* most have slots of their own by now */
    assert_int_equal(fixture_stats().hits, 1 + 998);
}

TEST(part__of_more_regions_than_are_kept__each_its_own)
{
    enum { LARGE = 2 * INSIDE_LARGER, EACH = MANY / LARGE };

    open_fixture(0);
    for (unsigned i = 0; i < LARGE; i++)
        assert_int_equal(fixture_key(memory[i * EACH], EACH * LEN), i + 1);
    for (unsigned part = 1; part < EACH; part++)
        for (unsigned i = 0; i < LARGE; i++)
            assert_int_equal(fixture_key(memory[i * EACH + part], LEN), i + 1);
    assert_int_equal(atomic_load(&counter.regs), LARGE);
}

/* Also when regions that are got whole need room in it. */
TEST(part__more_than_a_table_holds__the_table_stays_small)
{
    enum { LARGE = 24, EACH = 8 << 20, APART = 2048 };
    char *start = fixture_reserve((size_t)LARGE * EACH / fixture_page());

    open_fixture(0);
    for (size_t i = 0; i < LARGE; i++)
        fixture_key(start + i * EACH, EACH);
    for (size_t part = APART; part < EACH; part += APART) {
        for (size_t i = 0; i < LARGE; i++)
            assert_int_equal(fixture_key(start + i * EACH + part, 8), i + 1);
        if (part / APART % 256 == 0)
            fixture_key(memory[part / APART], LEN);
    }
    assert_int_equal(inside_table_size(fixture.domain), 1 << 15);
    fixture_close();
    munmap(start, (size_t)LARGE * EACH);
}

/* Two regions of one range, for different rights; the parts are asked for with either in turn. */
TEST(part__of_two_regions_with_other_rights__both_hit_on_the_fast_path)
{
    static const uint64_t rights[] = {HMREG_SEND, HMREG_RECV};
    struct hmreg_mr *mr;

    open_fixture(0);
    for (unsigned i = 0; i < 4; i++) {
        assert_ok(hmreg_mr_get(fixture.domain, memory[i / 2], i < 2 ? sizeof(memory) : LEN,
                               rights[i % 2], &mr));
        hmreg_mr_put(mr);
    }
    hide_tables();
    drains = 0;
    for (unsigned i = 4; i < 1000; i++) {
        assert_ok(hmreg_mr_get(fixture.domain, memory[i], LEN, rights[i % 2], &mr));
        assert_int_equal(hmreg_mr_key(mr), i % 2 + 1);
        hmreg_mr_put(mr);
    }
    assert_int_equal(drains, 0);
    inside_show_tables(fixture.domain);
}

/* More regions that have ended than a search looks at begin between the larger one and its parts.
 */
TEST(part__behind_several_regions_that_were_evicted__few_leave_the_fast_path)
{
    struct hmreg_mr *whole;

    open_fixture(9);
    for (unsigned i = 0; i < 8; i++) {
        fixture_key(memory[100 + 10 * i], 10 * LEN);
        fixture_key(memory[101 + 10 * i], LEN);
    }
    whole = fixture_get(memory[0], sizeof(memory));
    for (unsigned i = 0; i < 8; i++)
        hmreg_mr_put(fixture_get((char *)&fixture + i, 1)); /* evict these eight */
    assert_int_equal(fixture_stats().evictions, 8);
    fixture_key(memory[300], LEN);
    hide_tables();
    drains = 0;
    for (unsigned i = 301; i < 400; i++)
        assert_int_equal(fixture_key(memory[i], LEN), hmreg_mr_key(whole));
    assert_in_range(drains, 0, 30); /* whose first slot is of a region that ended */
    inside_show_tables(fixture.domain);
    hmreg_mr_put(whole);
}

/* ---- the gate --------------------------------------------------------------------------- */

/* Events of the kernel concern memory that the monitor watches. */
TEST(hit__of_memory_that_is_not_watched__by_the_table_while_events_are_read)
{
    open_fixture(0);
    fixture_key(memory[0], LEN);
    drains = 0;
    assert_int_equal(fixture_key(memory[0], LEN), 1);
    assert_int_equal(drains, 0);
    inside_set_reading(fixture.domain, true);
    assert_int_equal(fixture_key(memory[0], LEN), 1);
    assert_int_equal(drains, 1); /* by the thread's own table: a search in the tree drains again */
    inside_set_reading(fixture.domain, false);
    assert_int_equal(atomic_load(&counter.regs), 1);
}

TEST(hit__of_a_domain_whose_memory_is_counted__fast_while_all_counts_are_read)
{
    static uint64_t made;

    open_fixture(0);
    inside_count_by(fixture.domain, &made);
    for (int round = 0; round < 2; round++) /* then all are in the table */
        for (int i = 0; i < 2; i++)
            fixture_key(memory[i], LEN);
    for (made = 0; made < 2; made++) {
        drains = 0;
        fixture_key(memory[0], LEN);
        assert_int_equal(drains, made);
    }
}

TEST_MAIN()
