/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What vendors note of their memory. Allocation ids: look-ups find one until its notice arrives,
 * and never after, whatever the address is used for next. Watched memory: what was added is found
 * by its beginning until it is freed, whatever else was added or freed.
 */

/* Races of a notice with the next use of an address, which no runtime can be made to have. */
#include "hmem/alloc_ids.h"
#include "hmem/watched.h"

#include "tests/support/test.h"

#include <pthread.h>

/* ---- allocation ids -------------------------------------------------------------------------- */

#define MANY 500
#define PAGE 4096u

static void forgotten(void *arg, uint64_t base)
{
    unsigned *count = arg;

    if (count)
        (*count)++;
}

/* A vendor's calls for an allocation whose notice the runtime accepted. */
static uint64_t number(struct alloc_ids *table, uint64_t base, size_t len, struct alloc_id **slot)
{
    *slot = alloc_ids_draw(table, base, len);
    assert_non_null(*slot);
    return alloc_ids_enter(table, *slot);
}

TEST(find__empty_table__nothing)
{
    static struct alloc_ids table = ALLOC_IDS_INITIALIZER;

    assert_int_equal(alloc_ids_find(&table, 0x1000, 1), 0);
}

TEST(find__inside__number)
{
    static struct alloc_ids table = ALLOC_IDS_INITIALIZER;
    struct alloc_id *slot;
    uint64_t n = number(&table, 0x1000, 0x100, &slot);

    assert_int_not_equal(n, 0);
    assert_int_equal(alloc_ids_find(&table, 0x1000, 0x100), n);
    assert_int_equal(alloc_ids_find(&table, 0x1000, 1), n);
    assert_int_equal(alloc_ids_find(&table, 0x10ff, 1), n);
    alloc_ids_forget(&table, forgotten, NULL);
}

TEST(find__partly_outside__nothing)
{
    static struct alloc_ids table = ALLOC_IDS_INITIALIZER;
    struct alloc_id *slot;

    number(&table, 0x1000, 0x100, &slot);
    assert_int_equal(alloc_ids_find(&table, 0xfff, 1), 0);
    assert_int_equal(alloc_ids_find(&table, 0xfff, 2), 0);
    assert_int_equal(alloc_ids_find(&table, 0x1001, 0x100), 0);
    assert_int_equal(alloc_ids_find(&table, 0x1100, 1), 0);
    assert_int_equal(alloc_ids_find(&table, 0x1080, SIZE_MAX), 0);
    alloc_ids_forget(&table, forgotten, NULL);
}

TEST(end__same_address_again__another_number)
{
    static struct alloc_ids table = ALLOC_IDS_INITIALIZER;
    struct alloc_id *slot;
    uint64_t before = number(&table, 0x1000, 0x100, &slot);
    uint64_t after;

    alloc_ids_end(slot);
    assert_int_equal(alloc_ids_find(&table, 0x1000, 0x100), 0);
    after = number(&table, 0x1000, 0x100, &slot);
    assert_int_not_equal(after, 0);
    assert_int_not_equal(after, before);
    assert_int_equal(alloc_ids_find(&table, 0x1000, 0x100), after);
    alloc_ids_forget(&table, forgotten, NULL);
}

TEST(end__before_enter__nothing)
{
    static struct alloc_ids table = ALLOC_IDS_INITIALIZER;
    struct alloc_id *slot = alloc_ids_draw(&table, 0x1000, 0x100);

    alloc_ids_end(slot);
    assert_int_equal(alloc_ids_enter(&table, slot), 0);
    assert_int_equal(alloc_ids_find(&table, 0x1000, 1), 0);
    alloc_ids_forget(&table, forgotten, NULL);
}

TEST(enter__twice_for_one_allocation__first_number)
{
    static struct alloc_ids table = ALLOC_IDS_INITIALIZER;
    struct alloc_id *first, *second;
    uint64_t n = number(&table, 0x1000, 0x100, &first);

    assert_int_equal(number(&table, 0x1000, 0x100, &second), n);
    alloc_ids_forget(&table, forgotten, NULL);
}

