/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The queue of changes: its readers' results when producers overtake them, stop in the middle of a
 * push, or die there. And gates, which open and close while a producer walks them, which waits for
 * no thread: it marks each gate that has its source and was open before the walk, and the next
 * drain discards a late mark.
 */

/* The queue's source, so that a case can be a producer that has not finished; a gate's marks say
 * what no call does. */
#include "core/monitor/change/change_queue.c"
#include "core/monitor/change/gate.h"

#include "tests/support/test.h"

#include <pthread.h>
#include <sched.h>

static struct change of(uint64_t start)
{
    return (struct change){start, start + 1, .source = CHANGE_HOOKS};
}

static void push(uint64_t start)
{
    struct change change = of(start);

    changes_push(&change);
}

static void assert_next(struct change_reader *reader, uint64_t start)
{
    struct change change;

    assert_true(changes_next(reader, &change));
    assert_int_equal(change.source, CHANGE_HOOKS);
    assert_int_equal(change.start, start);
    assert_int_equal(change.end, start + 1);
}

static void assert_lost(struct change_reader *reader)
{
    struct change change;

    assert_true(changes_next(reader, &change));
    assert_int_equal(change.source, CHANGE_LOST);
    assert_int_equal(change.start, 0);
    assert_int_equal(change.end, UINT64_MAX);
}

static void assert_none(struct change_reader *reader)
{
    struct change change;

    assert_false(changes_next(reader, &change));
}

TEST(next__as_pushed__whole_and_in_order)
{
    struct change notice = {7, 9, .source = CHANGE_NOTICE, .library = UINT32_MAX};
    struct change unmapped = {1, UINT64_MAX, .source = CHANGE_KERNEL, .unmapped = true};
    struct change_reader early, late;
    struct change got;

    changes_start(&early);
    assert_none(&early);
    changes_push(&notice);
    changes_start(&late);
    changes_push(&unmapped);
    assert_true(changes_next(&early, &got));
    assert_int_equal(got.start, 7);
    assert_int_equal(got.end, 9);
    assert_int_equal(got.source, CHANGE_NOTICE);
    assert_int_equal(got.library, UINT32_MAX);
    assert_false(got.unmapped);
    assert_true(changes_next(&late, &got));
    assert_int_equal(got.start, 1);
    assert_int_equal(got.end, UINT64_MAX);
    assert_int_equal(got.source, CHANGE_KERNEL);
    assert_true(got.unmapped);
    assert_none(&late);
    assert_true(changes_next(&early, &got));
    assert_true(got.unmapped);
    assert_none(&early);
}

TEST(next__a_whole_ring_behind__every_change)
{
    struct change_reader reader;

    changes_start(&reader);
    for (uint64_t i = 0; i < CHANGES_SIZE; i++)
        push(i);
    for (uint64_t i = 0; i < CHANGES_SIZE; i++)
        assert_next(&reader, i);
    assert_none(&reader);
}

TEST(next__more_than_a_ring_behind__all_memory_once)
{
    struct change_reader reader;

    changes_start(&reader);
    for (uint64_t i = 0; i <= CHANGES_SIZE; i++)
        push(i);
    assert_lost(&reader);
    assert_none(&reader);
    push(5);
    assert_next(&reader, 5);
    assert_none(&reader);
}

/* ---- unfinished pushes ------------------------------------------------------------------ */

static uint64_t begin_push(void)
{
    return atomic_fetch_add(&tickets, 1);
}

static void finish_push(uint64_t ticket, uint64_t start)
{
    struct change change = of(start);

    assert_true(slot_write(&ring[ticket % CHANGES_SIZE], ticket, &change));
}

TEST(next__a_producer_has_not_finished__others_now_and_its_later)
{
    struct change_reader reader;
    uint64_t ticket;

    changes_start(&reader);
    push(1);
    ticket = begin_push();
    push(3);
    assert_next(&reader, 1);
    assert_next(&reader, 3);
    assert_none(&reader);
    push(4);
    assert_next(&reader, 4);
    finish_push(ticket, 2);
    assert_next(&reader, 2);
    assert_none(&reader);
}

