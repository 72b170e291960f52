/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The list of ranges, compared with one that is searched from its beginning to its end.
 */
#include "core/cache/range_list.h"
#include "tests/support/test.h"

#define SPAN 10000

static struct range model[SPAN]; /* by start; number 0: none */

static uint64_t draw(unsigned limit)
{
    return (uint64_t)random() % limit;
}

static void add(struct range_list *list, uint64_t start, uint64_t end, uint32_t number)
{
    struct range range = {start, end, number};

    range_list_add(list, range);
    model[start] = range;
}

static void begin(struct range_list *list)
{
    *list = (struct range_list){NULL, 0, 0};
    memset(model, 0, sizeof(model));
    srandom(1);
}

/* What is found contains the range; if no ranges overlap, what contains it is found. */
static void compare(const struct range_list *list, bool apart)
{
    uint64_t start = draw(SPAN), len = 1 + draw(20);
    uint32_t found = range_list_find(list, start, len, 0);
    bool right = !found, any = false;

    for (uint64_t i = 0; i <= start; i++)
        if (model[i].number && start + len <= model[i].end) {
            any = true;
            right |= model[i].number == found;
        }
    assert_true(right);
    assert_true(found || !any || !apart);
}

TEST(find__ranges_side_by_side__as_the_model)
{
    struct range_list list;

    begin(&list);
    for (uint32_t i = 0; i < 200; i++) {
        uint64_t at = i * 50;

        add(&list, at, at + 10 + draw(41), i + 1);
        for (int j = 0; j < 100; j++)
            compare(&list, true);
    }
    range_list_free(&list);
}

TEST(find__ranges_that_overlap__never_one_that_does_not_contain)
{
    struct range_list list;

    begin(&list);
    for (uint32_t i = 0; i < RANGE_LIST_MOST; i++) {
        uint64_t at = i * 7 % RANGE_LIST_MOST * 30;

        add(&list, at, at + 1 + draw(SPAN), i + 1);
        for (int j = 0; j < 100; j++)
            compare(&list, false);
    }
    range_list_free(&list);
}

TEST(find__range_within_some_others__found)
{
    struct range_list list;

    begin(&list);
    add(&list, 100, 1000, 1);
    add(&list, 200, 210, 2);
    add(&list, 300, 310, 3);
    assert_int_equal(range_list_find(&list, 205, 5, 0), 2);
    assert_int_equal(range_list_find(&list, 205, 6, 0), 1);
    assert_int_equal(range_list_find(&list, 400, 600, 0), 1);
    assert_int_equal(range_list_find(&list, 400, 601, 0), 0);
    assert_int_equal(range_list_find(&list, 99, 1, 0), 0);
    range_list_free(&list);
}

/* With one start: the one that was added last is found first. */
TEST(find__several_contain_it__each_in_turn)
{
    struct range_list list;

    begin(&list);
    add(&list, 100, 1000, 1);
    add(&list, 100, 1000, 2);
    add(&list, 100, 1000, 2);
    add(&list, 300, 310, 3);
    assert_int_equal(list.count, 3);
    assert_int_equal(range_list_find(&list, 305, 5, 0), 3);
    assert_int_equal(range_list_find(&list, 305, 5, 1), 2);
    assert_int_equal(range_list_find(&list, 305, 5, 2), 1);
    assert_int_equal(range_list_find(&list, 305, 5, 3), 0);
    range_list_free(&list);
}

static bool is_odd(const void *context, uint32_t number)
{
    return number % 2;
}

TEST(purge__even_numbers__odd_ones_stay)
{
    struct range_list list;

    begin(&list);
    for (uint32_t i = 0; i < 10; i++)
        add(&list, i * 10, i * 10 + 10, i + 1);
    range_list_purge(&list, is_odd, NULL);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(range_list_find(&list, i * 10, 10, 0), i % 2 ? 0 : i + 1);
    range_list_free(&list);
}

TEST(find__edges_of_the_address_space__found)
{
    struct range all = {1, UINT64_MAX, 7};
    struct range_list list;

    begin(&list);
    assert_int_equal(range_list_find(&list, 1, 1, 0), 0);
    range_list_add(&list, all);
    assert_int_equal(range_list_find(&list, UINT64_MAX - 1, 1, 0), 7);
    assert_int_equal(range_list_find(&list, UINT64_MAX - 1, 2, 0), 0);
    assert_int_equal(range_list_find(&list, UINT64_MAX, 1, 0), 0);
    range_list_free(&list);
}

/* The newest range is in the list, whatever it replaces. */
TEST(add__more_than_the_list_holds__replaces_one_before_it)
{
    struct range_list list;

    begin(&list);
    for (uint32_t i = 0; i < 4 * RANGE_LIST_MOST; i++) {
        uint64_t start = 10 + draw(SPAN) * 20;
        struct range range = {start, start + 10, i + 1};

        range_list_add(&list, range);
        assert_int_equal(range_list_find(&list, start, 10, 0), i + 1);
        assert_in_range(list.count, 1, RANGE_LIST_MOST);
        for (uint32_t j = 1; j < list.count; j++)
            assert_true(list.at[j - 1].start <= list.at[j].start);
    }
    assert_int_equal(list.count, RANGE_LIST_MOST);
    range_list_add(&list, (struct range){1, 2, 9999}); /* before all others */
    assert_int_equal(range_list_find(&list, 1, 1, 0), 9999);
    range_list_free(&list);
}

TEST_MAIN()