TEST(enter__overlaps_live_one__refused)
{
    static struct alloc_ids table = ALLOC_IDS_INITIALIZER;
    struct alloc_id *slot;
    uint64_t n = number(&table, 0x1000, 0x100, &slot);

    assert_int_equal(number(&table, 0x1080, 0x100, &slot), 0);
    assert_int_equal(number(&table, 0xf80, 0x100, &slot), 0);
    assert_int_equal(number(&table, 0x1000, 0x80, &slot), 0);
    assert_int_equal(alloc_ids_find(&table, 0x1000, 0x100), n);
    alloc_ids_forget(&table, forgotten, NULL);
}

TEST(enter__over_ended_ones__replaces_them)
{
    static struct alloc_ids table = ALLOC_IDS_INITIALIZER;
    struct alloc_id *slots[8], *large;
    uint64_t n;

    for (unsigned i = 0; i < 8; i++)
        number(&table, 0x1000 + i * 0x100, 0x100, &slots[i]);
    for (unsigned i = 0; i < 8; i++)
        alloc_ids_end(slots[i]);
    n = number(&table, 0x1000, 0x800, &large);
    assert_int_not_equal(n, 0);
    assert_int_equal(alloc_ids_find(&table, 0x1000, 0x800), n);
    assert_int_equal(alloc_ids_find(&table, 0x17ff, 1), n);
    alloc_ids_forget(&table, forgotten, NULL);
}

TEST(many__any_order__each_found)
{
    static struct alloc_ids table = ALLOC_IDS_INITIALIZER;
    struct alloc_id *slots[MANY];
    uint64_t numbers[MANY];

    for (unsigned i = 0; i < MANY; i++) {
        unsigned at = i * 7 % MANY;

        numbers[at] = number(&table, (at + 1) * PAGE, PAGE, &slots[at]);
    }
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(alloc_ids_find(&table, (i + 1) * PAGE + 17, 100), numbers[i]);
    for (unsigned i = 0; i < MANY; i += 2)
        alloc_ids_end(slots[i]);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(alloc_ids_find(&table, (i + 1) * PAGE, PAGE), i % 2 ? numbers[i] : 0);
    alloc_ids_forget(&table, forgotten, NULL);
}

static unsigned length(const struct alloc_id *list)
{
    unsigned count = 0;

    for (; list; list = list->next)
        count++;
    return count;
}

TEST(draw__many_short_lives__slots_are_used_again)
{
    static struct alloc_ids table = ALLOC_IDS_INITIALIZER;
    struct alloc_id *slot;

    for (unsigned i = 0; i < 100 * MANY; i++) {
        assert_int_not_equal(number(&table, (i % 7 + 1) * PAGE, PAGE, &slot), 0);
        alloc_ids_end(slot);
    }
    assert_true(length(table.drawn) + length(table.spare) < MANY);
    alloc_ids_forget(&table, forgotten, NULL);
}

TEST(forget__live_ones__withdrawn_and_gone)
{
    static struct alloc_ids table = ALLOC_IDS_INITIALIZER;
    struct alloc_id *live, *ended;
    unsigned revoked = 0;

    number(&table, 0x1000, 0x100, &live);
    number(&table, 0x2000, 0x100, &ended);
    alloc_ids_end(ended);
    alloc_ids_forget(&table, forgotten, &revoked);
    assert_int_equal(revoked, 1);
    assert_int_equal(alloc_ids_find(&table, 0x1000, 1), 0);
    assert_int_not_equal(number(&table, 0x1000, 0x100, &live), 0);
    alloc_ids_forget(&table, forgotten, NULL);
}

/* ---- readers beside a writer ------------------------------------------------------------ */

struct shared {
    struct alloc_ids table;
    uint64_t steady;        /* the id of a long-lived allocation */
    _Atomic uint64_t ended; /* ids up to this one have ended, except the steady one */
    _Atomic bool stop;
};

static void *read_all(void *arg)
{
    struct shared *shared = arg;
    uintptr_t wrong = 0;

    while (!shared->stop) {
        for (unsigned i = 0; i < 64; i++) {
            uint64_t over = shared->ended;
            uint64_t n = alloc_ids_find(&shared->table, (i + 1) * PAGE, PAGE);

            wrong += n && n <= over;
        }
        wrong += alloc_ids_find(&shared->table, 1000 * PAGE, 1) != shared->steady;
    }
    return (void *)wrong;
}

/* Sixty-four addresses are freed and reused all the time: a reader that began after an end was
 * known never gets the old id. */
