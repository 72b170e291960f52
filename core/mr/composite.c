/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Composites: several registrations behind one region and one token. hmreg_mr_regsgl() creates one
 * from the caller's segments. A single range of device memory also becomes a composite if no dmabuf
 * can contain all of it: virtual memory of several devices, or a driver that exports one allocation
 * at a time. Such a composite has exactly one piece for each physical segment under the range, so
 * that it never covers only a part of the range.
 */
#include "core/mr/composite.h"

#include "core/base/error.h"
#include "core/mr/shared.h"
#include "core/mr/undone.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* ---- ends ------------------------------------------------------------------------------- */

static int close_parts(struct hmreg_mr *mr);

/* A rail may be a composite itself. */
static int close_part(struct hmreg_mr *part)
{
    int rc;

    if (!mr_pieces(part))
        return region_destroy_one(part);
    rc = close_parts(part);
    if (rc != -EBUSY)
        region_free(part);
    return rc;
}

/* Deregisters the pieces or rails that are still registered. -EBUSY: one was busy. */
static int close_parts(struct hmreg_mr *mr)
{
    size_t count;
    struct hmreg_mr **parts = mr_parts(mr, &count);
    int rc = 0;

    for (size_t i = 0; i < count; i++) {
        int closed = parts[i] ? close_part(parts[i]) : 0;

        if (closed == -EBUSY) {
            mr_ext(mr)->closing |= mr_ext(parts[i])->closing;
            return closed;
        }
        mr_ext(mr)->closing |= parts[i] != NULL;
        parts[i] = NULL;
        rc = rc ? rc : closed;
    }
    return rc;
}

int composite_destroy(struct hmreg_mr *mr)
{
    int rc = close_parts(mr);

    if (rc != -EBUSY)
        region_free(mr);
    return rc;
}

/* ---- creation from known pieces --------------------------------------------------------- */

struct request composite_piece(const struct composite *composite, size_t index)
{
    struct request request = composite->whole;

    request.iov = &composite->iov[index];
    request.count = 1;
    request.dmabuf = composite->dmabufs ? composite->dmabufs[index] : NULL;
    for (size_t i = 0; i < index && request.options.set_iova; i++)
        request.options.iova += composite->iov[i].iov_len;
    return request;
}

static int create_pieces(const struct composite *composite, struct hmreg_mr *mr)
{
    int rc = 0;

    for (size_t i = 0; i < composite->count && !rc; i++) {
        struct request request = composite_piece(composite, i);

        if (i > 0) /* the caller's key is for the first piece */
            request.any_key = true;
        rc = region_create_one(mr->domain, &request, &composite->found[i], NULL,
                               &mr_ext(mr)->pieces[i]);
    }
    return rc;
}

static int check_async(const struct hmreg_domain *domain, size_t count)
{
    if (!domain->caps.async)
        return 0;
    return hmreg_fail(-EOPNOTSUPP,
                      "a region of %zu segments would be as many registrations on %s, each with an "
                      "event in the domain's queue: register each segment by itself",
                      count, domain->caps.fabric);
}

int composite_new(struct hmreg_domain *domain, const struct composite *composite,
                  const struct resolved *found, struct hmreg_mr **out)
{
    struct request whole = composite->whole;
    struct hmreg_mr *mr;

    assert(composite->count);
    whole.iov = composite->iov;
    whole.count = composite->count;
    mr = region_new(domain, &whole, found);
    if (mr)
        mr_ext(mr)->pieces = calloc(composite->count, sizeof(struct hmreg_mr *));
    if (!mr || !mr_ext(mr)->pieces) {
        if (mr)
            region_free(mr);
        return hmreg_fail(-ENOMEM, "no memory for a region of %zu segments", composite->count);
    }
    mr_body(mr)->made = PROVIDER_MR_OF_PARTS;
    *out = mr;
    return 0;
}

int composite_create(struct hmreg_domain *domain, const struct composite *composite,
                     const struct resolved *found, struct hmreg_mr **out)
{
    struct hmreg_mr *mr = NULL;
    int rc = check_async(domain, composite->count);

    rc = rc ? rc : composite_new(domain, composite, found, &mr);
    if (rc)
        return rc;
    rc = create_pieces(composite, mr);
    if (rc) {
        undone_add(mr);
        return rc;
    }
    mr_body(mr)->path = mr_body(mr_pieces(mr)[0])->path;
    *out = mr;
    return 0;
}

