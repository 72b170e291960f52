/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Scatter-gather regions, as of kfi_mr_regsgl(). Host memory becomes one registration if the fabric
 * takes that many ranges. Everything else becomes a composite, with a registration for each
 * segment: for device memory so that each piece takes its own best path, for dmabufs because a
 * registration takes only one.
 */
#include "core/mr/segments.h"

#include "core/base/error.h"
#include "core/base/validate.h"
#include "core/mr/composite.h"
#include "core/mr/rails.h"
#include "core/mr/region.h"
#include "core/mr/undone.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- the segments ----------------------------------------------------------------------- */

int segments_check(const struct hmreg_segment *segments, size_t count)
{
    if (!segments)
        return hmreg_fail(-EINVAL, "segments is NULL");
    if (!count || count > HMREG_SEGMENTS_MAX)
        return hmreg_fail(-EINVAL, "count is %zu; a region has 1 to %d segments", count,
                          HMREG_SEGMENTS_MAX);
    for (size_t i = 0; i < count; i++)
        if (segments[i].kind != HMREG_SEGMENT_MEMORY && segments[i].kind != HMREG_SEGMENT_DMABUF)
            return hmreg_fail(-EINVAL,
                              "segments[%zu].kind is %u; accepted are 0 (memory) and 1 "
                              "(dmabuf)",
                              i, segments[i].kind);
    return 0;
}

/* Checks a segment, and sets the range and the dmabuf of its piece. */
static int check_segment(const struct hmreg_segment *segment, size_t index,
                         struct composite *gathered)
{
    struct iovec *iov = &gathered->iov[index];

    if (segment->kind == HMREG_SEGMENT_DMABUF) {
        gathered->dmabufs[index] = &segment->u.dmabuf;
        return request_from_dmabuf(&segment->u.dmabuf, iov, &(struct dmabuf_file){0});
    }
    *iov = segment->u.memory;
    return validate_range_at("segments", index, iov->iov_base, iov->iov_len);
}

/* Checks all segments before any runtime is queried. */
static int check_ranges(struct hmreg_domain *domain, const struct hmreg_segment *segments,
                        struct composite *gathered)
{
    int rc = 0;

    for (size_t i = 0; i < gathered->count && !rc; i++)
        rc = check_segment(&segments[i], i, gathered);
    return rc ? rc : request_check_length(domain, gathered->iov, gathered->count);
}

/* A dmabuf of unknown memory may be combined with memory of any device, not with host memory. */
static int check_mix(const struct composite *gathered, size_t index)
{
    const struct resolved *first = &gathered->found[0], *other = &gathered->found[index];
    bool unknown = other->iface == HMREG_IFACE_SYSTEM && other->range.kind == HMREG_MEM_DEVICE;

    if (first->iface == other->iface && first->range.kind == other->range.kind)
        return 0;
    if (unknown && first->range.kind == HMREG_MEM_DEVICE)
        return 0;
    return hmreg_fail(-EINVAL,
                      "segments[%zu] is %s memory of %s, segments[0] is %s memory of %s; one "
                      "region has one iface and kind",
                      index, hmreg_mem_kind_name(other->range.kind), hmreg_iface_name(other->iface),
                      hmreg_mem_kind_name(first->range.kind), hmreg_iface_name(first->iface));
}

static int resolve_segments(struct hmreg_domain *domain, const struct composite *gathered)
{
    int rc = 0;

    for (size_t i = 0; i < gathered->count && !rc; i++) {
        struct request request = composite_piece(gathered, i);

        rc = request_resolve(domain, &request, &gathered->found[i]);
        rc = rc ? rc : check_mix(gathered, i);
    }
    return rc;
}

/* ---- one registration or several -------------------------------------------------------- */

static int create_one(struct hmreg_domain *domain, const struct composite *gathered,
                      struct hmreg_mr **out)
{
    struct request request = composite_piece(gathered, 0);

    if (gathered->count > 1 && (gathered->found[0].range.kind == HMREG_MEM_DEVICE ||
                                gathered->count > domain->caps.iov_limit))
        return composite_create(domain, gathered, gathered->found, out);
    request.count = gathered->count;
    return region_create(domain, &request, gathered->found, out);
}

static int create_rail(struct hmreg_domain *member, const struct request *request, const void *what,
                       struct hmreg_mr **out)
{
    struct composite gathered = *(const struct composite *)what;

    gathered.whole = *request;
    return create_one(member, &gathered, out);
}

static int create(struct hmreg_domain *domain, const struct composite *gathered,
                  struct hmreg_mr **out)
{
    struct request whole = gathered->whole;

    if (!domain->group)
        return create_one(domain, gathered, out);
    whole.iov = gathered->iov;
    whole.count = gathered->count;
    return rails_create(domain, &whole, gathered->found, create_rail, gathered, out);
}

static int begin(const struct request *request, size_t count, struct composite *out)
{
    *out = (struct composite){
        .whole = *request,
        .iov = calloc(count, sizeof(*out->iov)),
        .found = calloc(count, sizeof(*out->found)),
        .dmabufs = calloc(count, sizeof(*out->dmabufs)),
        .count = count,
    };
    return out->iov && out->found && out->dmabufs
               ? 0
               : hmreg_fail(-ENOMEM, "no memory for %zu segments", count);
}

