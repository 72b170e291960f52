/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Lists a domain's cached entries, for users who look for a leak. Entries are copied out in batches
 * under the pool's lock and passed to the callback with no lock held: the callback may take any
 * time, and may call the library.
 *
 * A region's own fields belong to the registering thread until it is published, and to the
 * deregistering thread at the end: they are read only in between.
 */
#include "core/cache/cache_set.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define BATCH 32 /* entries, free ones included, that are examined under one hold of the lock */

/* ---- one entry, with the pool's lock held ----------------------------------------------- */

static enum hmreg_entry_state state_of(const struct hmreg_mr *entry)
{
    switch ((enum cache_state)entry_body(entry)->state) {
    case CACHE_PENDING:
        return HMREG_ENTRY_PENDING;
    case CACHE_LIVE:
        return HMREG_ENTRY_LIVE;
    default:
        return HMREG_ENTRY_UNCACHED;
    }
}

/* Has the entry been published, and is it not being deregistered? */
static bool is_whole(const struct hmreg_mr *entry)
{
    switch ((enum cache_state)entry_body(entry)->state) {
    case CACHE_LIVE:
    case CACHE_UNPUBLISHED:
        return true;
    case CACHE_HELD:
        return entry_body(entry)->retired;
    default:
        return false;
    }
}

/* A sum taken while threads get and put may be negative for a moment, since a thread may put what
 * another got. */
static uint64_t shown_pins(const struct cache_pool *pool, const struct hmreg_mr *entry)
{
    int32_t pins = (int32_t)entry_pins(pool, entry);

    return pins > 0 ? (uint64_t)pins : 0;
}

/* Of a retired entry its variant may be gone, and its own fields are not to be read. */
static struct iovec range_of(const struct hmreg_mr *entry)
{
    const struct variant *variant =
        entry_body(entry)->state != CACHE_ENDING ? entry_variant(entry) : NULL;
    uint64_t start = entry->node.start, len = entry->node.end - start;

    if (variant && variant->key.count) {
        start = variant->segments[0].start;
        len = variant->len;
    }
    return (struct iovec){(void *)(uintptr_t)start, (size_t)len};
}

static void describe(const struct cache_pool *pool, const struct hmreg_mr *entry,
                     struct hmreg_entry_info *out)
{
    const struct cache_stats *stats = &entry_cache(pool, entry)->stats;
    struct iovec range = range_of(entry);

    *out = (struct hmreg_entry_info){
        .size = sizeof(*out),
        .iface = stats->iface,
        .device = stats->device,
        .state = state_of(entry),
        .addr = (uint64_t)(uintptr_t)range.iov_base,
        .len = range.iov_len,
        .access = entry_body(entry)->access,
        .key = HMREG_KEY_NOTAVAIL,
        .pins = shown_pins(pool, entry),
    };
    if (is_whole(entry)) {
        out->path = (enum hmreg_path)entry_body(entry)->path;
        out->identity = mr_identity(entry);
        if (!mr_of_group(entry) && mr_parts(entry) == 1)
            out->key = mr_native(entry, 0)->key;
    }
    if (out->state == HMREG_ENTRY_LIVE)
        out->unused = !entry_body(entry)->used &&
                      !thread_cache_was_used(&pool->thread_caches, entry_number(entry));
}

/* ---- all entries ------------------------------------------------------------------------ */

/* Describes the entries in use among the next BATCH from *number on, which it advances. *count: how
 * many. False: the end. */
static bool describe_some(struct cache_pool *pool, uint32_t *number, struct hmreg_entry_info *out,
                          unsigned *count)
{
    uint32_t last = *number + BATCH;
    bool more;

    pthread_mutex_lock(&pool->lock);
    for (*count = 0; *number < last && *number < pool->fresh; ++*number) {
        const struct hmreg_mr *entry = cache_entry_at(pool, *number);

        if (entry_body(entry)->state != CACHE_FREE)
            describe(pool, entry, &out[(*count)++]);
    }
    more = *number < pool->fresh;
    pthread_mutex_unlock(&pool->lock);
    return more;
}

static const char *state_name(enum hmreg_entry_state state)
{
    static const char *const names[] = {"pending", "live", "ended"};

    return names[state];
}

/* Uses write(2) only, so that a debugger can call it wherever the process has stopped. */
static int print(const struct hmreg_entry_info *entry, void *context)
{
    dprintf(STDERR_FILENO,
            "%s %d %s %#" PRIx64 "+%" PRIu64 " access %#" PRIx64 " %s pins %" PRIu64 " unused %d"
            " identity %#" PRIx64 " key %#" PRIx64 "\n",
            hmreg_iface_name(entry->iface), entry->device, hmreg_path_name(entry->path),
            entry->addr, entry->len, entry->access, state_name(entry->state), entry->pins,
            entry->unused, entry->identity, entry->key);
    return 0;
}

int hmreg_domain_dump(struct hmreg_domain *domain,
                      int (*visit)(const struct hmreg_entry_info *entry, void *context),
                      void *context)
{
    struct hmreg_entry_info batch[BATCH];
    uint32_t number = STABLE_ARRAY_FIRST;
    unsigned count;
    bool more = true;
    int rc = domain_check(domain);

    if (!rc)
        cache_drain_all(&domain->caches->pool);
    while (!rc && more) {
        more = describe_some(&domain->caches->pool, &number, batch, &count);
        for (unsigned i = 0; i < count && !rc; i++)
            rc = (visit ? visit : print)(&batch[i], context);
    }
    return rc;
}
