/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The live entries of a cache in the order in which the CLOCK algorithm (second chance) visits
 * them. The hand stands at the first; eviction evicts that entry, or passes it, which makes it the
 * last. A new entry is the last, too, so the hand makes a full turn before it visits the entry.
 *
 * The list is a ring of entry numbers without holes; each entry knows its place in it. The entry at
 * the hand fills the place of one that is removed: the hand visits it later in the same turn. The
 * ring grows by parts that double it, so nothing is copied under a lock but what had gone round its
 * end. Only clock_grow() allocates; the caller locks.
 */
#ifndef HMREG_CORE_CACHE_CLOCK_LIST_H
#define HMREG_CORE_CACHE_CLOCK_LIST_H

#include "core/base/stable_array.h"

#define CLOCK_FIRST 1024u /* places in the first part, and in the second */
#define CLOCK_PARTS 15    /* 2^24 places */

struct clock_list {
    const struct stable_array *entries;
    size_t offset; /* in an entry, of a uint32_t: its place while it is in the list */
    uint32_t *parts[CLOCK_PARTS]; /* of the ring: the entries' numbers */
    uint32_t size;                /* of the ring */
    uint32_t hand;                /* a place */
    uint32_t count;
};

void clock_init(struct clock_list *list, const struct stable_array *entries, size_t offset);
void clock_free(struct clock_list *list);

/* Makes the ring larger. The lock is not held by the caller. False: no memory. */
bool clock_grow(struct clock_list *list, pthread_mutex_t *lock);

/* Inserts as the last; as the first. There is room: count < size. */
void clock_insert(struct clock_list *list, uint32_t number);
void clock_return(struct clock_list *list, uint32_t number);
void clock_remove(struct clock_list *list, uint32_t number);

/* The entry that the hand visits after `ahead` others, 0 <= ahead < count. */
uint32_t clock_ahead(const struct clock_list *list, uint32_t ahead);
/* The hand passes the first. */
void clock_pass(struct clock_list *list);

#endif
