/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See clock_list.h.
 */
#include "core/base/clock_list.h"

static struct clock_link *link_of(const struct clock_list *list, uint32_t number)
{
    return (struct clock_link *)((char *)stable_array_second_at(list->entries, number) +
                                 list->offset);
}

void clock_init(struct clock_list *list, const struct stable_array *entries, size_t offset)
{
    *list = (struct clock_list){.entries = entries, .offset = offset};
}

void clock_insert(struct clock_list *list, uint32_t number)
{
    struct clock_link *link = link_of(list, number), *hand;

    if (!list->count++) {
        *link = (struct clock_link){number, number};
        list->hand = number;
        return;
    }
    hand = link_of(list, list->hand);
    *link = (struct clock_link){list->hand, hand->before};
    link_of(list, hand->before)->next = number;
    hand->before = number;
}

void clock_return(struct clock_list *list, uint32_t number)
{
    clock_insert(list, number);
    list->hand = number;
}

void clock_remove(struct clock_list *list, uint32_t number)
{
    const struct clock_link *link = link_of(list, number);

    link_of(list, link->before)->next = link->next;
    link_of(list, link->next)->before = link->before;
    if (list->hand == number)
        list->hand = link->next;
    if (!--list->count)
        list->hand = 0;
}

uint32_t clock_next(const struct clock_list *list, uint32_t number)
{
    return link_of(list, number)->next;
}

void clock_pass(struct clock_list *list)
{
    list->hand = clock_next(list, list->hand);
}
