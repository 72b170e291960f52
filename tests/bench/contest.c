/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Contestants: the order of turns, the values that are kept, and a contestant that fails. */
#include "bench/actor.h"
#include "bench/bench.h"
#include "bench/series.h"
#include "bench/stepper.h"
#include "tests/support/test.h"

#include <signal.h>
#include <unistd.h>

static void *open_number(const void *arg)
{
    double *turns = calloc(1, sizeof(*turns));

    *turns = *(const double *)arg;
    return turns;
}

static void count_turns(void *state, int worker, double *values)
{
    double *turns = state;

    values[0] = *turns;
    values[1] = worker;
    *turns += 10;
}

static void say_worker(void *state, int worker, double *values)
{
    values[0] = values[1] = worker;
}

static void leave_at_20(void *state, int worker, double *values)
{
    count_turns(state, worker, values);
    if (values[0] >= 20)
        leave("twenty is %s", "enough");
}

static void die_at_20(void *state, int worker, double *values)
{
    count_turns(state, worker, values);
    if (values[0] >= 20)
        _exit(3);
}

static void interrupt_at_20(void *state, int worker, double *values)
{
    count_turns(state, worker, values);
    if (values[0] >= 20)
        kill(getppid(), SIGINT);
}

static void *cannot_open(const void *arg)
{
    leave("not here");
}

static void run(const char *measure, const struct job *job, int processes, int threads,
                unsigned fresh, unsigned turns)
{
    static const double zero;
    char second[40];
    const struct measure measures[] = {{measure, "ns"}, {second, "workers"}};
    const struct contestant contestants[] = {
        {.who = "one", .job = job, .arg = &zero, .processes = processes, .threads = threads},
        {.who = "other", .absent = "not built"},
    };

    snprintf(second, sizeof(second), "%s-worker", measure);
    contest(measures, 2, contestants, 2, fresh, turns);
}

TEST(contest__turns_of_each_fresh_process_are_kept)
{
    static const struct job job = {.open = open_number, .sample = count_turns};
    const struct series *series;

    run("turns", &job, 1, 1, 2, 3);
    series = series_find("turns", "one");
    assert_int_equal(series->count, 6);
    assert_true(series->values[2] > 19 && series->values[2] < 21);
    assert_true(series->values[3] < 1); /* a new process */
    assert_string_equal(series->absent, "");
}

static int interrupted_contest(void)
{
    static const struct job job = {.open = open_number, .sample = interrupt_at_20};

    interrupt_catch();
    run("interrupted", &job, 1, 1, 2, 9);
    return series_find("interrupted", "one")->count != 3;
}

TEST(contest__interrupted__turns_before_it_are_kept)
{
    test_in_child(interrupted_contest());
}

TEST(contest__crew__means_of_its_workers)
{
    static const struct job job = {.open = open_number, .sample = say_worker};

    run("threads", &job, 1, 2, 1, 2);
    run("processes", &job, 2, 1, 1, 2);
    assert_true(series_find("threads", "one")->values[1] == 0.5);
    assert_true(series_find("processes", "one")->values[1] == 0.5);
}

TEST(contest__absent_one__says_why)
{
    static const struct job job = {.open = open_number, .sample = count_turns};

    run("absent", &job, 1, 1, 1, 1);
    assert_int_equal(series_find("absent", "other")->count, 0);
    assert_string_equal(series_find("absent", "other")->absent, "not built");
    assert_int_equal(series_find("absent", "one")->count, 1);
}

TEST(contest__one_leaves_at_its_turn__its_words_stay)
{
    static const struct job job = {.open = open_number, .sample = leave_at_20};

    run("leaves", &job, 1, 1, 1, 5);
    assert_string_equal(series_find("leaves", "one")->absent, "twenty is enough");
}

TEST(contest__one_cannot_begin__its_words_stay)
{
    static const struct job job = {.open = cannot_open, .sample = count_turns};

    run("cannot", &job, 1, 1, 1, 2);
    assert_string_equal(series_find("cannot", "one")->absent, "not here");
}

TEST(contest__steady_turn__is_one_value)
{
    static const struct job job = {.open = open_number, .sample = count_turns, .steady = true};

    run("steady", &job, 1, 1, 1, 4);
    assert_int_equal(series_find("steady", "one")->count, 4);
}

TEST(contest__one_dies__reported)
{
    static const struct job job = {.open = open_number, .sample = die_at_20};

    run("killed", &job, 1, 1, 1, 5);
    assert_string_equal(series_find("killed", "one")->absent, "failed: its process died");
}

/* ---- single steps ----------------------------------------------------------------------- */

static void nothing(void *arg)
{
}

static void ten_instructions_each(void *arg)
{
    for (size_t i = 0; i < *(size_t *)arg; i++)
        __asm__ volatile("nop\nnop\nnop\nnop\nnop\nnop\nnop\nnop\nnop\nnop");
}

TEST(steps__more_work__so_many_more)
{
    size_t few = 10, many = 110;
    double first = count_steps(nothing, ten_instructions_each, &few);
    double second = count_steps(nothing, ten_instructions_each, &many);

    if (first < 0)
        test_skip("ptrace(2) is not permitted here");
    assert_true(second - first >= 1000); /* at least the requested instructions */
    assert_true(second - first <=
                100 * (10 + 500)); /* plus the loop's, which a sanitizer may instrument */
}

TEST_MAIN()