/* ---- creation from one range, by its physical segments ---------------------------------- */

static int fail_changed(uint64_t addr)
{
    return hmreg_fail(-EIO, "the memory at %#" PRIx64 " changed while it was registered", addr);
}

/* Finds the piece at the start of [addr, end). Queried about one byte, a runtime reports the extent
 * of the segment that contains it. -EXDEV, not recorded: the segment is itself several (tiles). */
static int find_piece(struct hmreg_domain *domain, uint64_t addr, uint64_t end, struct iovec *iov,
                      struct resolved *found)
{
    const struct hmem_range *range = &found->range;
    uint64_t border;
    int rc = resolve(domain->lib, addr, 1, found);

    if (rc)
        return rc;
    border = range->alloc_base + range->alloc_len;
    if (found->iface == HMREG_IFACE_SYSTEM || border <= addr)
        return fail_changed(addr);
    *iov = (struct iovec){(void *)(uintptr_t)addr, (size_t)((border < end ? border : end) - addr)};
    rc = resolve(domain->lib, addr, iov->iov_len, found);
    return rc ? rc : range->segments > 1 ? -EXDEV : 0;
}

/* Doubles the arrays whenever count is a power of two: most ranges have few segments. */
static int make_place(struct composite *composite)
{
    size_t count = composite->count, room = count ? 2 * count : 1;
    struct resolved *found;
    struct iovec *iov;

    if (count == HMREG_SEGMENTS_MAX)
        return hmreg_fail(-EOPNOTSUPP,
                          "more than %d physical segments are under the range, as many as a "
                          "region may have: register it in parts",
                          HMREG_SEGMENTS_MAX);
    if (count & (count - 1))
        return 0;
    iov = realloc(composite->iov, room * sizeof(*iov));
    if (iov)
        composite->iov = iov;
    found = realloc(composite->found, room * sizeof(*found));
    if (found)
        composite->found = found;
    return iov && found ? 0 : hmreg_fail(-ENOMEM, "no memory for a region of several segments");
}

/* Finds all pieces of a range, in order. */
static int find_pieces(struct hmreg_domain *domain, const struct iovec *range,
                       struct composite *composite)
{
    uint64_t addr = (uint64_t)(uintptr_t)range->iov_base;
    uint64_t end = addr + range->iov_len;
    int rc = 0;

    while (addr < end && !rc) {
        size_t i = composite->count;

        rc = make_place(composite);
        rc = rc ? rc : find_piece(domain, addr, end, &composite->iov[i], &composite->found[i]);
        if (!rc)
            addr += composite->iov[i].iov_len;
        composite->count += !rc;
    }
    if (!rc && composite->count == 1)
        rc = fail_changed((uint64_t)(uintptr_t)range->iov_base);
    return rc;
}

int composite_divide(struct hmreg_domain *domain, const struct iovec *range,
                     struct composite *composite)
{
    int rc;

    composite->iov = NULL;
    composite->found = NULL;
    rc = find_pieces(domain, range, composite);
    if (rc) {
        free(composite->found);
        free(composite->iov);
    }
    return rc;
}

/* The same pieces for each rail of a group; shared owns them. */
static int divide_once(struct hmreg_domain *domain, const struct request *request,
                       struct composite *composite)
{
    struct shared *shared = request->shared;
    int rc = shared->count ? 0 : composite_divide(domain, request->iov, composite);

    if (rc)
        return rc;
    if (!shared->count) {
        shared->count = composite->count;
        shared->iov = composite->iov;
        shared->found = composite->found;
    }
    composite->count = shared->count;
    composite->iov = shared->iov;
    composite->found = shared->found;
    return 0;
}

int composite_split(struct hmreg_domain *domain, const struct request *request,
                    const struct resolved *found, struct hmreg_mr **out)
{
    struct composite composite = {.whole = *request};
    int rc = request->shared ? divide_once(domain, request, &composite)
                             : composite_divide(domain, request->iov, &composite);

    if (rc)
        return rc;
    rc = composite_create(domain, &composite, found, out);
    if (!request->shared) {
        free(composite.found);
        free(composite.iov);
    }
    return rc;
}
