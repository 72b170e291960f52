/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg_mr_get_attr(): a get with the attributes of hmreg_mr_regattr(). The attributes that are
 * part of the key form its variant (variant.h). A get without such attributes is served as
 * hmreg_mr_get(). A list of segments or ranges is part of the key too: only a get of an equal list
 * has its variant.
 */
#include "core/base/error.h"
#include "core/base/failure.h"
#include "core/base/validate.h"
#include "core/cache/cache_set.h"
#include "core/cache/cover.h"
#include "core/cache/get_slow.h"
#include "core/group/group.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

static bool is_list(const struct attributes *attributes)
{
    return attributes_of_segments(attributes) || attributes->request.count > 1;
}

/* Refuses attributes that hmreg_mr_regattr() accepts but a cached region cannot have. */
static int check_cacheable(const struct attributes *attributes, uint64_t flags)
{
    const struct hmreg_mr_attr *attr = &attributes->attr;

    if (attr->requested_key && attr->requested_key != HMREG_KEY_ANY)
        return hmreg_fail(-EINVAL,
                          "requested_key is %#" PRIx64 "; the library chooses the keys of cached "
                          "regions: accepted are HMREG_KEY_ANY and 0",
                          attr->requested_key);
    if (flags & HMREG_RMA_EVENT)
        return hmreg_fail(-HMREG_EBADFLAGS, "flags has HMREG_RMA_EVENT; counters are bound to "
                                            "regions of hmreg_mr_regattr() only");
    return 0;
}

static int check_endpoint(const struct hmreg_domain *member, size_t rail, bool needed,
                          const void *endpoint)
{
    if (endpoint && !(member->caps.mr_mode & HMREG_MR_ENDPOINT))
        return hmreg_fail(-EINVAL,
                          "the endpoint of rail %zu (%s) is set; it must be NULL, because the "
                          "rail's domain binds no endpoints (no HMREG_MR_ENDPOINT)",
                          rail, member->caps.fabric);
    if (!endpoint && needed)
        return hmreg_fail(-EINVAL,
                          "endpoints[%zu] is NULL, but rail %zu (%s) binds each region to an "
                          "endpoint (HMREG_MR_ENDPOINT)",
                          rail, rail, member->caps.fabric);
    return 0;
}

static int check_endpoint_fields(const struct hmreg_domain *domain,
                                 const struct hmreg_mr_attr *attr)
{
    if (attr->endpoint && domain->group)
        return hmreg_fail(-EINVAL, "endpoint is set; on a group it must be NULL: set endpoints, "
                                   "one for each rail");
    if (attr->endpoint && attr->endpoints)
        return hmreg_fail(-EINVAL, "endpoint and endpoints are set; set one of them");
    if (attr->endpoints && attr->endpoint_count != group_rails(domain))
        return hmreg_fail(-EINVAL, "endpoint_count is %zu; the domain has %zu rails",
                          attr->endpoint_count, group_rails(domain));
    return 0;
}

/* Checks the request's endpoints, and drops the list if it has none. */
static int check_endpoints(struct hmreg_domain *domain, struct attributes *attributes)
{
    struct request *request = &attributes->request;
    int rc = check_endpoint_fields(domain, &attributes->attr);
    bool any = false;

    for (size_t i = 0; !rc && request->endpoints && i < group_rails(domain); i++) {
        any |= request->endpoints[i] != NULL;
        rc = check_endpoint(group_rail(domain, i), i, group_binds(domain, request->rails, i),
                            request->endpoints[i]);
    }
    if (!any)
        request->endpoints = NULL;
    return rc;
}

/* Looks in the thread's table first. A claim that does not hold fails on the slow path. */
static int get_of_variant(struct hmreg_domain *domain, const struct request *request,
                          struct layout *list, const struct cache_want *want, bool identified,
                          struct hmreg_mr **out)
{
    bool cacheable = identified && get_may_share(domain, request);
    struct hmreg_mr *mr = cacheable ? get_remembered(domain, want) : NULL;
    int rc = 0;

    if (mr)
        *out = mr;
    else
        rc = get_region(domain, request, list, want, cacheable, out);
    variant_put(&domain->caches->variants, want->variant);
    return rc;
}

