/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See region.h. The memory is resolved before, once for all members. Each part is an unpublished
 * region on the heap, which takes its member's paths, keys and modes. A part is registered on one
 * member after the other, so that its memory is exported once.
 */
#include "core/mr/region.h"

#include "core/base/error.h"
#include "core/group/nearest.h"
#include "core/mr/explain.h"
#include "core/mr/register.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- structs ---------------------------------------------------------------------------- */

/* Gives a region the extension that a request on these ranges needs. parts: see mr_ext_new(). */
static int extend(struct hmreg_mr *mr, const struct request *request, const struct iovec *iov,
                  size_t count, const struct resolved *found, size_t parts)
{
    struct mr_ext *ext = mr_ext_new(iov, count, parts);

    mr_body(mr)->ext = ext;
    if (!ext)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for a region");
    ext->identity = found->range.identity;
    ext->device = found->range.device;
    ext->context = request->context;
    ext->has_iova = request->options.set_iova;
    ext->iova = request->options.iova;
    return 0;
}

/* NULL: no memory, which is recorded. */
static struct hmreg_mr *allocate(struct hmreg_domain *domain, const struct request *request,
                                 const struct iovec *iov, size_t count,
                                 const struct resolved *found)
{
    struct mr_on_heap *made = calloc(1, sizeof(*made));

    if (!made) {
        hmreg_fail(-ENOMEM, "hmreg has no memory for a region");
        return NULL;
    }
    made->mr.domain = domain;
    made->mr.node.start = made->mr.node.end = (uint64_t)(uintptr_t)iov->iov_base;
    for (size_t i = 0; i < count; i++)
        made->mr.node.end += iov[i].iov_len;
    made->body.iface = (uint8_t)found->iface;
    made->body.access = (uint16_t)request->access;
    return &made->mr;
}

int region_new(struct hmreg_domain *domain, const struct layout *layout, struct hmreg_mr **out)
{
    struct hmreg_mr *made = allocate(domain, &layout->request, layout->ranges.iov,
                                     layout->ranges.count, &layout->whole);

    if (made)
        *out = made;
    return made ? 0 : -ENOMEM;
}

void region_free(struct hmreg_mr *mr)
{
    mr_ext_free(mr_ext(mr));
    mr_body(mr)->ext = NULL;
    if (!mr->slot_offset) /* else the cache owns it */
        free(mr);
}

/* Gives a region places for its parts. */
static int make_places(struct hmreg_mr *mr, const struct layout *layout,
                       const struct ranges *ranges, size_t parts, bool of_rails)
{
    int rc = extend(mr, &layout->request, ranges->iov, ranges->count, &layout->whole, parts);

    if (rc)
        return rc;
    mr_ext(mr)->of_rails = of_rails;
    mr_body(mr)->made = PROVIDER_MR_OF_PARTS;
    return 0;
}

/* ---- ends ------------------------------------------------------------------------------- */

int region_deregister(struct hmreg_mr *mr)
{
    struct hmreg_domain *domain = mr->domain;
    struct mr_body *body = mr_body(mr);
    int rc = mr_is_suspended(mr) ? 0 : domain->ops.dereg(domain->self, &body->made);

    if (rc != -EBUSY && body->key_taken && !mr_is_suspended(mr))
        keys_give(&domain->keys, body->ext ? body->ext->taken_key : body->made.keys.key);
    return rc;
}

static int destroy_one(struct hmreg_mr *mr)
{
    int rc = region_deregister(mr);

    if (rc != -EBUSY)
        region_free(mr);
    return rc;
}

int region_destroy(struct hmreg_mr *mr)
{
    size_t count;
    struct hmreg_mr **parts = mr_parts(mr, &count);
    int rc = 0;

    if (!parts)
        return destroy_one(mr);
    for (size_t i = 0; i < count; i++) {
        int closed = parts[i] ? region_destroy(parts[i]) : 0;

        if (closed == -EBUSY) {
            mr_ext(mr)->closing |= mr_ext(parts[i])->closing;
            return closed;
        }
        mr_ext(mr)->closing |= parts[i] != NULL;
        parts[i] = NULL;
        rc = rc ? rc : closed;
    }
    region_free(mr);
    return rc;
}

static void append(struct undone *undone, struct hmreg_mr *mr)
{
    mr_ext(mr)->next_undone = NULL;
    pthread_mutex_lock(&undone->lock);
    if (undone->first)
        mr_ext(undone->last)->next_undone = mr;
    else
        undone->first = mr;
    undone->last = mr;
    pthread_mutex_unlock(&undone->lock);
}

