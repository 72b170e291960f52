/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Pulses come and go while somebody walks them who may wait for nobody: a hook on munmap(2).
 * Whoever is there before it begins is reached; nothing that it reaches besides goes wrong for
 * longer than a look-up takes.
 */
#include "core/process.h"
#include "core/pulse.h"
#include "tests/support/test.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define MANY 100 /* more than a page has */

static unsigned state_of(const struct pulse *pulse)
{
    return atomic_load(&pulse->state);
}

static struct pulse *open_hooked(void)
{
    struct pulse *pulse = pulse_open();

    assert_non_null(pulse);
    atomic_store(&pulse->hooked, true);
    return pulse;
}

static void doubt_hooked__of_many__all_that_are_hooked(void **state)
{
    struct pulse *pulses[MANY];

    for (int i = 0; i < MANY; i++) {
        pulses[i] = open_hooked();
        atomic_store(&pulses[i]->hooked, i % 3);
        for (int j = 0; j < i; j++)
            assert_ptr_not_equal(pulses[i], pulses[j]);
    }
    pulse_doubt_hooked();
    for (int i = 0; i < MANY; i++)
        assert_int_equal(state_of(pulses[i]), i % 3 ? PULSE_LIVE | PULSE_LATE : PULSE_LIVE);
    for (int i = 0; i < MANY; i++)
        pulse_close(pulses[i]);
}

static void open__where_one_was_closed_in_doubt__live_and_nothing_else(void **state)
{
    struct pulse *first = open_hooked(), *second;

    atomic_store(&first->clock, 400);
    pulse_doubt_hooked();
    pulse_close(first);
    pulse_doubt_hooked();
    second = pulse_open();
    assert_ptr_equal(second, first);
    assert_int_equal(state_of(second), PULSE_LIVE);
    assert_int_equal(atomic_load(&second->clock), 0);
    pulse_doubt_hooked();
    assert_int_equal(state_of(second), PULSE_LIVE);
    pulse_close(second);
}

static void telling__doubt_comes_meanwhile__is_told_again(void **state)
{
    struct pulse *pulse = open_hooked();

    assert_false(pulse_begin_telling(pulse));
    pulse_doubt_hooked();
    assert_true(pulse_is_late(pulse));
    assert_true(pulse_begin_telling(pulse));
    assert_true(pulse_is_late(pulse)); /* others wait */
    pulse_doubt_hooked();
    pulse_end_telling(pulse);
    assert_true(state_of(pulse) & PULSE_DOUBTS);
    assert_true(pulse_begin_telling(pulse));
    pulse_end_telling(pulse);
    assert_false(pulse_begin_telling(pulse));
    assert_int_equal(state_of(pulse), PULSE_LIVE);
    pulse_close(pulse);
}

/* ---- at the same time ------------------------------------------------------------------- */

static atomic_bool enough;

static void *doubt_all_the_time(void *arg)
{
    while (!atomic_load(&enough))
        pulse_doubt_hooked();
    return NULL;
}

/* What is open is reached, whoever comes and goes beside it. */
static void *come_and_go(void *arg)
{
    for (int i = 0; i < 20000; i++) {
        struct pulse *pulse = pulse_open();

        if (!pulse)
            return NULL;
        atomic_store(&pulse->hooked, i % 2);
        pulse_close(pulse);
    }
    return arg;
}

static void doubt_hooked__while_others_come_and_go__reaches_who_stays(void **state)
{
    struct pulse *stays = open_hooked(), *plain = pulse_open();
    pthread_t doubts, comes;
    void *result;

    atomic_store(&enough, false);
    assert_int_equal(pthread_create(&doubts, NULL, doubt_all_the_time, NULL), 0);
    assert_int_equal(pthread_create(&comes, NULL, come_and_go, &enough), 0);
    for (int i = 0; i < 1000; i++) {
        pulse_doubt_hooked();
        assert_true(state_of(stays) & PULSE_DOUBTS);
        while (pulse_begin_telling(stays))
            pulse_end_telling(stays);
    }
    pthread_join(comes, &result);
    assert_ptr_equal(result, &enough);
    atomic_store(&enough, true);
    pthread_join(doubts, NULL);
    assert_int_equal(state_of(plain), PULSE_LIVE);
    pulse_close(stays);
    pulse_close(plain);
}

/* ---- forks ------------------------------------------------------------------------------ */

/* A domain of the parent's must not come to life again with one of the child's. */
static int childs_part(const struct pulse *parents)
{
    struct pulse *own;

    pulse_doubt_hooked();
    if (state_of(parents))
        return 1;
    own = pulse_open();
    if (!own || own == parents || state_of(parents) || state_of(own) != PULSE_LIVE)
        return 2;
    atomic_store(&own->hooked, true);
    pulse_doubt_hooked();
    return state_of(own) == (PULSE_LIVE | PULSE_LATE) && !state_of(parents) ? 0 : 3;
}

static void open__in_a_forked_child__parents_stay_dead(void **state)
{
    struct pulse *pulse = open_hooked();
    int status;
    pid_t child = fork();

    if (child == 0)
        _exit(childs_part(pulse));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(state_of(pulse), PULSE_LIVE);
    pulse_close(pulse);
}

TEST_MAIN(TEST(doubt_hooked__of_many__all_that_are_hooked),
          TEST(open__where_one_was_closed_in_doubt__live_and_nothing_else),
          TEST(telling__doubt_comes_meanwhile__is_told_again),
          TEST(doubt_hooked__while_others_come_and_go__reaches_who_stays),
          TEST(open__in_a_forked_child__parents_stay_dead))
