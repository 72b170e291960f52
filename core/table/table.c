/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See <hmreg/table.h>. A write opens all its tokens before it changes an entry; publish.c changes
 * them. Where a rail's provider keeps something for a peer or its keys are raw, the table keeps a
 * slot for each entry, and those that the last write replaced.
 */
#include <hmreg/table.h>

#include "core/base/error.h"
#include "core/base/uncancelled.h"
#include "core/base/validate.h"
#include "core/context/token.h"
#include "core/group/group.h"
#include "core/group/rails_token.h"
#include "core/mr/remote.h"
#include "core/table/publish.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KNOWN_FLAGS (HMREG_TABLE_SHORT | HMREG_TABLE_BIG_ENDIAN)

struct hmreg_table {
    struct hmreg_domain *domain;
    size_t rails, tokens;
    struct table_memory memory;
    struct table_slot *kept; /* of each entry; NULL: links hold nothing */
    struct table_slot *replaced;
    size_t replaced_count;
    atomic_bool busy;
};

/* ---- links ------------------------------------------------------------------------------ */

static void unlink_slots(struct hmreg_table *table, struct table_slot *slots, size_t count)
{
    struct hmreg_error why;

    hmreg_error_save(&why);
    for (size_t i = 0; table->kept && i < count; i++)
        if (slots[i].flags)
            remote_unlink(group_rail(table->domain, i % table->rails), slots[i].key, slots[i].peer);
    hmreg_error_restore(&why);
}

static int check_short(const struct hmreg_table *table, uint64_t key)
{
    if (!(table->memory.flags & HMREG_TABLE_SHORT) || key < HMREG_VERBS_KEY_NOTAVAIL)
        return 0;
    return hmreg_fail(-EOVERFLOW, "the key has more than 32 bits: use a table without "
                                  "HMREG_TABLE_SHORT");
}

static int link_rail(struct hmreg_table *table, const uint8_t *token, size_t size, size_t rail,
                     struct table_slot *out)
{
    struct hmreg_domain *domain = group_rail(table->domain, rail);
    struct remote_link link;
    int rc = remote_link(domain, token, size, &link);

    if (rc)
        return rc;
    rc = check_short(table, link.flat.key);
    if (rc) {
        if (table->kept)
            remote_unlink(domain, link.flat.key, link.priv);
        return rc;
    }
    *out = (struct table_slot){link.flat.base, link.flat.key, link.priv,
                               HMREG_ENTRY_FILLED |
                                   (link.access & HMREG_REMOTE_READ ? HMREG_ENTRY_READ : 0) |
                                   (link.access & HMREG_REMOTE_WRITE ? HMREG_ENTRY_WRITE : 0)};
    return 0;
}

/* As hmreg_remote_open_rails(). slots: empty ones. */
static int link_rails(struct hmreg_table *table, const struct rails_token *token,
                      struct table_slot *slots)
{
    bool partial = table->domain->group->flags & HMREG_GROUP_PARTIAL, any = false;
    int failed = 0;

    for (size_t i = 0; i < table->rails && i < token->count; i++) {
        int rc = token->tokens[i]
                     ? link_rail(table, token->tokens[i], token->sizes[i], i, &slots[i])
                     : 0;

        any |= slots[i].flags != 0;
        failed = rc ? hmreg_fail_at(rc, "rails", i) : failed;
        if (rc && !partial)
            return rc;
    }
    if (any)
        return 0;
    return failed
               ? failed
               : hmreg_fail(-ENOENT, "it has none of the %zu rails of this domain", table->rails);
}

static int link_token(struct hmreg_table *table, const uint8_t *bytes, size_t size,
                      struct table_slot *slots)
{
    struct rails_token token;
    int rc;

