/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See range_list.h.
 */
#include "core/cache/range_list.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 8
#define LOOKED_AT  4 /* of the ranges that begin at or before an address */

void range_list_free(struct range_list *list)
{
    free(list->at);
}

/* How many ranges begin at or before the address. Without branches that depend on the ranges, which
 * a processor could not predict. */
static uint32_t count_until(const struct range_list *list, uint64_t addr)
{
    const struct range *base = list->at;
    uint32_t left = list->count;

    while (left > 1) {
        uint32_t half = left / 2;

        base = base[half - 1].start <= addr ? base + half : base;
        left -= half;
    }
    return (uint32_t)(base - list->at) + (left && base->start <= addr);
}

static bool grow(struct range_list *list)
{
    uint32_t room = list->room ? 2 * list->room : FIRST_ROOM;
    struct range *made = room <= RANGE_LIST_MOST ? realloc(list->at, room * sizeof(*made)) : NULL;

    if (!made)
        return false;
    list->at = made;
    list->room = room;
    return true;
}

static bool has(const struct range_list *list, uint32_t end, const struct range *range)
{
    for (uint32_t i = end; i && list->at[i - 1].start == range->start; i--)
        if (list->at[i - 1].number == range->number && list->at[i - 1].end == range->end)
            return true;
    return false;
}

void range_list_add(struct range_list *list, struct range range)
{
    uint32_t at = count_until(list, range.start);

    if (has(list, at, &range))
        return;
    if (list->count < list->room || grow(list)) {
        memmove(&list->at[at + 1], &list->at[at], (list->count - at) * sizeof(range));
        list->at[at] = range;
        list->count++;
    } else if (list->count) {
        list->at[at ? at - 1 : 0] = range;
    }
}

void range_list_purge(struct range_list *list, bool (*keeps)(const void *context, uint32_t number),
                      const void *context)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < list->count; i++)
        if (keeps(context, list->at[i].number))
            list->at[kept++] = list->at[i];
    list->count = kept;
}

uint32_t range_list_search(const struct range_list *list, uint64_t start, uint64_t len,
                           unsigned nth)
{
    uint32_t at = count_until(list, start), end = at > LOOKED_AT ? at - LOOKED_AT : 0;

    for (; at > end; at--) {
        const struct range *range = &list->at[at - 1];

        if (start < range->end && len <= range->end - start && !nth--)
            return range->number;
    }
    return 0;
}
