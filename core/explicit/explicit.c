/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Registers explicit regions and closes them: the equivalents of fi_mr(3) and ibv_reg_mr(3). All
 * three forms of the call fill a struct request.
 */
#include "core/explicit/explicit.h"

#include "core/base/error.h"
#include "core/base/failure.h"
#include "core/base/uncancelled.h"
#include "core/base/validate.h"
#include "core/group/group.h"
#include "core/explicit/origin.h"
#include "core/mr/explain.h"
#include "core/mr/region.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* ---- registering ------------------------------------------------------------------------ */

/* Registers a resolved layout and publishes its region. origin: NULL: no memory; owned. */
static int register_layout(struct hmreg_domain *domain, struct layout *layout,
                           struct origin *origin, uint64_t since, struct hmreg_mr **out)
{
    struct hmreg_mr *before = *out, *mr = NULL;
    int rc = region_new(domain, layout, &mr);

    if (rc) {
        free(origin);
        return rc;
    }
    rc = origin_begin(mr, origin, ORIGIN_FILLING, since);
    if (domain->caps.async) /* another thread may read the event before the fabric's call returns */
        *out = mr;
    rc = rc ? rc : region_fill(layout, mr);
    if (rc) {
        origin_end(domain, origin);
        region_free(mr);
        *out = before;
        return rc;
    }
    explain_warn_unreadable(mr);
    if (!domain->caps.async) /* else other threads may have read *out */
        *out = mr;
    mr_publish(mr);
    origin_open(mr);
    return 0;
}

/* request: checked. segments: NULL, or the memory of a request without ranges. */
static int register_request(struct hmreg_domain *domain, const struct request *request,
                            const struct hmreg_segment *segments, size_t count,
                            struct hmreg_mr **out)
{
    struct suspended *suspended = &domain->lib->suspended;
    uint64_t since = suspended_since(suspended);
    const struct ranges *ranges;
    struct layout layout;
    UNCANCELLED;
    int rc = layout_gather(domain, segments, count, request, &layout);

    ranges = &layout.ranges;
    undone_retry(domain, 1);
    if (!rc) {
        rc = suspended_check(suspended, ranges->iov, ranges->count, since);
        rc = rc ? rc : layout_resolve(domain, &layout);
        if (!rc)
            rc = register_layout(domain, &layout, origin_new(request, segments, count), since, out);
        if (rc && suspended_check(suspended, ranges->iov, ranges->count, since))
            rc = -EAGAIN;
    }
    layout_free(&layout);
    region_settle_lost(domain);
    return rc;
}

static int register_ranges(struct hmreg_domain *domain, const struct iovec *iov, size_t count,
                           uint64_t access, uint64_t offset, uint64_t requested_key, uint64_t flags,
                           struct hmreg_mr **mr, void *context)
{
    struct request request = {
        .iov = iov,
        .count = count,
        .access = access,
        .requested_key = requested_key,
        .flags = flags,
        .context = context,
    };
    int rc = domain_check(domain);

    rc = rc ? rc : validate_pointer(mr, "mr");
    rc = rc ? rc : validate_iov(iov, count, domain->caps.iov_limit);
    rc = rc ? rc : request_check(domain, &request, offset);
    return rc ? rc : register_request(domain, &request, NULL, 0, mr);
}

int hmreg_mr_regv(struct hmreg_domain *domain, const struct iovec *iov, size_t count,
                  uint64_t access, uint64_t offset, uint64_t requested_key, uint64_t flags,
                  struct hmreg_mr **mr, void *context)
{
    LOGS_FAILURE(domain_log(domain));

    return register_ranges(domain, iov, count, access, offset, requested_key, flags, mr, context);
}

int hmreg_mr_reg(struct hmreg_domain *domain, const void *addr, size_t len, uint64_t access,
                 uint64_t offset, uint64_t requested_key, uint64_t flags, struct hmreg_mr **mr,
                 void *context)
{
    LOGS_FAILURE(domain_log(domain));
    struct iovec iov = {(void *)(uintptr_t)addr, len};

    return register_ranges(domain, &iov, 1, access, offset, requested_key, flags, mr, context);
}

