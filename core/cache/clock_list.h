/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The live entries of a cache in the order in which the CLOCK algorithm (second chance) visits
 * them. The hand stands at the first entry; eviction evicts it, or passes it, which makes it the
 * last. A new entry is inserted as the last, so the hand makes a full turn before it visits that
 * entry.
 *
 * The list is a ring of entry numbers without holes; each entry stores its own place in the ring.
 * When an entry is removed, the entry at the hand moves into its place: the hand visits it later in
 * the same turn. The ring grows by parts, each of which doubles its size. The entries that had
 * wrapped past its end belong into the new part then; they move there a few at a time, whenever an
 * entry becomes the last, and until then are found where they were. Only clock_grow() allocates;
 * the caller locks.
 */
#ifndef HMREG_CORE_CACHE_CLOCK_LIST_H
#define HMREG_CORE_CACHE_CLOCK_LIST_H

#include "core/base/stable_array.h"

#include <stdbool.h>

#define CLOCK_FIRST 1024u /* places in the first part, and in the second */
#define CLOCK_PARTS 15    /* 2^24 places */

struct clock_list {
    const struct stable_array *entries;
    size_t offset;                /* in an entry's second part, of its place, a uint32_t */
    uint32_t *parts[CLOCK_PARTS]; /* the ring's parts: entry numbers */
    uint32_t size;                /* of the ring, in places */
    uint32_t hand;                /* a place */
    uint32_t count;
    uint32_t part;           /* the size of the ring before it grew last */
    uint32_t late, late_end; /* the entries of places late + part to late_end + part - 1 are still
                                stored at late to late_end - 1 */
};

void clock_init(struct clock_list *list, const struct stable_array *entries, size_t offset);
void clock_free(struct clock_list *list);

/* Makes the ring larger. The caller does not hold the lock. False: no memory, or the ring has its
 * largest size. */
bool clock_grow(struct clock_list *list, pthread_mutex_t *lock);

/* insert: as the last; return: as the first. Both need a free place: count < size. */
void clock_insert(struct clock_list *list, uint32_t number);
void clock_return(struct clock_list *list, uint32_t number);
void clock_remove(struct clock_list *list, uint32_t number);

/* The entry that the hand visits after `ahead` others, 0 <= ahead < count. */
uint32_t clock_ahead(const struct clock_list *list, uint32_t ahead);
/* Moves the hand past the first entry, which becomes the last. */
void clock_pass(struct clock_list *list);

#endif
