/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See origin.h.
 */
#include "core/explicit/origin.h"

#include "core/base/error.h"
#include "core/group/group.h"
#include "core/mr/column.h"
#include "core/mr/member.h"
#include "core/mr/region.h"

#include <errno.h>
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

/* For a dmabuf without an address: no bytes. */
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

        if (suspended_overlaps(range, one.start, one.end))
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

/* ---- registering again ------------------------------------------------------------------ */

/* Unmapped addresses of a device would pass for host memory. */
static int check_iface(const struct hmreg_mr *mr, const struct layout *layout)
{
    enum hmreg_iface before = mr_body(mr)->iface, now = layout->whole.iface;

    if (now == before)
        return 0;
    return hmreg_fail(-EINVAL,
                      "the region of %zu bytes at %#llx had memory of %s, and its addresses now "
                      "have memory of %s: map memory of the first kind",
                      (size_t)mr_len(mr), (unsigned long long)mr_start(mr),
                      hmreg_iface_name(before), hmreg_iface_name(now));
}

static int ask(const struct hmreg_resume_config *config, struct hmreg_mr *mr, size_t index,
               struct hmreg_mr_dmabuf *dmabuf)
{
    int rc;

    if (!config)
        return hmreg_fail(-EINVAL,
                          "part %zu of the region is a caller's dmabuf, of which the library keeps "
                          "no descriptor: register the region again",
                          index);
    if (!config->dmabuf)
        return hmreg_fail(-EINVAL,
                          "part %zu of the region of %zu bytes at %#llx is a caller's dmabuf: set "
                          "config->dmabuf, a callback that returns the descriptor of a new one",
                          index, (size_t)mr_len(mr), (unsigned long long)mr_start(mr));
    rc = config->dmabuf(mr, index, dmabuf, config->context);
    return rc ? hmreg_fail(rc, "config->dmabuf returned no dmabuf for part %zu", index) : 0;
}

#define ALL_MEMBERS (-1)

/* member: ALL_MEMBERS, or the only member to register on. */
static int fill(struct layout *layout, struct hmreg_mr *mr, int member)
{
    if (member == ALL_MEMBERS)
        return region_fill(layout, mr);
    if (layout->whole.range.identity != mr_identity(mr))
        return hmreg_fail(-EAGAIN, "the region's addresses have other memory now");
    return region_fill_member(layout, mr, (size_t)member);
}

static int resume_list(const struct origin *origin, struct hmreg_mr *mr,
                       const struct hmreg_resume_config *config, int member)
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
    rc = rc ? rc : check_iface(mr, &layout);
    rc = rc ? rc : fill(&layout, mr, member);
    layout_free(&layout);
    free(segments);
    return rc;
}

static int resume_ranges(const struct origin *origin, const struct request *request,
                         struct resolved *found, struct hmreg_mr *mr, int member)
{
    struct layout layout;
    int rc = request_resolve(mr->domain, request, found);

    if (rc)
        return rc;
    layout_init(&layout, request, found);
    if (origin->piece_len)
        rc = layout_cut(mr->domain, &layout, origin->piece_len, origin->callers);
    rc = rc ? rc : check_iface(mr, &layout);
    rc = rc ? rc : fill(&layout, mr, member);
    layout_free(&layout);
    return rc;
}

static int register_again(const struct origin *origin, struct hmreg_mr *mr,
                          const struct hmreg_resume_config *config, int member)
{
    struct request request = origin->request;
    struct hmreg_mr_dmabuf dmabuf;
    struct resolved *found;
    struct dmabuf_file file;
    struct iovec range;
    int rc = 0;

    if (origin->segments)
        return resume_list(origin, mr, config, member);
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
    rc = resume_ranges(origin, &request, found, mr, member);
    free(found);
    return rc;
}

int origin_resume(const struct origin *origin, struct hmreg_mr *mr,
                  const struct hmreg_resume_config *config)
{
    return register_again(origin, mr, config, ALL_MEMBERS);
}

static int fill_member(const struct origin *origin, struct hmreg_mr *mr, size_t member)
{
    void *const *endpoints = origin ? origin->request.endpoints : NULL;

    if (!origin)
        return hmreg_fail(-ENOMEM, "hmreg has no memory to register a region again");
    if (endpoints && endpoints[member])
        return hmreg_fail(-EOPNOTSUPP, "the region was bound to an endpoint of the withdrawn "
                                       "member: get it again with an endpoint of the new member");
    return register_again(origin, mr, NULL, (int)member);
}

