/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See itree.h. A treap: ordered by address, a heap by random priority, so its depth is
 * logarithmic whatever the order of insertions. Each node knows the greatest end below it, which
 * tells a search the subtrees that end too early.
 */
#include "core/itree.h"

#include <stdbool.h>

/* A total order, so that equal ranges have one too. */
static bool before(const struct itree_node *a, const struct itree_node *b)
{
    if (a->start != b->start)
        return a->start < b->start;
    if (a->end != b->end)
        return a->end < b->end;
    return (uintptr_t)a < (uintptr_t)b;
}

static void update(struct itree_node *node)
{
    node->last = node->end;
    if (node->left && node->left->last > node->last)
        node->last = node->left->last;
    if (node->right && node->right->last > node->last)
        node->last = node->right->last;
}

/* Parts a subtree into what comes before node and what comes after it. */
static void split(struct itree_node *root, const struct itree_node *node, struct itree_node **low,
                  struct itree_node **high)
{
    if (!root) {
        *low = *high = NULL;
        return;
    }
    if (before(root, node)) {
        *low = root;
        split(root->right, node, &root->right, high);
    } else {
        *high = root;
        split(root->left, node, low, &root->left);
    }
    update(root);
}

/* Joins two subtrees, all of low before all of high. */
static struct itree_node *join(struct itree_node *low, struct itree_node *high)
{
    if (!low || !high)
        return low ? low : high;
    if (low->priority > high->priority) {
        low->right = join(low->right, high);
        update(low);
        return low;
    }
    high->left = join(low, high->left);
    update(high);
    return high;
}

static struct itree_node *insert(struct itree_node *root, struct itree_node *node)
{
    if (!root || node->priority > root->priority) {
        split(root, node, &node->left, &node->right);
        root = node;
    } else if (before(node, root)) {
        root->left = insert(root->left, node);
    } else {
        root->right = insert(root->right, node);
    }
    update(root);
    return root;
}

static struct itree_node *without(struct itree_node *root, const struct itree_node *node)
{
    if (root == node)
        return join(root->left, root->right);
    if (before(node, root))
        root->left = without(root->left, node);
    else
        root->right = without(root->right, node);
    update(root);
    return root;
}

/* Marsaglia's xorshift: good enough for heights. */
static uint64_t draw(struct itree *tree)
{
    uint64_t x = tree->seed ? tree->seed : 0x9e3779b97f4a7c15u;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return tree->seed = x;
}

void itree_insert(struct itree *tree, struct itree_node *node)
{
    node->priority = draw(tree);
    tree->root = insert(tree->root, node);
}

void itree_remove(struct itree *tree, struct itree_node *node)
{
    tree->root = without(tree->root, node);
}

static struct itree_node *next(struct itree_node *root, const struct itree_node *previous,
                               uint64_t latest_start, uint64_t earliest_end)
{
    struct itree_node *found;

    if (!root || root->last < earliest_end)
        return NULL;
    if (!previous || before(previous, root)) {
        found = next(root->left, previous, latest_start, earliest_end);
        if (found)
            return found;
        if (root->start <= latest_start && root->end >= earliest_end)
            return root;
    }
    if (root->start > latest_start)
        return NULL;
    return next(root->right, previous, latest_start, earliest_end);
}

struct itree_node *itree_next(const struct itree *tree, const struct itree_node *previous,
                              uint64_t latest_start, uint64_t earliest_end)
{
    return next(tree->root, previous, latest_start, earliest_end);
}
