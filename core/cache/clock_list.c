/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See clock_list.h.
 */
#include "core/cache/clock_list.h"

#include <stdlib.h>

/* The highest bit of place / CLOCK_FIRST selects the part. */
static uint32_t *item_at(const struct clock_list *list, uint32_t place)
{
    uint32_t high = place / CLOCK_FIRST;
    unsigned bit = high ? 31 - (unsigned)__builtin_clz(high) : 0;

    return high ? &list->parts[bit + 1][place - (CLOCK_FIRST << bit)] : &list->parts[0][place];
}

static uint32_t *place_of(const struct clock_list *list, uint32_t number)
{
    return (uint32_t *)((char *)stable_array_rest_at(list->entries, number) + list->offset);
}

static void put(struct clock_list *list, uint32_t place, uint32_t number)
{
    *item_at(list, place) = number;
    *place_of(list, number) = place;
}

/* The place `distance` after the hand; the sum is at most 2 * size - 1. */
static uint32_t after_hand(const struct clock_list *list, uint32_t distance)
{
    uint32_t place = list->hand + distance;

    return place < list->size ? place : place - list->size;
}

void clock_init(struct clock_list *list, const struct stable_array *entries, size_t offset)
{
    *list = (struct clock_list){.entries = entries, .offset = offset};
}

void clock_free(struct clock_list *list)
{
    for (unsigned i = 0; i < CLOCK_PARTS; i++)
        free(list->parts[i]);
}

/* ---- the ring --------------------------------------------------------------------------- */

/* Entries that had wrapped past the old ring's end move to the places beyond it. */
static void make_larger(struct clock_list *list, uint32_t size)
{
    uint32_t old = list->size, end = list->hand + list->count;

    for (uint32_t place = old; place < end; place++)
        put(list, place, *item_at(list, place - old));
    list->size = size;
}

static unsigned count_parts(const struct clock_list *list)
{
    unsigned count = 0;

    while (count < CLOCK_PARTS && list->parts[count])
        count++;
    return count;
}

/* Threads that grow the ring concurrently add one part. */
bool clock_grow(struct clock_list *list, pthread_mutex_t *lock)
{
    unsigned parts;
    uint32_t *made, places;

    pthread_mutex_lock(lock);
    parts = count_parts(list);
    pthread_mutex_unlock(lock);
    if (parts == CLOCK_PARTS)
        return false;
    places = parts ? CLOCK_FIRST << (parts - 1) : CLOCK_FIRST;
    made = calloc(places, sizeof(*made));
    if (!made)
        return false;
    pthread_mutex_lock(lock);
    if (!list->parts[parts]) {
        list->parts[parts] = made;
        made = NULL;
        make_larger(list, list->size + places);
    }
    pthread_mutex_unlock(lock);
    free(made); /* another thread was faster */
    return true;
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
