/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Ranges of addresses, each with a number, sorted by their starts. A search finds the ranges that
 * contain another one. Ranges may overlap. A search looks only at the last few that begin at or
 * before an address: it may miss some, but takes only some nanoseconds. The caller does the
 * locking.
 */
#ifndef HMREG_CORE_CACHE_RANGE_LIST_H
#define HMREG_CORE_CACHE_RANGE_LIST_H

#include <stdbool.h>
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

/* Adds a range, unless it is in the list. If the list is full, or there is no memory, it replaces
 * the one before it. */
void range_list_add(struct range_list *list, struct range range);

/* Removes the ranges whose numbers are not kept. */
void range_list_purge(struct range_list *list, bool (*keeps)(const void *context, uint32_t number),
                      const void *context);

/* See range_list_find(), for a list that is not empty. */
uint32_t range_list_search(const struct range_list *list, uint64_t start, uint64_t len,
                           unsigned nth);

/* The number of the nth range, from 0, that contains [start, start + len); len > 0, and the range
 * does not wrap. 0: no more were found. */
static inline uint32_t range_list_find(const struct range_list *list, uint64_t start, uint64_t len,
                                       unsigned nth)
{
    return list->count ? range_list_search(list, start, len, nth) : 0;
}

#endif
