/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See group_member.h. Both calls go through all regions of the group, as hmreg_suspend() does
 * (struct visit), and no thread waits for them. A withdrawal only moves keys (core/mr/column.h), so
 * other visits may hold the region meanwhile. A replacement holds one region at a time.
 * hmreg_suspend() and hmreg_mr_close() of that region wait for it, but only until its member is
 * withdrawn again, since the fabric may not answer. Other threads complete the regions that they
 * are registering before these are visible, or make the replacement visit all regions again
 * (column_may_publish()).
 */
#include "core/cache/group_member.h"

#include "core/base/error.h"
#include "core/base/failure.h"
#include "core/base/thread.h"
#include "core/base/uncancelled.h"
#include "core/base/validate.h"
#include "core/cache/visit.h"
#include "core/context/lost.h"
#include "core/explicit/origin.h"
#include "core/mr/column.h"
#include "core/mr/region.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BIT(member) (UINT64_C(1) << (member))
#define PAUSE_NS    1000000 /* between looks at a region that another visit holds */

static int check(struct hmreg_domain *domain, size_t member)
{
    int rc = domain_check(domain);

    if (!rc && !domain->group)
        rc = hmreg_fail(-EINVAL, "group is no group");
    if (!rc && member >= domain->group->count)
        rc = hmreg_fail(-EINVAL, "member is %zu; the group has members 0 to %zu", member,
                        domain->group->count - 1);
    return rc;
}

/* ---- withdrawing ------------------------------------------------------------------------ */

static bool is_outdated(const struct hmreg_mr *mr)
{
    return !column_is_current(mr);
}

static int withdraw_from(struct hmreg_mr *mr, const struct origin *origin, void *context)
{
    int *failed = context, rc = column_settle(mr);

    *failed = rc ? rc : *failed;
    return 0;
}

static bool is_alone(struct cache_pool *pool, const struct hmreg_mr *entry)
{
    bool alone;

    pthread_mutex_lock(&pool->lock);
    alone = entry_pins(pool, entry) == 1; /* the visit's hold */
    pthread_mutex_unlock(&pool->lock);
    return alone;
}

/* After a barrier that followed the withdrawal: a thread that has read the member's keys holds the
 * region. If the region ends with its last put, the visit's release ends it. */
static int end_left(struct hmreg_mr *entry, const struct origin *origin, void *context)
{
    const struct variant *variant = entry_variant(entry);

    if (!is_alone(&entry->domain->caches->pool, entry))
        return 0;
    if (variant && variant->key.attr.endpoint_count)
        mr_unbind_left(entry);
    region_end_left(entry);
    return 0;
}

static void end_all_left(struct cache_set *set)
{
    struct visit visit = {.wants = column_has_left, .call = end_left};

    thread_cache_barrier(&set->pool.thread_caches);
    visit_entries(set, &visit);
}

void group_member_end_left(struct hmreg_domain *domain)
{
    struct hmreg_error_guard guard;

    hmreg_error_guard(&guard);
    end_all_left(domain->caches);
    hmreg_error_unguard(&guard, true);
}

static void set_withdrawn(struct group *group, size_t member, const char *why)
{
    struct group_member *about = &group->about[member];

    pthread_mutex_lock(&group->lock);
    if (about->state != HMREG_MEMBER_WITHDRAWN) {
        about->state = HMREG_MEMBER_WITHDRAWN;
        snprintf(about->reason, sizeof(about->reason), "%s", why);
        hmreg_fail(-ENODEV, "rail %zu (%s) was taken out of the group: %s", member,
                   group->members[member]->caps.fabric, about->reason);
        hmreg_error_save(&about->why);
        atomic_fetch_or(&group->withdrawn, BIT(member));
    }
    pthread_mutex_unlock(&group->lock);
}

static int withdraw(struct hmreg_domain *domain, size_t member, const char *why)
{
    int failed = 0;
    struct visit visit = {
        .wants = is_outdated, .call = withdraw_from, .context = &failed, .shares = true};
    struct hmreg_error_guard guard;

    hmreg_error_guard(&guard);
    set_withdrawn(domain->group, member, why);
    cache_leave_pending(&domain->caches->pool);
    origin_wake(domain); /* a close that waits for a replacement on this member */
    (void)visit_all(domain->caches, &visit);
    end_all_left(domain->caches);
    if (group_has_left(domain))
        cache_set_serve(domain->caches);
    reaper_wake();
    hmreg_error_unguard(&guard, true);
    return failed;
}

int hmreg_group_withdraw(struct hmreg_domain *group, size_t member, const char *why)
{
    LOGS_FAILURE(domain_log(group));
    int rc = check(group, member);
    UNCANCELLED;

    rc = rc ? rc : validate_pointer(why, "why");
    rc = rc ? rc : withdraw(group, member, why);
    if (rc == -ENOMEM)
        rc = hmreg_fail(rc, "hmreg has no memory to take a member out of each region: call again");
    return rc;
}

static void withdraw_lost(struct hmreg_domain *group, struct hmreg_domain *member)
{
    for (size_t i = 0; i < group->group->count; i++)
        if (group->group->members[i] == member && withdraw(group, i, member->lost.why))
            atomic_store(&member->lost.settled, false); /* no memory: it is called again */
}

void group_member_lost(struct hmreg_domain *member, const char *why)
{
    cache_set_each_group(member, withdraw_lost);
}

/* ---- replacing -------------------------------------------------------------------------- */

