/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the caches keep their entries in: arrays whose elements stay where they are, the clock's
 * list, a list and a tree of ranges. Each is compared with a model that searches all, and the
 * clock's hit rate with exact LRU, on traces of typical programs, which are the same in each run.
 */

/* Their order and their steps are not seen from outside: a cache only gets slow. */
#include "core/base/clock_list.h"
#include "core/base/itree.h"
#include "core/base/stable_array.h"
#include "core/cache/range_list.h"
#include "core/cache/thread_cache.h"
#include "core/mr/mr.h"

#include "tests/support/test.h"

#include <math.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- the stable array: both parts of elements, in two mappings ------------------------------- */

#define ELEMENTS 5000u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool holds(const char *bytes, size_t size, char value)
{
    while (size && *bytes == value) {
        bytes++;
        size--;
    }
    return size == 0;
}

static bool element_holds(const struct stable_array *array, uint32_t number, char value)
{
    return holds(stable_array_at(array, number), array->size, value) &&
           (!array->second ||
            holds(stable_array_second_at(array, number), array->second, (char)~value));
}

static void fill(const struct stable_array *array, uint32_t number, char value)
{
    memset(stable_array_at(array, number), value, array->size);
    if (array->second)
        memset(stable_array_second_at(array, number), ~value, array->second);
}

static char value_of(uint32_t number)
{
    return (char)(number % 251);
}

/* New elements are zero, and those before keep what was written to them. */
static void keeps_what_it_holds(size_t size, size_t second)
{
    struct stable_array array;
    uint32_t number = STABLE_ARRAY_FIRST;
    unsigned char resident;

    stable_array_init(&array, size, second);
    while (array.end < ELEMENTS) {
        assert_true(stable_array_grow(&array, array.end, &lock));
        for (; number < array.end; number++) {
            assert_true(holds(stable_array_at(&array, number), size, 0));
            assert_true(!second || holds(stable_array_second_at(&array, number), second, 0));
            fill(&array, number, value_of(number));
        }
    }
    for (number = STABLE_ARRAY_FIRST; number < array.end; number++)
        assert_true(element_holds(&array, number, value_of(number)));
    stable_array_free(&array);
    assert_int_equal(mincore(array.base, 1, &resident), -1); /* nothing is mapped there */
}

TEST(grow__elements_of_any_size__keep_what_they_hold)
{
    static const size_t sizes[][2] = {{8, 0}, {48, 64}, {64, 48}, {16, 8}, {104, 24}, {4096, 4096}};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        keeps_what_it_holds(sizes[i][0], sizes[i][1]);
}

/* The least reservation, of 1,024 elements, fits the address space that is left; the next does not.
 */
TEST(grow__address_space_limited__by_a_smaller_reservation)
{
    struct stable_array array;
    struct rlimit before, low;
    void *more;
    bool grown;

    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    low = before;
    low.rlim_cur = test_mapped_pages() * (rlim_t)sysconf(_SC_PAGESIZE) + (8u << 20);
    stable_array_init(&array, 4096, 0);
    assert_int_equal(setrlimit(RLIMIT_AS, &low), 0);
    more = mmap(NULL, 16u << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    grown = stable_array_grow(&array, array.end, &lock);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    if (more != MAP_FAILED)
        test_skip("RLIMIT_AS does not hold here: an emulator");
    assert_true(grown);
    assert_int_equal(array.reserved_end, 1024);
    stable_array_free(&array);
}

TEST(slot_offset__of_each_region__names_both_its_parts)
{
    char *base = (char *)(uintptr_t)0x100000000000;
    struct stable_array array = {
        .base = base, .size = sizeof(struct hmreg_mr), .second = sizeof(struct mr_body)};

    for (uint32_t number = STABLE_ARRAY_FIRST; number < 1u << 24; number += number / 97 + 1) {
        uint32_t offset = pin_slot_offset(number);

        assert_ptr_equal(mr_at(base, offset), stable_array_at(&array, number));
        assert_ptr_equal(mr_body_in(base, offset), stable_array_second_at(&array, number));
    }
}

/* ---- the clock list: its order, and its hit rate --------------------------------------------- */

#define ENTRIES 20000u

struct element {
    uint32_t padding;
    struct clock_link place;
};

static struct stable_array elements;
static struct clock_list by_clock;

static uint64_t state;

static uint32_t below(uint32_t end)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 32) % end);
}

