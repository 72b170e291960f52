/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg_suspend() and hmreg_resume(). Explicit regions are found by their domain's list
 * (core/explicit/origin.h), cached ones by a pass over the domain's entries, of which suspended
 * ones are unpublished and held. A suspension has three steps: the range is added, so that nothing
 * is registered there any more; what is there is checked; it ends. Only the fabric can refuse the
 * last step. Regions that other threads are registering or releasing are waited for.
 */
#include <hmreg/suspend.h>

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

#define PAUSE_NS 20000 /* between looks at what other threads are about to finish */

/* What one of the calls does with the regions of a range. */
struct pass {
    struct suspended_range range;
    const struct hmreg_resume_config *config;
    int (*entry)(struct cache_set *set, struct hmreg_mr *entry, struct pass *pass);
    bool held;  /* of unpublished entries only */
    bool waits; /* there are regions that other threads are about to finish */
    int failed; /* the first failure of the fabric, but -EBUSY if there was one */
};

static int visit_entry(struct cache_set *set, struct hmreg_mr *entry, void *context)
{
    struct pass *pass = context;

    return pass->entry(set, entry, pass);
}

static int pass_entries(struct cache_set *set, struct pass *pass)
{
    struct visit visit = {
        .range = &pass->range, .entry = visit_entry, .context = pass, .held = pass->held};
    int rc = visit_entries(set, &visit);

    pass->waits |= visit.waits;
    pass->failed = visit.failed ? visit.failed : pass->failed;
    return rc;
}

/* ---- suspending ------------------------------------------------------------------------- */

static int fail_bound(const struct hmreg_mr *mr)
{
    return hmreg_fail(
        -EBUSY,
        "an endpoint, counter or memory window is bound to the region of %zu bytes at "
        "%#llx: close that, or the region, first",
        (size_t)mr_len(mr), (unsigned long long)mr_start(mr));
}

static int fail_async(const struct hmreg_domain *domain)
{
    return hmreg_fail(
        -EOPNOTSUPP,
        "registrations of %s complete in an event queue that the application reads: close its "
        "regions of this memory, and register them again",
        domain->caps.fabric);
}

static int check_explicit(struct hmreg_mr *mr, const struct origin *origin, void *pass)
{
    if (mr->domain->caps.async)
        return fail_async(mr->domain);
    return mr_is_bound(mr) ? fail_bound(mr) : 0;
}

/* Has the library bound the region, as its get asked for? */
static bool is_ours(const struct hmreg_mr *entry)
{
    const struct variant *variant = entry_variant(entry);

    return variant && variant->key.attr.endpoint_count;
}

static int check_entry(struct cache_set *set, struct hmreg_mr *entry, struct pass *pass)
{
    return !is_ours(entry) && mr_is_bound(entry) ? fail_bound(entry) : 0;
}

static int check_set(struct cache_set *set, void *context)
{
    struct pass *pass = context;
    int rc;

    pass->waits = false;
    rc = origin_visit(set->domain, &pass->range, check_explicit, pass, &pass->waits);
    if (!rc && pass->waits && set->domain->caps.async)
        rc = fail_async(set->domain);
    return rc ? rc : pass_entries(set, pass);
}

/* Ends a region, and goes on to the next after a failure. */
static void end(struct hmreg_mr *mr, struct pass *pass)
{
    int rc = region_suspend(mr);

    if (rc && pass->failed != -EBUSY)
        pass->failed = rc;
}

static int end_explicit(struct hmreg_mr *mr, const struct origin *origin, void *pass)
{
    end(mr, pass);
    return 0;
}

static int end_entry(struct cache_set *set, struct hmreg_mr *entry, struct pass *pass)
{
    if (is_ours(entry))
        mr_unbind(entry);
    end(entry, pass);
    return 0;
}

/* No thread waits for its fabric. */
static int fail_lost(const struct hmreg_domain *domain)
{
    return hmreg_fail(-EBUSY,
                      "a domain is lost (%s), and has not deregistered all of the range yet: call "
                      "again later",
                      domain->lost.why);
}

/* Another thread has not finished a region. Not 0: it is not waited for. */
static int check_patience(const struct hmreg_domain *domain, int64_t since)
{
    if (domain_is_lost(domain))
        return fail_lost(domain);
    if (!domain->group || !group_has_left(domain->group) || now_ns() - since < SECOND_NS)
        return 0;
    return hmreg_fail(-EBUSY, "another thread has been registering a region of the range for a "
                              "second, on a group of which a member was withdrawn: call again "
                              "later");
}

