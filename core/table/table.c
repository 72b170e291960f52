/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See <hmreg/table.h>. A write opens all its tokens before it changes an entry; publish.c changes
 * them. If a rail's provider keeps data for a peer, or its keys are raw, the table keeps a link for
 * each entry, and the links that the last write replaced.
 */
#include <hmreg/table.h>

#include "core/base/error.h"
#include "core/base/failure.h"
#include "core/base/uncancelled.h"
#include "core/base/validate.h"
#include "core/group/group.h"
#include "core/remote/rails_token.h"
#include "core/table/publish.h"

#include <errno.h>
#include <stdlib.h>

#define KNOWN_FLAGS (HMREG_TABLE_SHORT | HMREG_TABLE_BIG_ENDIAN)

struct hmreg_table {
    struct hmreg_domain *domain;
    size_t rails, tokens;
    struct table_memory memory;
    struct remote_link *kept; /* of each entry; NULL: links hold nothing */
    struct remote_link *replaced;
    size_t replaced_count;
    atomic_bool busy;
};

/* ---- links ------------------------------------------------------------------------------ */

static void unlink_each(struct hmreg_table *table, const struct remote_link *links, size_t count)
{
    struct hmreg_error why;

    hmreg_error_save(&why);
    for (size_t i = 0; table->kept && i < count; i++)
        if (links[i].access)
            remote_unlink(&links[i]);
    hmreg_error_restore(&why);
}

/* Gathered tokens, and the reader's place in them. */
struct gathered {
    const uint8_t *bytes;
    size_t size, stride;
    struct remote_links links;
};

static int check_short(const struct hmreg_table *table, uint64_t key)
{
    if (!(table->memory.flags & HMREG_TABLE_SHORT) || key < HMREG_VERBS_KEY_NOTAVAIL)
        return 0;
    return hmreg_fail(-EOVERFLOW, "the key has more than 32 bits: use a table without "
                                  "HMREG_TABLE_SHORT");
}

static int open_rail(struct hmreg_table *table, size_t rail, const uint8_t *token, size_t size,
                     struct remote_links *links, struct remote_link *out, size_t *length)
{
    struct hmreg_domain *domain = group_rail(table->domain, rail);
    int rc = remote_link(domain, token, size, links, out, length);

    rc = rc ? rc : check_short(table, out->key);
    if (rc && out->access) {
        if (table->kept)
            remote_unlink(out);
        out->access = 0;
    }
    return rc;
}

/* As hmreg_remote_open_rails(). */
static int open_rails(struct hmreg_table *table, const struct rails_token *token,
                      struct remote_links *links, struct remote_link *out)
{
    bool partial = table->domain->group->flags & HMREG_GROUP_PARTIAL, any = false;
    int failed = 0;

    for (size_t i = 0; i < table->rails && i < token->count; i++) {
        int rc = 0;

        if (token->sizes[i] && !group_is_without(table->domain, i))
            rc = open_rail(table, i, token->tokens[i], token->sizes[i], links, &out[i], NULL);
        any |= out[i].access != 0;
        failed = rc ? hmreg_fail_at(rc, "rails[%zu]", i) : failed;
        if (rc && !partial)
            return rc;
    }
    if (any)
        return 0;
    return failed ? failed
                  : hmreg_fail(-ENOENT,
                               "token: it has no rail of the table's group, which has %zu rails",
                               table->rails);
}

/* Not inlined, which benefits tokens of one region. */
static __attribute__((noinline)) int open_group_token(struct hmreg_table *table,
                                                      const uint8_t *bytes, size_t size,
                                                      struct remote_links *links,
                                                      struct remote_link *out, size_t *length)
{
    struct rails_token token;
    int rc;

    if (!table->domain->group)
        return hmreg_fail(-EXDEV,
                          "token: its region is a group's, but the table's domain is no group");
    rc = rails_token_read_next(bytes, size, &token, length);
    return rc ? rc : open_rails(table, &token, links, out);
}

/* Reads the token that begins at bytes, of which `size` can be read, and its length. */
static int open_token(struct hmreg_table *table, const uint8_t *bytes, size_t size,
                      struct remote_links *links, struct remote_link *out, size_t *length)
{
    return rails_token_is(bytes, size) ? open_group_token(table, bytes, size, links, out, length)
                                       : open_rail(table, 0, bytes, size, links, out, length);
}

/* links: count * rails empty ones. After a failure all are ended. */
static int open_all(struct hmreg_table *table, struct gathered *all, size_t count,
                    struct remote_link *links)
{
    struct hmreg_error_guard guard;
    size_t at = 0, length = 0;
    int rc = 0;

