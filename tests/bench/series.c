/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Results of measured values: medians, ratios, verdicts; and the table of targets. */
#include "bench/fixture.h"
#include "bench/bench.h"
#include "bench/series.h"
#include "bench/subject.h"
#include "bench/table.h"
#include "tests/support/test.h"

static bool near(double value, double expected)
{
    return value > expected - 1e-9 && value < expected + 1e-9;
}

static void add(const char *measure, const char *who, size_t count, const double *values)
{
    for (size_t i = 0; i < count; i++)
        series_add(measure, who, "ns", values[i]);
}

TEST(spread__odd_count__the_middle)
{
    struct spread spread = spread_of((const double[]){5, 1, 4, 2, 3}, 5);

    assert_true(near(spread.median, 3));
    assert_true(near(spread.low, 2));
    assert_true(near(spread.high, 4));
}

TEST(spread__even_count__between_the_middle_two)
{
    assert_true(near(spread_of((const double[]){8, 1, 2, 4}, 4).median, 3));
}

TEST(spread__one_value__is_all)
{
    struct spread spread = spread_of((const double[]){7}, 1);

    assert_true(near(spread.low, 7) && near(spread.median, 7) && near(spread.high, 7));
}

TEST(ratio__is_of_the_same_turn)
{
    struct spread ratio = {0};

    /* A machine twice as slow in the second turn, for both. */
    add("same-turn", "us", 3, (const double[]){10, 20, 10});
    add("same-turn", "them", 3, (const double[]){5, 10, 5});
    assert_true(
        spread_of_ratios(series_find("same-turn", "us"), series_find("same-turn", "them"), &ratio));
    assert_true(near(ratio.low, 2) && near(ratio.high, 2));
}

TEST(ratio__other_turns__of_medians)
{
    struct spread ratio = {0};

    add("other-turns", "us", 3, (const double[]){10, 20, 30});
    add("other-turns", "them", 1, (const double[]){40});
    assert_true(spread_of_ratios(series_find("other-turns", "us"),
                                 series_find("other-turns", "them"), &ratio));
    assert_true(near(ratio.median, 0.5));
}

TEST(ratio__beside_nothing__none)
{
    struct spread ratio = {0};

    add("zero", "us", 2, (const double[]){1, 1});
    add("zero", "them", 2, (const double[]){1, 0});
    assert_false(spread_of_ratios(series_find("zero", "us"), series_find("zero", "them"), &ratio));
}

/* ---- verdicts --------------------------------------------------------------------------- */

static enum verdict verdict_of(enum judge judge, double target, const char *who)
{
    struct row row = {"part", "title", "verdict", who, NULL, "peer", judge, target};
    struct result result;

    assert_true(row_result(&row, &result));
    return result.verdict;
}

TEST(verdict__each_kind)
{
    add("verdict", "us", 3, (const double[]){2, 3, 10});
    add("verdict", "peer", 3, (const double[]){4, 6, 10});
    assert_int_equal(verdict_of(RATIO, 0.5, "us"), MET);
    assert_int_equal(verdict_of(RATIO, 0.49, "us"), MISSED);
    assert_int_equal(verdict_of(VALUE, 3, "us"), MET);
    assert_int_equal(verdict_of(VALUE, 2.9, "us"), MISSED);
    assert_int_equal(verdict_of(REPORTED, 0, "us"), NO_TARGET);
}

TEST(verdict__absent__not_measured_and_why)
{
    struct row row = {"part", "title", "gone", "us", NULL, NULL, VALUE, 1};
    struct result result;

    series_absent("gone", "us", "ns", "no such machine");
    assert_true(row_result(&row, &result));
    assert_int_equal(result.verdict, NOT_MEASURED);
    assert_string_equal(result.absent, "no such machine");
}

/* A worker that died half-way has values, which the report must not use. */
TEST(verdict__died_after_some_turns__not_measured)
{
    struct row row = {"part", "title", "died", "us", NULL, NULL, VALUE, 1e9};
    struct result result;

    series_add("died", "us", "ns", 1);
    series_absent("died", "us", "ns", "failed: its process died");
    assert_true(row_result(&row, &result));
    assert_int_equal(result.verdict, NOT_MEASURED);
}

TEST(verdict__peer_absent__no_ratio_is_judged)
{
    struct row row = {"part", "title", "alone", "us", NULL, "them", RATIO, 1e9};
    struct result result;

    series_add("alone", "us", "ns", 1);
    series_absent("alone", "them", "ns", "built without libucx-dev");
    assert_true(row_result(&row, &result));
    assert_int_equal(result.verdict, NOT_MEASURED);
    assert_string_equal(result.absent, "built without libucx-dev");
}

TEST(row__of_what_was_not_asked_for__none)
{
    struct row row = {"part", "title", "never", "us", NULL, NULL, VALUE, 1};
    struct result result;

    assert_false(row_result(&row, &result));
}

/* ---- the table -------------------------------------------------------------------------- */