static int end_set(struct cache_set *set, void *context)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    int64_t since = now_ns();
    struct pass *pass = context;
    int rc = 0;

    pass->failed = 0;
    for (;;) {
        pass->waits = false;
        cache_set_retire(set);
        rc = origin_visit(set->domain, &pass->range, end_explicit, pass, &pass->waits);
        if (!rc)
            rc = pass_entries(set, pass);
        if (!rc && pass->waits)
            rc = check_patience(set->domain, since);
        if (rc || !pass->waits)
            break;
        nanosleep(&pause, NULL);
    }
    if (!rc && domain_is_lost(set->domain) &&
        undone_touch(set->domain, pass->range.start, pass->range.end))
        return fail_lost(set->domain);
    if (undone_touch(set->domain, pass->range.start, pass->range.end))
        rc = hmreg_fail(-EBUSY, "the fabric is busy with a registration of a call that failed, and "
                                "does not deregister it yet");
    return rc ? rc : pass->failed;
}

static int suspend(struct hmreg *lib, const struct suspended_range *range)
{
    struct suspended *all = &lib->suspended;
    bool again = suspended_has(all, range->start, range->end);
    struct pass check = {.range = *range, .entry = check_entry};
    struct pass last = {.range = *range, .entry = end_entry, .held = true};
    int rc;

    if (!again && !suspended_add(all, range->start, range->end))
        return hmreg_fail(-ENOMEM, "hmreg has no memory to suspend a range");
    rc = cache_set_each(lib, check_set, &check, false);
    if (rc && !again)
        suspended_remove(all, range->start, range->end);
    if (rc)
        return rc;
    monitor_notice(lib->monitor, range->start, range->end);
    return cache_set_each(lib, end_set, &last, true);
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
    rc = suspend(lib, &range);
    suspended_end_turn(&lib->suspended);
    return rc;
}

/* ---- resuming --------------------------------------------------------------------------- */

static int resume(struct hmreg_mr *mr, const struct origin *origin, struct pass *pass)
{
    const struct hmreg_resume_config *config = pass->config;
    int rc;

    if (origin_is_suspended(origin, &mr->domain->lib->suspended, &pass->range))
        return 0;
    if (region_suspend(mr) == -EBUSY) /* what the fabric was busy with before */
        return -EBUSY;
    rc = origin_resume(origin, mr, config);
    if (!rc && config->resumed)
        config->resumed(mr, config->context);
    return rc;
}

/* One that a busy close has ended in part stays so. */
static int resume_explicit(struct hmreg_mr *mr, const struct origin *origin, void *pass)
{
    bool closing = mr_ext(mr) && mr_ext(mr)->closing;

    return mr_is_suspended(mr) && !closing ? resume(mr, origin, pass) : 0;
}

static int resume_entry(struct cache_set *set, struct hmreg_mr *entry, struct pass *pass)
{
    struct origin *origin;
    int rc;

    if (!mr_is_suspended(entry))
        return 0;
    origin = variant_origin(entry_variant(entry), entry);
    if (!origin)
        return hmreg_fail(-ENOMEM, "hmreg has no memory to register a region again");
    rc = resume(entry, origin, pass);
    free(origin);
    return rc;
}

/* Those of a lost domain stay suspended until they are closed or put. */
static int resume_set(struct cache_set *set, void *context)
{
    struct pass *pass = context;
    int rc;

    if (domain_is_lost(set->domain))
        return 0;
    rc = origin_visit(set->domain, &pass->range, resume_explicit, pass, &pass->waits);

    return rc ? rc : pass_entries(set, pass);
}

static int resume_range(struct hmreg *lib, struct pass *pass)
{
    const struct suspended_range *range = &pass->range;
    int rc;

    if (!suspended_has(&lib->suspended, range->start, range->end))
        return hmreg_fail(-ENOENT, "no call of hmreg_suspend() was for these %zu bytes at %#llx",
                          (size_t)(range->end - range->start), (unsigned long long)range->start);
    rc = cache_set_each(lib, resume_set, pass, false);
    if (!rc)
        suspended_remove(&lib->suspended, range->start, range->end);
    return rc;
}

int hmreg_resume(struct hmreg *lib, const void *addr, size_t len,
                 const struct hmreg_resume_config *callers)
{
    LOGS_FAILURE(hmreg_lib_log(lib));
    struct hmreg_resume_config config = {0};
    struct pass pass = {.range = {NULL, (uintptr_t)addr, (uintptr_t)addr + len},
                        .config = &config,
                        .entry = resume_entry,
                        .held = true};
    int rc = context_check(lib);
    UNCANCELLED;

    rc = rc ? rc : validate_range(addr, len);
    if (!rc && callers)
        rc = validate_copy_in(&config, sizeof(config), callers, sizeof(config),
                              "struct hmreg_resume_config");
    if (rc)
        return rc;
    suspended_take_turn(&lib->suspended);
    rc = resume_range(lib, &pass);
    suspended_end_turn(&lib->suspended);
    return rc;
}
