/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See job_region.h. A job outlives the call that starts it, so it copies what the caller's
 * attributes point to.
 */
#include "core/job/job_region.h"

#include "core/base/error.h"
#include "core/base/high_fd.h"
#include "core/group/group.h"
#include "core/explicit/explicit.h"
#include "core/explicit/origin.h"
#include "core/mr/region.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct job_region {
    struct hmreg_domain *domain;
    struct attributes attributes;
    uint8_t *auth_key;             /* a copy; NULL: none */
    struct hmreg_mr_dmabuf dmabuf; /* fd: a duplicate; -1: none */
    struct resolved found;         /* the memory of the whole range */
    struct layout layout;
    struct filling filling;
    struct hmreg_mr *mr; /* NULL: published, or undone */
    struct origin *origin;
};

const struct ranges *job_region_pieces(const struct job_region *region)
{
    return &region->layout.ranges;
}

/* ---- creation --------------------------------------------------------------------------- */

static int check_attributes(const struct hmreg_domain *domain, struct attributes *attributes)
{
    if (domain->caps.async)
        return hmreg_fail(
            -EOPNOTSUPP,
            "registrations of this domain complete in an event queue that the "
            "application reads: they are in the background already; register each piece by itself");
    if (attributes->request.flags & HMREG_REG_SINGLE)
        return hmreg_fail(-HMREG_EBADFLAGS, "flags has HMREG_REG_SINGLE, but a job registers the "
                                            "range in pieces: use hmreg_mr_regattr()");
    if (attributes_of_segments(attributes))
        return hmreg_fail(-EINVAL, "attr->segments is set; a job registers one range");
    if (attributes->request.count != 1)
        return hmreg_fail(-EINVAL, "attr->iov_count is %zu; a job registers one range",
                          attributes->request.count);
    if (attributes->request.endpoints)
        return hmreg_fail(-EINVAL,
                          "attr->%s is set; it must be NULL here: bind the region with "
                          "hmreg_mr_bind()",
                          attributes->attr.endpoint ? "endpoint" : "endpoints");
    return attributes_keep_nothing(attributes);
}

static int check_piece_len(const struct hmreg_domain *domain, uint64_t piece_len)
{
    if (piece_len <= domain->caps.max_len)
        return 0;
    return hmreg_fail(-EINVAL,
                      "config->piece_len is %" PRIu64
                      "; a region of this domain has at most %" PRIu64 " bytes",
                      piece_len, domain->caps.max_len);
}

/* Copies what the attributes point to. */
static int own_attributes(struct job_region *region)
{
    struct request *request = &region->attributes.request;

    if (request->auth_key_size) {
        region->auth_key = malloc(request->auth_key_size);
        if (!region->auth_key)
            return hmreg_fail(-ENOMEM, "hmreg has no memory for an authorization key");
        memcpy(region->auth_key, request->auth_key, request->auth_key_size);
        request->auth_key = region->auth_key;
    }
    region->attributes.in_dmabuf = *request->iov;
    request->iov = &region->attributes.in_dmabuf;
    if (!request->dmabuf)
        return 0;
    region->dmabuf = *request->dmabuf;
    region->dmabuf.fd = high_fd_duplicate(request->dmabuf->fd);
    request->dmabuf = &region->dmabuf;
    return region->dmabuf.fd < 0 ? hmreg_fail_os(errno, "dmabuf: fd cannot be duplicated") : 0;
}

static int list(struct job_region *region, uint64_t piece_len, bool callers, uint64_t since)
{
    region->origin = origin_new(&region->attributes.request, NULL, 0);
    if (region->origin) {
        region->origin->piece_len = piece_len;
        region->origin->callers = callers;
    }
    return origin_begin(region->mr, region->origin, ORIGIN_JOB, since);
}