/* NULL: there is none, or other threads are trying them. */
static struct hmreg_mr *take(struct undone *undone)
{
    struct hmreg_mr *mr;

    pthread_mutex_lock(&undone->lock);
    mr = undone->first;
    if (mr)
        undone->first = mr_ext(mr)->next_undone;
    pthread_mutex_unlock(&undone->lock);
    return mr;
}

/* Frees a region's extension and undoes its parts; what is registered as a whole is not. Keeps the
 * thread's last error. */
static void clear(struct hmreg_mr *mr)
{
    size_t count;
    struct hmreg_mr **parts = mr_parts(mr, &count);
    struct hmreg_error before;

    hmreg_error_save(&before);
    for (size_t i = 0; parts && i < count; i++)
        if (parts[i])
            region_undo(parts[i]);
    hmreg_error_restore(&before);
    mr_ext_free(mr_ext(mr));
    mr_body(mr)->ext = NULL;
}

void region_undo(struct hmreg_mr *mr)
{
    size_t count;

    if (mr_parts(mr, &count)) {
        clear(mr);
        region_free(mr);
        return;
    }
    assert(mr_ext(mr)); /* parts of a region have it, and so has a job's */
    if (destroy_one(mr) != -EBUSY)
        return;
    atomic_fetch_add(&mr->domain->undone.count, 1);
    append(&mr->domain->undone, mr);
}

/* One registration after the other is taken from the list, so that the fabric is called without the
 * lock. */
static void retry(struct undone *undone, unsigned most)
{
    unsigned tries = atomic_load(&undone->count);
    struct hmreg_error before;
    struct hmreg_mr *mr;

    hmreg_error_save(&before);
    for (tries = tries < most ? tries : most; tries && (mr = take(undone)); tries--) {
        if (destroy_one(mr) == -EBUSY)
            append(undone, mr);
        else
            atomic_fetch_sub(&undone->count, 1);
    }
    hmreg_error_restore(&before);
}

void undone_retry(struct hmreg_domain *domain, unsigned most)
{
    for (size_t i = 0; i < hmreg_group_count(domain); i++)
        if (undone_left(group_rail(domain, i)))
            retry(&group_rail(domain, i)->undone, most);
}

bool undone_touch(struct hmreg_domain *domain, uint64_t start, uint64_t end)
{
    struct undone *undone = &domain->undone;
    bool touch = false;

    if (!undone_left(domain))
        return false;
    pthread_mutex_lock(&undone->lock);
    for (struct hmreg_mr *mr = undone->first; mr && !touch; mr = mr_ext(mr)->next_undone)
        touch = mr->node.start < end && start < mr->node.end;
    pthread_mutex_unlock(&undone->lock);
    return touch;
}

unsigned undone_left(const struct hmreg_domain *domain)
{
    return atomic_load(&domain->undone.count);
}

/* ---- parts on one domain ---------------------------------------------------------------- */

/* Registers one of the ranges as a piece of a region. */
static int add_piece(struct hmreg_mr *mr, struct layout *layout, const struct ranges *ranges,
                     size_t index)
{
    struct request request = layout_part(layout, ranges, index);
    const struct resolved *found = &ranges->found[index];
    struct hmreg_mr *piece = allocate(mr->domain, &request, request.iov, 1, found);
    int rc;

    if (!piece)
        return -ENOMEM;
    rc = extend(piece, &request, request.iov, 1, found, 0);
    rc = rc ? rc : register_one(layout, &request, found, NULL, piece);
    if (rc)
        region_free(piece);
    else
        mr_ext(mr)->parts[index] = piece;
    return rc;
}

/* Makes the region one of pieces, none of which is registered yet. */
static int make_composite(struct hmreg_mr *mr, const struct layout *layout,
                          const struct ranges *ranges)
{
    if (mr->domain->caps.async)
        return hmreg_fail(-EOPNOTSUPP,
                          "a region of %zu segments would be as many registrations on %s, each "
                          "with an event in the domain's queue: register each segment by itself",
                          ranges->count, mr->domain->caps.fabric);
    return make_places(mr, layout, ranges, ranges->count, false);
}

/* All parts are registered. */
static void finish(struct hmreg_mr *mr)
{
    struct mr_ext *ext = mr_ext(mr);

    mr_body(mr)->path = mr_body(mr_explained(mr, NULL))->path;
    for (size_t i = 0; i < ext->part_count; i++)
        ext->keys[i] =
            ext->parts[i] ? mr_body(ext->parts[i])->made.keys : PROVIDER_MR_OF_PARTS.keys;
    mr_set_head(mr, ext->keys, (uint32_t)ext->part_count);
}