static int check_segments(const struct hmreg_segment *segments, size_t count)
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

int hmreg_mr_regsgl(struct hmreg_domain *domain, const struct hmreg_segment *segments, size_t count,
                    uint64_t access, uint64_t offset, uint64_t requested_key, uint64_t flags,
                    struct hmreg_mr **mr, void *context)
{
    LOGS_FAILURE(domain_log(domain));
    struct request request = {
        .access = access,
        .requested_key = requested_key,
        .flags = flags,
        .context = context,
    };
    int rc = domain_check(domain);

    rc = rc ? rc : validate_pointer(mr, "mr");
    rc = rc ? rc : check_segments(segments, count);
    rc = rc ? rc : request_check(domain, &request, offset);
    return rc ? rc : register_request(domain, &request, segments, count, mr);
}

static int check_rails(const struct hmreg_domain *domain, uint64_t rails)
{
    size_t count = group_rails(domain);

    if (!rails)
        return 0;
    if (!domain->group)
        return hmreg_fail(-EINVAL,
                          "rails is %#" PRIx64 ", but the domain is no group: it must be 0", rails);
    if (count < 64 && rails >> count)
        return hmreg_fail(-EINVAL, "rails is %#" PRIx64 "; the group has rails 0 to %zu", rails,
                          count - 1);
    return 0;
}

static int check_attr(const struct hmreg_domain *domain, const struct hmreg_mr_attr *callers,
                      struct hmreg_mr_attr *attr)
{
    int rc = validate_pointer(callers, "attr");

    rc = rc ? rc
            : validate_copy_in(attr, sizeof(*attr), callers, sizeof(*attr), "struct hmreg_mr_attr");
    rc = rc ? rc : claim_check(domain, attr);
    if (rc)
        return rc;
    if (attr->auth_key_size && !attr->auth_key)
        return hmreg_fail(-EINVAL, "auth_key is NULL, auth_key_size is %zu", attr->auth_key_size);
    if (attr->auth_key_size > AUTH_KEY_MOST)
        return hmreg_fail(-EINVAL, "auth_key_size is %zu; accepted are 0 to %u",
                          attr->auth_key_size, AUTH_KEY_MOST);
    if (attr->page_size & (attr->page_size - 1))
        return hmreg_fail(-EINVAL, "page_size is %zu; it must be 0 or a power of two",
                          attr->page_size);
    if ((unsigned)attr->policy > HMREG_POLICY_LAST_PUT)
        return hmreg_fail(-EINVAL,
                          "policy is %d; accepted are HMREG_POLICY_DEFAULT, KEEP, LAST_PUT",
                          (int)attr->policy);
    if (attr->endpoint_count && !attr->endpoints)
        return hmreg_fail(-EINVAL, "endpoint_count is %zu, but endpoints is NULL",
                          attr->endpoint_count);
    return check_rails(domain, attr->rails);
}

/* Sets the request's ranges: the attributes' ranges, or its dmabuf's range. */
static int check_ranges(const struct hmreg_domain *domain, const struct hmreg_mr_attr *attr,
                        uint64_t flags, struct iovec *in_dmabuf, struct dmabuf_file *file,
                        struct request *request)
{
    if (!(flags & HMREG_REG_DMABUF)) {
        if (attr->dmabuf)
            return hmreg_fail(-EINVAL, "attr->dmabuf is set, but flags lacks HMREG_REG_DMABUF");
        return validate_iov(attr->iov, attr->iov_count, domain->caps.iov_limit);
    }
    if (attr->iov || attr->iov_count)
        return hmreg_fail(-EINVAL, "attr->iov is set, but flags has HMREG_REG_DMABUF, so the range "
                                   "is in attr->dmabuf: set iov to NULL");
    request->dmabuf = attr->dmabuf;
    request->iov = in_dmabuf;
    request->count = 1;
    return request_from_dmabuf(attr->dmabuf, in_dmabuf, file);
}