TEST(next__more_unfinished_than_a_reader_remembers__all_memory)
{
    struct change_reader reader;
    uint64_t unfinished[CHANGES_OPEN + 1];

    changes_start(&reader);
    for (unsigned i = 0; i <= CHANGES_OPEN; i++)
        unfinished[i] = begin_push();
    push(1);
    assert_lost(&reader);
    assert_none(&reader);
    for (unsigned i = 0; i <= CHANGES_OPEN; i++)
        finish_push(unfinished[i], i);
}

/* A producer continues after another has used its slot: it must not write there. */
TEST(push__a_ring_late__overwrites_no_other_and_all_memory)
{
    struct change_reader reader;
    uint64_t ticket = begin_push(), last;
    struct change late = of(77);

    for (uint64_t i = 0; i < CHANGES_SIZE; i++)
        push(i);
    last = ticket + CHANGES_SIZE;
    changes_start(&reader);
    reader.next = last;
    assert_false(slot_write(&ring[ticket % CHANGES_SIZE], ticket, &late));
    assert_next(&reader, CHANGES_SIZE - 1);
    assert_none(&reader);
}

/* A child of vfork(2) was killed inside a hook. */
TEST(push__slot_is_being_written_for_ever__all_memory_each_time)
{
    struct change_reader reader;
    uint64_t ticket = begin_push();
    struct slot *slot = &ring[ticket % CHANGES_SIZE];

    atomic_store(&slot->sequence, 2 * ticket + 1);
    changes_start(&reader);
    for (uint64_t i = 0; i < CHANGES_SIZE - 1; i++)
        push(i);
    for (uint64_t i = 0; i < CHANGES_SIZE - 1; i++)
        assert_next(&reader, i);
    assert_none(&reader);
    push(1);
    assert_lost(&reader);
    assert_none(&reader);
    push(2);
    assert_next(&reader, 2);
    assert_none(&reader);
    atomic_store(&slot->sequence, 2 * ticket + 2);
}

/* ---- concurrency ------------------------------------------------------------------------ */

enum { PRODUCERS = 3, PUSHES = 100000 };

static void *push_many(void *arg)
{
    uint64_t base = (uint64_t)(uintptr_t)arg << 32;

    for (uint64_t i = 1; i <= PUSHES; i++)
        push(base | i);
    return NULL;
}

/* Counts a reader's changes from each producer: never one twice, never half of two. */
TEST(next__beside_producers__each_change_once_or_all_memory)
{
    static bool seen[PRODUCERS][PUSHES + 1];
    struct change_reader reader;
    pthread_t threads[PRODUCERS];
    struct change change;
    uint64_t got = 0, last;
    bool lost = false;

    changes_start(&reader);
    last = reader.next + PRODUCERS * PUSHES;
    for (uintptr_t i = 0; i < PRODUCERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, push_many, (void *)i), 0);
    while (reader.next != last || reader.open_count) {
        if (!changes_next(&reader, &change)) {
            sched_yield();
            continue;
        }
        if (change.source == CHANGE_LOST) {
            lost = true;
            continue;
        }
        assert_int_equal(change.end, change.start + 1);
        assert_in_range(change.start >> 32, 0, PRODUCERS - 1);
        assert_in_range((uint32_t)change.start, 1, PUSHES);
        assert_false(seen[change.start >> 32][(uint32_t)change.start]);
        seen[change.start >> 32][(uint32_t)change.start] = true;
        got++;
    }
    for (unsigned i = 0; i < PRODUCERS; i++)
        pthread_join(threads[i], NULL);
    assert_none(&reader);
    assert_true(lost || got == PRODUCERS * PUSHES);
}

/* ---- gates ----------------------------------------------------------------------------------- */

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
