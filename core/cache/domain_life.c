/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Opens and closes domains: hmreg_domain_create(), which providers call, and hmreg_domain_close(),
 * which refuses while objects of the domain are open; in between, its queries, flushes and
 * statistics.
 */
#include "core/base/error.h"
#include "core/base/failure.h"
#include "core/base/uncancelled.h"
#include "core/base/validate.h"
#include "core/cache/cache_set.h"
#include "core/cache/group_member.h"
#include "core/cache/put_check.h"
#include "core/cache/room.h"
#include "core/group/group.h"
#include "core/mr/region.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- create and close ------------------------------------------------------------------- */

/* Caches get their memory by mprotect(2), which a sandbox may refuse. */
static int fail_caches(int error)
{
    if (error == ENOMEM)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for a domain's caches");
    return hmreg_fail_os(error, "mprotect(2) cannot make memory for a domain's caches usable");
}

int hmreg_domain_create(struct hmreg *lib, const struct provider_ops *ops,
                        const struct provider_caps *caps, void *self,
                        const struct hmreg_domain_config *config, struct hmreg_domain **out)
{
    LOGS_FAILURE(hmreg_lib_log(lib));
    struct hmreg_domain *domain = NULL;
    int rc = context_check(lib);
    UNCANCELLED;

    rc = rc ? rc : validate_pointer(out, "out");
    if (rc)
        goto destroy_self;
    domain = calloc(1, sizeof(*domain));
    if (!domain || !room_begin()) {
        rc = hmreg_fail(-ENOMEM, "hmreg has no memory for a domain");
        goto free_domain;
    }
    rc = domain_init(domain, lib, ops, caps, self, config);
    if (rc)
        goto free_domain;
    errno = ENOMEM;
    domain->caches = cache_set_new(domain);
    if (!domain->caches) {
        rc = fail_caches(errno);
        goto free_domain;
    }
    domain->make_room = room_make;
    pthread_mutex_init(&domain->lost.lock, NULL);
    domain->lost.gate = domain->caches->pool.thread_caches.gate;
    domain->lost.end_idle = cache_set_end_lost;
    domain->lost.group_lost = group_member_lost;
    keys_init(&domain->keys, domain->key_size, domain->key_first, domain->key_last);
    undone_init(&domain->undone);
    pthread_mutex_init(&domain->origins.lock, NULL);
    pthread_cond_init(&domain->origins.changed, NULL);
    atomic_fetch_add(&lib->domains, 1);
    if (caps->caches)
        log_say(&lib->settings.log, HMREG_LOG_WARN,
                "%s: the fabric's own registration cache is on: peers may get more access than "
                "requested to host memory, and to device memory by path peermem; "
                "FI_MR_CACHE_MAX_COUNT=0 in the environment turns it off",
                caps->fabric);
    *out = domain;
    return 0;

free_domain:
    free(domain);
destroy_self:
    if (ops->destroy)
        ops->destroy(self);
    return rc;
}

static int fail_held(const struct cache_held *held)
{
    return hmreg_fail(-EBUSY,
                      "%u cached regions of this domain are held, such as that of %" PRIu64
                      " bytes at %#" PRIx64 " (%u gets without a put)",
                      held->count, held->len, held->addr, held->pins);
}

/* owners: groups that close it with themselves, 0 or 1 */
static int check_closed(struct hmreg_domain *domain, unsigned owners)
{
    const struct {
        unsigned count;
        const char *what;
    } open[] = {
        {atomic_load(&domain->regions), "regions"},
        {atomic_load(&domain->remotes), "remotes"},
        {atomic_load(&domain->tables), "key tables"},
        {domain->ops.objects(domain->self), "endpoints, counters, queues or memory windows"},
        {atomic_load(&domain->mapped_keys), "mapped keys"},
        {atomic_load(&domain->groups) - owners, "groups"},
        {domain->group ? 0 : atomic_load(&domain->columns), "registrations of a group's regions"},
        {atomic_load(&domain->jobs), "jobs"},
        {domain->group && group_is_replacing(domain->group), "replacements of a member"},
    };
    struct cache_held held = cache_held(&domain->caches->pool);

    for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++)
        if (open[i].count)
            return hmreg_fail(-EBUSY, "%u %s of this domain are open", open[i].count, open[i].what);
    return held.count ? fail_held(&held) : 0;
}

/* The reaper holds a group's region while it ends the registrations of withdrawn members. */
static int check_unused(struct hmreg_domain *domain, unsigned owners)
{
    struct reaper_client *reaper = &domain->caches->reaper;
    int rc;

    if (!domain->group)
        return check_closed(domain, owners);
    reaper_pause(reaper);
    rc = check_closed(domain, owners);
    reaper_resume(reaper);
    return rc;
}

/* The reaper may be inside the fabric of a lost domain, in a call that began before the loss. */
static int check_reaper(const struct hmreg_domain *domain)
{
    if (!domain_is_lost(domain) || !atomic_load(&domain->caches->reaping))
        return 0;
    return hmreg_fail(-EBUSY,
                      "the domain is lost (%s), and an earlier call of the fabric that deregisters "
                      "a cached region has not returned: close the domain again later",
                      domain->lost.why);
}

/* Does not wait for the device. */
static int fail_lost_left(struct hmreg_domain *domain)
{
    unsigned inside = atomic_load(&domain->undone.inside);

    return hmreg_fail(-EBUSY,
                      "the domain is lost (%s), and %u of its registrations are not deregistered "
                      "yet%s: close the domain again later",
                      domain->lost.why, undone_left(domain),
                      inside ? ", because a call of the fabric has not returned" : "");
}

