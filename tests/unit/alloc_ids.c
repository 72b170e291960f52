/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Allocation ids: look-ups find one until its notice arrives, and never after, whatever the address
 * is used for next.
 */
#include "hmem/alloc_ids.h"
#include "tests/support/test.h"

#include <pthread.h>

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

TEST_MAIN()