static int count(struct hmreg_mr *mr, const struct origin *origin, void *context)
{
    struct group *group = context;
    bool wanted = column_wanted(mr, group->replacing, true);

    pthread_mutex_lock(&group->lock);
    group->about[group->replacing].regions += wanted;
    pthread_mutex_unlock(&group->lock);
    return 0;
}

/* Not 0: the member was withdrawn again. */
static int complete(struct hmreg_mr *mr, const struct origin *origin, void *context)
{
    struct group *group = context;

    if (origin)
        origin_complete(origin, mr, true);
    else
        variant_complete(mr, true);
    return atomic_load(&group->withdrawn) & BIT(group->replacing) ? -EAGAIN : 0;
}

/* False: another thread has meanwhile published a region that lacks the member. */
static bool end_replacement(struct group *group)
{
    struct group_member *about = &group->about[group->replacing];
    bool again;

    pthread_mutex_lock(&group->lock);
    again = group->again && about->state == HMREG_MEMBER_REPLACING;
    group->again = false;
    group->running = again;
    if (!again && about->state == HMREG_MEMBER_REPLACING)
        about->state = HMREG_MEMBER_PRESENT;
    pthread_mutex_unlock(&group->lock);
    return !again;
}

/* Other visits may hold regions that lack the member: these visits are short, or suspend the
 * region. */
static void complete_all(struct group *group)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    struct visit visit = {.wants = is_outdated, .call = complete, .context = group};

    while (!visit_all(group->domain->caches, &visit) && visit.busy) {
        visit.busy = false;
        nanosleep(&pause, NULL);
    }
    end_all_left(group->domain->caches);
}

static void run(struct group *group)
{
    struct visit visit = {.wants = is_outdated, .call = count, .context = group, .shares = true};

    (void)visit_all(group->domain->caches, &visit);
    do
        complete_all(group);
    while (!end_replacement(group));
}

/* The next replacement, or the end of the group, joins it. */
static void *run_thread(void *argument)
{
    struct group *group = argument;

    thread_name("hmreg-replace");
    group->thread = pthread_self();
    group->threaded = true;
    run(group);
    return NULL;
}

void group_member_join(struct group *group)
{
    if (group->threaded)
        pthread_join(group->thread, NULL);
    group->threaded = false;
}

/* With the lock held. */
static int check_state(const struct group *group, size_t member)
{
    if (group->running)
        return hmreg_fail(-EBUSY, "a member of the group is being replaced (hmreg_group_query())");
    if (group->about[member].state != HMREG_MEMBER_WITHDRAWN)
        return hmreg_fail(-EINVAL, "member %zu was not withdrawn (hmreg_group_withdraw())", member);
    return 0;
}

static int set_replacing(struct group *group, size_t member, struct hmreg_domain *domain)
{
    struct group_member *about = &group->about[member];
    int rc;

    pthread_mutex_lock(&group->lock);
    rc = group_check_new(group, domain);
    rc = rc ? rc : check_state(group, member);
    rc = !rc && domain_is_lost(domain) ? domain_fail_lost(domain) : rc;
    rc = rc ? rc : group_set_member(group, member, domain);
    if (!rc) {
        about->state = HMREG_MEMBER_REPLACING;
        about->replaced++;
        about->regions = about->done = about->failed = 0;
        group->running = true;
        group->replacing = member;
        atomic_fetch_and(&group->withdrawn, ~BIT(member));
    }
    pthread_mutex_unlock(&group->lock);
    return rc;
}

static int replace(struct group *group, size_t member, struct hmreg_domain *domain)
{
    struct hmreg_error_guard guard;
    pthread_t thread;
    int rc = set_replacing(group, member, domain);

    if (rc)
        return rc;
    group_member_join(group);
    hmreg_error_guard(&guard);
    if (!domain->caps.any_thread ||
        thread_start(&thread, NULL, run_thread, group, "to register on a group's new member"))
        run(group);
    if (domain_is_lost(domain)) /* meanwhile; the loss perhaps did not find it in the group */
        (void)withdraw(group->domain, member, domain->lost.why);
    hmreg_error_unguard(&guard, true);
    return 0;
}

int hmreg_group_replace(struct hmreg_domain *group, size_t member, struct hmreg_domain *domain)
{
    LOGS_FAILURE(domain_log(group));
    int rc = check(group, member);
    UNCANCELLED;

    rc = rc ? rc : validate_pointer(domain, "domain");
    return rc ? rc : replace(group->group, member, domain);
}

/* ---- querying --------------------------------------------------------------------------- */

int hmreg_group_query(struct hmreg_domain *group, size_t member, struct hmreg_group_member *out)
{
    LOGS_FAILURE(domain_log(group));
    struct hmreg_group_member info = {0};
    struct group_member *about;
    int rc = check(group, member);

    rc = rc ? rc : validate_out(out, sizeof(info), "struct hmreg_group_member");
    if (rc)
        return rc;
    about = &group->group->about[member];
    pthread_mutex_lock(&group->group->lock);
    info.state = about->state;
    info.domain = group->group->members[member];
    info.regions = about->regions;
    if (info.regions < about->done + about->failed) /* others were being registered then */
        info.regions = about->done + about->failed;
    info.done = about->done;
    info.failed = about->failed;
    memcpy(info.why, about->reason, sizeof(info.why));
    pthread_mutex_unlock(&group->group->lock);
    validate_copy_out(out, &info, sizeof(info));
    return 0;
}
