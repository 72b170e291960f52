/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See lru.h. Four children a node: half the levels of two, and they share a cache line, since the
 * shelf begins with a page and the heap where that makes them.
 */
#include "core/lru.h"

#define CHILDREN 4
#define ROOT     (CHILDREN - 1u) /* on the shelf */

_Static_assert(ROOT >= SHELF_FIRST, "the root has a place");

struct item {
    uint32_t stamp, number;
};

/* Heap positions count from 0. */
static struct item *item_at(const struct lru *lru, uint32_t at)
{
    return (struct item *)(void *)lru->items.base + ROOT + at;
}

static uint32_t *place_of(const struct lru *lru, uint32_t number)
{
    return (uint32_t *)((char *)shelf_at(lru->entries, number) + lru->offset);
}

static void put(struct lru *lru, uint32_t at, struct item item)
{
    *item_at(lru, at) = item;
    *place_of(lru, item.number) = at;
}

void lru_init(struct lru *lru, const struct shelf *entries, size_t offset)
{
    *lru = (struct lru){.entries = entries, .offset = offset};
    shelf_init(&lru->items, sizeof(struct item));
}

void lru_free(struct lru *lru)
{
    shelf_free(&lru->items);
}

uint32_t lru_room(const struct lru *lru)
{
    return lru->items.end > ROOT ? lru->items.end - ROOT : 0;
}

bool lru_grow(struct lru *lru, pthread_mutex_t *lock)
{
    uint32_t end;

    pthread_mutex_lock(lock);
    end = lru->items.end;
    pthread_mutex_unlock(lock);
    return shelf_grow(&lru->items, end, lock);
}

static void rise(struct lru *lru, uint32_t at, struct item item)
{
    while (at) {
        struct item above = *item_at(lru, (at - 1) / CHILDREN);

        if (!lru_is_later(above.stamp, item.stamp))
            break;
        put(lru, at, above);
        at = (at - 1) / CHILDREN;
    }
    put(lru, at, item);
}

static uint32_t earliest_child(const struct lru *lru, uint32_t at)
{
    uint32_t first = at * CHILDREN + 1, left = lru->count - first, best = 0;
    const struct item *children = item_at(lru, first);

    /* Where nothing has been used since it came, the first of them. */
    for (uint32_t i = 1; i < (left < CHILDREN ? left : CHILDREN); i++)
        if (__builtin_expect(lru_is_later(children[best].stamp, children[i].stamp), 0))
            best = i;
    return first + best;
}

static void sink(struct lru *lru, uint32_t at, struct item item)
{
    while (at * CHILDREN + 1 < lru->count) {
        uint32_t child = earliest_child(lru, at);
        struct item below = *item_at(lru, child);

        if (!lru_is_later(item.stamp, below.stamp))
            break;
        put(lru, at, below);
        at = child;
    }
    put(lru, at, item);
}

static void settle(struct lru *lru, uint32_t at, struct item item)
{
    if (at && lru_is_later(item_at(lru, (at - 1) / CHILDREN)->stamp, item.stamp))
        rise(lru, at, item);
    else
        sink(lru, at, item);
}

void lru_insert(struct lru *lru, uint32_t number, uint32_t stamp)
{
    rise(lru, lru->count++, (struct item){stamp, number});
}

void lru_remove(struct lru *lru, uint32_t number)
{
    uint32_t at = *place_of(lru, number);
    struct item last = *item_at(lru, --lru->count);

    if (at < lru->count)
        settle(lru, at, last);
}

void lru_move(struct lru *lru, uint32_t number, uint32_t stamp)
{
    settle(lru, *place_of(lru, number), (struct item){stamp, number});
}

uint32_t lru_first(const struct lru *lru, uint32_t *stamp)
{
    *stamp = item_at(lru, 0)->stamp;
    return item_at(lru, 0)->number;
}

uint32_t lru_any(const struct lru *lru, uint32_t index)
{
    return item_at(lru, index)->number;
}

uint32_t lru_stamp(const struct lru *lru, uint32_t number)
{
    return item_at(lru, *place_of(lru, number))->stamp;
}