    if (!table->domain->group && rails_token_is(bytes, size))
        return hmreg_fail(-EXDEV, "token: it is of a group's region, and the table's domain is no "
                                  "group");
    if (!table->domain->group)
        return link_rail(table, bytes, size, 0, slots);
    if (rails_token_is(bytes, size)) {
        rc = rails_token_read(bytes, size, &token);
        return rc ? rc : link_rails(table, &token, slots);
    }
    token.count = 1;
    token.tokens[0] = bytes;
    token.sizes[0] = size;
    return link_rails(table, &token, slots);
}

/* Tokens as they were gathered. */
struct gathered {
    const uint8_t *bytes;
    size_t size, stride;
};

/* The token at the byte `at`, and where the next one is. */
static int find_token(const struct gathered *all, size_t at, size_t *length, size_t *next)
{
    size_t left = all->size - at, room = all->stride && all->stride < left ? all->stride : left;
    const uint8_t *bytes = all->bytes + at;
    int rc = rails_token_is(bytes, room) ? rails_token_length(bytes, room, length)
                                         : token_length(bytes, room, length);

    *next = at + (all->stride ? room : *length);
    return rc;
}

/* slots: count * rails empty ones. After a failure all are closed. */
static int link_all(struct hmreg_table *table, const struct gathered *all, size_t count,
                    struct table_slot *slots)
{
    struct hmreg_error_guard guard;
    size_t at = 0, length = 0, next = 0;
    int rc = 0;

    hmreg_error_guard(&guard);
    for (size_t i = 0; i < count && !rc; i++, at = next) {
        rc = find_token(all, at, &length, &next);
        rc = rc ? rc : link_token(table, all->bytes + at, length, slots + i * table->rails);
        if (rc)
            hmreg_fail_at(rc, "tokens", i);
    }
    hmreg_error_unguard(&guard, !rc);
    if (rc)
        unlink_slots(table, slots, count * table->rails);
    return rc;
}

/* ---- changes ---------------------------------------------------------------------------- */

static int check_change(const struct hmreg_table *table, size_t first, size_t count)
{
    int rc = validate_pointer(table, "table");

    rc = rc ? rc : domain_check(table->domain);
    if (!rc && !count)
        rc = hmreg_fail(-EINVAL, "count is 0; it must be at least 1");
    if (!rc && (first >= table->tokens || count > table->tokens - first))
        rc = hmreg_fail(-ERANGE, "first is %zu and count %zu; the table has %zu tokens", first,
                        count, table->tokens);
    return rc;
}

/* NULL: no memory. */
static struct table_slot *empty_slots(size_t count)
{
    struct table_slot *slots = malloc(count * sizeof(*slots));

    for (size_t i = 0; slots && i < count; i++)
        slots[i] = (struct table_slot){.key = HMREG_KEY_NOTAVAIL};
    return slots;
}

static void end_replaced(struct hmreg_table *table)
{
    unlink_slots(table, table->replaced, table->replaced_count);
    free(table->replaced);
    table->replaced = NULL;
    table->replaced_count = 0;
}

/* Takes the slots, also after a failure of a device's copy: readers may have some of them. */
static int change(struct hmreg_table *table, size_t first, size_t count, struct table_slot *slots)
{
    int rc = table_publish(&table->memory, first, count, slots);

    end_replaced(table);
    if (!table->kept) {
        free(slots);
        return rc;
    }
    for (size_t i = 0; i < count; i++) {
        struct table_slot old = table->kept[first + i];

        table->kept[first + i] = slots[i];
        slots[i] = old;
    }
    table->replaced = slots;
    table->replaced_count = count;
    return rc;
}

/* all NULL: clears. */
static int write_busy(struct hmreg_table *table, size_t first, size_t count,
                      const struct gathered *all)
{
    struct table_slot *slots = empty_slots(count * table->rails);
    int rc = 0;

    if (!slots)
        return hmreg_fail(-ENOMEM, "no memory for %zu entries", count * table->rails);
    if (all)
        rc = link_all(table, all, count, slots);
    if (!rc)
        return change(table, first * table->rails, count * table->rails, slots);
    free(slots);
    return rc;
}

