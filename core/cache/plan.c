/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Plans the registration of a range: how many regions it takes, and which limits of the fabric, the
 * process and the domain's caches it meets. Registers nothing.
 */
#include "core/base/error.h"
#include "core/base/failure.h"
#include "core/base/high_fd.h"
#include "core/base/memory_limit.h"
#include "core/base/validate.h"
#include "core/cache/cache_set.h"
#include "core/cache/locked.h"
#include "core/group/group.h"
#include "core/mr/claim.h"
#include "core/mr/layout.h"

#include <dirent.h>
#include <errno.h>
#include <hmreg/plan.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- regions ---------------------------------------------------------------------------- */

static void split(struct hmreg_plan *plan, uint64_t max_len)
{
    uint64_t piece = plan->len <= max_len ? plan->len : layout_longest(max_len);

    plan->regions = (plan->len - 1) / piece + 1;
    plan->region_len = piece;
    plan->last_len = plan->len - (plan->regions - 1) * piece;
}

/* The bytes of the range in `regions` regions, or in the regions that fit into `room` bytes. */
static uint64_t bytes_of_regions(const struct hmreg_plan *plan, uint64_t regions)
{
    return regions >= plan->regions ? plan->len : regions * plan->region_len;
}

static uint64_t bytes_of_room(const struct hmreg_plan *plan, uint64_t room)
{
    return room >= plan->len ? plan->len : room / plan->region_len * plan->region_len;
}

/* ---- limits ----------------------------------------------------------------------------- */

static struct hmreg_plan_limit *no_limit(struct hmreg_plan *plan, enum hmreg_plan_kind kind,
                                         uint64_t needed, const char *why)
{
    struct hmreg_plan_limit *out = &plan->limits[kind];

    *out =
        (struct hmreg_plan_limit){.limit = HMREG_LIMIT_NONE, .needed = needed, .fits = plan->len};
    text_write(out->text, sizeof(out->text), "%s", why);
    return out;
}

#define SAY(out, ...) text_write((out)->text, sizeof((out)->text), __VA_ARGS__)

static void limit_of_fabric(struct hmreg_plan *plan, const struct provider_caps *caps)
{
    struct hmreg_plan_limit *out =
        no_limit(plan, HMREG_PLAN_MAX_LEN, plan->len, "the fabric states no longest region");

    if (caps->max_len != UINT64_MAX) {
        out->limit = caps->max_len;
        SAY(out, "a region has at most %" PRIu64 " bytes; the range takes %" PRIu64, caps->max_len,
            plan->regions);
    }
    out =
        no_limit(plan, HMREG_PLAN_MAX_MR, plan->regions, "the fabric states no number of regions");
    if (!caps->max_mr)
        return;
    out->limit = caps->max_mr;
    out->fits = bytes_of_regions(plan, caps->max_mr);
    SAY(out, "the fabric has at most %" PRIu64 " regions; the range takes %" PRIu64, caps->max_mr,
        plan->regions);
}

static uint64_t multiply_capped(uint64_t one, uint64_t count)
{
    return count && one > UINT64_MAX / count ? UINT64_MAX : one * count;
}

/* pinning: how often the range is counted. */
static void limit_of_memlock(struct hmreg_plan *plan, uint64_t pinning)
{
    struct hmreg_plan_limit *out = no_limit(plan, HMREG_PLAN_MEMLOCK, plan->pinned,
                                            "the fabric pins no host memory of the range");
    uint64_t limit = locked_limit(), pinned;

    if (!plan->pinned)
        return;
    if (limit == UINT64_MAX) {
        SAY(out, "RLIMIT_MEMLOCK is unlimited, or CAP_IPC_LOCK exempts from it");
        return;
    }
    pinned = locked_now();
    out->limit = limit;
    out->needed = plan->pinned > UINT64_MAX - pinned ? UINT64_MAX : plan->pinned + pinned;
    out->fits = bytes_of_room(plan, limit > pinned ? (limit - pinned) / pinning : 0);
    SAY(out, "RLIMIT_MEMLOCK is %" PRIu64 " bytes, %" PRIu64 " of it in use%s%s", out->limit,
        pinned, pinning > 1 ? "; each rail counts the range" : "",
        out->fits < plan->len ? "; raise it: ulimit -l, LimitMEMLOCK= of systemd, --ulimit "
                                "memlock=-1 of Docker"
                              : "");
}

/* However often the range is pinned, it needs memory only once. */
static void limit_of_memory(struct hmreg_plan *plan)
{
    struct hmreg_plan_limit *out = no_limit(plan, HMREG_PLAN_MEMORY, plan->pinned ? plan->len : 0,
                                            "the fabric pins no host memory of the range");
    struct memory_limit limit;

    if (!plan->pinned)
        return;
    limit = memory_limit_read("");
    if (limit.bytes == UINT64_MAX) {
        SAY(out, "the amount of memory cannot be read");
        return;
    }
    out->limit = limit.bytes;
    out->fits = bytes_of_room(plan, limit.bytes);
    SAY(out, "%s is %" PRIu64 " bytes, and no more can be pinned", limit.what, limit.bytes);
}

/* The number of open descriptors; UINT64_MAX: no descriptor is left to count them with; 0: unknown.
 */
