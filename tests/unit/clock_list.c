/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The clock list: its order, compared with a plain queue; and the hit rate of a cache that evicts
 * by it, compared with exact LRU, on traces of typical programs. The traces are the same in each
 * run.
 */
#include "core/base/clock_list.h"
#include "tests/support/test.h"

#include <math.h>

#define ENTRIES 20000u

struct element {
    uint32_t padding;
    struct clock_link place;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stable_array elements;
static struct clock_list list;

static uint64_t state;

static uint32_t below(uint32_t end)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 32) % end);
}

/* Entries 1 to `count`, none of them in the list. */
static void open_list(uint32_t count)
{
    state = 88172645463325252u;
    stable_array_init(&elements, sizeof(int), sizeof(struct element));
    while (elements.end <= count)
        assert_true(stable_array_grow(&elements, elements.end, &lock));
    clock_init(&list, &elements, offsetof(struct element, place));
}

static void close_list(void)
{
    stable_array_free(&elements);
}

/* ---- the order -------------------------------------------------------------------------- */

static uint32_t queue[ENTRIES];
static uint32_t length;

static uint32_t find(uint32_t number)
{
    uint32_t at = 0;

    while (at < length && queue[at] != number)
        at++;
    return at;
}

static void take_out(uint32_t at)
{
    memmove(&queue[at], &queue[at + 1], (--length - at) * sizeof(queue[0]));
}

static void put_in(uint32_t at, uint32_t number)
{
    memmove(&queue[at + 1], &queue[at], (length++ - at) * sizeof(queue[0]));
    queue[at] = number;
}

static void remove_both(uint32_t number)
{
    clock_remove(&list, number);
    take_out(find(number));
}

static void step(uint32_t number, bool listed)
{
    if (!listed && below(8)) {
        clock_insert(&list, number);
        put_in(length, number);
    } else if (!listed) {
        clock_return(&list, number);
        put_in(0, number);
    } else if (listed && below(3)) {
        remove_both(number);
    } else if (length) {
        clock_pass(&list);
        put_in(length, queue[0]);
        take_out(0);
    }
}

static void assert_as_queue(void)
{
    uint32_t number = list.hand;

    for (uint32_t at = 0; at < length; at++, number = clock_next(&list, number))
        assert_int_equal(number, queue[at]);
    assert_int_equal(number, list.hand);
}

TEST(list__any_order_of_calls__as_a_queue)
{
    open_list(3000);
    length = 0;
    for (unsigned i = 0; i < 60000; i++) {
        uint32_t number = 1 + below(3000);

        step(number, find(number) < length);
        assert_int_equal(list.count, length);
        if (i % 100 == 0)
            assert_as_queue();
    }
    while (list.count)
        remove_both(list.hand);
    assert_int_equal(list.hand, 0);
    close_list();
}

/* ---- hit rates -------------------------------------------------------------------------- */

#define GETS  400000u
#define ROOM  1024u
#define RANGE 8000u

static uint32_t trace[GETS]; /* entries; FORGET: this one's memory changes */
#define FORGET 0x80000000u

static bool cached[ENTRIES], used[ENTRIES];

static void evict_by_clock(void)
{
    uint32_t first = list.hand;

    for (; used[first]; first = list.hand) {
        used[first] = false;
        clock_pass(&list);
    }
    clock_remove(&list, first);
    cached[first] = false;
}

static void forget(uint32_t number)
{
    if (cached[number])
        clock_remove(&list, number);
    cached[number] = false;
}

static unsigned hits_by_clock(void)
{
    unsigned hits = 0;

    open_list(ENTRIES);
    memset(cached, 0, sizeof(cached));
    for (unsigned i = 0; i < GETS; i++) {
        uint32_t number = trace[i];

        if (number & FORGET) {
            forget(number & ~FORGET);
            continue;
        }
        hits += cached[number];
        used[number] = cached[number];
        if (cached[number])
            continue;
        if (list.count == ROOM)
            evict_by_clock();
        cached[number] = true;
        clock_insert(&list, number);
    }
    close_list();
    return hits;
}

/* Exact LRU, by a list ordered by last use. */
static unsigned hits_by_lru(void)
{
    static uint32_t before[ENTRIES], after[ENTRIES]; /* 0: the list's ends */
    unsigned hits = 0, count = 0;

    memset(cached, 0, sizeof(cached));
    before[0] = after[0] = 0;
    for (unsigned i = 0; i < GETS; i++) {
        uint32_t number = trace[i] & ~FORGET, out = number;

        hits += cached[number] && number == trace[i];
        if (!cached[number] && count == ROOM && number == trace[i])
            out = before[0];
        if (cached[out]) {
            after[before[out]] = after[out];
            before[after[out]] = before[out];
            cached[out] = false;
            count--;
        }
        if (number != trace[i])
            continue;
        cached[number] = true;
        count++;
        before[number] = 0;
        after[number] = after[0];
        before[after[number]] = number;
        after[0] = number;
    }
    return hits;
}

/* Zipf: numbers with a probability of 1 / rank, from `first` on. */
static uint32_t zipf(uint32_t first, uint32_t range)
{
    double chance = (below(1u << 30) + 0.5) / (1u << 30);

    return 1 + (first + (uint32_t)(pow(range, chance) - 1)) % range;
}

static void expect_hits(const char *what, double least)
{
    unsigned lru = hits_by_lru(), clock = hits_by_clock();

    print_message("%-28s LRU %.4f, CLOCK %.4f\n", what, (double)lru / GETS, (double)clock / GETS);
    if (clock < least * lru)
        fail_msg("%s: %u hits of %u, exact LRU has %u", what, clock, GETS, lru);
}

TEST(clock__traces_of_gets__hits_as_often_as_lru)
{
    state = 88172645463325252u;
    for (unsigned i = 0; i < GETS; i++)
        trace[i] = zipf(0, RANGE);
    expect_hits("zipf", 1);
    for (unsigned i = 0; i < GETS; i++)
        trace[i] = zipf(i / 100, RANGE);
    expect_hits("zipf that drifts", 0.99);
    for (unsigned i = 0; i < GETS; i++)
        trace[i] = zipf(0, RANGE) | (below(10) ? 0 : FORGET);
    expect_hits("zipf, memory changes", 0.99);
    for (unsigned i = 0; i < GETS; i++)
        trace[i] = 1 + (i % 4 ? below(500) : 500 + i / 4 % (RANGE - 500));
    expect_hits("hot set beside a scan", 1);
    for (unsigned i = 0; i < GETS; i++)
        trace[i] = 1 + (i / 20000 % 2 ? 800 + i % 7000 : i % 800);
    expect_hits("hot loop, bursts of a scan", 1);
    for (unsigned i = 0; i < GETS; i++)
        trace[i] = 1 + (i / 50 + below(900)) % RANGE;
    expect_hits("buffers of a moving window", 0.99);
}

/* For any order of gets. */
TEST(clock__working_set_equals_the_limit__never_misses_again)
{
    state = 88172645463325252u;
    for (unsigned i = 0; i < GETS; i++)
        trace[i] = 1 + (i < ROOM ? i : below(ROOM));
    assert_int_equal(hits_by_clock(), GETS - ROOM);
}

TEST_MAIN()
