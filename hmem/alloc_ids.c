/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See alloc_ids.h. The index is an array of live allocations, disjoint and sorted by address.
 */
#include "hmem/alloc_ids.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 64

static _Atomic uint64_t last_number;

static bool slot_has_ended(const struct alloc_id *slot)
{
    return slot->number == 0;
}

/* ---- the index, under the lock ------------------------------------------------------- */

/* The number of entries with a start at or below addr. */
static size_t entries_up_to(const struct alloc_ids *table, uint64_t addr)
{
    size_t low = 0, high = table->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (table->index[middle]->base <= addr)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool covers(const struct alloc_id *slot, uint64_t addr, size_t len)
{
    return addr - slot->base < slot->len && len <= slot->len - (addr - slot->base);
}

uint64_t alloc_ids_find(struct alloc_ids *table, uint64_t addr, size_t len)
{
    uint64_t found = 0;
    size_t count;

    pthread_mutex_lock(&table->lock);
    count = entries_up_to(table, addr);
    if (count && covers(table->index[count - 1], addr, len))
        found = table->index[count - 1]->number;
    pthread_mutex_unlock(&table->lock);
    return found;
}

/* Makes the slots of ended allocations spare, then removes all ended slots from the index. A slot
 * that ends meanwhile also leaves the index, and becomes spare the next time. So no spare slot is
 * indexed. */
static void collect(struct alloc_ids *table)
{
    struct alloc_id **link = &table->drawn;
    size_t kept = 0;

    while (*link) {
        struct alloc_id *slot = *link;

        if (!slot_has_ended(slot)) {
            link = &slot->next;
            continue;
        }
        *link = slot->next;
        slot->next = table->spare;
        table->spare = slot;
        table->drawn_count--;
    }
    for (size_t i = 0; i < table->count; i++)
        if (!slot_has_ended(table->index[i]))
            table->index[kept++] = table->index[i];
    table->count = kept;
    table->collect_at = table->drawn_count < FIRST_ROOM ? FIRST_ROOM : 2 * table->drawn_count;
}

/* An index that is more than half full after a collection grows; otherwise it would soon need
 * another. */
static bool make_room(struct alloc_ids *table)
{
    size_t room = table->room ? table->room * 2 : FIRST_ROOM;
    struct alloc_id **made;

    if (table->count < table->room)
        return true;
    collect(table);
    if (table->room && table->count <= table->room / 2)
        return true;
    made = realloc(table->index, room * sizeof(struct alloc_id *));
    if (!made)
        return false;
    table->index = made;
    table->room = room;
    return true;
}

/* Entries are disjoint, so only the neighbours of the slot's position can overlap it. */
static struct alloc_id *overlapped(const struct alloc_ids *table, const struct alloc_id *slot)
{
    size_t at = entries_up_to(table, slot->base);

    for (size_t i = at ? at - 1 : 0; i <= at && i < table->count; i++) {
        struct alloc_id *other = table->index[i];

        if (other->base < slot->base + slot->len && slot->base < other->base + other->len)
            return other;
    }
    return NULL;
}

static uint64_t enter(struct alloc_ids *table, struct alloc_id *slot)
{
    struct alloc_id *other = overlapped(table, slot);
    size_t at;

    if (other && slot_has_ended(other)) {
        collect(table);
        other = overlapped(table, slot);
    }
    if (other)
        return other->base == slot->base && other->len == slot->len ? other->number : 0;
    /* A collection has made the slot spare if its allocation had ended. */
    if (!make_room(table) || slot_has_ended(slot))
        return 0;
    at = entries_up_to(table, slot->base);
    memmove(&table->index[at + 1], &table->index[at],
            (table->count++ - at) * sizeof(struct alloc_id *));
    table->index[at] = slot;
    return slot->number;
}

uint64_t alloc_ids_enter(struct alloc_ids *table, struct alloc_id *slot)
{
    uint64_t number;

    pthread_mutex_lock(&table->lock);
    number = enter(table, slot);
    pthread_mutex_unlock(&table->lock);
    return number;
}

/* ---- slots --------------------------------------------------------------------------- */

static struct alloc_id *take_slot(struct alloc_ids *table)
{
    struct alloc_id *slot;

    if (!table->spare && table->drawn_count >= table->collect_at)
        collect(table);
    slot = table->spare;
    if (!slot)
        return calloc(1, sizeof(*slot));
    table->spare = slot->next;
    return slot;
}

struct alloc_id *alloc_ids_draw(struct alloc_ids *table, uint64_t base, size_t len)
{
    struct alloc_id *slot;

    pthread_mutex_lock(&table->lock);
    slot = take_slot(table);
    if (slot) {
        slot->base = base;
        slot->len = len;
        slot->number = ++last_number;
        slot->next = table->drawn;
        table->drawn = slot;
        table->drawn_count++;
    }
    pthread_mutex_unlock(&table->lock);
    return slot;
}

void alloc_ids_end(struct alloc_id *slot)
{
    slot->number = 0;
}

/* ---- the end ------------------------------------------------------------------------- */

/* A callback that was in flight when it was deregistered may run later and end another allocation's
 * id: that costs a cache miss and never causes a stale hit. */
void alloc_ids_forget(struct alloc_ids *table, void (*revoke)(void *arg, uint64_t base), void *arg)
{
    free(table->index);
    table->index = NULL;
    table->count = table->room = table->collect_at = 0;
    for (struct alloc_id *slot = table->drawn; slot; slot = slot->next) {
        if (!slot_has_ended(slot))
            revoke(arg, slot->base);
        alloc_ids_end(slot);
    }
}
