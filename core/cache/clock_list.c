/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See clock_list.h.
 */
#include "core/cache/clock_list.h"

#include "core/base/work.h"

#include <stdlib.h>

/* The entries that move to a new part whenever an entry becomes the last. One would do. */
#define MOVED 8

/* The highest bit of place / CLOCK_FIRST selects the part. */
static uint32_t *stored_at(const struct clock_list *list, uint32_t place)
{
    uint32_t high = place / CLOCK_FIRST;
    unsigned bit = high ? 31 - (unsigned)__builtin_clz(high) : 0;

    return high ? &list->parts[bit + 1][place - (CLOCK_FIRST << bit)] : &list->parts[0][place];
}

static uint32_t *place_of(const struct clock_list *list, uint32_t number)
{
    return (uint32_t *)((char *)stable_array_second_at(list->entries, number) + list->offset);
}

/* Where the ring has the entry of a place. */
static uint32_t stored(const struct clock_list *list, uint32_t place)
{
    uint32_t before = place - list->part;

    return before >= list->late && before < list->late_end ? before : place;
}

/* The reverse: an entry has the number of where it is stored. */
static uint32_t place_at(const struct clock_list *list, uint32_t at)
{
    return at >= list->late && at < list->late_end ? at + list->part : at;
}

static uint32_t item_at(const struct clock_list *list, uint32_t place)
{
    return *stored_at(list, stored(list, place));
}

static void put(struct clock_list *list, uint32_t place, uint32_t number)
{
    uint32_t at = stored(list, place);

    *stored_at(list, at) = number;
    *place_of(list, number) = at;
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

/* Entries that had wrapped past the old ring's end move to the places beyond it, later. The last
 * such moves are done: each insertion made some. */
static void make_larger(struct clock_list *list, uint32_t size)
{
    uint32_t end = list->hand + list->count;

    list->late = 0;
    list->late_end = end > list->size ? end - list->size : 0;
    list->part = list->size;
    list->size = size;
}

static bool is_taken(const struct clock_list *list, uint32_t place)
{
    uint32_t after = place < list->hand ? place + list->size : place;

    return after - list->hand < list->count;
}

/* Moves the entry that is stored at `at`, which is no longer among the late ones. */
static void move(struct clock_list *list, uint32_t at)
{
    work_count(1);
    if (is_taken(list, at + list->part)) /* else the hand has passed it */
        put(list, at + list->part, *stored_at(list, at));
}

/* From the lowest on: the last entry will be there, once it has gone round the ring's end. */
static void move_some(struct clock_list *list)
{
    for (unsigned i = 0; i < MOVED && list->late < list->late_end; i++)
        move(list, list->late++);
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
    move_some(list);
    put(list, after_hand(list, list->count++), number);
}

void clock_return(struct clock_list *list, uint32_t number)
{
    if (list->late < list->late_end && list->hand == list->late_end)
        move(list, --list->late_end);
    list->hand = after_hand(list, list->size - 1);
    list->count++;
    put(list, list->hand, number);
}

void clock_remove(struct clock_list *list, uint32_t number)
{
    uint32_t place = place_at(list, *place_of(list, number));

    if (place != list->hand)
        put(list, place, item_at(list, list->hand));
    list->hand = after_hand(list, 1);
    list->count--;
}

uint32_t clock_ahead(const struct clock_list *list, uint32_t ahead)
{
    return item_at(list, after_hand(list, ahead));
}

void clock_pass(struct clock_list *list)
{
    uint32_t number = item_at(list, list->hand);

    move_some(list);
    list->hand = after_hand(list, 1);
    put(list, after_hand(list, list->count - 1), number);
}
