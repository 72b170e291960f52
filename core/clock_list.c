/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See clock_list.h.
 */
#include "core/clock_list.h"

static uint32_t *item_at(const struct clock_list *list, uint32_t place)
{
    return (uint32_t *)(void *)list->items.base + SHELF_FIRST + place;
}

static uint32_t *place_of(const struct clock_list *list, uint32_t number)
{
    return (uint32_t *)((char *)shelf_at(list->entries, number) + list->offset);
}

static void put(struct clock_list *list, uint32_t place, uint32_t number)
{
    *item_at(list, place) = number;
    *place_of(list, number) = place;
}

/* So many places after the hand; at most 2 * size - 1 from the ring's beginning. */
static uint32_t after_hand(const struct clock_list *list, uint32_t distance)
{
    uint32_t place = list->hand + distance;

    return place < list->size ? place : place - list->size;
}

void clock_init(struct clock_list *list, const struct shelf *entries, size_t offset)
{
    *list = (struct clock_list){.entries = entries, .offset = offset};
    shelf_init(&list->items, sizeof(uint32_t));
}

void clock_free(struct clock_list *list)
{
    shelf_free(&list->items);
}

/* ---- the ring --------------------------------------------------------------------------- */

/* What had gone round the old ring's end goes on beyond it. */
static void make_larger(struct clock_list *list, uint32_t size)
{
    uint32_t old = list->size, end = list->hand + list->count;

    if (size <= old)
        return;
    for (uint32_t place = old; place < end; place++)
        put(list, place < size ? place : place - size, *item_at(list, place - old));
    list->size = size;
}

bool clock_grow(struct clock_list *list, pthread_mutex_t *lock)
{
    uint32_t end;
    bool grown;

    pthread_mutex_lock(lock);
    end = list->items.end;
    pthread_mutex_unlock(lock);
    grown = shelf_grow(&list->items, end, lock);
    pthread_mutex_lock(lock);
    make_larger(list, list->items.end - SHELF_FIRST);
    pthread_mutex_unlock(lock);
    return grown;
}

/* ---- entries ---------------------------------------------------------------------------- */

void clock_insert(struct clock_list *list, uint32_t number)
{
    put(list, after_hand(list, list->count++), number);
}

void clock_return(struct clock_list *list, uint32_t number)
{
    list->hand = after_hand(list, list->size - 1);
    list->count++;
    put(list, list->hand, number);
}

void clock_remove(struct clock_list *list, uint32_t number)
{
    uint32_t place = *place_of(list, number);

    if (place != list->hand)
        put(list, place, *item_at(list, list->hand));
    list->hand = after_hand(list, 1);
    list->count--;
}

uint32_t clock_ahead(const struct clock_list *list, uint32_t ahead)
{
    return *item_at(list, after_hand(list, ahead));
}

void clock_pass(struct clock_list *list)
{
    uint32_t number = *item_at(list, list->hand);

    list->hand = after_hand(list, 1);
    put(list, after_hand(list, list->count - 1), number);
}