int origin_complete(const struct origin *origin, struct hmreg_mr *mr, bool by_replacement)
{
    struct hmreg_error_guard guard;
    int rc;

    hmreg_error_guard(&guard);
    rc = column_settle(mr);
    for (size_t i = 0; i < group_rails(mr->domain); i++) {
        unsigned number = column_wanted(mr, i, by_replacement);

        if (number)
            column_count(mr, i, number, fill_member(origin, mr, i));
    }
    hmreg_error_unguard(&guard, true);
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

/* With the lock held; drops it if the region must be completed first. */
static void set_open(struct origin *origin)
{
    struct hmreg_mr *mr = origin->mr;
    struct origins *origins = &mr->domain->origins;
    int rc = 0;

    while (!rc && !column_may_publish(mr)) {
        pthread_mutex_unlock(&origins->lock);
        rc = origin_complete(origin, mr, false);
        pthread_mutex_lock(&origins->lock);
    }
    origin->state = ORIGIN_OPEN;
    pthread_cond_broadcast(&origins->changed);
}

void origin_open(struct hmreg_mr *mr)
{
    pthread_mutex_lock(&mr->domain->origins.lock);
    set_open(*origin_of(mr));
    pthread_mutex_unlock(&mr->domain->origins.lock);
}

static int fail_stuck(const struct hmreg_mr *mr)
{
    return hmreg_fail(-EBUSY,
                      "a replacement NIC is registering the region of %zu bytes at %#llx and does "
                      "not answer: call again later",
                      (size_t)mr_len(mr), (unsigned long long)mr_start(mr));
}

int origin_close(struct hmreg_mr *mr, struct origin **out)
{
    struct origins *origins = &mr->domain->origins;
    struct origin *origin = *origin_of(mr);
    int rc = 0;

    pthread_mutex_lock(&origins->lock);
    while (!rc && origin && origin->state != ORIGIN_OPEN) {
        if (origin->state == ORIGIN_VISITED && group_is_stuck(mr->domain->group))
            rc = fail_stuck(mr);
        else
            pthread_cond_wait(&origins->changed, &origins->lock);
    }
    if (!rc && origin)
        origin->state = ORIGIN_CLOSING;
    pthread_mutex_unlock(&origins->lock);
    *out = origin;
    return rc;
}

void origin_wake(struct hmreg_domain *domain)
{
    pthread_mutex_lock(&domain->origins.lock);
    pthread_cond_broadcast(&domain->origins.changed);
    pthread_mutex_unlock(&domain->origins.lock);
}

static void unlist(struct origins *origins, const struct origin *origin)
{
    pthread_mutex_lock(&origins->lock);
    if (origin->previous)
        origin->previous->next = origin->next;
    else
        origins->first = origin->next;
    if (origin->next)
        origin->next->previous = origin->previous;
    pthread_mutex_unlock(&origins->lock);
}

void origin_end(struct hmreg_domain *domain, struct origin *origin)
{
    if (origin && origin->mr)
        unlist(&domain->origins, origin);
    free(origin);
}

/* With the lock held; drops it meanwhile. */
static int visit_open(struct hmreg_domain *domain, struct origin *origin, const struct visit *visit)
{
    int rc;

    origin->state = ORIGIN_VISITED;
    pthread_mutex_unlock(&domain->origins.lock);
    rc = visit->call(origin->mr, origin, visit->context);
    pthread_mutex_lock(&domain->origins.lock);
    set_open(origin);
    return rc;
}

/* With the lock held. */
static int visit_one(struct hmreg_domain *domain, struct origin *origin, struct visit *visit)
{
    bool open = origin->state == ORIGIN_OPEN, visited = origin->state == ORIGIN_VISITED;

    if ((open || visited) && visit->wants && !visit->wants(origin->mr))
        return 0;
    if ((open || visited) && visit->shares)
        return visit->call(origin->mr, origin, visit->context);
    if (open)
        return visit_open(domain, origin, visit);
    visit->waits = true;
    visit->busy |= visited;
    if (visit->range && origin->state == ORIGIN_JOB) /* which fills or frees its region meanwhile */
        return hmreg_fail(-EBUSY, "a job registers %zu bytes at %p: end it first",
                          iov_at(origin, 0).iov_len, iov_at(origin, 0).iov_base);
    return 0;
}

int origin_visit(struct hmreg_domain *domain, struct visit *visit)
{
    int rc = 0;

    pthread_mutex_lock(&domain->origins.lock);
    for (struct origin *origin = domain->origins.first; origin && !rc; origin = origin->next)
        if (!visit->range || touches(origin, visit->range))
            rc = visit_one(domain, origin, visit);
    pthread_mutex_unlock(&domain->origins.lock);
    return rc;
}
