/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg_suspend() and hmreg_resume(). Explicit regions are found in their domain's list
 * (core/explicit/origin.h), cached ones by a pass over the domain's entries; suspended entries are
 * unpublished and held. A suspension has three steps: it adds the range, so that no thread
 * registers there any more; it checks the regions there; it ends their registrations. Only the
 * fabric can refuse the last step. The call waits for regions that other threads are registering or
 * releasing.
 */
#include "core/cache/suspend.h"

#include "core/base/error.h"
#include "core/base/failure.h"
#include "core/base/now.h"
#include "core/base/uncancelled.h"
#include "core/base/validate.h"
#include "core/cache/visit.h"
#include "core/explicit/origin.h"
#include "core/group/group.h"
#include "core/mr/region.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define PAUSE_NS 20000 /* between looks at regions that other threads are about to finish */

/* ---- suspending ------------------------------------------------------------------------- */

static int fail_bound(const struct hmreg_mr *mr)
{
    return hmreg_fail(-EBUSY,
                      "an endpoint, counter or memory window is bound to the region of %zu bytes "
                      "at %#llx on %s: close it, or the region, first",
                      (size_t)mr_len(mr), (unsigned long long)mr_start(mr),
                      mr->domain->caps.fabric);
}

static int fail_async(const struct hmreg_domain *domain)
{
    return hmreg_fail(-EOPNOTSUPP,
                      "registrations of %s complete in an event queue that the application reads: "
                      "close its regions of this memory, and register them again later",
                      domain->caps.fabric);
}

/* Has the library bound the region, at its get's request? */
static bool is_ours(const struct hmreg_mr *mr)
{
    const struct variant *variant = mr->slot_offset ? entry_variant(mr) : NULL;

    return variant && variant->key.attr.endpoint_count;
}

static int check(struct hmreg_mr *mr, const struct origin *origin, void *context)
{
    if (origin && mr->domain->caps.async)
        return fail_async(mr->domain);
    return !is_ours(mr) && mr_is_bound(mr) ? fail_bound(mr) : 0;
}

static int check_set(struct cache_set *set, void *context)
{
    const struct suspended_range *range = context;
    struct visit visit = {.range = range, .call = check, .shares = true};
    int rc = origin_visit(set->domain, &visit);

    if (!rc && visit.waits && set->domain->caps.async)
        rc = fail_async(set->domain);
    return rc ? rc : visit_entries(set, &visit);
}

/* Ends a region. Continues after a failure. Keeps the first failure, but prefers -EBUSY. */
static int end(struct hmreg_mr *mr, const struct origin *origin, void *context)
{
    int *failed = context, rc = region_suspend(mr, is_ours(mr));

    if (rc && *failed != -EBUSY)
        *failed = rc;
    return 0;
}

/* No thread waits for its fabric. */
static int fail_lost(const struct hmreg_domain *domain)
{
    return hmreg_fail(-EBUSY,
                      "a domain is lost (%s), and some of its registrations in the range have not "
                      "ended yet: call again later",
                      domain->lost.why);
}

/* Nor does it wait for a replacement in a group that was withdrawn again. */
static int fail_stuck(void)
{
    return hmreg_fail(-EBUSY, "a replacement NIC is registering memory of the range and does not "
                              "answer: call again later");
}

/* Another thread has not finished a region. Not 0: the caller does not wait for it. */
static int check_patience(const struct hmreg_domain *domain, int64_t since)
{
    if (domain_is_lost(domain))
        return fail_lost(domain);
    if (group_is_stuck(domain->group))
        return fail_stuck();
    if (!group_had_withdrawal(domain->group) || now_ns() - since < SECOND_NS)
        return 0;
    return hmreg_fail(-EBUSY, "for a second another thread has been registering a region of the "
                              "range, on a group with a withdrawn member: call again later");
}

static int end_set(struct cache_set *set, void *context)
{
    const struct suspended_range *range = context;
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    struct hmreg_domain *domain = set->domain;
    int64_t since = now_ns();
    int rc, failed;

    for (;;) {
        struct visit visit = {.range = range, .call = end, .context = &failed, .held = true};

        failed = 0;
        cache_set_retire(set);
        rc = visit_all(set, &visit);
        failed = visit.failed ? visit.failed : failed;
        if (!rc && visit.waits)
            rc = check_patience(domain, since);
        if (rc || !visit.waits)
            break;
        nanosleep(&pause, NULL);
    }
    if (!rc && undone_touch(domain, range->start, range->end))
        rc = domain_is_lost(domain)
                 ? fail_lost(domain)
                 : hmreg_fail(-EBUSY, "the fabric is busy with the registration of a failed call "
                                      "and has not deregistered it yet");
    return rc ? rc : failed;
}

int suspend_range(struct hmreg *lib, const struct suspended_range *range)
{
    struct suspended *all = &lib->suspended;
    bool again = suspended_has(all, range->start, range->end);
    struct suspended_range visited = *range;
    int rc;

    if (!again && !suspended_add(all, range->start, range->end))
        return hmreg_fail(-ENOMEM, "hmreg has no memory to suspend a range");
    rc = cache_set_each(lib, check_set, &visited, false);
    if (rc && !again)
        suspended_remove(all, range->start, range->end);
    if (rc)
        return rc;
    monitor_notice(lib->monitor, range->start, range->end);
    return cache_set_each(lib, end_set, &visited, true);
}