void segments_free(struct composite *gathered)
{
    free(gathered->dmabufs);
    free(gathered->found);
    free(gathered->iov);
}

int segments_register(struct hmreg_domain *domain, const struct hmreg_segment *segments,
                      size_t count, const struct request *request, struct hmreg_mr **mr)
{
    struct composite gathered;
    int rc = begin(request, count, &gathered);

    rc = rc ? rc : check_ranges(domain, segments, &gathered);
    undone_retry(domain, 1);
    rc = rc ? rc : resolve_segments(domain, &gathered);
    rc = rc ? rc : create(domain, &gathered, mr);
    if (!rc)
        mr_publish(*mr);
    segments_free(&gathered);
    return rc;
}

int hmreg_mr_regsgl(struct hmreg_domain *domain, const struct hmreg_segment *segments, size_t count,
                    uint64_t access, uint64_t offset, uint64_t requested_key, uint64_t flags,
                    struct hmreg_mr **mr, void *context)
{
    struct request request = {
        .access = access,
        .requested_key = requested_key,
        .flags = flags,
        .context = context,
    };
    int rc = domain_check(domain);

    rc = rc ? rc : validate_pointer(mr, "mr");
    rc = rc ? rc : segments_check(segments, count);
    rc = rc ? rc : request_check(domain, &request, offset);
    return rc ? rc : segments_register(domain, segments, count, &request, mr);
}

/* ---- cached regions --------------------------------------------------------------------- */

/* Ranges of an iov have no list of dmabufs: they are resolved and registered as one request. */
static bool is_iov(const struct composite *gathered)
{
    return !gathered->dmabufs;
}

static struct request iov_request(const struct composite *gathered)
{
    struct request request = gathered->whole;

    request.iov = gathered->iov;
    request.count = gathered->count;
    return request;
}

int segments_gather(struct hmreg_domain *domain, const struct hmreg_segment *segments, size_t count,
                    const struct request *request, struct composite *out)
{
    int rc = begin(request, segments ? count : request->count, out);

    if (rc)
        return rc;
    if (segments)
        return check_ranges(domain, segments, out);
    free(out->dmabufs);
    out->dmabufs = NULL;
    memcpy(out->iov, request->iov, out->count * sizeof(*out->iov));
    return request_check_length(domain, out->iov, out->count);
}

int segments_resolve(struct hmreg_domain *domain, const struct composite *gathered)
{
    struct request request = iov_request(gathered);

    return is_iov(gathered) ? request_resolve(domain, &request, gathered->found)
                            : resolve_segments(domain, gathered);
}

/* NULL: no memory. */
static struct mr_list *new_list(const struct composite *gathered)
{
    struct mr_list *list = malloc(sizeof(*list) + gathered->count * sizeof(list->part[0]));

    if (!list)
        return NULL;
    list->len = 0;
    list->count = gathered->count;
    for (size_t i = 0; i < list->count; i++) {
        const struct iovec *iov = &gathered->iov[i];
        bool asks = is_iov(gathered) || !gathered->dmabufs[i];

        list->part[i].start = (uint64_t)(uintptr_t)iov->iov_base;
        list->part[i].end = list->part[i].start + iov->iov_len;
        list->part[i].identity = asks ? gathered->found[i].range.identity : 0;
        list->len += iov->iov_len;
    }
    return list;
}

int segments_make(struct hmreg_domain *domain, const struct composite *gathered,
                  struct hmreg_mr *mr)
{
    struct request request = iov_request(gathered);
    struct mr_list *list = gathered->count > 1 ? new_list(gathered) : NULL;
    struct hmreg_mr *whole = NULL;
    int rc;

    if (gathered->count > 1 && !list)
        return hmreg_fail(-ENOMEM, "no memory for a region of %zu segments", gathered->count);
    mr_body(mr)->key_taken = false;
    rc = is_iov(gathered) ? rails_create_ranges(domain, &request, gathered->found, &whole)
                          : create(domain, gathered, &whole);
    if (rc) {
        free(list);
        return rc;
    }
    region_move(whole, mr);
    if (list)
        mr_body(mr)->ext->list = list;
    return 0;
}

/* ---- queries of pieces ------------------------------------------------------------------ */

static void describe(const struct hmreg_mr *mr, size_t index, struct hmreg_segment_info *out)
{
    const struct hmreg_mr *owner = mr_pieces(mr) ? mr_pieces(mr)[index] : mr;
    size_t range = mr_pieces(mr) ? 0 : index;
    struct provider_mr now = mr_now(owner);

    *out = (struct hmreg_segment_info){
        .local_addr = mr_local_addr(owner, range),
        .len = mr_iov(owner, range).iov_len,
        .desc = now.desc,
        .key = mr_is_pending(mr) ? HMREG_KEY_NOTAVAIL : now.key,
        .native = now.native,
    };
}

int hmreg_mr_segment(const struct hmreg_mr *mr, size_t index, struct hmreg_segment_info *out)
{
    struct hmreg_segment_info info;
    int rc = mr_check(mr);

    rc = rc ? rc : validate_out(out, sizeof(info), "struct hmreg_segment_info");
    if (rc)
        return rc;
    if (index >= mr_count(mr))
        return hmreg_fail(-ENOENT, "index is %zu; the region has %zu pieces", index, mr_count(mr));
    describe(mr, index, &info);
    validate_copy_out(out, &info, sizeof(info));
    return 0;
}
