/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See native_table.h. A hash table with open addresses. The kernel wipes it at a fork, its lock
 * too. Under the lock only the allocator is called.
 */
#include "preload/verbs/native_table.h"

#include "preload/fork_wiped.h"

#include <pthread.h>
#include <stdlib.h>

#define FIRST_SIZE 256

struct table {
    pthread_mutex_t lock;
    struct native_entry *elements; /* mr NULL: free */
    size_t size, count;
};

static struct fork_wiped memory = {.size = sizeof(struct table)};

static size_t place_of(const struct table *table, const struct ibv_mr *mr)
{
    return (size_t)((uint64_t)(uintptr_t)mr * UINT64_C(0x9e3779b97f4a7c15) >> 20) &
           (table->size - 1);
}

/* The element with mr, or the free element for it. */
static struct native_entry *find(const struct table *table, const struct ibv_mr *mr)
{
    size_t place = place_of(table, mr);

    while (table->elements[place].mr && table->elements[place].mr != mr)
        place = (place + 1) & (table->size - 1);
    return &table->elements[place];
}

static bool grow(struct table *table)
{
    struct table larger = {.size = table->size ? 2 * table->size : FIRST_SIZE};

    if (table->size && 2 * table->count < table->size)
        return true;
    larger.elements = calloc(larger.size, sizeof(*larger.elements));
    if (!larger.elements)
        return false;
    for (size_t i = 0; i < table->size; i++)
        if (table->elements[i].mr)
            *find(&larger, table->elements[i].mr) = table->elements[i];
    free(table->elements);
    table->elements = larger.elements;
    table->size = larger.size;
    return true;
}

bool native_table_add(const struct native_entry *entry)
{
    struct table *table = fork_wiped_get(&memory);
    bool room;

    if (!table)
        return false;
    pthread_mutex_lock(&table->lock);
    room = grow(table);
    if (room) {
        struct native_entry *place = find(table, entry->mr);

        table->count += !place->mr;
        *place = *entry;
    }
    pthread_mutex_unlock(&table->lock);
    return room;
}

/* Frees an element, and moves later elements up that find() would no longer reach. */
static void clear(struct table *table, struct native_entry *element)
{
    size_t hole = (size_t)(element - table->elements), at = hole;

    for (;;) {
        at = (at + 1) & (table->size - 1);
        if (!table->elements[at].mr)
            break;
        if (((at - place_of(table, table->elements[at].mr)) & (table->size - 1)) <
            ((at - hole) & (table->size - 1)))
            continue;
        table->elements[hole] = table->elements[at];
        hole = at;
    }
    table->elements[hole].mr = NULL;
    table->count--;
}

bool native_table_take(const struct ibv_mr *mr, struct native_entry *out)
{
    struct table *table = fork_wiped_get(&memory);
    struct native_entry *element = NULL;

    if (!table)
        return false;
    pthread_mutex_lock(&table->lock);
    if (table->size)
        element = find(table, mr);
    if (element && element->mr) {
        *out = *element;
        clear(table, element);
    } else {
        element = NULL;
    }
    pthread_mutex_unlock(&table->lock);
    return element;
}
