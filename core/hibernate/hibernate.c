/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg_hibernate() suspends all regions (core/cache/suspend.h), then ends everything else that the
 * library has open. First it checks each domain for objects that only the caller can close, so that
 * a refusal changes nothing.
 */
#include <hmreg/hibernate.h>

#include "core/base/error.h"
#include "core/base/failure.h"
#include "core/base/uncancelled.h"
#include "core/cache/suspend.h"
#include "core/cache/visit.h"
#include "core/group/group.h"
#include "core/mr/mr.h"

#include <errno.h>

/* ---- what only the caller can close ----------------------------------------------------- */

static const char *name_of(const struct hmreg_domain *domain)
{
    return *domain->caps.nic ? domain->caps.nic : domain->caps.fabric;
}

static int check_objects(struct hmreg_domain *domain)
{
    bool raw = domain->caps.mr_mode & HMREG_MR_RAW;
    const struct {
        unsigned count;
        const char *what;
    } open[] = {
        {atomic_load(&domain->jobs), "jobs (hmreg_job_start())"},
        {domain->ops.objects(domain->self), "endpoints, counters, queues or memory windows"},
        {atomic_load(&domain->mapped_keys), "mapped keys (hmreg_domain_map_raw())"},
        {raw ? atomic_load(&domain->remotes) : 0, "remotes, which hold mapped keys,"},
        {raw ? atomic_load(&domain->tables) : 0, "key tables, which hold mapped keys,"},
    };

    for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++)
        if (open[i].count)
            return hmreg_fail(-EBUSY, "the domain on %s: %u %s are open: close them first",
                              name_of(domain), open[i].count, open[i].what);
    return 0;
}

/* Held by a get, not only by this visit. */
static bool is_held(struct cache_set *set, const struct hmreg_mr *entry)
{
    bool held;

    pthread_mutex_lock(&set->pool.lock);
    held = entry_pins(&set->pool, entry) > 1;
    pthread_mutex_unlock(&set->pool.lock);
    return held;
}

/* Also a region that the library has bound itself: the endpoint is the caller's, and is closed. */
static int check_entry(struct hmreg_mr *entry, const struct origin *origin, void *context)
{
    struct cache_set *set = context;
    const struct variant *variant = entry_variant(entry);
    bool ours = variant && variant->key.attr.endpoint_count;

    if ((!ours && !mr_is_bound(entry)) || !is_held(set, entry))
        return 0;
    return hmreg_fail(-EBUSY,
                      "the domain on %s: an endpoint, counter or memory window is bound to the "
                      "region of %zu bytes at %#llx, which a get holds: put the region first",
                      name_of(set->domain), (size_t)mr_len(entry),
                      (unsigned long long)mr_start(entry));
}

static int check_set(struct cache_set *set, void *context)
{
    struct visit visit = {.call = check_entry, .context = set, .shares = true};
    struct group *group = set->domain->group;
    int rc = check_objects(set->domain);

    if (!rc && group && group_is_replacing(group))
        rc = hmreg_fail(-EBUSY,
                        "the group on %s: a member is being replaced: wait until "
                        "hmreg_group_query() reports it as present",
                        name_of(set->domain));

    return rc ? rc : visit_entries(set, &visit);
}

/* ---- what ends besides ------------------------------------------------------------------ */

static int unwatch(struct hmreg_mr *entry, const struct origin *origin, void *context)
{
    cache_set_unwatch(context, entry);
    return 0;
}

/* All its regions are suspended. */
static int end_set(struct cache_set *set, void *context)
{
    struct visit visit = {.call = unwatch, .context = set, .shares = true, .held = true};

    visit_entries(set, &visit);
    cache_set_stop_serving(set);
    atomic_store(&set->untidy, false); /* its monitor ends */
    atomic_store(&set->domain->asleep, set->domain->caps.renews);
    return 0;
}

static int hibernate(struct hmreg *lib)
{
    const struct suspended_range all = SUSPENDED_ALL;
    int rc = lib->asleep ? 0 : cache_set_each(lib, check_set, NULL, false);

    if (rc || lib->asleep)
        return rc;
    if (!stats_page_sleep(&lib->stats_page))
        return hmreg_fail(-ENOMEM, "hmreg has no memory for its counters");
    rc = suspend_range(lib, &all);
    if (!suspended_has(&lib->suspended, all.start, all.end))
        stats_page_wake(&lib->stats_page);
    if (rc == -EBUSY || !suspended_has(&lib->suspended, all.start, all.end))
        return rc;
    cache_set_each(lib, end_set, NULL, true);
    monitor_sleep(lib->monitor);
    lib->asleep = true;
    return rc;
}

int hmreg_hibernate(struct hmreg *lib)
{
    LOGS_FAILURE(hmreg_lib_log(lib));
    int rc = context_check(lib);
    UNCANCELLED;

    if (rc)
        return rc;
    suspended_take_turn(&lib->suspended);
    rc = hibernate(lib);
    suspended_end_turn(&lib->suspended);
    return rc;
}