static int refuse_parts(const struct layout *layout, const struct refusals *refused)
{
    const struct iovec *range = layout->ranges.iov;

    explain_keep(layout->whole.iface, layout->whole.range.device, refused->reasons, refused->count);
    return hmreg_fail(-EXDEV,
                      "no single dmabuf contains the %zu bytes at %p, which are to be one "
                      "registration: pass each allocation by itself, or HMREG_REG_PARTS (or "
                      "HMREG_DOMAIN_PARTS) and use hmreg_mr_piece()",
                      range->iov_len, range->iov_base);
}

/* No dmabuf contains the range: registers each physical segment under it as a piece, so that the
 * region never covers only a part of the range. */
static int divide(struct layout *layout, struct hmreg_mr *mr, struct refusals *refused)
{
    int rc = layout_find_segments(mr->domain->lib, layout);

    clear(mr);
    rc = rc ? rc : make_composite(mr, layout, &layout->segments);
    for (size_t i = 0; !rc && i < layout->segments.count; i++)
        rc = add_piece(mr, layout, &layout->segments, i);
    if (rc == -EXDEV)
        rc = refuse_all(mr->domain, &layout->whole, refused);
    if (rc)
        return rc;
    finish(mr);
    mr_ext(mr)->refused = *refused;
    refused->reasons = NULL;
    return 0;
}

/* Is it system memory at its own address, without an identity or an iova, and has the caller no
 * context? Such a region of one range needs no extension. */
static bool is_plain(const struct request *request, const struct resolved *found)
{
    return request->count == 1 && !request->dmabuf && !request->context &&
           found->iface == HMREG_IFACE_SYSTEM && found->range.device == -1 &&
           !found->range.identity && !request->options.set_iova &&
           found->range.host_addr == (uint64_t)(uintptr_t)request->iov[0].iov_base;
}

/* Registers the layout's one part. */
static int fill_whole(struct layout *layout, struct hmreg_mr *mr, bool extended)
{
    const struct request *request = &layout->request;
    const struct resolved *found = layout->ranges.found;
    struct refusals refused = {0, NULL};
    int rc = 0;

    if (extended || !is_plain(request, found))
        rc = extend(mr, request, request->iov, request->count, found, 0);
    if (rc)
        return rc;
    rc = register_one(layout, request, found, &refused, mr);
    if (!rc)
        return 0;
    if (refused.reasons && request_is_single(mr->domain, request))
        rc = refuse_parts(layout, &refused);
    else if (refused.reasons)
        rc = divide(layout, mr, &refused);
    free(refused.reasons);
    if (rc)
        clear(mr);
    return rc;
}

/* ---- rails ------------------------------------------------------------------------------ */

/* Begins the text of the thread's last error with the rail. */
static void name_rail(const struct group *group, size_t rail)
{
    struct hmreg_error error;
    char text[sizeof(error.text)];

    hmreg_error_save(&error);
    snprintf(text, sizeof(text), "rail %zu (%.64s): %.160s", rail,
             group->members[rail]->caps.fabric, error.text);
    snprintf(error.text, sizeof(error.text), "%s", text);
    hmreg_error_restore(&error);
}

/* Keeps the thread's last error as the reason why there is no such rail. */
static int keep_reason(struct hmreg_mr *mr, size_t rail)
{
    struct mr_missing *missing = calloc(1, sizeof(*missing));
    struct mr_missing **end = &mr_ext(mr)->missing;

    if (!missing)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for the reasons of a rail");
    missing->rail = rail;
    hmreg_error_save(&missing->error);
    while (*end)
        end = &(*end)->next;
    *end = missing;
    return 0;
}

/* Needs no lock: a rail is wanted once, and missed once. */
static bool has_rail(const struct filling *filling, size_t rail)
{
    return atomic_load(&filling->rails) & ~atomic_load(&filling->missed) & UINT64_C(1) << rail;
}

/* With the lock held: a rail has failed with rc. 0: the region does without it, or with another in
 * its place; another part may have failed on the same rail before. */
