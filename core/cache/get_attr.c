/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg_mr_get_attr(): a get with the attributes of hmreg_mr_regattr(). Attributes that are part of
 * the key are its variant (variant.h). A get without any is served as hmreg_mr_get() is.
 */
#include "core/base/error.h"
#include "core/base/validate.h"
#include "core/cache/cache_set.h"
#include "core/cache/get_slow.h"

#include <errno.h>
#include <inttypes.h>

/* Checks what hmreg_mr_regattr() accepts and a cached region cannot have. */
static int check_cacheable(const struct hmreg_domain *domain, const struct attributes *attributes,
                           uint64_t flags)
{
    const struct hmreg_mr_attr *attr = &attributes->attr;

    if (attributes_of_segments(attributes))
        return hmreg_fail(-EINVAL, "segments is set; a cached region has one range: register "
                                   "several with hmreg_mr_regattr()");
    if (attributes->request.count != 1)
        return hmreg_fail(-EINVAL,
                          "iov_count is %zu; a cached region has one range: register several with "
                          "hmreg_mr_regattr()",
                          attributes->request.count);
    if (attr->requested_key)
        return hmreg_fail(-EINVAL,
                          "requested_key is %#" PRIx64 "; the library chooses the keys of cached "
                          "regions, so it must be 0",
                          attr->requested_key);
    if (attr->endpoint && domain->group)
        return hmreg_fail(-EINVAL,
                          "endpoint is set; on a group it must be NULL, since each rail has "
                          "an endpoint of its own: bind the rails of a region of "
                          "hmreg_mr_regattr()");
    if (attr->endpoint && !(domain->caps.mr_mode & HMREG_MR_ENDPOINT))
        return hmreg_fail(-EINVAL, "endpoint is set; it must be NULL on this domain, which binds "
                                   "no endpoints (no HMREG_MR_ENDPOINT)");
    if (flags & HMREG_RMA_EVENT)
        return hmreg_fail(-HMREG_EBADFLAGS, "flags has HMREG_RMA_EVENT; counters are bound to "
                                            "regions of hmreg_mr_regattr() only");
    return 0;
}

/* Looks in the thread's table first. A claim that does not hold fails on the slow path. */
static int get_of_variant(struct hmreg_domain *domain, const struct request *request,
                          const struct cache_want *want, bool cacheable, struct hmreg_mr **out)
{
    struct hmreg_mr *mr = cacheable ? get_remembered(domain, want) : NULL;

    if (mr && get_claim_holds(request, mr)) {
        *out = mr;
        return 0;
    }
    hmreg_mr_put(mr);
    return get_requested(domain, request, want, cacheable, out);
}

int hmreg_mr_get_attr(struct hmreg_domain *domain, const struct hmreg_mr_attr *callers,
                      uint64_t flags, struct hmreg_mr **mr)
{
    struct attributes own;
    struct cache_want want = {.start = 0};
    bool cacheable;
    int rc = domain_check(domain);

    rc = rc ? rc : validate_pointer(mr, "mr");
    rc = rc ? rc : request_from_attr(domain, callers, flags, &own);
    rc = rc ? rc : check_cacheable(domain, &own, flags);
    rc = rc ? rc : get_check(domain);
    rc = rc ? rc : variant_get(&domain->caches->variants, &own, flags, &want.variant, &cacheable);
    if (rc)
        return rc;
    own.request.any_key = true;
    want.start = (uint64_t)(uintptr_t)own.request.iov->iov_base;
    want.end = want.start + own.request.iov->iov_len;
    want.access = own.request.access;
    cacheable = cacheable && get_may_share(domain, &own.request);
    rc = get_of_variant(domain, &own.request, &want, cacheable, mr);
    variant_put(&domain->caches->variants, want.variant);
    return rc;
}