struct request attributes_request(const struct hmreg_mr_attr *attr, uint64_t flags)
{
    return (struct request){
        .iov = attr->iov,
        .count = attr->iov_count,
        .access = attr->access,
        .requested_key = attr->requested_key,
        .flags = flags & ~HMREG_REG_DMABUF,
        .context = attr->context,
        .auth_key_size = attr->auth_key_size,
        .auth_key = attr->auth_key,
        .hmem_data = attr->hmem_data,
        .page_size = attr->page_size,
        .endpoints = attr->endpoint ? &attr->endpoint : attr->endpoints,
        .claim = claim_of(attr),
        .options = options_of(attr),
        .rails = attr->rails,
    };
}

static int check_alone(const struct hmreg_mr_attr *attr, uint64_t flags)
{
    bool ranges = attr->iov || attr->iov_count;

    if (ranges || attr->dmabuf || (flags & HMREG_REG_DMABUF))
        return hmreg_fail(
            -EINVAL,
            "attr->segments is set, and so is %s; a region takes its memory from one of them only",
            ranges ? "attr->iov" : "attr->dmabuf or HMREG_REG_DMABUF in flags");
    return check_segments(attr->segments, attr->segment_count);
}

int request_from_attr(const struct hmreg_domain *domain, const struct hmreg_mr_attr *callers,
                      uint64_t flags, struct attributes *out)
{
    const struct hmreg_mr_attr *attr = &out->attr;
    struct request *request = &out->request;
    int rc = check_attr(domain, callers, &out->attr);

    if (rc)
        return rc;
    *request = attributes_request(attr, flags);
    rc = attributes_of_segments(out)
             ? check_alone(attr, flags)
             : check_ranges(domain, attr, flags, &out->in_dmabuf, &out->file, request);
    return rc ? rc : request_check(domain, request, attr->offset);
}

int attributes_not_of_get(const struct attributes *attributes)
{
    const struct hmreg_mr_attr *attr = &attributes->attr;

    if (attr->endpoint || attr->endpoints)
        return hmreg_fail(-EINVAL,
                          "attr->%s is set; it must be NULL here: bind the region with "
                          "hmreg_mr_bind(), or get it with hmreg_mr_get_attr()",
                          attr->endpoint ? "endpoint" : "endpoints");
    if (attr->policy)
        return hmreg_fail(-EINVAL,
                          "policy is %d; it must be 0 in this call: the region stays registered "
                          "until hmreg_mr_close()",
                          (int)attr->policy);
    return 0;
}

int hmreg_mr_regattr(struct hmreg_domain *domain, const struct hmreg_mr_attr *callers,
                     uint64_t flags, struct hmreg_mr **mr)
{
    LOGS_FAILURE(domain_log(domain));
    struct attributes own;
    int rc = domain_check(domain);

    rc = rc ? rc : validate_pointer(mr, "mr");
    rc = rc ? rc : request_from_attr(domain, callers, flags, &own);
    rc = rc ? rc : attributes_not_of_get(&own);
    if (rc)
        return rc;
    return register_request(domain, &own.request, own.attr.segments, own.attr.segment_count, mr);
}

int hmreg_mr_close(struct hmreg_mr *mr)
{
    LOGS_FAILURE(mr_log(mr));
    struct hmreg_domain *domain;
    struct origin *origin;
    int rc;
    UNCANCELLED;

    if (!mr)
        return 0;
    domain = mr->domain;
    rc = domain_check(domain);
    if (rc)
        return rc;
    mr_settle(mr);
    if (mr->slot_offset)
        return hmreg_fail(-EINVAL, "mr is from hmreg_mr_get(); give it back with hmreg_mr_put()");
    if (mr_is_handle(mr))
        return hmreg_fail(-EINVAL,
                          "mr is a rail of a group's region: close the region, not its rails");
    rc = origin_close(mr, &origin);
    if (rc)
        return rc;
    undone_retry(domain, 1);
    rc = region_destroy(mr);
    if (rc == -EBUSY) {
        origin_open(mr);
        return rc;
    }
    origin_end(domain, origin);
    atomic_fetch_sub(&domain->regions, 1);
    return rc;
}