/* Deregisters the domain's cached regions, so that it can end. -EBUSY: it stays open. */
static int stop(struct hmreg_domain *domain, unsigned owners)
{
    int rc = check_unused(domain, owners);
    unsigned busy;
    UNCANCELLED;

    rc = rc ? rc : check_reaper(domain);
    if (rc)
        return rc;
    cache_set_leave(domain->caches); /* other domains cannot evict here any more */
    cache_set_stop_serving(domain->caches);
    busy = cache_set_flush(domain->caches);
    undone_end_here(domain);
    if (!busy && !undone_left(domain))
        return 0;
    cache_set_join(domain->caches);
    if (!busy && domain_is_lost(domain))
        return fail_lost_left(domain);
    return hmreg_fail(-EBUSY,
                      "the fabric is busy with %u %s of this domain and does not deregister "
                      "them yet: close the domain again later",
                      busy ? busy : undone_left(domain),
                      busy ? "cached regions" : "registrations of calls that failed");
}

static void end(struct hmreg_domain *domain)
{
    undone_close(domain);
    domain->ops.destroy(domain->self); /* done first: peers on other threads may query the caches */
    cache_set_free(domain->caches);
    keys_destroy(&domain->keys);
    pthread_mutex_destroy(&domain->lost.lock);
    pthread_cond_destroy(&domain->origins.changed);
    pthread_mutex_destroy(&domain->origins.lock);
    atomic_fetch_sub(&domain->lib->domains, 1);
    if (domain->check_puts)
        put_check_keep(domain);
    else
        free(domain);
}

/* Either all members can end, or none is changed. */
static int stop_members(const struct group *group)
{
    size_t stopped = 0;
    int rc = 0;

    while (stopped < group->count && !rc) {
        rc = stop(group->members[stopped], 1);
        stopped += !rc;
    }
    if (!rc)
        return 0;
    hmreg_fail_at(rc, "member[%zu]", stopped);
    while (stopped)
        cache_set_join(group->members[--stopped]->caches);
    return rc;
}

static void end_with_members(struct hmreg_domain *domain)
{
    struct hmreg_domain *members[HMREG_GROUP_MAX];
    size_t count = domain->group->count;

    for (size_t i = 0; i < count; i++)
        members[i] = domain->group->members[i];
    end(domain);
    for (size_t i = 0; i < count; i++)
        end(members[i]);
}

int hmreg_domain_close(struct hmreg_domain *domain)
{
    LOGS_FAILURE(domain_log(domain));
    bool owns;
    int rc;

    if (!domain)
        return 0;
    rc = domain_check(domain);
    rc = rc ? rc : stop(domain, 0);
    if (rc)
        return rc;
    owns = domain->group && (domain->group->flags & HMREG_GROUP_OWNS_MEMBERS);
    rc = owns ? stop_members(domain->group) : 0;
    if (rc)
        cache_set_join(domain->caches);
    else if (owns)
        end_with_members(domain);
    else
        end(domain);
    return rc;
}

/* ---- queries ---------------------------------------------------------------------------- */

int hmreg_domain_query(struct hmreg_domain *domain, struct hmreg_domain_info *out)
{
    LOGS_FAILURE(domain_log(domain));
    struct hmreg_domain_info info = {0};
    int rc = domain_check(domain);

    rc = rc ? rc : validate_out(out, sizeof(info), "struct hmreg_domain_info");
    if (rc)
        return rc;
    snprintf(info.provider, sizeof(info.provider), "%s", domain->ops.name);
    snprintf(info.fabric, sizeof(info.fabric), "%s", domain->caps.fabric);
    info.mr_mode = domain->caps.mr_mode;
    info.key_size = domain->caps.key_size;
    info.iov_limit = domain->caps.iov_limit;
    info.max_len = domain->caps.max_len;
    snprintf(info.nic, sizeof(info.nic), "%s", domain->caps.nic);
    info.pci = domain->caps.pci;
    if (domain_is_lost(domain))
        snprintf(info.lost, sizeof(info.lost), "%s", domain->lost.why);
    cache_set_limits(domain->caches, &info.max_regions, &info.max_bytes);
    validate_copy_out(out, &info, sizeof(info));
    return 0;
}

int hmreg_domain_flush(struct hmreg_domain *domain)
{
    LOGS_FAILURE(domain_log(domain));
    int rc = domain_check(domain);
    UNCANCELLED;

    if (!rc) {
        cache_set_flush(domain->caches);
        cache_set_rest(domain->caches);
    }
    return rc;
}

int hmreg_domain_progress(struct hmreg_domain *domain)
{
    int rc = domain_check(domain);
    UNCANCELLED;

    if (!rc)
        cache_set_progress(domain->caches);
    if (!rc && group_has_left(domain))
        group_member_end_left(domain);
    return rc;
}

int hmreg_domain_stats(struct hmreg_domain *domain, struct hmreg_stats *out)
{
    LOGS_FAILURE(domain_log(domain));
    struct hmreg_stats stats = {0};
    int rc = domain_check(domain);

    rc = rc ? rc : validate_out(out, sizeof(*out), "struct hmreg_stats");
    if (rc)
        return rc;
    cache_set_stats(domain->caches, &stats);
    validate_copy_out(out, &stats, sizeof(stats));
    return 0;
}
