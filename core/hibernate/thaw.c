/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg_thaw() forgets or renews the library's knowledge of the machine and the process. Then it
 * resumes every region, one after the other, and continues after failures.
 */
#include <hmreg/hibernate.h>

#include "core/base/error.h"
#include "core/base/failure.h"
#include "core/base/life.h"
#include "core/base/uncancelled.h"
#include "core/base/validate.h"
#include "core/cache/cache_set.h"
#include "core/cache/suspend.h"
#include "core/context/lost.h"
#include "core/group/nearest.h"

#include <errno.h>

static int check_renewed(struct cache_set *set, void *context)
{
    const struct hmreg_domain *domain = set->domain;

    if (!atomic_load(&domain->asleep) || domain_is_lost(domain))
        return 0;
    return hmreg_fail(-EINVAL,
                      "the domain on %s has no fabric yet: call hmreg_domain_renew_%s(), or "
                      "hmreg_domain_lost() if there is none",
                      *domain->caps.nic ? domain->caps.nic : domain->caps.fabric, domain->ops.name);
}

/* Its members have other NICs. */
static void renew_group(struct group *group)
{
    struct provider_caps caps = group_caps(group);

    for (size_t i = 0; i < group->count; i++)
        group->places[i] = group->members[i]->place;
    domain_set_caps(group->domain, &caps);
    nearest_renew(group->nearest);
}

static int wake_set(struct cache_set *set, void *context)
{
    atomic_store(&set->misfit.bytes, 0); /* limits may have changed */
    if (set->domain->group)
        renew_group(set->domain->group);
    return 0;
}

/* Registers nothing. Afterwards the domains can no longer be renewed. */
static int wake(struct hmreg *lib)
{
    int rc = cache_set_each(lib, check_renewed, NULL, false);

    if (rc)
        return rc;
    (void)life_renew();
    (void)context_life(lib);
    monitor_wake(lib->monitor);
    cache_set_each(lib, wake_set, NULL, true);
    lib->asleep = false;
    return 0;
}

static int resume(struct hmreg *lib, const struct hmreg_thaw_config *config)
{
    const struct hmreg_resume_config resumes = {
        .resumed = config->resumed, .dmabuf = config->dmabuf, .context = config->context};
    struct resume_failures failures = {.failed = config->failed, .context = config->context};

    if (!resume_all(lib, &resumes, &failures))
        return 0;
    hmreg_error_restore(&failures.first);
    return hmreg_fail_at(failures.first.code, "%u regions are still suspended; the first",
                         failures.count);
}

static int thaw(struct hmreg *lib, const struct hmreg_thaw_config *config)
{
    const struct suspended_range all = SUSPENDED_ALL;
    struct hmreg_error_guard guard;
    int rc = 0;

    if (!suspended_has(&lib->suspended, all.start, all.end))
        return hmreg_fail(-ENOENT, "the library does not hibernate: call hmreg_hibernate() first");
    if (lib->asleep) /* else a fabric was busy, or this call repeats an earlier one */
        rc = wake(lib);
    if (rc)
        return rc;
    stats_page_wake(&lib->stats_page);
    hmreg_error_guard(&guard);
    rc = resume(lib, config);
    hmreg_error_unguard(&guard, !rc);
    return rc;
}

int hmreg_thaw(struct hmreg *lib, const struct hmreg_thaw_config *callers)
{
    LOGS_FAILURE(hmreg_lib_log(lib));
    struct hmreg_thaw_config config = {.size = sizeof(config)};
    int rc = context_check(lib);
    UNCANCELLED;

    if (!rc && callers)
        rc = validate_copy_in(&config, sizeof(config), callers, sizeof(config),
                              "struct hmreg_thaw_config");
    if (rc)
        return rc;
    suspended_take_turn(&lib->suspended);
    rc = thaw(lib, &config);
    suspended_end_turn(&lib->suspended);
    return rc;
}
