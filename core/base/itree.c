/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See itree.h. A treap: a search tree by address and a heap by priority. The priority is a hash of
 * the node's place in the array, which is random enough to make the expected depth logarithmic for
 * any order of insertions. Each node has the greatest end in its subtree, so that a search skips
 * subtrees that end too early.
 */
#include "core/base/itree.h"

/* Nodes refer to each other in units of 8 bytes from the array's base: processors scale by 8 when
 * they load, so a step down the tree costs little more than with pointers. */
#define UNIT 8

static struct itree_node *node_at(const struct itree *tree, uint32_t at)
{
    return (struct itree_node *)(tree->array->base + (size_t)at * UNIT);
}

static uint32_t place_of(const struct itree *tree, const struct itree_node *node)
{
    return (uint32_t)((size_t)((const char *)node - tree->array->base) / UNIT);
}

/* A total order: equal ranges are ordered by their place in the array. */
static bool before(const struct itree_node *a, const struct itree_node *b)
{
    if (a->start != b->start)
        return a->start < b->start;
    if (a->end != b->end)
        return a->end < b->end;
    return a < b;
}

/* A hash of the place. With all odd strides below 6,000 between neighbours by address, 16,384 nodes
 * are 17.6 levels deep on average and at most 53. Better hashes do as well, but cost more. */
static uint32_t priority(uint32_t place)
{
    return (place ^ place >> 12) * 0x9e3779b1u;
}

static uint64_t last_of(const struct itree *tree, uint32_t at)
{
    return at ? node_at(tree, at)->last : 0;
}

static void update(const struct itree *tree, struct itree_node *node)
{
    uint64_t left = last_of(tree, node->left), right = last_of(tree, node->right);

    node->last = left > node->end ? left : node->end;
    if (right > node->last)
        node->last = right;
}

/* A subtree lost the nodes of the subtree `lost`, perhaps its own last node too. */
static void update_without(const struct itree *tree, struct itree_node *node, uint32_t lost)
{
    if (last_of(tree, lost) >= node->last)
        update(tree, node);
}

/* Splits a subtree into the nodes before a node and those after it. */
static void split(const struct itree *tree, uint32_t root, const struct itree_node *at,
                  uint32_t *low, uint32_t *high)
{
    struct itree_node *node = node_at(tree, root);

    if (!root) {
        *low = *high = 0;
    } else if (before(node, at)) {
        *low = root;
        split(tree, node->right, at, &node->right, high);
        update_without(tree, node, *high);
    } else {
        *high = root;
        split(tree, node->left, at, low, &node->left);
        update_without(tree, node, *low);
    }
}

/* Joins two subtrees, all of low before all of high. */
static uint32_t join(const struct itree *tree, uint32_t low, uint32_t high)
{
    bool is_low = priority(low) > priority(high);
    struct itree_node *node = node_at(tree, is_low ? low : high);

    if (!low || !high)
        return low ? low : high;
    if (is_low)
        node->right = join(tree, node->right, high);
    else
        node->left = join(tree, low, node->left);
    update(tree, node);
    return is_low ? low : high;
}

void itree_insert(struct itree *tree, struct itree_node *node)
{
    uint32_t place = place_of(tree, node), *link = &tree->root;

    while (*link && priority(*link) > priority(place)) {
        struct itree_node *above = node_at(tree, *link);

        if (node->end > above->last)
            above->last = node->end;
        link = before(node, above) ? &above->left : &above->right;
    }
    split(tree, *link, node, &node->left, &node->right);
    *link = place;
    update(tree, node);
}

static uint32_t remove_below(const struct itree *tree, uint32_t root, const struct itree_node *gone)
{
    struct itree_node *node = node_at(tree, root);

    if (node == gone)
        return join(tree, node->left, node->right);
    if (before(gone, node))
        node->left = remove_below(tree, node->left, gone);
    else
        node->right = remove_below(tree, node->right, gone);
    update(tree, node);
    return root;
}

/* If a subtree ends after the node, it does so also without the node. So the loop only descends;
 * remove_below() updates `last`, beginning at the first subtree that does not. */
void itree_remove(struct itree *tree, struct itree_node *node)
{
    struct itree_node *above = node_at(tree, tree->root);
    uint32_t *link = &tree->root;

    while (above != node && above->last > node->end) {
        link = before(node, above) ? &above->left : &above->right;
        above = node_at(tree, *link);
    }
    *link = remove_below(tree, *link, node);
}

bool itree_has(const struct itree *tree, const struct itree_node *node)
{
    uint32_t at = tree->root;

    while (at && node_at(tree, at) != node)
        at = before(node, node_at(tree, at)) ? node_at(tree, at)->left : node_at(tree, at)->right;
    return at;
}

void itree_cut(struct itree *tree, uint64_t start, uint64_t end, struct itree *out)
{
    const struct itree_node from = {.start = start}, to = {.start = end}; /* end 0: before all */
    uint32_t low, high;

    split(tree, tree->root, &from, &low, &high);
    split(tree, high, &to, &out->root, &high);
    tree->root = join(tree, low, high);
}

/* Takes nodes in the order of addresses: neighbours are often neighbours in memory. Each left link
 * is rotated to the right once, so all calls together rotate as often as there are nodes. */
struct itree_node *itree_take(struct itree *tree)
{
    struct itree_node *node = node_at(tree, tree->root);

    if (!tree->root)
        return NULL;
    while (node->left) {
        struct itree_node *first = node_at(tree, node->left);
        uint32_t root = tree->root;

        tree->root = node->left;
        node->left = first->right;
        first->right = root;
        node = first;
    }
    tree->root = node->right;
    return node;
}

static struct itree_node *next(const struct itree *tree, uint32_t root,
                               const struct itree_node *previous, uint64_t latest_start,
                               uint64_t earliest_end)
{
    struct itree_node *node = node_at(tree, root), *found;

    if (!root || node->last < earliest_end)
        return NULL;
    if (before(previous, node)) {
        found = next(tree, node->left, previous, latest_start, earliest_end);
        if (found)
            return found;
        if (node->start <= latest_start && node->end >= earliest_end)
            return node;
    }
    if (node->start > latest_start)
        return NULL;
    return next(tree, node->right, previous, latest_start, earliest_end);
}

/* itree_next() from the start, without backtracking. If a left subtree ends late enough, it
 * contains the first node that does. If that node starts too late, so do all nodes after it. */
static struct itree_node *first(const struct itree *tree, uint64_t latest_start,
                                uint64_t earliest_end)
{
    uint32_t at = tree->root;

    while (at) {
        struct itree_node *node = node_at(tree, at);

        if (last_of(tree, node->left) >= earliest_end)
            at = node->left;
        else if (node->last < earliest_end || node->start > latest_start)
            return NULL;
        else if (node->end >= earliest_end)
            return node;
        else
            at = node->right;
    }
    return NULL;
}

struct itree_node *itree_next(const struct itree *tree, const struct itree_node *previous,
                              uint64_t latest_start, uint64_t earliest_end)
{
    if (!previous)
        return first(tree, latest_start, earliest_end);
    return next(tree, tree->root, previous, latest_start, earliest_end);
}
