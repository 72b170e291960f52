/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See region.h. One registration is tried first, and a composite is created only if no single
 * dmabuf contains the range.
 */
#include "core/mr/region.h"

#include "core/base/error.h"
#include "core/mr/composite.h"
#include "core/mr/explain.h"

#include <errno.h>
#include <stdlib.h>

/* Is it system memory at its own address, without an identity or an iova, and has the caller no
 * context? Such a region needs no mr_ext. */
static bool is_plain(const struct request *request, const struct resolved *found)
{
    return !request->dmabuf && !request->context && found->iface == HMREG_IFACE_SYSTEM &&
           found->range.device == -1 && !found->range.identity && !request->options.set_iova &&
           found->range.host_addr == (uint64_t)(uintptr_t)request->iov[0].iov_base;
}

/* Nor does an explicit region of one range, unless it is a rail or may complete later. */
static bool is_explicit_plain(const struct hmreg_domain *domain, const struct request *request,
                              const struct resolved *found)
{
    return is_plain(request, found) && request->count == 1 && !request->shared &&
           !domain->caps.async && !domain->caps.pends;
}

static int create_plain(struct hmreg_domain *domain, const struct request *request,
                        const struct resolved *found, struct hmreg_mr **out)
{
    struct hmreg_mr *mr = region_alloc(domain, request, found);
    int rc;

    if (!mr)
        return hmreg_fail(-ENOMEM, "no memory for a region");
    mr->node.start = (uint64_t)(uintptr_t)request->iov->iov_base;
    mr->node.end = mr->node.start + request->iov->iov_len;
    rc = region_make_plain(domain, request, found, mr);
    if (rc)
        free(mr);
    else
        *out = mr;
    return rc;
}

int region_create(struct hmreg_domain *domain, const struct request *request,
                  const struct resolved *found, struct hmreg_mr **out)
{
    struct refusals whole = {0, NULL};
    struct hmreg_error_guard guard;
    int rc;

    hmreg_error_guard(&guard);
    if (is_explicit_plain(domain, request, found))
        rc = create_plain(domain, request, found, out);
    else
        rc = region_create_one(domain, request, found, &whole, out);
    if (whole.reasons && request_is_single(domain, request)) {
        explain_keep(found->iface, found->range.device, whole.reasons, whole.count);
        rc = hmreg_fail(-EXDEV,
                        "no single dmabuf contains the %zu bytes at %p, which are to be one "
                        "registration: pass each allocation by itself, or HMREG_MR_PARTS (or "
                        "HMREG_DOMAIN_PARTS) and use hmreg_mr_segment()",
                        request->iov->iov_len, request->iov->iov_base);
    } else if (whole.reasons) {
        rc = composite_split(domain, request, found, out);
        if (rc == -EXDEV)
            rc = refuse_all(domain, found, whole.reasons, whole.count);
    }
    if (whole.reasons && !rc) {
        mr_ext(*out)->refused = whole.count;
        mr_ext(*out)->reasons = whole.reasons;
    } else {
        free(whole.reasons);
    }
    /* Neither the refusal of the whole nor a key in use that the library chose is a failure. */
    hmreg_error_unguard(&guard, !rc);
    return rc;
}

/* ---- cached regions --------------------------------------------------------------------- */

void region_move(struct hmreg_mr *from, struct hmreg_mr *mr)
{
    mr_body(mr)->made = mr_body(from)->made;
    mr_body(mr)->ext = mr_ext(from);
    mr_body(mr)->path = mr_body(from)->path;
    mr_body(mr)->key_taken = mr_body(from)->key_taken;
    free(from);
}

int region_make(struct hmreg_domain *domain, const struct request *request,
                const struct resolved *found, struct hmreg_mr *mr)
{
    struct hmreg_mr *whole = NULL;
    int rc;

    mr_body(mr)->key_taken = false;
    if (is_plain(request, found))
        return region_make_plain(domain, request, found, mr);
    rc = region_create(domain, request, found, &whole);
    if (!rc)
        region_move(whole, mr);
    return rc;
}

/* ---- ends ------------------------------------------------------------------------------- */

int region_destroy(struct hmreg_mr *mr)
{
    return mr_pieces(mr) || mr_rails(mr) ? composite_destroy(mr) : region_destroy_one(mr);
}
