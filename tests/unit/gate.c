/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Gates open and close while a producer of changes walks them, which waits for no thread: it marks
 * each gate that has its source and was open before the walk, and the next drain discards a late
 * mark.
 */
#include "core/base/process.h"
#include "core/monitor/change/gate.h"
#include "tests/support/test.h"

#include <pthread.h>

#define MANY 100 /* more than fit in a page */

static unsigned state_of(const struct gate *gate)
{
    return atomic_load(&gate->state);
}

static struct gate *open_hooked(void)
{
    struct gate *gate = gate_open();

    assert_non_null(gate);
    atomic_store(&gate->sources, CHANGE_HOOKS);
    return gate;
}

TEST(mark_pending__of_many__all_that_use_hooks)
{
    struct gate *gates[MANY];

    for (int i = 0; i < MANY; i++) {
        gates[i] = open_hooked();
        atomic_store(&gates[i]->sources, i % 3 ? CHANGE_HOOKS | CHANGE_KERNEL : CHANGE_KERNEL);
        for (int j = 0; j < i; j++)
            assert_ptr_not_equal(gates[i], gates[j]);
    }
    gates_mark_pending(CHANGE_HOOKS, 0);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(state_of(gates[i]), i % 3 ? GATE_LIVE | GATE_PENDING : GATE_LIVE);
    for (int i = 0; i < MANY; i++)
        gate_close(gates[i]);
}

TEST(open__where_one_was_closed_pending__live_and_nothing_else)
{
    struct gate *first = open_hooked(), *second;

    atomic_store(&first->library, 7);
    gates_mark_pending(CHANGE_HOOKS, 0);
    gate_close(first);
    gates_mark_pending(CHANGE_HOOKS, 0);
    gates_mark_pending(CHANGE_NOTICE, 7);
    assert_int_equal(state_of(first), 0);
    second = gate_open();
    assert_ptr_equal(second, first);
    assert_int_equal(state_of(second), GATE_LIVE);
    gates_mark_pending(CHANGE_HOOKS, 0);
    gates_mark_pending(CHANGE_NOTICE, 7);
    assert_int_equal(state_of(second), GATE_LIVE);
    gate_close(second);
}

TEST(drain__change_comes_meanwhile__drains_again)
{
    struct gate *gate = open_hooked();

    assert_false(gate_begin_drain(gate));
    gates_mark_pending(CHANGE_HOOKS, 0);
    assert_true(gate_is_queued(gate));
    assert_true(gate_begin_drain(gate));
    assert_true(gate_is_queued(gate)); /* hits wait */
    gates_mark_pending(CHANGE_HOOKS, 0);
    gate_end_drain(gate);
    assert_true(state_of(gate) & GATE_QUEUED);
    assert_true(gate_begin_drain(gate));
    gate_end_drain(gate);
    assert_false(gate_begin_drain(gate));
    assert_int_equal(state_of(gate), GATE_LIVE);
    gate_close(gate);
}

TEST(mark_pending__a_notice__only_gates_of_its_library)
{
    struct gate *its = open_hooked(), *others = open_hooked();

    atomic_store(&its->library, 7);
    atomic_store(&others->library, 8);
    gates_mark_pending(CHANGE_NOTICE, 7);
    assert_int_equal(state_of(its), GATE_LIVE | GATE_PENDING);
    assert_int_equal(state_of(others), GATE_LIVE);
    gate_close(its);
    gate_close(others);
}

TEST(counts__are_made__open_once_they_are_read)
{
    uint64_t made = 0;
    struct gate_counts counts = {.made = &made};
    struct gate *gate = gate_open();

    gate_count_by(gate, &counts);
    assert_true(gate_is_open(gate));
    made = 1;
    assert_false(gate_is_open(gate));
    assert_int_equal(gate_state(gate), GATE_LIVE | GATE_COUNTED);
    atomic_store(&counts.read, 1);
    assert_true(gate_is_open(gate));
    atomic_store(&gate->library, 7);
    gates_mark_pending(CHANGE_NOTICE, 7);
    assert_false(gate_is_open(gate));
    assert_int_equal(gate_state(gate), GATE_LIVE | GATE_PENDING);
    gate_close(gate);
    assert_ptr_equal(gate_open(), gate);
    made = 2;
    assert_true(gate_is_open(gate)); /* its counts went with the domain */
    gate_count_by(gate, &counts);
    gate_count_by(gate, NULL); /* another monitor took over */
    assert_true(gate_is_open(gate));
    gate_close(gate);
}

/* Another domain may have reused the gate between the two. */
TEST(reading__gate_opened_anew_meanwhile__is_not_left_reading)
{
    struct gate *gate = gate_open(), *hooked = open_hooked();

    assert_non_null(gate);
    atomic_store(&gate->sources, CHANGE_KERNEL);
    gates_begin_reading();
    assert_int_equal(state_of(gate), GATE_LIVE | GATE_READING);
    assert_int_equal(state_of(hooked), GATE_LIVE);
    atomic_store(&gate->sources, 0);
    gates_end_reading();
    assert_int_equal(state_of(gate), GATE_LIVE);
    gate_close(gate);
    gate_close(hooked);
}

/* ---- concurrency ------------------------------------------------------------------------ */

static atomic_bool enough;

static void *mark_all_the_time(void *arg)
{
    while (!atomic_load(&enough))
        gates_mark_pending(CHANGE_HOOKS, 0);
    return NULL;
}

/* A producer reaches each open gate, while others open and close. */
static void *come_and_go(void *arg)
{
    for (int i = 0; i < 20000; i++) {
        struct gate *gate = gate_open();

        if (!gate)
            return NULL;
        atomic_store(&gate->sources, i % 2 ? CHANGE_HOOKS : 0);
        gate_close(gate);
    }
    return arg;
}

TEST(mark_pending__while_others_come_and_go__reaches_what_stays)
{
    struct gate *stays = open_hooked(), *plain = gate_open();
    pthread_t marks, comes;
    void *result;

    atomic_store(&enough, false);
    assert_int_equal(pthread_create(&marks, NULL, mark_all_the_time, NULL), 0);
    assert_int_equal(pthread_create(&comes, NULL, come_and_go, &enough), 0);
    for (int i = 0; i < 1000; i++) {
        gates_mark_pending(CHANGE_HOOKS, 0);
        assert_true(state_of(stays) & GATE_QUEUED);
        while (gate_begin_drain(stays))
            gate_end_drain(stays);
    }
    pthread_join(comes, &result);
    assert_ptr_equal(result, &enough);
    atomic_store(&enough, true);
    pthread_join(marks, NULL);
    assert_int_equal(state_of(plain), GATE_LIVE);
    gate_close(stays);
    gate_close(plain);
}

/* ---- forks ------------------------------------------------------------------------------ */

/* A parent's domain must not become active again with one of the child's. */
static int childs_part(const struct gate *parents)
{
    struct gate *own;

    gates_mark_pending(CHANGE_HOOKS, 0);
    if (state_of(parents))
        return 1;
    own = gate_open();
    if (!own || own == parents || state_of(parents) || state_of(own) != GATE_LIVE)
        return 2;
    atomic_store(&own->sources, CHANGE_HOOKS);
    gates_mark_pending(CHANGE_HOOKS, 0);
    return state_of(own) == (GATE_LIVE | GATE_PENDING) && !state_of(parents) ? 0 : 3;
}

TEST(open__in_a_forked_child__parents_stay_dead)
{
    struct gate *gate = open_hooked();

    test_in_child(childs_part(gate));
    assert_int_equal(state_of(gate), GATE_LIVE);
    gate_close(gate);
}

TEST_MAIN()
