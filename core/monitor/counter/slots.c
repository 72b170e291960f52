/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See slots.h.
 */
#include "core/monitor/counter/slots.h"

#include <stdlib.h>
#include <string.h>

struct slot {
    uint64_t start, end; /* end 0: not entered */
    uint64_t from;
    uint32_t next;
    bool counted;
};

/* What is never entered is never touched, and takes no memory. */
bool slots_open(struct slots *slots, uint32_t count)
{
    slots->count = count;
    slots->all = calloc(count, sizeof(*slots->all));
    slots->heads = malloc(count * sizeof(*slots->heads));
    if (slots->all && slots->heads) {
        memset(slots->heads, 0xff, count * sizeof(*slots->heads));
        return true;
    }
    slots_close(slots);
    return false;
}

void slots_close(struct slots *slots)
{
    free(slots->all);
    free(slots->heads);
}

static uint32_t *head_of(const struct slots *slots, uint64_t start)
{
    return &slots->heads[(start * 0x9e3779b97f4a7c15u >> 32) & (slots->count - 1)];
}

void slots_enter(struct slots *slots, uint32_t slot, uint64_t from, uint64_t start, uint64_t end)
{
    uint32_t *head = head_of(slots, start);

    slots->all[slot] = (struct slot){start, end, from, *head, false};
    *head = slot;
}

bool slots_count(struct slots *slots, uint32_t slot, uint64_t number, uint64_t *start,
                 uint64_t *end)
{
    struct slot *found = slot < slots->count ? &slots->all[slot] : NULL;

    if (!found || !found->end || number < found->from)
        return false;
    found->counted = true;
    *start = found->start;
    *end = found->end;
    return true;
}

uint32_t slots_leave(struct slots *slots, uint64_t start, uint64_t end)
{
    uint32_t *found = NULL, slot;

    for (uint32_t *link = head_of(slots, start); *link != SLOTS_NONE;
         link = &slots->all[*link].next) {
        const struct slot *one = &slots->all[*link];

        if (one->start != start || one->end != end)
            continue;
        if (!found || one->counted)
            found = link;
        if (one->counted)
            break;
    }
    if (!found)
        return SLOTS_NONE;
    slot = *found;
    *found = slots->all[slot].next;
    slots->all[slot].end = 0;
    return slot;
}