static int miss(struct filling *filling, size_t rail, int rc)
{
    const struct group *group = filling->mr->domain->group;
    const struct hmreg_error *first;
    int other;

    if (!has_rail(filling, rail))
        return 0;
    name_rail(group, rail);
    /* What is full says nothing about the rail: a get evicts. */
    if (!(filling->order || group->flags & HMREG_GROUP_PARTIAL) ||
        domain_room(group->members[rail], rc) == PROVIDER_ROOM_FULL)
        return rc;
    rc = keep_reason(filling->mr, rail);
    if (rc)
        return rc;
    filling->missed |= UINT64_C(1) << rail;
    other = filling->order ? nearest_unused(filling->order, filling->rails) : -1;
    if (other >= 0)
        filling->rails |= UINT64_C(1) << other;
    for (size_t i = 0; i < group->count; i++)
        if (has_rail(filling, i))
            return 0;
    first = &mr_ext(filling->mr)->missing->error;
    hmreg_error_restore(first);
    return first->code;
}

static int miss_locked(struct filling *filling, size_t rail, int rc)
{
    pthread_mutex_lock(&filling->lock);
    rc = miss(filling, rail, rc);
    pthread_mutex_unlock(&filling->lock);
    return rc;
}

/* Allocates a rail; one of several pieces has their places. */
static int new_rail(struct filling *filling, size_t rail)
{
    struct hmreg_domain *member = filling->mr->domain->group->members[rail];
    struct layout *layout = filling->layout;
    struct hmreg_mr *made = NULL;
    int rc = region_new(member, layout, &made);

    if (!rc && layout_parts(layout) > 1)
        rc = make_composite(made, layout, &layout->ranges);
    if (!rc)
        mr_ext(filling->mr)->parts[rail] = made;
    else if (made)
        region_free(made);
    return rc;
}

/* Of a rail in the place of another finish_rail() registers all parts. */
static int fill_rail(struct filling *filling, size_t rail, size_t part)
{
    struct layout *layout = filling->layout;
    struct hmreg_mr **mr = &mr_ext(filling->mr)->parts[rail];
    int rc;

    if (layout_parts(layout) > 1)
        return add_piece(*mr, layout, &layout->ranges, part);
    rc = new_rail(filling, rail);
    rc = rc ? rc : fill_whole(layout, *mr, true);
    if (rc && *mr) {
        region_free(*mr);
        *mr = NULL;
    }
    return rc;
}

/* Ends a rail of a region that is not complete. */
static void end_rail(struct filling *filling, size_t rail)
{
    struct hmreg_mr **mr = &mr_ext(filling->mr)->parts[rail];
    struct hmreg_error before;

    if (!*mr)
        return;
    hmreg_error_save(&before);
    if (filling->layout->request.endpoints)
        mr_unbind(*mr);
    region_undo(*mr);
    *mr = NULL;
    hmreg_error_restore(&before);
}

/* Registers what a rail lacks that came in the place of another. */
static int complete_rail(struct filling *filling, size_t rail)
{
    size_t parts = layout_parts(filling->layout);
    struct hmreg_mr **mr = &mr_ext(filling->mr)->parts[rail];
    int rc = 0;

    if (parts > 1 && !*mr)
        rc = new_rail(filling, rail);
    for (size_t i = 0; i < parts && !rc; i++)
        if (!*mr || (parts > 1 && !mr_pieces(*mr)[i]))
            rc = fill_rail(filling, rail, i);
    return rc;
}

/* Binds a rail to its endpoint, if it has one, and enables it. */
static int finish_rail(struct filling *filling, size_t rail)
{
    void *const *endpoints = filling->layout->request.endpoints;
    int rc = complete_rail(filling, rail);
    struct hmreg_mr *mr = mr_ext(filling->mr)->parts[rail];

    if (!rc && endpoints && endpoints[rail])
        rc = mr_ready(mr, endpoints[rail]);
    if (rc)
        return miss(filling, rail, rc);
    if (layout_parts(filling->layout) > 1)
        finish(mr);
    mr_ext(mr)->is_rail = true;
    mr_ext(mr)->order = filling->order;
    return 0;
}

/* Finishes each rail, and ends those that are missed. */
static int finish_rails(struct filling *filling)
{
    uint64_t before;
    int rc = 0;

    do {
        before = filling->rails;
        for (size_t i = 0; i < filling->mr->domain->group->count && !rc; i++) {
            const struct hmreg_mr *mr = mr_ext(filling->mr)->parts[i];

            if (has_rail(filling, i) && !(mr && mr_ext(mr)->is_rail))
                rc = finish_rail(filling, i);
            if (!has_rail(filling, i))
                end_rail(filling, i);
        }
    } while (!rc && filling->rails != before);
    return rc;
}

/* ---- filling ---------------------------------------------------------------------------- */

