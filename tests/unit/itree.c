/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The tree of address ranges, compared with a model that searches all of them. */
#include "core/base/itree.h"
#include "tests/support/test.h"

#define NODES 200
#define SPAN  1000

/* The index of the first node. */
#define FIRST STABLE_ARRAY_FIRST

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
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
