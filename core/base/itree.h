/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A tree of address ranges: which of them touch this one, which cover it? The nodes are parts of
 * what they stand for, elements of a stable array, and are known by their numbers there: half of
 * what pointers would take. Nothing is allocated or freed here, so any of it may be done under a
 * lock. The caller locks. Equal and overlapping ranges are welcome.
 */
#ifndef HMREG_CORE_BASE_ITREE_H
#define HMREG_CORE_BASE_ITREE_H

#include "core/base/stable_array.h"

#include <stddef.h>
#include <stdint.h>

struct itree_node {
    uint64_t start, end; /* [start, end), not empty; set before itree_insert, then constant */
    uint64_t last;       /* the greatest end in the subtree */
    uint32_t left, right;
};

struct itree {
    const struct stable_array *shelf;
    size_t offset; /* of the node in an element of it */
    uint32_t root; /* 0: empty */
};

static inline struct itree_node *itree_at(const struct itree *tree, uint32_t number)
{
    return (struct itree_node *)((char *)stable_array_at(tree->shelf, number) + tree->offset);
}

void itree_insert(struct itree *tree, uint32_t number);
void itree_remove(struct itree *tree, uint32_t number); /* which is in it */

/* The first node, in the order of addresses, after `previous` (0: from the start) that begins
 * at or below latest_start and ends at or above earliest_end; 0: none. previous may have been
 * removed meanwhile. */
uint32_t itree_next(const struct itree *tree, uint32_t previous, uint64_t latest_start,
                    uint64_t earliest_end);

/* ... that has a byte in common with [start, end). */
static inline uint32_t itree_touching(const struct itree *tree, uint32_t previous, uint64_t start,
                                      uint64_t end)
{
    return itree_next(tree, previous, end - 1, start + 1);
}

/* ... that contains [start, end). */
static inline uint32_t itree_covering(const struct itree *tree, uint32_t previous, uint64_t start,
                                      uint64_t end)
{
    return itree_next(tree, previous, start, end);
}

#endif
