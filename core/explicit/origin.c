/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See origin.h. A region is registered anew in another struct first, so that a failure leaves the
 * suspended one as it is, and then moves from there.
 */
#include "core/explicit/origin.h"

#include "core/base/error.h"
#include "core/mr/region.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* ---- what was asked for ----------------------------------------------------------------- */

/* Copies bytes to *room, which it advances. */
static void *keep(char **room, const void *bytes, size_t size)
{
    void *kept = *room;

    if (size)
        memcpy(kept, bytes, size);
    *room += (size + 15) / 16 * 16;
    return kept;
}

struct origin *origin_new(const struct request *request, const struct hmreg_segment *segments,
                          size_t segment_count)
{
    size_t iov = segments ? 0 : request->count * sizeof(*request->iov);
    size_t list = segment_count * sizeof(*segments), few = 5 * 16;
    size_t dmabuf = request->dmabuf && !segments ? sizeof(*request->dmabuf) : 0;
    struct origin *made =
        malloc(sizeof(*made) + iov + list + dmabuf + request->auth_key_size + few);
    char *room;

    if (!made)
        return NULL;
    room = (char *)(made + 1);
    *made = (struct origin){.request = *request, .segment_count = segment_count};
    made->request.iov = iov ? keep(&room, request->iov, iov) : NULL;
    made->request.count = segments ? 0 : request->count;
    made->request.dmabuf = NULL;
    if (segments)
        made->segments = keep(&room, segments, list);
    if (dmabuf) {
        struct hmreg_mr_dmabuf *kept = keep(&room, request->dmabuf, dmabuf);

        kept->fd = -1;
        made->request.dmabuf = kept;
    }
    if (request->auth_key_size)
        made->request.auth_key = keep(&room, request->auth_key, request->auth_key_size);
    for (size_t i = 0; i < segment_count; i++)
        if (made->segments[i].kind == HMREG_SEGMENT_DMABUF)
            made->segments[i].u.dmabuf.fd = -1;
    return made;
}

static size_t range_count(const struct origin *origin)
{
    return origin->segments ? origin->segment_count : origin->request.count;
}

/* Of a dmabuf without an address: no bytes. */
static struct iovec iov_of_dmabuf(const struct hmreg_mr_dmabuf *dmabuf)
{
    char *base = (char *)dmabuf->base_addr;

    return base ? (struct iovec){base + dmabuf->offset, dmabuf->len} : (struct iovec){NULL, 0};
}

static struct iovec iov_at(const struct origin *origin, size_t index)
{
    const struct hmreg_segment *segment = origin->segments ? &origin->segments[index] : NULL;

    if (segment && segment->kind == HMREG_SEGMENT_DMABUF)
        return iov_of_dmabuf(&segment->u.dmabuf);
    return segment ? segment->u.memory : origin->request.iov[index];
}

static struct suspended_range range_at(const struct origin *origin, size_t index)
{
    struct iovec iov = iov_at(origin, index);
    uint64_t start = (uint64_t)(uintptr_t)iov.iov_base;

    return (struct suspended_range){NULL, start, start + iov.iov_len};
}

static bool touches(const struct origin *origin, const struct suspended_range *range)
{
    for (size_t i = 0; i < range_count(origin); i++) {
        struct suspended_range one = range_at(origin, i);

        if (one.start < range->end && range->start < one.end)
            return true;
    }
    return false;
}

bool origin_is_suspended(const struct origin *origin, struct suspended *suspended,
                         const struct suspended_range *but)
{
    for (size_t i = 0; i < range_count(origin); i++) {
        struct suspended_range one = range_at(origin, i);

        if (suspended_touches(suspended, one.start, one.end, but))
            return true;
    }
    return false;
}

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

/* ---- suspending ------------------------------------------------------------------------- */

