/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See slots.h.
 */
#include "core/monitor/counter/slots.h"

#include <stdlib.h>

struct slot {
    uint64_t start, end, seq;
    uint32_t next;
};

/* Untouched slots of calloc() cost no physical memory. */
bool slots_open(struct slots *slots, uint32_t number, const uint64_t *counts)
{
    slots->counts = counts;
    slots->number = number;
    slots->all = calloc(number, sizeof(*slots->all));
    slots->heads = malloc(number * sizeof(*slots->heads));
    if (!slots->all || !slots->heads) {
        slots_close(slots);
        return false;
    }
    for (uint32_t i = 0; i < number; i++)
        slots->heads[i] = SLOTS_NONE;
    return true;
}

void slots_close(struct slots *slots)
{
    free(slots->all);
    free(slots->heads);
}

static uint32_t *head_of(const struct slots *slots, uint64_t start)
{
    return &slots->heads[(start * 0x9e3779b97f4a7c15u >> 32) & (slots->number - 1)];
}

void slots_enter(struct slots *slots, uint32_t slot, uint64_t seq, uint64_t start, uint64_t end)
{
    uint32_t *head = head_of(slots, start);

    slots->all[slot] = (struct slot){start, end, seq, *head};
    *head = slot;
}

static bool is_counted(const struct slots *slots, uint32_t slot)
{
    return __atomic_load_n(&slots->counts[slot], __ATOMIC_ACQUIRE) != slots->all[slot].seq;
}

uint32_t slots_leave(struct slots *slots, uint64_t start, uint64_t end)
{
    uint32_t *found = NULL, slot;

    for (uint32_t *link = head_of(slots, start); *link != SLOTS_NONE;
         link = &slots->all[*link].next) {
        if (slots->all[*link].start != start || slots->all[*link].end != end)
            continue;
        if (!found || is_counted(slots, *link))
            found = link;
    }
    if (!found)
        return SLOTS_NONE;
    slot = *found;
    *found = slots->all[slot].next;
    return slot;
}
