/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * An interval tree of address ranges. It finds the ranges that overlap or cover a given one. The
 * nodes are embedded in the elements of a stable array and refer to each other by their distance
 * from its base, which takes half the space of pointers. The tree allocates and frees nothing, so
 * all of it may be used under a lock. The caller does the locking. Ranges may be equal or overlap.
 */
#ifndef HMREG_CORE_BASE_ITREE_H
#define HMREG_CORE_BASE_ITREE_H

#include "core/base/stable_array.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct itree_node {
    uint64_t start, end; /* [start, end), not empty; set before itree_insert(), then constant */
    uint64_t last;       /* the greatest end in the subtree */
    uint32_t left, right;
};

struct itree {
    const struct stable_array *array; /* no node is its element 0; all are aligned to 8 bytes */
    uint32_t root;                    /* 0: empty */
};

void itree_insert(struct itree *tree, struct itree_node *node);
void itree_remove(struct itree *tree, struct itree_node *node); /* must be in the tree */
bool itree_has(const struct itree *tree, const struct itree_node *node);

/* Moves all nodes that start in [start, end) to `out`, an empty tree. It takes as long as two
 * searches, for any number of nodes. */
void itree_cut(struct itree *tree, uint64_t start, uint64_t end, struct itree *out);
/* Removes the first node and returns it. NULL: the tree is empty. After the first call only
 * itree_take() may be called on the tree. */
struct itree_node *itree_take(struct itree *tree);

/* Finds the first node after `previous` (NULL: from the start), in address order, that starts at or
 * below latest_start and ends at or above earliest_end, which is not 0. NULL: none. previous may
 * have been removed since. */
struct itree_node *itree_next(const struct itree *tree, const struct itree_node *previous,
                              uint64_t latest_start, uint64_t earliest_end);

/* As itree_next(), for a node that overlaps [start, end). */
static inline struct itree_node *itree_touching(const struct itree *tree,
                                                const struct itree_node *previous, uint64_t start,
                                                uint64_t end)
{
    return itree_next(tree, previous, end - 1, start + 1);
}

/* As itree_next(), for a node that contains [start, end). */
static inline struct itree_node *itree_covering(const struct itree *tree,
                                                const struct itree_node *previous, uint64_t start,
                                                uint64_t end)
{
    return itree_next(tree, previous, start, end);
}

#endif
