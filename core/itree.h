/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A tree of address ranges: which of them touch this one, which cover it? The nodes are parts of
 * what they stand for, so nothing is allocated or freed here, and any of it may be done under a
 * lock. The caller locks. Equal and overlapping ranges are welcome.
 */
#ifndef HMREG_CORE_ITREE_H
#define HMREG_CORE_ITREE_H

#include <stddef.h>
#include <stdint.h>

struct itree_node {
    uint64_t start, end; /* [start, end), not empty; set before itree_insert, then constant */
    struct itree_node *left, *right;
    uint64_t last; /* the greatest end in the subtree */
    uint64_t priority;
};

/* All zero: an empty tree. */
struct itree {
    struct itree_node *root;
    uint64_t seed;
};

void itree_insert(struct itree *tree, struct itree_node *node);
void itree_remove(struct itree *tree, struct itree_node *node); /* which is in it */

/* The first node, in the order of addresses, after `previous` (NULL: from the start) that begins
 * at or below latest_start and ends at or above earliest_end; NULL: none. previous may have been
 * removed meanwhile. */
struct itree_node *itree_next(const struct itree *tree, const struct itree_node *previous,
                              uint64_t latest_start, uint64_t earliest_end);

/* ... that has a byte in common with [start, end). */
static inline struct itree_node *itree_touching(const struct itree *tree,
                                                const struct itree_node *previous, uint64_t start,
                                                uint64_t end)
{
    return itree_next(tree, previous, end - 1, start + 1);
}

/* ... that contains [start, end). */
static inline struct itree_node *itree_covering(const struct itree *tree,
                                                const struct itree_node *previous, uint64_t start,
                                                uint64_t end)
{
    return itree_next(tree, previous, start, end);
}

#endif
