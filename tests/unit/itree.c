/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The tree of address ranges, beside a model that looks at all of them. */
#include "core/itree.h"
#include "tests/support/test.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NODES 200
#define SPAN  1000

static struct itree_node nodes[NODES];
static bool present[NODES];

static unsigned draw(unsigned limit)
{
    return (unsigned)random() % limit;
}

static int by_address(const void *left, const void *right)
{
    const struct itree_node *a = *(struct itree_node *const *)left;
    const struct itree_node *b = *(struct itree_node *const *)right;

    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    if (a->end != b->end)
        return a->end < b->end ? -1 : 1;
    return (a > b) - (a < b);
}

/* What the model finds, in order. */
static unsigned model(uint64_t latest_start, uint64_t earliest_end, struct itree_node **out)
{
    unsigned count = 0;

    for (unsigned i = 0; i < NODES; i++)
        if (present[i] && nodes[i].start <= latest_start && nodes[i].end >= earliest_end)
            out[count++] = &nodes[i];
    qsort(out, count, sizeof(out[0]), by_address);
    return count;
}

static void compare_searches(const struct itree *tree)
{
    struct itree_node *expected[NODES], *found = NULL;
    uint64_t latest_start = draw(SPAN), earliest_end = draw(SPAN);
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
        itree_remove(tree, &nodes[i]);
    } else {
        nodes[i].start = draw(SPAN);
        nodes[i].end = nodes[i].start + 1 + draw(draw(2) ? 10 : SPAN);
        itree_insert(tree, &nodes[i]);
    }
    present[i] = !present[i];
}

static void random_changes__every_search__as_the_model(void **state)
{
    struct itree tree = {0};

    srandom(1);
    memset(present, 0, sizeof(present));
    for (int i = 0; i < 20000; i++) {
        toggle(&tree, draw(NODES));
        compare_searches(&tree);
    }
}

static void equal_ranges__removed_in_turn__the_others_are_found(void **state)
{
    struct itree tree = {0};
    struct itree_node *found = NULL;
    unsigned count = 0;

    memset(present, 0, sizeof(present));
    for (unsigned i = 0; i < NODES; i++) {
        nodes[i] = (struct itree_node){.start = 10, .end = 20};
        itree_insert(&tree, &nodes[i]);
    }
    for (unsigned i = 0; i < NODES; i += 2)
        itree_remove(&tree, &nodes[i]);
    while ((found = itree_covering(&tree, found, 10, 20))) {
        assert_int_equal((found - nodes) % 2, 1);
        count++;
    }
    assert_int_equal(count, NODES / 2);
}

static void edges__touching_and_covering(void **state)
{
    struct itree_node node = {.start = 100, .end = 200};
    struct itree tree = {0};

    itree_insert(&tree, &node);
    assert_null(itree_touching(&tree, NULL, 50, 100));
    assert_ptr_equal(itree_touching(&tree, NULL, 50, 101), &node);
    assert_ptr_equal(itree_touching(&tree, NULL, 199, 300), &node);
    assert_null(itree_touching(&tree, NULL, 200, 300));
    assert_ptr_equal(itree_covering(&tree, NULL, 100, 200), &node);
    assert_null(itree_covering(&tree, NULL, 99, 200));
    assert_null(itree_covering(&tree, NULL, 100, 201));
}

static void previous_removed_meanwhile__goes_on_after_it(void **state)
{
    struct itree_node first = {.start = 1, .end = 9}, second = {.start = 2, .end = 9};
    struct itree tree = {0};

    itree_insert(&tree, &first);
    itree_insert(&tree, &second);
    assert_ptr_equal(itree_touching(&tree, NULL, 3, 4), &first);
    itree_remove(&tree, &first);
    assert_ptr_equal(itree_touching(&tree, &first, 3, 4), &second);
    itree_remove(&tree, &second);
    assert_null(itree_touching(&tree, &first, 3, 4));
    assert_null(tree.root);
}

static unsigned height(const struct itree_node *node)
{
    unsigned left, right;

    if (!node)
        return 0;
    left = height(node->left);
    right = height(node->right);
    return 1 + (left > right ? left : right);
}

static void ascending_insertions__stays_shallow(void **state)
{
    enum { MANY = 100000 };
    struct itree_node *many = calloc(MANY, sizeof(*many));
    struct itree tree = {0};

    for (unsigned i = 0; i < MANY; i++) {
        many[i].start = i;
        many[i].end = i + 1;
        itree_insert(&tree, &many[i]);
    }
    assert_in_range(height(tree.root), 17, 80); /* log2 is 17; a list would be 100000 */
    free(many);
}

TEST_MAIN(TEST(random_changes__every_search__as_the_model),
          TEST(equal_ranges__removed_in_turn__the_others_are_found),
          TEST(edges__touching_and_covering), TEST(previous_removed_meanwhile__goes_on_after_it),
          TEST(ascending_insertions__stays_shallow))