/* "measure / beside <= target" of each row with a target, in the table's order. */
TEST(table__has_every_target_and_no_other)
{
    static const char *const targets[] = {
        "hits-1 / UCX <= 0.4",
        "hits-10 / UCX <= 0.4",
        "hits-100 / UCX <= 0.4",
        "hits-1000 / UCX <= 0.4",
        "hits-10000 / UCX <= 0.5",
        "hits-100000 / UCX <= 0.5",
        "hits-1000000 / UCX <= 0.5",
        "hits-1 / bare ioctl <= 1.6",
        "threads-distinct-1000 / hmreg default, 2 processes <= 1.5",
        "threads-same-1 / hmreg default, 2 processes <= 1.5",
        "miss-first <= 600",
        "miss-again <= 600",
        "miss-evicting <= 600",
        "cover-tensors / each exactly <= 0.067",
        "suspend-10000 / close and register <= 1.1",
        "withdraw-slept <= 200",
        "replace-10000 / registered by itself <= 1.1",
        "stall-slept-registering <= 20",
        "pause-fill-1000000 <= 200",
        "pause-unmap-1000000 <= 200",
        "pause-after-1000000 <= 200",
        "program-fork / without hmreg <= 1.05",
        "program-mremap-tables / without hmreg <= 1.1",
        "freed-longest <= 10",
        "freed-longest <= 10",
        "freed-longest <= 10",
        "held-above <= 400",
        "held-above <= 400",
        "held-above <= 400",
        "held-hit-attr / tcp, host <= 1.5",
        "held-hit-claim / tcp, host <= 1.5",
        "plugin-again-1 / plugin with a list <= 1.2",
        "plugin-again-10000 / plugin with a list <= 1.2",
        "large-4k-first / one worker <= 1.05",
        "large-2m-first / one worker <= 1.05",
        "inlined-64m / memchr <= 2",
        "footprint-100000 <= 176",
        "remotes-bytes-100000 <= 96",
    };
    const struct row *row;
    char words[200];
    size_t found = 0;

    for (size_t i = 0; (row = row_at(i)) != NULL; i++) {
        if (row->judge == REPORTED)
            continue;
        snprintf(words, sizeof(words), "%s%s%s <= %g", row->measure,
                 row->judge == RATIO ? " / " : "", row->judge == RATIO ? row->beside : "",
                 row->target);
        assert_true(found < sizeof(targets) / sizeof(targets[0]));
        assert_string_equal(words, targets[found++]);
    }
    assert_int_equal(found, sizeof(targets) / sizeof(targets[0]));
}

/* Each hit under userfaultfd makes a system call, and UCX's makes none. */
TEST(table__userfaultfd__never_beside_ucx)
{
    const struct row *row;

    for (size_t i = 0; (row = row_at(i)) != NULL; i++)
        if (strstr(row->who, WHO_USERFAULT) && row->beside && strstr(row->beside, WHO_UCX))
            fail_msg("%s, %s", row->part, row->title);
}

static bool is_same(const struct row *one, const struct row *other)
{
    return !strcmp(one->title, other->title) && !strcmp(one->measure, other->measure) &&
           !strcmp(one->who, other->who) && one->beside && other->beside &&
           !strcmp(one->beside, other->beside);
}

TEST(table__no_row_twice_parts_together)
{
    const struct row *row, *other;

    for (size_t i = 0; (row = row_at(i)) != NULL; i++) {
        bool left = false;

        for (size_t j = i + 1; (other = row_at(j)) != NULL; j++) {
            if (is_same(row, other))
                fail_msg("twice: %s, %s, %s", row->part, row->title, row->who);
            left = left || strcmp(row->part, other->part);
            if (left && !strcmp(row->part, other->part))
                fail_msg("in two places: %s", row->part);
        }
    }
}

/* ---- series ----------------------------------------------------------------------------- */

TEST(series__more_than_a_run_has__each_is_found)
{
    const struct series *first;
    char measure[32];

    series_add("many-0", "us", "ns", 0);
    first = series_find("many-0", "us");
    for (int i = 1; i < 2000; i++) {
        snprintf(measure, sizeof(measure), "many-%d", i);
        series_add(measure, "us", "ns", i);
    }
    assert_ptr_equal(series_find("many-0", "us"), first);
    assert_true(series_find("many-1999", "us")->values[0] == 1999);
}

/* ---- orders ----------------------------------------------------------------------------- */

TEST(order__every_region_as_often)
{
    unsigned seen[30] = {0};
    struct order order;

    order_shuffle(&order, 10, 20, 1);
    assert_true(order.count >= ORDER_AT_LEAST - 20);
    for (size_t i = 0; i < order.count; i++) {
        assert_in_range(order.at[i], 10, 29);
        seen[order.at[i]]++;
    }
    for (size_t i = 10; i < 30; i++)
        assert_int_equal(seen[i], order.count / 20);
    free(order.at);
}

TEST(order__another_seed__another_order)
{
    struct order one, same, other;

    order_shuffle(&one, 0, 1000, 1);
    order_shuffle(&same, 0, 1000, 1);
    order_shuffle(&other, 0, 1000, 2);
    assert_memory_equal(one.at, same.at, one.count * sizeof(*one.at));
    assert_memory_not_equal(one.at, other.at, one.count * sizeof(*one.at));
    free(one.at);
    free(same.at);
    free(other.at);
}

TEST(order__sorted__is_not_shuffled)
{
    struct order order;

    order_sorted(&order, 5, 3);
    assert_int_equal(order.count, 3);
    assert_int_equal(order.at[0], 5);
    assert_int_equal(order.at[2], 7);
    free(order.at);
}

TEST_MAIN()