static int prepare(struct job_region *region, bool any_key, uint64_t piece_len)
{
    struct request *request = &region->attributes.request;
    struct hmreg_domain *domain = region->domain;
    uint64_t chosen = layout_chosen(request->iov->iov_len, domain->caps.max_len);
    uint64_t since = suspended_since(&domain->lib->suspended);
    int rc = own_attributes(region);

    rc = rc ? rc : suspended_check(&domain->lib->suspended, request->iov, 1, since);
    rc = rc ? rc : request_resolve(domain, request, &region->found);
    if (rc)
        return rc;
    request->any_key |= any_key;
    layout_init(&region->layout, request, &region->found);
    rc = layout_cut(domain, &region->layout, piece_len ? piece_len : chosen, piece_len != 0);
    rc = rc ? rc : region_new(domain, &region->layout, &region->mr);
    rc = rc ? rc : filling_begin(&region->filling, &region->layout, region->mr);
    rc = rc ? rc : list(region, piece_len ? piece_len : chosen, piece_len != 0, since);
    return rc;
}

int job_region_new(struct hmreg_domain *domain, const struct hmreg_mr_attr *attr, uint64_t flags,
                   bool any_key, uint64_t piece_len, struct job_region **out)
{
    struct job_region *region = calloc(1, sizeof(*region));
    int rc;

    if (!region)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for a region of pieces");
    region->domain = domain;
    region->dmabuf.fd = -1;
    undone_retry(domain, 1);
    rc = request_from_attr(domain, attr, flags, &region->attributes);
    rc = rc ? rc : check_attributes(domain, &region->attributes);
    rc = rc ? rc : check_piece_len(domain, piece_len);
    rc = rc ? rc : prepare(region, any_key, piece_len);
    if (rc) {
        job_region_free(region);
        return rc;
    }
    *out = region;
    return 0;
}

/* Does the library choose the keys of this domain? */
static bool chooses(const struct hmreg_domain *domain)
{
    return domain->caps.mr_mode & HMREG_MR_PROV_KEY;
}

bool job_region_begins_alone(const struct job_region *region)
{
    const struct request *request = &region->layout.request;
    bool all_choose = true;

    for (size_t i = 0; i < hmreg_group_count(region->domain); i++)
        if (group_registers_on(request->rails, i))
            all_choose &= chooses(group_rail(region->domain, i));
    return !all_choose && !request->any_key && (request->access & HMREG_ACCESS_REMOTE);
}

/* ---- parts ------------------------------------------------------------------------------ */

/* Puts the piece before the text of the thread's last error. */
static int fail_piece(const struct job_region *region, size_t piece, int rc)
{
    const struct ranges *pieces = job_region_pieces(region);
    const struct iovec *iov = pieces->iov;
    struct hmreg_error why;

    if (pieces->count == 1)
        return rc;
    hmreg_error_save(&why);
    return hmreg_fail_vendor(rc, why.source, why.vendor_code, why.vendor_text,
                             "piece %zu of %zu, %zu bytes at %p: %s", piece, pieces->count,
                             iov[piece].iov_len, iov[piece].iov_base, why.text);
}

int job_region_make(struct job_region *region, size_t piece)
{
    struct hmreg_error_guard guard;
    int rc;

    hmreg_error_guard(&guard);
    rc = filling_part(&region->filling, piece);
    hmreg_error_unguard(&guard, !rc);
    return rc ? fail_piece(region, piece, rc) : 0;
}

/* ---- ends ------------------------------------------------------------------------------- */

/* Imports and mappings have references of their own. */
static void close_descriptors(struct job_region *region)
{
    layout_close(&region->layout);
    if (region->dmabuf.fd >= 0)
        close(region->dmabuf.fd);
    region->dmabuf.fd = -1;
}

int job_region_publish(struct job_region *region, struct hmreg_mr **out)
{
    struct hmreg_mr *mr = region->mr;
    struct hmreg_error_guard guard;
    int rc;

    hmreg_error_guard(&guard);
    rc = filling_end(&region->filling);
    hmreg_error_unguard(&guard, !rc);
    if (rc) {
        job_region_undo(region);
        return rc;
    }
    region->mr = NULL;
    close_descriptors(region);
    mr_publish(mr);
    origin_open(mr);
    *out = mr;
    return 0;
}

void job_region_undo(struct job_region *region)
{
    filling_undo(&region->filling);
    origin_end(region->domain, region->origin);
    region->origin = NULL;
    region_free(region->mr);
    region->mr = NULL;
    close_descriptors(region);
}

void job_region_free(struct job_region *region)
{
    if (!region)
        return;
    if (region->mr)
        job_region_undo(region);
    close_descriptors(region);
    layout_free(&region->layout);
    free(region->auth_key);
    free(region);
}
