/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See alloc_ids.h. The index is an array of live allocations, disjoint and sorted by address,
 * protected by a seqlock: readers search it without a lock and accept the result if `turn` was
 * even and did not change during the search. Everything a reader may touch stays allocated (slots
 * forever, a replaced array until alloc_ids_forget()), so a reader that races with a writer reads
 * inconsistent values but valid memory.
 *
 * All atomics are sequentially consistent: a reader that sees an entry of a change that goes on
 * sees the odd turn, or a later one, when it reads turn again.
 */
#include "hmem/alloc_ids.h"

#include <stdlib.h>

#define FIRST_ROOM    64
#define READ_ATTEMPTS 4

struct entry {
    _Atomic uint64_t base;
    _Atomic(struct alloc_id *) slot;
};

struct alloc_ids_index {
    struct alloc_ids_index *replaced; /* older arrays, freed by alloc_ids_forget() */
    size_t room;
    struct entry entries[];
};

static _Atomic uint64_t last_number;

/* ---- reading ------------------------------------------------------------------------- */

/* The number of entries that begin at or below addr. */
static size_t entries_up_to(const struct alloc_ids_index *index, size_t count, uint64_t addr)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (index->entries[middle].base <= addr)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool covers(const struct alloc_id *slot, uint64_t addr, size_t len)
{
    uint64_t base = slot->base, whole = slot->len;

    return addr >= base && addr - base < whole && len <= whole - (addr - base);
}

static uint64_t search(struct alloc_ids *table, uint64_t addr, size_t len)
{
    const struct alloc_ids_index *index = table->index;
    size_t count = table->count;
    const struct alloc_id *slot;

    if (!index)
        return 0;
    /* The count may belong to a later, larger array. */
    count = entries_up_to(index, count < index->room ? count : index->room, addr);
    if (!count)
        return 0;
    slot = index->entries[count - 1].slot;
    return slot && covers(slot, addr, len) ? slot->number : 0;
}

uint64_t alloc_ids_find(struct alloc_ids *table, uint64_t addr, size_t len)
{
    uint64_t found;

    for (int i = 0; i < READ_ATTEMPTS; i++) {
        uint64_t turn = table->turn;

        found = search(table, addr, len);
        if (turn % 2 == 0 && table->turn == turn)
            return found;
    }
    /* Writers made each attempt fail. */
    pthread_mutex_lock(&table->lock);
    found = search(table, addr, len);
    pthread_mutex_unlock(&table->lock);
    return found;
}

/* ---- changing the index, under the lock ---------------------------------------------- */

static void set_entry(struct entry *entry, struct alloc_id *slot)
{
    entry->base = slot->base;
    entry->slot = slot;
}

static bool ended(const struct alloc_id *slot)
{
    return slot->number == 0;
}

/* Makes the slots of ended allocations spare, then removes such slots from the index: what ends
 * meanwhile leaves the index too, and becomes spare the next time. So no spare slot is indexed. */
static void collect(struct alloc_ids *table)
{
    struct alloc_id **link = &table->drawn;
    size_t kept = 0;

    while (*link) {
        struct alloc_id *slot = *link;

        if (!ended(slot)) {
            link = &slot->next;
            continue;
        }
        *link = slot->next;
        slot->next = table->spare;
        table->spare = slot;
        table->drawn_count--;
    }
    table->turn++;
    for (size_t i = 0; i < table->count; i++) {
        struct alloc_id *slot = table->index->entries[i].slot;

        if (!ended(slot))
            set_entry(&table->index->entries[kept++], slot);
    }
    table->count = kept;
    table->turn++;
    table->collect_at = table->drawn_count < FIRST_ROOM ? FIRST_ROOM : 2 * table->drawn_count;
}

static bool grow(struct alloc_ids *table)
{
    struct alloc_ids_index *old = table->index;
    size_t room = old ? old->room * 2 : FIRST_ROOM;
    struct alloc_ids_index *index = calloc(1, sizeof(*index) + room * sizeof(index->entries[0]));

    if (!index)
        return false;
    index->room = room;
    index->replaced = old;
    for (size_t i = 0; old && i < table->count; i++)
        set_entry(&index->entries[i], old->entries[i].slot);
    table->turn++;
    table->index = index;
    table->turn++;
    return true;
}

/* An index that is more than half full after a collection grows; otherwise it would soon need
 * another. */
static bool make_room(struct alloc_ids *table)
{
    const struct alloc_ids_index *index = table->index;

    if (index && table->count < index->room)
        return true;
    collect(table);
    return (index && table->count <= index->room / 2) || grow(table);
}

static void insert(struct alloc_ids *table, size_t at, struct alloc_id *slot)
{
    struct entry *entries = table->index->entries;

    table->turn++;
    for (size_t i = table->count; i > at; i--)
        set_entry(&entries[i], entries[i - 1].slot);
    set_entry(&entries[at], slot);
    table->count++;
    table->turn++;
}

static bool overlap(const struct alloc_id *a, const struct alloc_id *b)
{
    return a->base < b->base + b->len && b->base < a->base + a->len;
}

/* Entries are disjoint, so only the neighbours of the slot's position can overlap it. */
static struct alloc_id *overlapped(struct alloc_ids *table, const struct alloc_id *slot)
{
    const struct alloc_ids_index *index = table->index;
    size_t at;

    if (!index)
        return NULL;
    at = entries_up_to(index, table->count, slot->base);
    if (at > 0 && overlap(index->entries[at - 1].slot, slot))
        return index->entries[at - 1].slot;
    if (at < table->count && overlap(index->entries[at].slot, slot))
        return index->entries[at].slot;
    return NULL;
}

static uint64_t enter(struct alloc_ids *table, struct alloc_id *slot)
{
    struct alloc_id *other = overlapped(table, slot);

    if (other && ended(other)) {
        collect(table);
        other = overlapped(table, slot);
    }
    if (other)
        return other->base == slot->base && other->len == slot->len ? other->number : 0;
    /* A collection has made the slot spare if its allocation had ended. */
    if (!make_room(table) || ended(slot))
        return 0;
    insert(table, entries_up_to(table->index, table->count, slot->base), slot);
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

/* A callback that was in flight when it was deregistered may run later and end another
 * allocation's id: that costs a cache miss and never causes a stale hit. */
void alloc_ids_forget(struct alloc_ids *table, void (*revoke)(void *arg, uint64_t base), void *arg)
{
    while (table->index) {
        struct alloc_ids_index *older = table->index->replaced;

        free(table->index);
        table->index = older;
    }
    table->count = 0;
    for (struct alloc_id *slot = table->drawn; slot; slot = slot->next) {
        if (!ended(slot))
            revoke(arg, slot->base);
        alloc_ids_end(slot);
    }
    table->collect_at = 0;
}
