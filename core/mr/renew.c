/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See renew.h. A region is registered anew in another struct first, so that a failure leaves the
 * suspended one as it is, and then moves from there.
 */
#include "core/mr/renew.h"

#include "core/base/error.h"
#include "core/mr/region.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

bool mr_is_bound(const struct hmreg_mr *mr)
{
    size_t count;
    struct hmreg_mr **parts = mr_parts(mr, &count);
    bool bound = false;

    if (!parts)
        return !mr_is_suspended(mr) &&
               mr->domain->ops.is_bound(mr->domain->self, &mr_body(mr)->made);
    for (size_t i = 0; i < count && !bound; i++)
        bound = parts[i] && mr_is_bound(parts[i]);
    return bound;
}

/* ---- ends ------------------------------------------------------------------------------- */

static int suspend_one(struct hmreg_mr *mr)
{
    struct hmreg_domain *domain = mr->domain;
    struct mr_body *body = mr_body(mr);
    int rc;

    if (mr_is_suspended(mr))
        return 0;
    rc = domain->ops.dereg(domain->self, &body->made);
    if (rc == -EBUSY)
        return rc;
    if (body->key_taken)
        keys_give(&domain->keys, body->ext ? body->ext->taken_key : body->made.keys.key);
    if (body->ext)
        mr_ext_unmap(body->ext);
    body->made = MR_SUSPENDED;
    mr_set_head(mr, &body->made.keys, 1);
    return rc;
}

/* The region counts as suspended from the first part on, so that nothing uses it in part. */
static int suspend_parts(struct hmreg_mr *mr, struct hmreg_mr **parts, size_t count)
{
    bool was = mr_is_suspended(mr);
    int rc = 0;

    for (size_t i = 0; i < count; i++) {
        int ended = parts[i] ? region_suspend(parts[i]) : 0;

        rc = ended == -EBUSY || !rc ? ended : rc;
        mr_ext(mr)->keys[i] = MR_SUSPENDED.keys;
    }
    mr_body(mr)->made = MR_SUSPENDED;
    if (!was)
        mr_set_head(mr, mr_ext(mr)->keys, (uint32_t)count);
    return rc;
}

int region_suspend(struct hmreg_mr *mr)
{
    size_t count;
    struct hmreg_mr **parts = mr_parts(mr, &count);

    return parts ? suspend_parts(mr, parts, count) : suspend_one(mr);
}

/* ---- registering again ------------------------------------------------------------------ */

/* Of two rails the contents are exchanged. */
static void exchange(struct hmreg_mr *one, struct hmreg_mr *other)
{
    struct mr_body *a = mr_body(one), *b = mr_body(other), before = *a;
    struct hmreg_mr_head head = one->head;

    *a = *b;
    *b = before;
    one->head = other->head;
    other->head = head;
    one->head.keys = a->ext->keys ? a->ext->keys : &a->made.keys;
    other->head.keys = b->ext->keys ? b->ext->keys : &b->made.keys;
}

/* Each rail that was there stays the struct that it was. */
static void keep_rails(struct hmreg_mr *mr, struct hmreg_mr *fresh)
{
    struct hmreg_mr **before = mr_rails(mr), **after = mr_rails(fresh);

    for (size_t i = 0; before && after && i < mr_ext(mr)->part_count; i++) {
        struct hmreg_mr *kept = before[i];

        if (!kept || !after[i])
            continue;
        exchange(kept, after[i]);
        before[i] = after[i];
        after[i] = kept;
    }
}

#define MOVED offsetof(struct mr_ext, refused) /* the fields from here on */

/* Exchanges the contents of two extensions, and clears the second one, of what the region was. It
 * is kept for its arrays. */
static void move_ext(struct mr_ext *ext, struct mr_ext *fresh)
{
    struct mr_ext before = *ext;

    memcpy((char *)ext + MOVED, (const char *)fresh + MOVED, sizeof(*ext) - MOVED);
    memcpy((char *)fresh + MOVED, (const char *)&before + MOVED, sizeof(*ext) - MOVED);
    atomic_store_explicit(&ext->identity, fresh->identity, memory_order_relaxed);
    for (size_t i = 0; fresh->parts && i < fresh->part_count; i++)
        if (fresh->parts[i])
            region_destroy(fresh->parts[i]); /* suspended: it cannot fail */
    mr_ext_clear(fresh);
    free(before.kept);
    ext->kept = fresh;
}

/* Moves what is registered in fresh to the region, and frees fresh. */
static void move(struct hmreg_mr *mr, struct hmreg_mr *fresh)
{
    struct mr_body *to = mr_body(mr), *from = mr_body(fresh);

    keep_rails(mr, fresh);
    if (to->ext && from->ext)
        move_ext(to->ext, from->ext);
    else if (from->ext)
        to->ext = from->ext;
    else if (to->ext)
        to->ext->taken_key = from->made.keys.key;
    to->made = from->made;
    if (to->path != from->path)
        to->path = from->path;
    if (to->key_taken != from->key_taken)
        to->key_taken = from->key_taken;
    mr->head = fresh->head;
    mr->head.keys = to->ext && to->ext->keys ? to->ext->keys : &to->made.keys;
    free(fresh);
}

/* Binds a region of no group as the get did that made it. */
static int ready(struct hmreg_mr *fresh, const struct layout *layout)
{
    void *const *endpoints = layout->request.endpoints;
    int rc = endpoints && !fresh->domain->group ? mr_ready(fresh, *endpoints) : 0;

    if (!rc)
        return 0;
    mr_unbind(fresh);
    region_undo(fresh);
    return rc;
}

/* Addresses of a device at which nothing is mapped would pass for host memory. */
static int check_same(const struct hmreg_mr *mr, const struct layout *layout)
{
    enum hmreg_iface before = mr_body(mr)->iface, now = layout->whole.iface;

    if (now == before)
        return 0;
    return hmreg_fail(-EINVAL,
                      "the region of %zu bytes at %#llx was of memory of %s, and there is memory "
                      "of %s now: map it first",
                      (size_t)mr_len(mr), (unsigned long long)mr_start(mr),
                      hmreg_iface_name(before), hmreg_iface_name(now));
}

int region_renew(struct hmreg_mr *mr, struct layout *layout)
{
    struct hmreg_error_guard guard;
    struct hmreg_mr *fresh = NULL;
    int rc = check_same(mr, layout);

    rc = rc ? rc : region_new(mr->domain, layout, &fresh);
    if (rc)
        return rc;
    hmreg_error_guard(&guard);
    rc = region_fill(layout, fresh);
    if (rc)
        region_free(fresh);
    else
        rc = ready(fresh, layout);
    hmreg_error_unguard(&guard, !rc);
    if (!rc)
        move(mr, fresh);
    return rc;
}
