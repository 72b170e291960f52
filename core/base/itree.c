/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See itree.h. A treap: a search tree by address and a heap by priority. The priority is a hash of
 * the element number, which is random enough to make the expected depth logarithmic for any order
 * of insertions. Each node has the greatest end in its subtree, so that a search skips subtrees
 * that end too early.
 */
#include "core/base/itree.h"

#include <stdbool.h>

/* A total order: equal ranges are ordered by number. */
static bool before(const struct itree *tree, uint32_t left, uint32_t right)
{
    const struct itree_node *a = itree_at(tree, left), *b = itree_at(tree, right);

    if (a->start != b->start)
        return a->start < b->start;
    if (a->end != b->end)
        return a->end < b->end;
    return left < right;
}

/* MurmurHash3's finalizer: each bit of the number affects every bit of the result. */
static uint32_t priority(uint32_t number)
{
    number = (number ^ number >> 16) * 0x85ebca6bu;
    number = (number ^ number >> 13) * 0xc2b2ae35u;
    return number ^ number >> 16;
}

static void raise_last(const struct itree *tree, struct itree_node *node, uint32_t child)
{
    if (child && itree_at(tree, child)->last > node->last)
        node->last = itree_at(tree, child)->last;
}

static void update(const struct itree *tree, uint32_t number)
{
    struct itree_node *node = itree_at(tree, number);

    node->last = node->end;
    raise_last(tree, node, node->left);
    raise_last(tree, node, node->right);
}

/* Splits a subtree into the nodes before a node and those after it. */
static void split(const struct itree *tree, uint32_t root, uint32_t number, uint32_t *low,
                  uint32_t *high)
{
    if (!root) {
        *low = *high = 0;
        return;
    }
    if (before(tree, root, number)) {
        *low = root;
        split(tree, itree_at(tree, root)->right, number, &itree_at(tree, root)->right, high);
    } else {
        *high = root;
        split(tree, itree_at(tree, root)->left, number, low, &itree_at(tree, root)->left);
    }
    update(tree, root);
}

/* Joins two subtrees, all of low before all of high. */
static uint32_t join(const struct itree *tree, uint32_t low, uint32_t high)
{
    struct itree_node *node;

    if (!low || !high)
        return low ? low : high;
    if (priority(low) > priority(high)) {
        node = itree_at(tree, low);
        node->right = join(tree, node->right, high);
        update(tree, low);
        return low;
    }
    node = itree_at(tree, high);
    node->left = join(tree, low, node->left);
    update(tree, high);
    return high;
}

void itree_insert(struct itree *tree, uint32_t number)
{
    struct itree_node *node = itree_at(tree, number);
    uint32_t *link = &tree->root;

    while (*link && priority(*link) > priority(number)) {
        struct itree_node *above = itree_at(tree, *link);

        if (node->end > above->last)
            above->last = node->end;
        link = before(tree, number, *link) ? &above->left : &above->right;
    }
    split(tree, *link, number, &node->left, &node->right);
    *link = number;
    update(tree, number);
}

static uint32_t without(const struct itree *tree, uint32_t root, uint32_t number)
{
    struct itree_node *node = itree_at(tree, root);

    if (root == number)
        return join(tree, node->left, node->right);
    if (before(tree, number, root))
        node->left = without(tree, node->left, number);
    else
        node->right = without(tree, node->right, number);
    update(tree, root);
    return root;
}

/* A subtree that ends after the node does so also without it. So the first loop only descends, and
 * without() updates `last` from the first subtree that does not. */
void itree_remove(struct itree *tree, uint32_t number)
{
    uint64_t end = itree_at(tree, number)->end;
    uint32_t *link = &tree->root;
    struct itree_node *node;

    while (*link != number && (node = itree_at(tree, *link))->last > end)
        link = before(tree, number, *link) ? &node->left : &node->right;
    *link = without(tree, *link, number);
}

static uint32_t next(const struct itree *tree, uint32_t root, uint32_t previous,
                     uint64_t latest_start, uint64_t earliest_end)
{
    const struct itree_node *node;
    uint32_t found;

    if (!root)
        return 0;
    node = itree_at(tree, root);
    if (node->last < earliest_end)
        return 0;
    if (before(tree, previous, root)) {
        found = next(tree, node->left, previous, latest_start, earliest_end);
        if (found)
            return found;
        if (node->start <= latest_start && node->end >= earliest_end)
            return root;
    }
    if (node->start > latest_start)
        return 0;
    return next(tree, node->right, previous, latest_start, earliest_end);
}

/* itree_next() from the start, without backtracking: a left subtree that ends late enough contains
 * the first node that does; if that node starts too late, so do all nodes after it. */
static uint32_t first(const struct itree *tree, uint64_t latest_start, uint64_t earliest_end)
{
    uint32_t at = tree->root;

    while (at) {
        const struct itree_node *node = itree_at(tree, at);

        if (node->left && itree_at(tree, node->left)->last >= earliest_end)
            at = node->left;
        else if (node->last < earliest_end || node->start > latest_start)
            return 0;
        else if (node->end >= earliest_end)
            return at;
        else
            at = node->right;
    }
    return 0;
}

uint32_t itree_next(const struct itree *tree, uint32_t previous, uint64_t latest_start,
                    uint64_t earliest_end)
{
    if (!previous)
        return first(tree, latest_start, earliest_end);
    return next(tree, tree->root, previous, latest_start, earliest_end);
}
