/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See publish.h. The CPU replaces one entry after the other, by release stores. If it cannot store
 * there, all entries of a call take each step together: the entries are changed in host memory and
 * copied, and a copy writes words in any order.
 */
#include "core/table/publish.h"

#include "core/base/error.h"
#include "core/base/validate.h"
#include "core/context/resolve.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>

static size_t entry_size(const struct table_memory *memory)
{
    return memory->flags & HMREG_TABLE_SHORT ? sizeof(struct hmreg_table_short)
                                             : sizeof(struct hmreg_table_entry);
}

static uint64_t order64(const struct table_memory *memory, uint64_t value)
{
    return memory->flags & HMREG_TABLE_BIG_ENDIAN ? htobe64(value) : htole64(value);
}

static uint32_t order32(const struct table_memory *memory, uint64_t value)
{
    return memory->flags & HMREG_TABLE_BIG_ENDIAN ? htobe32((uint32_t)value)
                                                  : htole32((uint32_t)value);
}

/* ---- one entry, at `at` ----------------------------------------------------------------- */

/* Release stores: a reader that sees a value sees the odd sequence that precedes it, and one that
 * sees an even sequence sees the values that precede that. */
static inline void set_sequence(const struct table_memory *memory, char *at, uint32_t sequence)
{
    uint32_t *field = memory->flags & HMREG_TABLE_SHORT
                          ? &((struct hmreg_table_short *)at)->sequence
                          : &((struct hmreg_table_entry *)at)->sequence;

    __atomic_store_n(field, sequence, __ATOMIC_RELEASE);
}

static uint32_t entry_flags(uint64_t access)
{
    return (access ? HMREG_TABLE_ENTRY_FILLED : 0) |
           (access & HMREG_REMOTE_READ ? HMREG_TABLE_ENTRY_READ : 0) |
           (access & HMREG_REMOTE_WRITE ? HMREG_TABLE_ENTRY_WRITE : 0);
}

static inline void set_values(const struct table_memory *memory, char *at,
                              const struct remote_link *link)
{
    struct hmreg_table_entry *entry = (struct hmreg_table_entry *)at;
    struct hmreg_table_short *narrow = (struct hmreg_table_short *)at;
    uint64_t key = link->access ? link->key : HMREG_KEY_NOTAVAIL;

    __atomic_store_n(&entry->base, order64(memory, link->base), __ATOMIC_RELEASE);
    if (memory->flags & HMREG_TABLE_SHORT) {
        __atomic_store_n(&narrow->key, order32(memory, key), __ATOMIC_RELEASE);
        return;
    }
    __atomic_store_n(&entry->key, order64(memory, key), __ATOMIC_RELEASE);
    __atomic_store_n(&entry->flags, entry_flags(link->access), __ATOMIC_RELEASE);
}

/* ---- many ------------------------------------------------------------------------------- */

static void store_each(const struct table_memory *shared, char *at, size_t count,
                       const struct remote_link *links)
{
    const struct table_memory own = *shared, *memory = &own; /* not loaded again for each store */

    for (size_t i = 0; i < count; i++, at += entry_size(memory)) {
        set_sequence(memory, at, memory->sequence - 1);
        set_values(memory, at, &links[i]);
        set_sequence(memory, at, memory->sequence);
    }
}

static void set_sequences(const struct table_memory *memory, char *at, size_t count,
                          uint32_t sequence)
{
    for (size_t i = 0; i < count; i++, at += entry_size(memory))
        set_sequence(memory, at, sequence);
}

static int copy_steps(const struct table_memory *memory, size_t first, size_t count,
                      const struct remote_link *links)
{
    size_t skip = first * entry_size(memory), len = count * entry_size(memory);
    char *place = memory->place + skip, *shadow = memory->shadow + skip;
    int rc;

    set_sequences(memory, shadow, count, memory->sequence - 1);
    rc = hmreg_copy(memory->lib, place, shadow, len);
    for (size_t i = 0; i < count; i++)
        set_values(memory, shadow + i * entry_size(memory), &links[i]);
    rc = rc ? rc : hmreg_copy(memory->lib, place, shadow, len);
    if (rc)
        return rc;
    set_sequences(memory, shadow, count, memory->sequence);
    return hmreg_copy(memory->lib, place, shadow, len);
}

int table_publish(struct table_memory *memory, size_t first, size_t count,
                  const struct remote_link *links)
{
    memory->sequence += 2;
    if (memory->shadow)
        return copy_steps(memory, first, count, links);
    store_each(memory, memory->place + first * entry_size(memory), count, links);
    return 0;
}

/* ---- opening and closing ---------------------------------------------------------------- */

static int find_place(struct table_memory *memory, void *place, size_t len, bool *host)
{
    struct resolved found;
    uint64_t at = (uint64_t)(uintptr_t)place;
    int rc = validate_range_of("memory", place, len);

    rc = rc ? rc : resolve_fully(memory->lib, at, len, &found);
    if (rc)
        return rc;
    *host = resolved_is_host(&found) && found.range.host_addr;
    if (*host && found.range.read_only)
        return hmreg_fail(-EFAULT, "memory: %p is not mapped for writing", place);
    memory->place = *host ? (char *)(uintptr_t)found.range.host_addr : place;
    return 0;
}

static void store_none(const struct table_memory *memory, char *at, size_t entries)
{
    static const struct remote_link none;

    for (size_t i = 0; i < entries; i++, at += entry_size(memory))
        store_each(memory, at, 1, &none);
}

int table_memory_open(struct table_memory *memory, struct hmreg *lib, void *place, size_t entries,
                      uint32_t flags)
{
    size_t len;
    bool host = false;
    int rc;

    *memory = (struct table_memory){.lib = lib, .flags = flags};
    len = entries * entry_size(memory);
    rc = find_place(memory, place, len, &host);
    if (rc)
        return rc;
    memory->shadow = host ? NULL : malloc(len);
    if (!host && !memory->shadow)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for a copy of %zu entries", entries);
    store_none(memory, host ? memory->place : memory->shadow, entries);
    rc = host ? 0 : hmreg_copy(lib, place, memory->shadow, len);
    if (rc)
        table_memory_close(memory);
    return rc;
}

void table_memory_close(struct table_memory *memory)
{
    free(memory->shadow);
    memory->shadow = NULL;
}