    hmreg_error_guard(&guard);
    for (size_t i = 0; i < count && !rc; i++) {
        size_t left = all->size - at, room = all->stride && all->stride < left ? all->stride : left;

        rc = open_token(table, all->bytes + at, room, &all->links, links + i * table->rails,
                        &length);
        at += all->stride ? room : length;
        if (rc)
            hmreg_fail_at(rc, "tokens[%zu]", i);
    }
    hmreg_error_unguard(&guard, !rc);
    if (rc)
        unlink_each(table, links, count * table->rails);
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

static void end_replaced(struct hmreg_table *table)
{
    unlink_each(table, table->replaced, table->replaced_count);
    free(table->replaced);
    table->replaced = NULL;
    table->replaced_count = 0;
}

/* Takes the links, also after a failed copy to a device: readers may have loaded some of them. */
static int change(struct hmreg_table *table, size_t first, size_t count, struct remote_link *links)
{
    int rc = table_publish(&table->memory, first, count, links);

    end_replaced(table);
    if (!table->kept) {
        free(links);
        return rc;
    }
    for (size_t i = 0; i < count; i++) {
        struct remote_link old = table->kept[first + i];

        table->kept[first + i] = links[i];
        links[i] = old;
    }
    table->replaced = links;
    table->replaced_count = count;
    return rc;
}

/* all NULL: clears. */
static int write_links(struct hmreg_table *table, size_t first, size_t count, struct gathered *all)
{
    struct remote_link *links = calloc(count * table->rails, sizeof(*links));
    int rc = 0;

    if (!links)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for %zu entries", count * table->rails);
    if (all)
        rc = open_all(table, all, count, links);
    if (!rc)
        return change(table, first * table->rails, count * table->rails, links);
    free(links);
    return rc;
}

static int lock_and_write(struct hmreg_table *table, size_t first, size_t count,
                          struct gathered *all)
{
    UNCANCELLED;
    int rc;

    if (atomic_exchange(&table->busy, true))
        return hmreg_fail(-EBUSY,
                          "another thread's call is writing this table; only one may at a time");
    rc = write_links(table, first, count, all);
    atomic_store(&table->busy, false);
    return rc;
}

int hmreg_table_write(struct hmreg_table *table, size_t first, size_t count, const void *tokens,
                      size_t size, size_t stride)
{
    LOGS_FAILURE(table ? domain_log(table->domain) : NULL);
    struct gathered all = {.bytes = tokens, .size = size, .stride = stride};
    int rc = check_change(table, first, count);

    if (!rc && !tokens && size)
        rc = hmreg_fail(-EINVAL, "tokens is NULL, and size is %zu", size);
    return rc ? rc : lock_and_write(table, first, count, tokens ? &all : NULL);
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
    if (!rc && (!tokens || tokens > SIZE_MAX / sizeof(struct remote_link) / HMREG_GROUP_MAX))
        rc = hmreg_fail(-EINVAL, "tokens is %zu; accepted are 1 to %zu", tokens,
                        SIZE_MAX / sizeof(struct remote_link) / HMREG_GROUP_MAX);
    return rc;
}

static bool links_hold(struct hmreg_domain *domain)
{
    for (size_t i = 0; i < group_rails(domain); i++)
        if (remote_links_hold(group_rail(domain, i)))
            return true;
    return false;
}

static int fill(struct hmreg_table *table, void *memory, uint64_t flags)
{
    size_t entries = table->tokens * table->rails;
    bool hold = links_hold(table->domain);

    table->kept = hold ? calloc(entries, sizeof(*table->kept)) : NULL;
    if (hold && !table->kept)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for a table of %zu entries", entries);
    return table_memory_open(&table->memory, table->domain->lib, memory, entries, (uint32_t)flags);
}

int hmreg_table_open(struct hmreg_domain *domain, void *memory, size_t tokens, uint64_t flags,
                     struct hmreg_table **out)
{
    LOGS_FAILURE(domain_log(domain));
    struct hmreg_table *table;
    UNCANCELLED;
    int rc = check_open(domain, memory, tokens, flags, out);

    if (rc)
        return rc;
    table = calloc(1, sizeof(*table));
    if (!table)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for a table");
    table->domain = domain;
    table->tokens = tokens;
    table->rails = group_rails(domain);
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
    unlink_each(table, table->kept, table->tokens * table->rails);
    table_memory_close(&table->memory);
    atomic_fetch_sub(&table->domain->tables, 1);
    free(table->kept);
    free(table);
}