static int write_alone(struct hmreg_table *table, size_t first, size_t count,
                       const struct gathered *all)
{
    UNCANCELLED;
    int rc;

    if (atomic_exchange(&table->busy, true))
        return hmreg_fail(-EBUSY, "another call changes this table");
    rc = write_busy(table, first, count, all);
    atomic_store(&table->busy, false);
    return rc;
}

int hmreg_table_write(struct hmreg_table *table, size_t first, size_t count, const void *tokens,
                      size_t size, size_t stride)
{
    const struct gathered all = {tokens, size, stride};
    int rc = check_change(table, first, count);

    rc = rc ? rc : validate_pointer(tokens, "tokens");
    return rc ? rc : write_alone(table, first, count, &all);
}

int hmreg_table_clear(struct hmreg_table *table, size_t first, size_t count)
{
    int rc = check_change(table, first, count);

    return rc ? rc : write_alone(table, first, count, NULL);
}

/* ---- opening and closing ---------------------------------------------------------------- */

static int check_open(struct hmreg_domain *domain, void *memory, size_t tokens, uint64_t flags,
                      struct hmreg_table **out)
{
    int rc = domain_check(domain);

    rc = rc ? rc : validate_pointer(memory, "memory");
    rc = rc ? rc : validate_pointer(out, "out");
    rc = rc ? rc : validate_flags(flags, KNOWN_FLAGS, "flags");
    if (!rc && (uintptr_t)memory % 8)
        rc = hmreg_fail(-EINVAL, "memory is %p; it must be aligned to 8 bytes", memory);
    if (!rc && (!tokens || tokens > SIZE_MAX / sizeof(struct table_slot) / HMREG_GROUP_MAX))
        rc = hmreg_fail(-EINVAL, "tokens is %zu; accepted are 1 to %zu", tokens,
                        SIZE_MAX / sizeof(struct table_slot) / HMREG_GROUP_MAX);
    return rc;
}

static bool links_hold(struct hmreg_domain *domain)
{
    for (size_t i = 0; i < hmreg_group_count(domain); i++)
        if (remote_links_hold(group_rail(domain, i)))
            return true;
    return false;
}

static int fill(struct hmreg_table *table, void *memory, uint64_t flags)
{
    size_t entries = table->tokens * table->rails;
    struct table_slot *slots = empty_slots(entries);
    int rc;

    if (slots && links_hold(table->domain))
        table->kept = empty_slots(entries);
    if (!slots || (links_hold(table->domain) && !table->kept)) {
        free(slots);
        return hmreg_fail(-ENOMEM, "no memory for a table of %zu entries", entries);
    }
    rc = table_memory_open(&table->memory, table->domain->lib, memory, entries, (uint32_t)flags,
                           slots);
    free(slots);
    return rc;
}

int hmreg_table_open(struct hmreg_domain *domain, void *memory, size_t tokens, uint64_t flags,
                     struct hmreg_table **out)
{
    struct hmreg_table *table;
    UNCANCELLED;
    int rc = check_open(domain, memory, tokens, flags, out);

    if (rc)
        return rc;
    table = calloc(1, sizeof(*table));
    if (!table)
        return hmreg_fail(-ENOMEM, "no memory for a table");
    table->domain = domain;
    table->tokens = tokens;
    table->rails = hmreg_group_count(domain);
    rc = fill(table, memory, flags);
    if (rc) {
        free(table->kept);
        free(table);
        return rc;
    }
    atomic_fetch_add(&domain->tables, 1);
    *out = table;
    return 0;
}

void hmreg_table_close(struct hmreg_table *table)
{
    UNCANCELLED;

    if (!table || domain_check(table->domain))
        return;
    end_replaced(table);
    unlink_slots(table, table->kept, table->tokens * table->rails);
    table_memory_close(&table->memory);
    atomic_fetch_sub(&table->domain->tables, 1);
    free(table->kept);
    free(table);
}