TEST(find__beside_a_writer__never_an_ended_number)
{
    static struct shared shared = {.table = ALLOC_IDS_INITIALIZER};
    struct alloc_id *slots[64] = {0}, *steady;
    pthread_t readers[2];
    void *wrong;

    shared.steady = number(&shared.table, 1000 * PAGE, PAGE, &steady);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_all, &shared), 0);
    for (unsigned round = 0; round < 200; round++) {
        uint64_t last = 0;

        for (unsigned i = 0; i < 64; i++)
            last = number(&shared.table, (i * 5 % 64 + 1) * PAGE, PAGE, &slots[i]);
        for (unsigned i = 0; i < 64; i++)
            alloc_ids_end(slots[i]);
        shared.ended = last;
    }
    shared.stop = true;
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(readers[i], &wrong), 0);
        assert_int_equal((uintptr_t)wrong, 0);
    }
    alloc_ids_forget(&shared.table, forgotten, NULL);
}

/* ---- watched memory -------------------------------------------------------------------------- */

#define WATCHED_PAGE UINT64_C(4096)

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

    assert_true(watched_add(&watched, 0x10000, 0x10000 + 3 * WATCHED_PAGE));
    assert_int_equal(free_it(&watched, 0x10000, true), 3 * WATCHED_PAGE);
    assert_int_equal(free_it(&watched, 0x10000, false), 3 * WATCHED_PAGE);
    assert_int_equal(free_it(&watched, 0x10000, false), 0);
}

/* 14.17 TiB apart, which have the first 37 bits of a 64-bit product in common. */
TEST(free__of_another__the_first_is_still_found)
{
    const uint64_t first = UINT64_C(0x7f0000000000), second = first + UINT64_C(0xe2aa80c8400);
    static struct watched watched;

    assert_true(watched_add(&watched, first, first + WATCHED_PAGE));
    assert_true(watched_add(&watched, second, second + WATCHED_PAGE));
    assert_true(free_it(&watched, second, false) >= WATCHED_PAGE);
    assert_true(free_it(&watched, first, false) >= WATCHED_PAGE);
}

/* Few of 256 bytes, of all bits that beginnings have, in pairs that differ in one bit. */
TEST(free__of_any_other__the_first_is_still_found)
{
    for (unsigned low = 8; low < 64; low++)
        for (unsigned bit = 8; bit < 64; bit++) {
            const uint64_t first = UINT64_C(1) << low, second = first ^ UINT64_C(1) << bit;
            static struct watched watched;

            memset(&watched, 0, sizeof(watched));
            assert_true(watched_add(&watched, first, first + WATCHED_PAGE));
            assert_true(watched_add(&watched, second, second + WATCHED_PAGE));
            free_it(&watched, second, false);
            assert_true(free_it(&watched, first, false) >= WATCHED_PAGE);
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
        assert_true(
            watched_add(&watched, first + i * WATCHED_PAGE, first + (i + 1) * WATCHED_PAGE));
        assert_int_equal(free_it(&watched, first + i * WATCHED_PAGE, false), WATCHED_PAGE);
        assert_int_equal(free_it(&watched, first + i * WATCHED_PAGE, false), 0);
    }
}

/* The longest with the word would end beyond all addresses. */
TEST(free__near_the_last_address__found)
{
    static struct watched watched;

    for (uint64_t i = 1; i <= 1 << 15; i++) {
        assert_true(watched_add(&watched, i << 20 | 1, (i << 20) + (UINT64_C(1) << 30)));
        assert_true(watched_add(&watched, 0 - (i << 13), 0 - (i << 13) + WATCHED_PAGE));
    }
    for (uint64_t i = 1; i <= 1 << 15; i++)
        assert_true(free_it(&watched, 0 - (i << 13), false) >= WATCHED_PAGE);
}

TEST(free__beginning_of_any_byte__found)
{
    static struct watched watched;

    for (uint64_t i = 1; i < 300; i += 7) {
        assert_true(watched_add(&watched, 0x50000 + i, 0x50000 + i + WATCHED_PAGE));
        assert_true(free_it(&watched, 0x50000 + i, false) >= WATCHED_PAGE);
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

    assert_false(watched_add(&watched, 0x30000, 0x30000 + WATCHED_PAGE));
    watched_end_free(&watched, 0x30000, false, ended);
    assert_true(watched_add(&watched, 0x30000, 0x30000 + WATCHED_PAGE));
}

TEST_MAIN()