/* A flag that repeats the domain's default is not part of the key. */
static uint64_t key_flags(const struct hmreg_domain *domain, uint64_t flags)
{
    uint64_t usual = domain->flags & HMREG_DOMAIN_SINGLE ? HMREG_REG_SINGLE : HMREG_REG_PARTS;

    if (domain->group && !(domain->flags & (HMREG_DOMAIN_SINGLE | HMREG_DOMAIN_PARTS)))
        return flags; /* each member decides */
    return flags & ~usual;
}

static enum hmreg_policy policy_of(const struct hmreg_domain *domain, const struct attributes *own)
{
    return own->attr.policy ? own->attr.policy : domain->policy;
}

/* Each get checks a trusted claim that no variant has; hits do not repeat it. */
static int get_range(struct hmreg_domain *domain, struct attributes *own, uint64_t flags,
                     bool cover, struct hmreg_mr **mr)
{
    const struct request *request = &own->request;
    const struct claim *claim = &request->claim;
    struct cache_want want = {.start = (uint64_t)(uintptr_t)request->iov->iov_base,
                              .end = (uint64_t)(uintptr_t)request->iov->iov_base +
                                     request->iov->iov_len,
                              .access = request->access,
                              .policy = policy_of(domain, own),
                              .claim = claim->made ? claim : NULL,
                              .cover = cover};
    bool identified;
    int rc = 0;

    if (claim->trusted && (request->dmabuf || claim->iface != HMREG_IFACE_SYSTEM))
        want.claim = NULL;
    else if (claim->trusted)
        rc = claim_check_range(claim, request->iov, NULL);
    rc = rc ? rc
            : variant_get(&domain->caches->variants, own, NULL, key_flags(domain, flags),
                          &want.variant, &identified);
    return rc ? rc : get_of_variant(domain, request, NULL, &want, identified, mr);
}

/* The range around all segments. */
static void enclose(const struct layout *list, struct cache_want *want)
{
    want->start = UINT64_MAX;
    for (size_t i = 0; i < list->ranges.count; i++) {
        uint64_t start = (uint64_t)(uintptr_t)list->ranges.iov[i].iov_base;
        uint64_t end = start + list->ranges.iov[i].iov_len;

        want->start = start < want->start ? start : want->start;
        want->end = end > want->end ? end : want->end;
    }
}

static int get_list(struct hmreg_domain *domain, struct attributes *own, uint64_t flags,
                    struct hmreg_mr **mr)
{
    struct cache_want want = {.access = own->request.access, .policy = policy_of(domain, own)};
    struct layout list;
    bool identified;
    int rc =
        layout_gather(domain, own->attr.segments, own->attr.segment_count, &own->request, &list);

    rc = rc ? rc
            : variant_get(&domain->caches->variants, own, &list, flags, &want.variant, &identified);
    if (!rc) {
        enclose(&list, &want);
        rc = get_of_variant(domain, &list.request, &list, &want, identified, mr);
    }
    layout_free(&list);
    return rc;
}

static __attribute__((noinline)) int get_unusual(struct hmreg_domain *domain,
                                                 const struct hmreg_mr_attr *callers,
                                                 uint64_t flags, struct hmreg_mr **mr)
{
    uint64_t cover = flags & COVER_FLAGS;
    struct attributes own;
    LOGS_FAILURE_AS("hmreg_mr_get_attr", domain_log(domain));
    int rc = domain_check(domain);

    rc = rc ? rc : validate_pointer(mr, "mr");
    if (!rc && (flags & COVER_FLAGS) == COVER_FLAGS)
        rc = hmreg_fail(-HMREG_EBADFLAGS,
                        "flags has HMREG_REG_COVER and HMREG_REG_EXACT; give one of them");
    flags &= ~COVER_FLAGS;
    rc = rc ? rc : request_from_attr(domain, callers, flags, &own);
    rc = rc ? rc : check_cacheable(&own, flags);
    if (!rc && !is_list(&own))
        rc = layout_check_length(domain, &own.request);
    rc = rc ? rc : check_endpoints(domain, &own);
    rc = rc ? rc : get_check(domain);
    if (rc)
        return rc;
    own.request.any_key = true;
    if (is_list(&own))
        return get_list(domain, &own, flags, mr);
    return get_range(domain, &own, flags, cover_is_on(domain, own.request.access, cover), mr);
}

/* ---- usual attributes -------------------------------------------------------------------- */