/* Entries 1 to `count`, none of them in the by_clock. */
static void open_list(uint32_t count)
{
    state = 88172645463325252u;
    stable_array_init(&elements, sizeof(int), sizeof(struct element));
    while (elements.end <= count)
        assert_true(stable_array_grow(&elements, elements.end, &lock));
    clock_init(&by_clock, &elements, offsetof(struct element, place));
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
    clock_remove(&by_clock, number);
    take_out(find(number));
}

static void step(uint32_t number, bool listed)
{
    if (!listed && below(8)) {
        clock_insert(&by_clock, number);
        put_in(length, number);
    } else if (!listed) {
        clock_return(&by_clock, number);
        put_in(0, number);
    } else if (listed && below(3)) {
        remove_both(number);
    } else if (length) {
        clock_pass(&by_clock);
        put_in(length, queue[0]);
        take_out(0);
    }
}

static void assert_as_queue(void)
{
    uint32_t number = by_clock.hand;

    for (uint32_t at = 0; at < length; at++, number = clock_next(&by_clock, number))
        assert_int_equal(number, queue[at]);
    assert_int_equal(number, by_clock.hand);
}

TEST(list__any_order_of_calls__as_a_queue)
{
    open_list(3000);
    length = 0;
    for (unsigned i = 0; i < 60000; i++) {
        uint32_t number = 1 + below(3000);

        step(number, find(number) < length);
        assert_int_equal(by_clock.count, length);
        if (i % 100 == 0)
            assert_as_queue();
    }
    while (by_clock.count)
        remove_both(by_clock.hand);
    assert_int_equal(by_clock.hand, 0);
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
    uint32_t first = by_clock.hand;

    for (; used[first]; first = by_clock.hand) {
        used[first] = false;
        clock_pass(&by_clock);
    }
    clock_remove(&by_clock, first);
    cached[first] = false;
}

static void forget(uint32_t number)
{
    if (cached[number])
        clock_remove(&by_clock, number);
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
        if (by_clock.count == ROOM)
            evict_by_clock();
        cached[number] = true;
        clock_insert(&by_clock, number);
    }
    close_list();
    return hits;
}

