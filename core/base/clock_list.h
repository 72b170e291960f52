/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Entries of a stable array in the order in which the CLOCK algorithm (second chance) visits them:
 * a circle, linked by the entries' numbers. The hand stands at the first entry; eviction evicts it,
 * or passes it, which makes it the last. A new entry is inserted as the last, so the hand makes a
 * full turn before it visits that entry. The caller locks.
 */
#ifndef HMREG_CORE_BASE_CLOCK_LIST_H
#define HMREG_CORE_BASE_CLOCK_LIST_H

#include "core/base/stable_array.h"

struct clock_link {
    uint32_t next, before; /* entry numbers */
};

struct clock_list {
    const struct stable_array *entries;
    size_t offset;        /* offset of struct clock_link in an entry's second part */
    uint32_t hand, count; /* hand: an entry number; 0: the list is empty */
};

void clock_init(struct clock_list *list, const struct stable_array *entries, size_t offset);

/* insert: as the last; return: as the first. */
void clock_insert(struct clock_list *list, uint32_t number);
void clock_return(struct clock_list *list, uint32_t number);
void clock_remove(struct clock_list *list, uint32_t number);

/* The entry that the hand visits after this one. */
uint32_t clock_next(const struct clock_list *list, uint32_t number);
/* Moves the hand past the first entry, which becomes the last. */
void clock_pass(struct clock_list *list);

#endif