/* The first and the last word of the attributes, without the claim, that usual gets leave 0. */
#define FIRST     offsetof(struct hmreg_mr_attr, auth_key_size)
#define CLAIM     offsetof(struct hmreg_mr_attr, claim_iface)
#define AFTER     offsetof(struct hmreg_mr_attr, dmabuf)
#define POLICY    offsetof(struct hmreg_mr_attr, policy)
#define POLICY_TO (POLICY + sizeof(uint64_t))

_Static_assert(FIRST == offsetof(struct hmreg_mr_attr, context) + sizeof(void *) &&
                   CLAIM == offsetof(struct hmreg_mr_attr, auth_key) + sizeof(void *) &&
                   AFTER == CLAIM + 2 * sizeof(uint64_t) && POLICY % sizeof(uint64_t) == 0 &&
                   sizeof(struct hmreg_mr_attr) % sizeof(uint64_t) == 0,
               "all fields but iov, access, context, claim and policy are in runs of words");

/* All words of [from, to), joined by or. */
static inline uint64_t words(const struct hmreg_mr_attr *attr, size_t from, size_t to)
{
    uint64_t any = 0, word;

    for (size_t at = from; at < to; at += sizeof(word)) {
        memcpy(&word, (const char *)attr + at, sizeof(word));
        any |= word;
    }
    return any;
}

/* Do the attributes have only the arguments of hmreg_mr_get(), a claim that no variant has, and a
 * policy? Only a miss uses the context. Every byte of the other fields is compared, also of fields
 * added later. */
static bool is_usual(const struct hmreg_mr_attr *attr)
{
    if (attr->size != sizeof(*attr) || attr->iov_count != 1 || !attr->iov ||
        (attr->requested_key && attr->requested_key != HMREG_KEY_ANY) ||
        (attr->offset | words(attr, FIRST, CLAIM) | words(attr, AFTER, POLICY) |
         words(attr, POLICY_TO, sizeof(*attr))))
        return false;
    if (attr->claim_iface == HMREG_CLAIM_NONE)
        return true;
    if (attr->iface == HMREG_IFACE_SYSTEM)
        return (unsigned)attr->claim_iface <= HMREG_CLAIM_TRUSTED &&
               (attr->device == 0 || attr->device == HMREG_DEVICE_ANY);
    return attr->claim_iface == HMREG_CLAIM_CHECKED && !claim_is_foreign(attr->iface);
}

/* As get_unusual(), without a copy of the attributes and without a variant. Not inlined: a hit
 * needs none of its variables. */
static __attribute__((noinline)) int
get_usual(struct hmreg_domain *domain, const struct hmreg_mr_attr *attr, struct hmreg_mr **mr)
{
    struct request request = {.iov = attr->iov,
                              .count = 1,
                              .access = attr->access,
                              .context = attr->context,
                              .claim = claim_of(attr),
                              .any_key = true};
    struct cache_want want = {.start = (uint64_t)(uintptr_t)attr->iov->iov_base,
                              .end = (uint64_t)(uintptr_t)attr->iov->iov_base + attr->iov->iov_len,
                              .access = attr->access,
                              .claim = request.claim.made ? &request.claim : NULL,
                              .policy = attr->policy ? attr->policy : domain->policy};
    struct hmreg_mr *found = NULL;
    LOGS_FAILURE_AS("hmreg_mr_get_attr", domain_log(domain));
    int rc = domain_check(domain);

    if ((unsigned)attr->policy > HMREG_POLICY_LAST_PUT ||
        (request.claim.made && request.claim.iface != HMREG_IFACE_SYSTEM))
        return get_unusual(domain, attr, 0, mr); /* which checks both */
    if (!rc && get_may_share(domain, &request))
        found = get_remembered(domain, &want);
    if (!found)
        return rc ? rc : get_past_table(domain, &request, &want, mr);
    *mr = found;
    return 0;
}

int hmreg_mr_get_attr(struct hmreg_domain *domain, const struct hmreg_mr_attr *callers,
                      uint64_t flags, struct hmreg_mr **mr)
{
    struct hmreg_mr *found = NULL;

    if (!domain || !callers || !mr || flags || !is_usual(callers))
        return get_unusual(domain, callers, flags, mr);
    if ((unsigned)callers->policy < HMREG_POLICY_LAST_PUT)
        found = get_hit(domain, callers);
    if (!found)
        return get_usual(domain, callers, mr);
    *mr = found;
    return 0;
}