int hmreg_suspend(struct hmreg *lib, const void *addr, size_t len)
{
    LOGS_FAILURE(hmreg_lib_log(lib));
    struct suspended_range range = {NULL, (uintptr_t)addr, (uintptr_t)addr + len};
    int rc = context_check(lib);
    UNCANCELLED;

    rc = rc ? rc : validate_range(addr, len);
    if (rc)
        return rc;
    suspended_take_turn(&lib->suspended);
    rc = suspend_range(lib, &range);
    suspended_end_turn(&lib->suspended);
    return rc;
}

/* ---- resuming --------------------------------------------------------------------------- */

struct resumption {
    struct suspended_range range;
    struct hmreg_resume_config config;
    struct resume_failures *failures; /* NULL: resuming stops at the first */
};

static int resume_as(struct hmreg_mr *mr, const struct origin *origin,
                     const struct resumption *resumption)
{
    const struct hmreg_resume_config *config = &resumption->config;
    int rc;

    if (!origin)
        return hmreg_fail(-ENOMEM, "hmreg has no memory to register a region again");
    if (origin_is_suspended(origin, &mr->domain->lib->suspended, &resumption->range))
        return 0;
    if (region_suspend(mr, false) ==
        -EBUSY) /* registrations that the fabric was busy with before */
        return -EBUSY;
    rc = origin_resume(origin, mr, config);
    if (!rc && config->resumed)
        config->resumed(mr, config->context);
    return rc;
}

static int note_failure(struct hmreg_mr *mr, int rc, struct resume_failures *failures)
{
    struct hmreg_error why;

    hmreg_fail_at(rc, "the region of %zu bytes at %#llx on %s", (size_t)mr_len(mr),
                  (unsigned long long)mr_start(mr), mr->domain->caps.fabric);
    hmreg_error_save(&why);
    if (!failures->count++)
        failures->first = why;
    if (failures->failed)
        failures->failed(mr, &why, failures->context);
    return 0;
}

static int resume_one(struct hmreg_mr *mr, const struct origin *origin,
                      const struct resumption *resumption)
{
    int rc = resume_as(mr, origin, resumption);

    return rc && resumption->failures ? note_failure(mr, rc, resumption->failures) : rc;
}

/* An explicit region that a busy close has partly ended stays so. */
static int resume(struct hmreg_mr *mr, const struct origin *origin, void *context)
{
    struct origin *own;
    int rc;

    if (!mr_is_suspended(mr) || (origin && mr_ext(mr) && mr_ext(mr)->closing))
        return 0;
    if (origin)
        return resume_one(mr, origin, context);
    own = variant_origin(entry_variant(mr), mr);
    rc = resume_one(mr, own, context);
    free(own);
    return rc;
}

/* Regions of a lost domain stay suspended until they are closed or put. A region that a replacement
 * registers on a new member is not suspended. */
static int resume_set(struct cache_set *set, void *context)
{
    const struct resumption *resumption = context;
    struct visit visit = {
        .range = &resumption->range, .call = resume, .context = context, .held = true};

    return domain_is_lost(set->domain) ? 0 : visit_all(set, &visit);
}

unsigned resume_all(struct hmreg *lib, const struct hmreg_resume_config *config,
                    struct resume_failures *failures)
{
    struct resumption resumption = {
        .range = SUSPENDED_ALL, .config = *config, .failures = failures};

    failures->count = 0;
    cache_set_each(lib, resume_set, &resumption, true);
    if (!failures->count)
        suspended_remove(&lib->suspended, resumption.range.start, resumption.range.end);
    return failures->count;
}

static int resume_range(struct hmreg *lib, struct resumption *resumption)
{
    const struct suspended_range *range = &resumption->range;
    int rc;

    if (!suspended_has(&lib->suspended, range->start, range->end))
        return hmreg_fail(-ENOENT, "hmreg_suspend() was not called for these %zu bytes at %#llx",
                          (size_t)(range->end - range->start), (unsigned long long)range->start);
    rc = cache_set_each(lib, resume_set, resumption, false);
    if (!rc)
        suspended_remove(&lib->suspended, range->start, range->end);
    return rc;
}

int hmreg_resume(struct hmreg *lib, const void *addr, size_t len,
                 const struct hmreg_resume_config *callers)
{
    LOGS_FAILURE(hmreg_lib_log(lib));
    struct resumption resumption = {.range = {NULL, (uintptr_t)addr, (uintptr_t)addr + len}};
    struct hmreg_resume_config *config = &resumption.config;
    int rc = context_check(lib);
    UNCANCELLED;

    rc = rc ? rc : validate_range(addr, len);
    if (!rc && callers)
        rc = validate_copy_in(config, sizeof(*config), callers, sizeof(*config),
                              "struct hmreg_resume_config");
    if (rc)
        return rc;
    suspended_take_turn(&lib->suspended);
    rc = resume_range(lib, &resumption);
    suspended_end_turn(&lib->suspended);
    return rc;
}
