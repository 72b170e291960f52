/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The queue of changes: its readers' results when producers overtake them, stop in the middle of a
 * push, or die there. The source is included, so that a test can be a producer that has not
 * finished.
 */
#include "core/monitor/change/change_queue.c"

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

TEST_MAIN()