/* Exact LRU, by a by_clock ordered by last use. */
static unsigned hits_by_lru(void)
{
    static uint32_t before[ENTRIES], after[ENTRIES]; /* 0: the by_clock's ends */
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

/* ---- the list of ranges ---------------------------------------------------------------------- */

#define RANGE_SPAN 10000

static struct range ranges[RANGE_SPAN]; /* by start; number 0: none */

static uint64_t draw_range(unsigned limit)
{
    return (uint64_t)random() % limit;
}

static void add_range(struct range_list *list, uint64_t start, uint64_t end, uint32_t number)
{
    struct range range = {start, end, number};

    range_list_add(list, range);
    ranges[start] = range;
}

static void begin_ranges(struct range_list *list)
{
    *list = (struct range_list){NULL, 0, 0};
    memset(ranges, 0, sizeof(ranges));
    srandom(1);
}

/* What is found contains the range; if no ranges overlap, what contains it is found. */
static void compare(const struct range_list *list, bool apart)
{
    uint64_t start = draw_range(RANGE_SPAN), len = 1 + draw_range(20);
    uint32_t found = range_list_find(list, start, len, 0);
    bool right = !found, any = false;

    for (uint64_t i = 0; i <= start; i++)
        if (ranges[i].number && start + len <= ranges[i].end) {
            any = true;
            right |= ranges[i].number == found;
        }
    assert_true(right);
    assert_true(found || !any || !apart);
}

TEST(find__ranges_side_by_side__as_the_model)
{
    struct range_list list;

    begin_ranges(&list);
    for (uint32_t i = 0; i < 200; i++) {
        uint64_t at = i * 50;

        add_range(&list, at, at + 10 + draw_range(41), i + 1);
        for (int j = 0; j < 100; j++)
            compare(&list, true);
    }
    range_list_free(&list);
}

TEST(find__ranges_that_overlap__never_one_that_does_not_contain)
{
    struct range_list list;

    begin_ranges(&list);
    for (uint32_t i = 0; i < RANGE_LIST_MOST; i++) {
        uint64_t at = i * 7 % RANGE_LIST_MOST * 30;

        add_range(&list, at, at + 1 + draw_range(RANGE_SPAN), i + 1);
        for (int j = 0; j < 100; j++)
            compare(&list, false);
    }
    range_list_free(&list);
}

TEST(find__range_within_some_others__found)
{
    struct range_list list;

    begin_ranges(&list);
    add_range(&list, 100, 1000, 1);
    add_range(&list, 200, 210, 2);
    add_range(&list, 300, 310, 3);
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

    begin_ranges(&list);
    add_range(&list, 100, 1000, 1);
    add_range(&list, 100, 1000, 2);
    add_range(&list, 100, 1000, 2);
    add_range(&list, 300, 310, 3);
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

    begin_ranges(&list);
    for (uint32_t i = 0; i < 10; i++)
        add_range(&list, i * 10, i * 10 + 10, i + 1);
    range_list_purge(&list, is_odd, NULL);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(range_list_find(&list, i * 10, 10, 0), i % 2 ? 0 : i + 1);
    range_list_free(&list);
}

TEST(find__edges_of_the_address_space__found)
{
    struct range all = {1, UINT64_MAX, 7};
    struct range_list list;

    begin_ranges(&list);
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

    begin_ranges(&list);
    for (uint32_t i = 0; i < 4 * RANGE_LIST_MOST; i++) {
        uint64_t start = 10 + draw_range(RANGE_SPAN) * 20;
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

/* ---- the tree of ranges ---------------------------------------------------------------------- */

#define NODES 200
#define SPAN  1000

/* The index of the first node. */
#define FIRST STABLE_ARRAY_FIRST

static struct stable_array array;
static bool present[NODES];

static struct itree tree_of(uint32_t nodes)
{
    struct itree tree = {.array = &array};

    stable_array_init(&array, sizeof(struct itree_node), 0);
    while (array.end < FIRST + nodes)
        assert_true(stable_array_grow(&array, array.end, &lock));
    return tree;
}

static struct itree_node *node_at(uint32_t index)
{
    return stable_array_at(&array, FIRST + index);
}

static unsigned draw(unsigned limit)
{
    return (unsigned)random() % limit;
}

static int by_address(const void *left, const void *right)
{
    const struct itree_node *x = *(struct itree_node *const *)left;
    const struct itree_node *y = *(struct itree_node *const *)right;

    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return (x > y) - (x < y);
}

/* The intervals that the model finds, in order. */
static unsigned model(uint64_t latest_start, uint64_t earliest_end, struct itree_node **out)
{
    unsigned count = 0;

    for (unsigned i = 0; i < NODES; i++)
        if (present[i] && node_at(i)->start <= latest_start && node_at(i)->end >= earliest_end)
            out[count++] = node_at(i);
    qsort(out, count, sizeof(out[0]), by_address);
    return count;
}

static void compare_searches(const struct itree *tree)
{
    struct itree_node *expected[NODES], *found = NULL;
    uint64_t latest_start = draw(SPAN), earliest_end = 1 + draw(SPAN);
    unsigned count = model(latest_start, earliest_end, expected);

    for (unsigned i = 0; i < count; i++) {
        found = itree_next(tree, found, latest_start, earliest_end);
        assert_ptr_equal(found, expected[i]);
    }
    assert_null(itree_next(tree, found, latest_start, earliest_end));
}

static void toggle(struct itree *tree, unsigned i)
{
    if (present[i]) {
        itree_remove(tree, node_at(i));
    } else {
        node_at(i)->start = draw(SPAN);
        node_at(i)->end = node_at(i)->start + 1 + draw(draw(2) ? 10 : SPAN);
        itree_insert(tree, node_at(i));
    }
    present[i] = !present[i];
}

TEST(random_changes__every_search__as_the_model)
{
    struct itree tree = tree_of(NODES);

    srandom(1);
    memset(present, 0, sizeof(present));
    for (int i = 0; i < 20000; i++) {
        toggle(&tree, draw(NODES));
        compare_searches(&tree);
    }
    stable_array_free(&array);
}

static bool is_cut(const struct itree_node *node, uint64_t start, uint64_t end)
{
    return node->start >= start && node->start < end;
}

/* Those that start in a range leave the tree together, and are then taken by address. */
TEST(cut__any_range__what_starts_there_leaves)
{
    struct itree tree = tree_of(NODES);

    srandom(2);
    memset(present, 0, sizeof(present));
    for (int i = 0; i < 2000; i++) {
        uint64_t start = draw(SPAN), end = start + draw(SPAN / 4), last = 0;
        struct itree out = {.array = &array};
        struct itree_node *node;

        for (int j = 0; j < NODES / 2; j++)
            toggle(&tree, draw(NODES));
        itree_cut(&tree, start, end, &out);
        for (unsigned j = 0; j < NODES; j++)
            assert_int_equal(itree_has(&tree, node_at(j)),
                             present[j] && !is_cut(node_at(j), start, end));
        while ((node = itree_take(&out))) {
            assert_true(is_cut(node, start, end) && node->start >= last);
            last = node->start;
            assert_true(present[node - node_at(0)]);
            present[node - node_at(0)] = false;
        }
        for (unsigned j = 0; j < NODES; j++)
            assert_false(present[j] && is_cut(node_at(j), start, end));
        compare_searches(&tree);
    }
    stable_array_free(&array);
}

TEST(equal_ranges__removed_in_turn__the_others_are_found)
{
    struct itree tree = tree_of(NODES);
    struct itree_node *found = NULL;
    unsigned count = 0;

    for (unsigned i = 0; i < NODES; i++) {
        *node_at(i) = (struct itree_node){.start = 10, .end = 20};
        itree_insert(&tree, node_at(i));
    }
    for (unsigned i = 0; i < NODES; i += 2)
        itree_remove(&tree, node_at(i));
    while ((found = itree_covering(&tree, found, 10, 20))) {
        assert_int_equal((found - node_at(0)) % 2, 1);
        count++;
    }
    assert_int_equal(count, NODES / 2);
    stable_array_free(&array);
}

TEST(edges__touching_and_covering)
{
    struct itree tree = tree_of(1);

    *node_at(0) = (struct itree_node){.start = 100, .end = 200};
    itree_insert(&tree, node_at(0));
    assert_null(itree_touching(&tree, NULL, 50, 100));
    assert_ptr_equal(itree_touching(&tree, NULL, 50, 101), node_at(0));
    assert_ptr_equal(itree_touching(&tree, NULL, 199, 300), node_at(0));
    assert_null(itree_touching(&tree, NULL, 200, 300));
    assert_ptr_equal(itree_covering(&tree, NULL, 100, 200), node_at(0));
    assert_null(itree_covering(&tree, NULL, 99, 200));
    assert_null(itree_covering(&tree, NULL, 100, 201));
    stable_array_free(&array);
}

TEST(previous_removed_meanwhile__goes_on_after_it)
{
    struct itree tree = tree_of(2);

    *node_at(0) = (struct itree_node){.start = 1, .end = 9};
    *node_at(1) = (struct itree_node){.start = 2, .end = 9};
    itree_insert(&tree, node_at(0));
    itree_insert(&tree, node_at(1));
    assert_ptr_equal(itree_touching(&tree, NULL, 3, 4), node_at(0));
    itree_remove(&tree, node_at(0));
    assert_ptr_equal(itree_touching(&tree, node_at(0), 3, 4), node_at(1));
    itree_remove(&tree, node_at(1));
    assert_null(itree_touching(&tree, node_at(0), 3, 4));
    assert_int_equal(tree.root, 0);
    stable_array_free(&array);
}

static unsigned height(uint32_t place)
{
    const struct itree_node *node = (struct itree_node *)(array.base + (size_t)place * 8);
    unsigned left = place ? height(node->left) : 0, right = place ? height(node->right) : 0;

    return place ? 1 + (left > right ? left : right) : 0;
}

/* Inserts nodes so that neighbours by address are `stride` elements apart, and returns the height.
 */
static unsigned height_of(uint32_t many, uint32_t stride)
{
    struct itree tree = tree_of(many);
    unsigned result;

    for (uint32_t i = 0; i < many; i++) {
        struct itree_node *node = node_at((uint32_t)((uint64_t)i * stride % many));

        node->start = i;
        node->end = i + 1;
        itree_insert(&tree, node);
    }
    result = height(tree.root);
    stable_array_free(&array);
    return result;
}

TEST(ascending_insertions__stays_shallow)
{
    assert_in_range(height_of(100000, 1), 17, 80); /* log2 is 17; a list would be 100000 */
}

/* Fibonacci numbers and similar ones, for which a multiplication by the golden ratio alone is a bad
 * hash. */
TEST(any_stride__stays_shallow)
{
    static const uint32_t strides[] = {3, 89, 233, 377, 987, 1597, 2583, 4181, 5741};

    for (size_t i = 0; i < sizeof(strides) / sizeof(strides[0]); i++)
        assert_in_range(height_of(16384, strides[i] | 1), 14, 80);
}

TEST_MAIN()
