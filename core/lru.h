/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Entries in the order of their last known use: a heap, so that the least recent is found at once
 * and any entry can leave or be used later at the cost of some levels. Its clock is the caller's, a
 * counter that may wrap. Nothing is allocated but by lru_grow(); the caller locks.
 */
#ifndef HMREG_CORE_LRU_H
#define HMREG_CORE_LRU_H

#include "core/shelf.h"

struct lru {
    const struct shelf *entries;
    size_t offset;      /* in an entry, of a uint32_t: its place in the heap while it is there */
    struct shelf items; /* the heap */
    uint32_t count;
};

void lru_init(struct lru *lru, const struct shelf *entries, size_t offset);
void lru_free(struct lru *lru);

/* For how many is there room? lru_grow() makes more, as shelf_grow(). */
uint32_t lru_room(const struct lru *lru);
bool lru_grow(struct lru *lru, pthread_mutex_t *lock);

void lru_insert(struct lru *lru, uint32_t number, uint32_t stamp);
void lru_remove(struct lru *lru, uint32_t number);
void lru_move(struct lru *lru, uint32_t number, uint32_t stamp);

/* The least recently used, of which there is one; and when that was. */
uint32_t lru_first(const struct lru *lru, uint32_t *stamp);
/* Any of them, 0 <= index < count. */
uint32_t lru_any(const struct lru *lru, uint32_t index);

/* When was one used last, as far as is known here? */
uint32_t lru_stamp(const struct lru *lru, uint32_t number);

/* Is a later than b? */
static inline bool lru_is_later(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) > 0;
}

#endif
