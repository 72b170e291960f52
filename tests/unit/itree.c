/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The tree of address ranges, beside a model that looks at all of them. */
#include "core/base/itree.h"
#include "tests/support/test.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NODES 200
#define SPAN  1000

/* Nodes are numbered from here. */
#define FIRST STABLE_ARRAY_FIRST

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stable_array shelf;
static bool present[NODES];

static struct itree tree_of(uint32_t nodes)
{
    struct itree tree = {.shelf = &shelf};

    stable_array_init(&shelf, sizeof(struct itree_node));
    while (shelf.end < FIRST + nodes)
        assert_true(stable_array_grow(&shelf, shelf.end, &lock));
    return tree;
}

static struct itree_node *node_at(uint32_t index)
{
    return stable_array_at(&shelf, FIRST + index);
}

static unsigned draw(unsigned limit)
{
    return (unsigned)random() % limit;
}

static int by_address(const void *left, const void *right)
{
    const uint32_t *a = left, *b = right;
    const struct itree_node *x = stable_array_at(&shelf, *a), *y = stable_array_at(&shelf, *b);

    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return (*a > *b) - (*a < *b);
}

/* What the model finds, in order. */
static unsigned model(uint64_t latest_start, uint64_t earliest_end, uint32_t *out)
{
    unsigned count = 0;

    for (unsigned i = 0; i < NODES; i++)
        if (present[i] && node_at(i)->start <= latest_start && node_at(i)->end >= earliest_end)
            out[count++] = FIRST + i;
    qsort(out, count, sizeof(out[0]), by_address);
    return count;
}

static void compare_searches(const struct itree *tree)
{
    uint32_t expected[NODES], found = 0;
    uint64_t latest_start = draw(SPAN), earliest_end = draw(SPAN);
    unsigned count = model(latest_start, earliest_end, expected);

    for (unsigned i = 0; i < count; i++) {
        found = itree_next(tree, found, latest_start, earliest_end);
        assert_int_equal(found, expected[i]);
    }
    assert_int_equal(itree_next(tree, found, latest_start, earliest_end), 0);
}

static void toggle(struct itree *tree, unsigned i)
{
    if (present[i]) {
        itree_remove(tree, FIRST + i);
    } else {
        node_at(i)->start = draw(SPAN);
        node_at(i)->end = node_at(i)->start + 1 + draw(draw(2) ? 10 : SPAN);
        itree_insert(tree, FIRST + i);
    }
    present[i] = !present[i];
}

static void random_changes__every_search__as_the_model(void **state)
{
    struct itree tree = tree_of(NODES);

    srandom(1);
    memset(present, 0, sizeof(present));
    for (int i = 0; i < 20000; i++) {
        toggle(&tree, draw(NODES));
        compare_searches(&tree);
    }
    stable_array_free(&shelf);
}

static void equal_ranges__removed_in_turn__the_others_are_found(void **state)
{
    struct itree tree = tree_of(NODES);
    uint32_t found = 0;
    unsigned count = 0;

    for (unsigned i = 0; i < NODES; i++) {
        *node_at(i) = (struct itree_node){.start = 10, .end = 20};
        itree_insert(&tree, FIRST + i);
    }
    for (unsigned i = 0; i < NODES; i += 2)
        itree_remove(&tree, FIRST + i);
    while ((found = itree_covering(&tree, found, 10, 20))) {
        assert_int_equal((found - FIRST) % 2, 1);
        count++;
    }
    assert_int_equal(count, NODES / 2);
    stable_array_free(&shelf);
}

static void edges__touching_and_covering(void **state)
{
    struct itree tree = tree_of(1);

    *node_at(0) = (struct itree_node){.start = 100, .end = 200};
    itree_insert(&tree, FIRST);
    assert_int_equal(itree_touching(&tree, 0, 50, 100), 0);
    assert_int_equal(itree_touching(&tree, 0, 50, 101), FIRST);
    assert_int_equal(itree_touching(&tree, 0, 199, 300), FIRST);
    assert_int_equal(itree_touching(&tree, 0, 200, 300), 0);
    assert_int_equal(itree_covering(&tree, 0, 100, 200), FIRST);
    assert_int_equal(itree_covering(&tree, 0, 99, 200), 0);
    assert_int_equal(itree_covering(&tree, 0, 100, 201), 0);
    stable_array_free(&shelf);
}

static void previous_removed_meanwhile__goes_on_after_it(void **state)
{
    struct itree tree = tree_of(2);

    *node_at(0) = (struct itree_node){.start = 1, .end = 9};
    *node_at(1) = (struct itree_node){.start = 2, .end = 9};
    itree_insert(&tree, FIRST);
    itree_insert(&tree, FIRST + 1);
    assert_int_equal(itree_touching(&tree, 0, 3, 4), FIRST);
    itree_remove(&tree, FIRST);
    assert_int_equal(itree_touching(&tree, FIRST, 3, 4), FIRST + 1);
    itree_remove(&tree, FIRST + 1);
    assert_int_equal(itree_touching(&tree, FIRST, 3, 4), 0);
    assert_int_equal(tree.root, 0);
    stable_array_free(&shelf);
}

static unsigned height(uint32_t number)
{
    const struct itree_node *node = number ? stable_array_at(&shelf, number) : NULL;
    unsigned left = node ? height(node->left) : 0, right = node ? height(node->right) : 0;

    return node ? 1 + (left > right ? left : right) : 0;
}

static void ascending_insertions__stays_shallow(void **state)
{
    enum { MANY = 100000 };
    struct itree tree = tree_of(MANY);

    for (unsigned i = 0; i < MANY; i++) {
        node_at(i)->start = i;
        node_at(i)->end = i + 1;
        itree_insert(&tree, FIRST + i);
    }
    assert_in_range(height(tree.root), 17, 80); /* log2 is 17; a list would be 100000 */
    stable_array_free(&shelf);
}

TEST_MAIN(TEST(random_changes__every_search__as_the_model),
          TEST(equal_ranges__removed_in_turn__the_others_are_found),
          TEST(edges__touching_and_covering), TEST(previous_removed_meanwhile__goes_on_after_it),
          TEST(ascending_insertions__stays_shallow))
