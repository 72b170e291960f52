/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Ranges of addresses, each with a number, sorted by their starts. A search finds a range that
 * contains another one. Ranges may overlap: of those that begin at or before an address only the
 * last few are looked at, so a search may miss one, and takes no more than some nanoseconds. The
 * caller does the locking.
 */
#ifndef HMREG_CORE_CACHE_RANGE_LIST_H
#define HMREG_CORE_CACHE_RANGE_LIST_H

#include <stdint.h>

#define RANGE_LIST_MOST 256

struct range {
    uint64_t start, end; /* [start, end), not empty */
    uint32_t number;     /* not 0 */
};

/* All zero: empty. */
struct range_list {
    struct range *at;
    uint32_t count, room;
};

void range_list_free(struct range_list *list);

/* Adds a range, which replaces one that begins at the same address; if the list is full, or there
 * is no memory, the one before it. */
void range_list_add(struct range_list *list, struct range range);

/* Removes the ranges with this number. */
void range_list_remove(struct range_list *list, uint32_t number);

/* The number of a range that contains [start, start + len), len > 0, which does not wrap. 0: none
 * was found. */
uint32_t range_list_find(const struct range_list *list, uint64_t start, uint64_t len);

#endif