/* A region that completes later keeps its state in its extension, and region_undo() needs that of a
 * job's, or of one that is bound after it is filled. The cache ends its own. */
static bool needs_extension(const struct layout *layout, const struct hmreg_mr *mr)
{
    const struct provider_caps *caps = &mr->domain->caps;

    return !mr->slot_offset &&
           (caps->async || caps->pends || layout->request.endpoints || !layout->joined);
}

static int choose_rails(struct filling *filling)
{
    const struct layout *layout = filling->layout;
    const struct iovec *first = layout->ranges.iov;
    int rc = 0;

    filling->rails = layout->request.rails ? layout->request.rails : UINT64_MAX;
    if (!layout->request.rails)
        rc = nearest_find(filling->mr->domain->group, &layout->whole, first->iov_len,
                          &filling->order);
    if (filling->order)
        filling->rails = nearest_rails(filling->order);
    mr_ext(filling->mr)->order = filling->order;
    return rc;
}

static int begin_group(struct filling *filling)
{
    struct layout *layout = filling->layout;
    struct hmreg_domain *domain = filling->mr->domain;
    int rc = make_places(filling->mr, layout, &layout->ranges, domain->group->count, true);

    layout->shares = true;
    layout->request.any_key |= (domain->caps.mr_mode & HMREG_MR_PROV_KEY) != 0;
    if (!(layout->request.flags & REQUEST_PARTS)) /* what the group says counts on each member */
        layout->request.flags |= (domain->flags & HMREG_DOMAIN_SINGLE  ? HMREG_REG_SINGLE
                                  : domain->flags & HMREG_DOMAIN_PARTS ? HMREG_REG_PARTS
                                                                       : 0);
    rc = rc ? rc : choose_rails(filling);
    for (size_t i = 0; layout_parts(layout) > 1 && !rc && i < domain->group->count; i++)
        if (has_rail(filling, i))
            rc = new_rail(filling, i);
    return rc;
}

int filling_begin(struct filling *filling, struct layout *layout, struct hmreg_mr *mr)
{
    filling->layout = layout;
    filling->mr = mr;
    filling->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    filling->missed = 0;
    filling->order = NULL;
    /* An entry of the cache has what an earlier registration left. */
    mr_body(mr)->ext = NULL;
    mr_body(mr)->key_taken = false;
    if (mr->domain->group)
        return begin_group(filling);
    return layout_parts(layout) > 1 ? make_composite(mr, layout, &layout->ranges) : 0;
}

int filling_part(struct filling *filling, size_t part)
{
    struct hmreg_mr *mr = filling->mr;
    const struct group *group = mr->domain->group;
    int rc = 0;

    if (!group && layout_parts(filling->layout) > 1)
        return add_piece(mr, filling->layout, &filling->layout->ranges, part);
    if (!group)
        return fill_whole(filling->layout, mr, needs_extension(filling->layout, mr));
    for (size_t i = 0; i < group->count && !rc; i++) {
        bool made = layout_parts(filling->layout) == 1 || mr_ext(mr)->parts[i];

        rc = made && has_rail(filling, i) ? fill_rail(filling, i, part) : 0;
        if (rc)
            rc = miss_locked(filling, i, rc);
    }
    return rc;
}

int filling_end(struct filling *filling)
{
    struct hmreg_mr *mr = filling->mr;
    int rc = mr->domain->group ? finish_rails(filling) : 0;

    if (!rc && (mr->domain->group || layout_parts(filling->layout) > 1))
        finish(mr);
    return rc;
}

void filling_undo(struct filling *filling)
{
    struct hmreg_mr *mr = filling->mr;

    for (size_t i = 0; mr_rails(mr) && i < mr_ext(mr)->part_count; i++)
        end_rail(filling, i);
    clear(mr);
}

int region_fill(struct layout *layout, struct hmreg_mr *mr)
{
    uint64_t flags = layout->request.flags; /* the caller's, also in the get's next round */
    struct hmreg_error_guard guard;
    struct filling filling;
    int rc;

    hmreg_error_guard(&guard); /* neither the refusal of a path nor a key in use is a failure */
    rc = filling_begin(&filling, layout, mr);

    for (size_t i = 0; i < layout_parts(layout) && !rc; i++)
        rc = filling_part(&filling, i);
    rc = rc ? rc : filling_end(&filling);
    if (rc)
        filling_undo(&filling);
    layout->request.flags = flags;
    layout_close(layout);
    hmreg_error_unguard(&guard, !rc);
    return rc;
}