static uint64_t count_descriptors(void)
{
    uint64_t count = 0;
    DIR *folder = high_folder("/proc/self/fd");
    const struct dirent *entry;

    if (!folder)
        return errno == EMFILE ? UINT64_MAX : 0;
    while ((entry = readdir(folder)))
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count ? count - 1 : 0; /* the folder's own is closed */
}

static void limit_of_descriptors(struct hmreg_plan *plan)
{
    struct hmreg_plan_limit *out = no_limit(plan, HMREG_PLAN_DESCRIPTORS, plan->exports ? 1 : 0,
                                            "registering the range needs no dmabuf");
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    uint64_t open;

    if (!plan->exports)
        return;
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur == RLIM_INFINITY) {
        SAY(out, "RLIMIT_NOFILE is unlimited");
        return;
    }
    open = count_descriptors();
    out->limit = limit.rlim_cur;
    /* Descriptors above a lowered limit stay open, so more may be open than the limit. */
    out->needed = (open < out->limit ? open : out->limit - (open != UINT64_MAX)) + 1;
    out->fits = open == UINT64_MAX ? 0 : plan->len;
    SAY(out, "RLIMIT_NOFILE is %" PRIu64 ", %" PRIu64 " of it in use; an export takes one%s",
        out->limit, out->needed - 1, out->fits ? "" : "; raise it: ulimit -n, LimitNOFILE=");
}

static void say_cache_limit(struct hmreg_plan_limit *out, const char *unit)
{
    if (out->limit == HMREG_LIMIT_NONE)
        SAY(out, "a cache has no limit of %s", unit);
    else
        SAY(out, "a cache holds at most %" PRIu64 " %s", out->limit, unit);
}

static void limit_of_caches(struct hmreg_plan *plan, struct hmreg_domain *domain)
{
    struct hmreg_plan_limit *regions = no_limit(plan, HMREG_PLAN_CACHE_REGIONS, plan->regions, "");
    struct hmreg_plan_limit *bytes = no_limit(plan, HMREG_PLAN_CACHE_BYTES, plan->len, "");

    cache_set_limits(domain->caches, &regions->limit, &bytes->limit);
    if (domain->flags & HMREG_DOMAIN_NO_CACHE)
        regions->limit = bytes->limit = 0;
    regions->fits = bytes_of_regions(plan, regions->limit);
    bytes->fits = bytes_of_room(plan, bytes->limit);
    if (domain->flags & HMREG_DOMAIN_NO_CACHE) {
        SAY(regions, "the domain has no cache");
        SAY(bytes, "the domain has no cache");
        return;
    }
    say_cache_limit(regions, "regions");
    say_cache_limit(bytes, "bytes");
}

/* ---- the plan --------------------------------------------------------------------------- */

static uint64_t find_least(const struct hmreg_plan *plan, const enum hmreg_plan_kind *kinds,
                           size_t count, uint64_t bytes)
{
    for (size_t i = 0; i < count; i++)
        if (plan->limits[kinds[i]].fits < bytes)
            bytes = plan->limits[kinds[i]].fits;
    return bytes;
}

/* exports: hmreg itself exports this memory's dmabufs, if a path needs one. */
static void fill(struct hmreg_plan *plan, struct hmreg_domain *domain, bool exports)
{
    static const enum hmreg_plan_kind registering[] = {HMREG_PLAN_MAX_MR, HMREG_PLAN_MEMLOCK,
                                                       HMREG_PLAN_DESCRIPTORS, HMREG_PLAN_MEMORY};
    static const enum hmreg_plan_kind caching[] = {HMREG_PLAN_CACHE_REGIONS,
                                                   HMREG_PLAN_CACHE_BYTES};
    bool exported = plan->path == HMREG_PATH_DMABUF || plan->path == HMREG_PATH_MAPPED;
    uint64_t pinning;

    split(plan, domain->caps.max_len);
    plan->exports = exports && exported ? plan->regions : 0;
    pinning = plan->path == HMREG_PATH_SYSTEM ? locked_times(domain) : 0;
    plan->pinned = multiply_capped(plan->len, pinning);
    limit_of_fabric(plan, &domain->caps);
    limit_of_memlock(plan, pinning);
    limit_of_memory(plan);
    limit_of_descriptors(plan);
    limit_of_caches(plan, domain);
    plan->fits = plan->path ? find_least(plan, registering, 4, plan->len) : 0;
    plan->cacheable = find_least(plan, caching, 2, plan->fits);
}

int hmreg_domain_plan(struct hmreg_domain *domain, enum hmreg_iface iface, int device, uint64_t len,
                      struct hmreg_plan *out)
{
    LOGS_FAILURE(domain_log(domain));
    struct hmreg_explanation explanation = {.size = sizeof(explanation)};
    struct hmreg_plan plan = {.len = len};
    int rc = domain_check(domain);

    rc = rc ? rc : validate_out(out, sizeof(plan), "struct hmreg_plan");
    if (!rc && !len)
        rc = hmreg_fail(-EINVAL, "len is 0");
    rc = rc ? rc : hmreg_domain_explain(domain, iface, device, &explanation);
    if (rc)
        return rc;
    plan.path = explanation.path;
    fill(&plan, domain, !claim_is_foreign(iface));
    validate_copy_out(out, &plan, sizeof(plan));
    return 0;
}
