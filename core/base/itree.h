/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * An interval tree of address ranges, which finds those that overlap a range and those that cover
 * it. The nodes are embedded in the elements of a stable array and refer to each other by element
 * number, which takes half the space of pointers. The tree allocates and frees nothing, so all of
 * it may be used under a lock. The caller does the locking. Ranges may be equal or overlap.
 */
#ifndef HMREG_CORE_BASE_ITREE_H
#define HMREG_CORE_BASE_ITREE_H

#include "core/base/stable_array.h"

#include <stddef.h>
#include <stdint.h>

struct itree_node {
    uint64_t start, end; /* [start, end), not empty; set before itree_insert(), then constant */
    uint64_t last;       /* the greatest end in the subtree */
    uint32_t left, right;
};

struct itree {
    const struct stable_array *shelf;
    size_t offset; /* of the node in an element */
    uint32_t root; /* 0: empty */
};

static inline struct itree_node *itree_at(const struct itree *tree, uint32_t number)
{
    return (struct itree_node *)((char *)stable_array_at(tree->shelf, number) + tree->offset);
}

void itree_insert(struct itree *tree, uint32_t number);
void itree_remove(struct itree *tree, uint32_t number); /* number must be in the tree */

/* Finds the first node after `previous` (0: from the start), in address order, that starts at or
 * below latest_start and ends at or above earliest_end. 0: none. previous may have been removed
 * since. */
uint32_t itree_next(const struct itree *tree, uint32_t previous, uint64_t latest_start,
                    uint64_t earliest_end);

/* As itree_next(), for a node that overlaps [start, end). */
static inline uint32_t itree_touching(const struct itree *tree, uint32_t previous, uint64_t start,
                                      uint64_t end)
{
    return itree_next(tree, previous, end - 1, start + 1);
}

/* As itree_next(), for a node that contains [start, end). */
static inline uint32_t itree_covering(const struct itree *tree, uint32_t previous, uint64_t start,
                                      uint64_t end)
{
    return itree_next(tree, previous, start, end);
}

#endif
