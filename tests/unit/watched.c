/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Which memory of a vendor is watched: what was added is found by its beginning until it is freed,
 * whatever else was added or freed.
 */
#include "hmem/watched.h"
#include "tests/support/test.h"

#define PAGE UINT64_C(4096)

static uint64_t free_it(struct watched *watched, uint64_t start, bool failed)
{
    struct watched_extent ended = watched_begin_free(watched, start);

    watched_end_free(watched, start, failed, ended);
    assert_int_equal(ended.start, start);
    return ended.end - ended.start;
}

TEST(free__added__its_extent_once)
{
    static struct watched watched;

    assert_true(watched_add(&watched, 0x10000, 0x10000 + 3 * PAGE));
    assert_int_equal(free_it(&watched, 0x10000, true), 3 * PAGE);
    assert_int_equal(free_it(&watched, 0x10000, false), 3 * PAGE);
    assert_int_equal(free_it(&watched, 0x10000, false), 0);
}

/* 14.17 TiB apart, which have the first 37 bits of a 64-bit product in common. */
TEST(free__of_another__the_first_is_still_found)
{
    const uint64_t first = UINT64_C(0x7f0000000000), second = first + UINT64_C(0xe2aa80c8400);
    static struct watched watched;

    assert_true(watched_add(&watched, first, first + PAGE));
    assert_true(watched_add(&watched, second, second + PAGE));
    assert_true(free_it(&watched, second, false) >= PAGE);
    assert_true(free_it(&watched, first, false) >= PAGE);
}

/* Few of 256 bytes, of all bits that beginnings have, in pairs that differ in one bit. */
TEST(free__of_any_other__the_first_is_still_found)
{
    for (unsigned low = 8; low < 64; low++)
        for (unsigned bit = 8; bit < 64; bit++) {
            const uint64_t first = UINT64_C(1) << low, second = first ^ UINT64_C(1) << bit;
            static struct watched watched;

            memset(&watched, 0, sizeof(watched));
            assert_true(watched_add(&watched, first, first + PAGE));
            assert_true(watched_add(&watched, second, second + PAGE));
            free_it(&watched, second, false);
            assert_true(free_it(&watched, first, false) >= PAGE);
        }
}

TEST(free__many_beginnings__each_found)
{
    static struct watched watched;
    uint64_t start = 1;

    for (unsigned i = 0; i < 100000; i++) {
        start = start * UINT64_C(6364136223846793005) + 1442695040888963407u;
        assert_true(watched_add(&watched, start >> 7 & ~UINT64_C(511), (start >> 7 | 511) + 1));
    }
    start = 1;
    for (unsigned i = 0; i < 100000; i++) {
        start = start * UINT64_C(6364136223846793005) + 1442695040888963407u;
        assert_true(free_it(&watched, start >> 7 & ~UINT64_C(511), false) >= 512);
    }
}

/* GPUs' addresses beyond all of processes are exact as well: a word is free again. */
TEST(free__high_addresses__only_their_own)
{
    const uint64_t first = UINT64_C(0xffff800000000000);
    static struct watched watched;

    for (uint64_t i = 0; i < 1 << 16; i++) {
        assert_true(watched_add(&watched, first + i * PAGE, first + (i + 1) * PAGE));
        assert_int_equal(free_it(&watched, first + i * PAGE, false), PAGE);
        assert_int_equal(free_it(&watched, first + i * PAGE, false), 0);
    }
}

/* The longest with the word would end beyond all addresses. */
TEST(free__near_the_last_address__found)
{
    static struct watched watched;

    for (uint64_t i = 1; i <= 1 << 15; i++) {
        assert_true(watched_add(&watched, i << 20 | 1, (i << 20) + (UINT64_C(1) << 30)));
        assert_true(watched_add(&watched, 0 - (i << 13), 0 - (i << 13) + PAGE));
    }
    for (uint64_t i = 1; i <= 1 << 15; i++)
        assert_true(free_it(&watched, 0 - (i << 13), false) >= PAGE);
}

TEST(free__beginning_of_any_byte__found)
{
    static struct watched watched;

    for (uint64_t i = 1; i < 300; i += 7) {
        assert_true(watched_add(&watched, 0x50000 + i, 0x50000 + i + PAGE));
        assert_true(free_it(&watched, 0x50000 + i, false) >= PAGE);
    }
}

TEST(free__longer_than_lengths_that_are_kept__all_of_it)
{
    const uint64_t start = UINT64_C(1) << 45, end = start + (UINT64_C(5) << 40);
    static struct watched watched;

    assert_true(watched_add(&watched, start, end));
    assert_int_equal(free_it(&watched, start, false), end - start);
}

TEST(add__while_it_is_being_freed__refused)
{
    static struct watched watched;
    struct watched_extent ended = watched_begin_free(&watched, 0x30000);

    assert_false(watched_add(&watched, 0x30000, 0x30000 + PAGE));
    watched_end_free(&watched, 0x30000, false, ended);
    assert_true(watched_add(&watched, 0x30000, 0x30000 + PAGE));
}

TEST_MAIN()
