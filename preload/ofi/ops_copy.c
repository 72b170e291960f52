/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See ops_copy.h. Shared copies are in a list that only grows, by one for each table of each
 * provider in use. Two threads may both add a copy of one table, which does no harm.
 */
#include "preload/ofi/ops_copy.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct copy {
    const void *original;
    void *owner;
    struct copy *next;                  /* the next shared copy */
    _Alignas(max_align_t) char table[]; /* begins with its size, as all tables of libfabric */
};

static _Atomic(struct copy *) shared;

static struct copy *copy_of(const void *table)
{
    return (struct copy *)((char *)(uintptr_t)table - offsetof(struct copy, table));
}

void *ops_copy_new(const void *original, void *owner)
{
    size_t size = *(const size_t *)original;
    struct copy *made = malloc(sizeof(*made) + size);

    if (!made)
        return NULL;
    *made = (struct copy){.original = original, .owner = owner};
    memcpy(made->table, original, size);
    return made->table;
}

void ops_copy_free(void *copy)
{
    if (copy)
        free(copy_of(copy));
}

void *ops_copy_owner(const void *copy)
{
    return copy_of(copy)->owner;
}

const void *ops_copy_original(const void *copy)
{
    return copy_of(copy)->original;
}

/* Acquire: pairs with add(). */
static struct copy *find(const void *original)
{
    struct copy *at = atomic_load_explicit(&shared, memory_order_acquire);

    while (at && at->original != original && at->table != (const char *)original)
        at = at->next;
    return at;
}

static void add(struct copy *made)
{
    made->next = atomic_load_explicit(&shared, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&shared, &made->next, made, memory_order_release,
                                                  memory_order_relaxed))
        ;
}

void *ops_copy_shared(const void *original, void (*change)(void *copy))
{
    struct copy *found = find(original);
    void *table;

    if (found)
        return found->table;
    table = ops_copy_new(original, NULL);
    if (!table)
        return NULL;
    change(table);
    add(copy_of(table));
    return table;
}