static int suspend_one(struct hmreg_mr *mr)
{
    struct mr_body *body = mr_body(mr);
    int rc = region_deregister(mr);

    if (rc == -EBUSY || mr_is_suspended(mr))
        return rc;
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

/* ---- the struct, registered anew -------------------------------------------------------- */

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
static int make_ready(struct hmreg_mr *fresh, const struct layout *layout)
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
static int check_iface(const struct hmreg_mr *mr, const struct layout *layout)
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

/* Registers a resolved layout in a suspended region, which keeps its address, and so do its rails.
 * After a failure the region is as it was. Closes the layout's exports. Errors of region_fill()
 * and, with request.endpoints, of mr_ready(). */
static int renew(struct hmreg_mr *mr, struct layout *layout)
{
    struct hmreg_mr *fresh = NULL;
    int rc = check_iface(mr, layout);

    rc = rc ? rc : region_new(mr->domain, layout, &fresh);
    if (rc)
        return rc;
    rc = region_fill(layout, fresh);
    if (rc)
        region_free(fresh);
    else
        rc = make_ready(fresh, layout);
    if (!rc)
        move(mr, fresh);
    return rc;
}

/* ---- registering again ------------------------------------------------------------------ */

static int ask(const struct hmreg_resume_config *config, struct hmreg_mr *mr, size_t index,
               struct hmreg_mr_dmabuf *dmabuf)
{
    int rc;

    if (!config || !config->dmabuf)
        return hmreg_fail(-EINVAL,
                          "part %zu of the region of %zu bytes at %#llx is of a caller's dmabuf: "
                          "config->dmabuf must be set, which returns the descriptor of a new one",
                          index, (size_t)mr_len(mr), (unsigned long long)mr_start(mr));
    rc = config->dmabuf(mr, index, dmabuf, config->context);
    return rc ? hmreg_fail(rc, "config->dmabuf has no dmabuf of part %zu", index) : 0;
}

static int resume_list(const struct origin *origin, struct hmreg_mr *mr,
                       const struct hmreg_resume_config *config)
{
    size_t bytes = origin->segment_count * sizeof(*origin->segments);
    struct hmreg_segment *segments = malloc(bytes);
    struct layout layout = {.owned = false};
    int rc = 0;

    if (!segments)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for %zu segments", origin->segment_count);
    memcpy(segments, origin->segments, bytes);
    for (size_t i = 0; i < origin->segment_count && !rc; i++)
        if (segments[i].kind == HMREG_SEGMENT_DMABUF)
            rc = ask(config, mr, i, &segments[i].u.dmabuf);
    rc = rc ? rc
            : layout_gather(mr->domain, segments, origin->segment_count, &origin->request, &layout);
    rc = rc ? rc : layout_resolve(mr->domain, &layout);
    rc = rc ? rc : renew(mr, &layout);
    layout_free(&layout);
    free(segments);
    return rc;
}

static int resume_ranges(const struct origin *origin, const struct request *request,
                         struct resolved *found, struct hmreg_mr *mr)
{
    struct layout layout;
    int rc = request_resolve(mr->domain, request, found);

    if (rc)
        return rc;
    layout_init(&layout, request, found);
    if (origin->piece_len)
        rc = layout_cut(mr->domain, &layout, origin->piece_len, origin->callers);
    rc = rc ? rc : renew(mr, &layout);
    layout_free(&layout);
    return rc;
}

int origin_resume(const struct origin *origin, struct hmreg_mr *mr,
                  const struct hmreg_resume_config *config)
{
    struct request request = origin->request;
    struct hmreg_mr_dmabuf dmabuf;
    struct resolved *found;
    struct dmabuf_file file;
    struct iovec range;
    int rc = 0;

    if (origin->segments)
        return resume_list(origin, mr, config);
    if (request.dmabuf) {
        dmabuf = *request.dmabuf;
        rc = ask(config, mr, 0, &dmabuf);
        rc = rc ? rc : request_from_dmabuf(&dmabuf, &range, &file);
        request.dmabuf = &dmabuf;
    }
    if (rc)
        return rc;
    found = calloc(request.count, sizeof(*found));
    if (!found)
        return hmreg_fail(-ENOMEM, "hmreg has no memory to resolve %zu ranges", request.count);
    rc = resume_ranges(origin, &request, found, mr);
    free(found);
    return rc;
}

/* ---- explicit regions ------------------------------------------------------------------- */

static struct origin **origin_of(struct hmreg_mr *mr)
{
    return &((struct mr_on_heap *)mr)->origin;
}

static int check(struct hmreg_domain *domain, const struct origin *origin, uint64_t since)
{
    int rc = 0;

    for (size_t i = 0; i < range_count(origin) && !rc; i++) {
        struct iovec iov = iov_at(origin, i);

        rc = suspended_check(&domain->lib->suspended, &iov, 1, since);
    }
    return rc;
}

int origin_begin(struct hmreg_mr *mr, struct origin *origin, enum origin_state state,
                 uint64_t since)
{
    struct origins *origins = &mr->domain->origins;

    if (!origin)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for a region");
    *origin_of(mr) = origin;
    origin->mr = mr;
    origin->state = state;
    pthread_mutex_lock(&origins->lock);
    origin->next = origins->first;
    if (origins->first)
        origins->first->previous = origin;
    origins->first = origin;
    pthread_mutex_unlock(&origins->lock);
    return check(mr->domain, origin, since);
}

static void set_state(struct hmreg_domain *domain, struct origin *origin, enum origin_state state)
{
    pthread_mutex_lock(&domain->origins.lock);
    origin->state = state;
    pthread_cond_broadcast(&domain->origins.changed);
    pthread_mutex_unlock(&domain->origins.lock);
}

void origin_open(struct hmreg_mr *mr)
{
    set_state(mr->domain, *origin_of(mr), ORIGIN_OPEN);
}

struct origin *origin_close(struct hmreg_mr *mr)
{
    struct origins *origins = &mr->domain->origins;
    struct origin *origin = *origin_of(mr);

    pthread_mutex_lock(&origins->lock);
    while (origin && origin->state != ORIGIN_OPEN)
        pthread_cond_wait(&origins->changed, &origins->lock);
    if (origin)
        origin->state = ORIGIN_CLOSING;
    pthread_mutex_unlock(&origins->lock);
    return origin;
}

void origin_reopen(struct origin *origin)
{
    set_state(origin->mr->domain, origin, ORIGIN_OPEN);
}

void origin_end(struct hmreg_domain *domain, struct origin *origin)
{
    struct origins *origins = &domain->origins;

    if (!origin)
        return;
    pthread_mutex_lock(&origins->lock);
    if (origin->previous)
        origin->previous->next = origin->next;
    else
        origins->first = origin->next;
    if (origin->next)
        origin->next->previous = origin->previous;
    pthread_mutex_unlock(&origins->lock);
    free(origin);
}

static int visit_one(struct hmreg_domain *domain, struct origin *origin,
                     int (*visit)(struct hmreg_mr *mr, const struct origin *origin, void *context),
                     void *context)
{
    int rc;

    origin->state = ORIGIN_VISITED;
    pthread_mutex_unlock(&domain->origins.lock);
    rc = visit(origin->mr, origin, context);
    pthread_mutex_lock(&domain->origins.lock);
    origin->state = ORIGIN_OPEN;
    pthread_cond_broadcast(&domain->origins.changed);
    return rc;
}

int origin_visit(struct hmreg_domain *domain, const struct suspended_range *range,
                 int (*visit)(struct hmreg_mr *mr, const struct origin *origin, void *context),
                 void *context, bool *waits)
{
    int rc = 0;

    pthread_mutex_lock(&domain->origins.lock);
    for (struct origin *origin = domain->origins.first; origin && !rc; origin = origin->next) {
        if (!touches(origin, range))
            continue;
        if (origin->state == ORIGIN_OPEN)
            rc = visit_one(domain, origin, visit, context);
        else if (origin->state == ORIGIN_JOB)
            rc = hmreg_fail(-EBUSY, "a job registers %zu bytes at %#llx: end it first",
                            (size_t)mr_len(origin->mr), (unsigned long long)mr_start(origin->mr));
        else
            *waits = true;
    }
    pthread_mutex_unlock(&domain->origins.lock);
    return rc;
}
