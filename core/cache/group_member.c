/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See group_member.h. Both calls go through all regions of the group, as hmreg_suspend() does
 * (visit.h, core/explicit/origin.h), and take turns with it. A withdrawal only moves keys
 * (core/mr/column.h), so it does not wait for a replacement, whose fabric may not answer: it works
 * under that one's turn.
 */
#include "core/cache/group_member.h"

#include "core/base/error.h"
#include "core/base/failure.h"
#include "core/base/thread.h"
#include "core/base/uncancelled.h"
#include "core/base/validate.h"
#include "core/cache/visit.h"
#include "core/explicit/origin.h"
#include "core/mr/column.h"
#include "core/mr/region.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIT(member) (UINT64_C(1) << (member))

/* Of a call on one member. */
struct pass {
    struct group *group;
    size_t member;
    int failed;
};

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

/* ---- turns ------------------------------------------------------------------------------ */

/* True: under the turn of a replacement. */
static bool take_turn(struct group *group)
{
    bool borrowed;

    pthread_mutex_lock(&group->lock);
    borrowed = group->has_turn;
    group->borrowers += borrowed;
    pthread_mutex_unlock(&group->lock);
    if (!borrowed)
        suspended_take_turn(&group->lib->suspended);
    return borrowed;
}

static void end_turn(struct group *group, bool borrowed)
{
    if (!borrowed) {
        suspended_end_turn(&group->lib->suspended);
        return;
    }
    pthread_mutex_lock(&group->lock);
    group->borrowers--;
    pthread_cond_broadcast(&group->returned);
    pthread_mutex_unlock(&group->lock);
}

/* ---- withdrawing ------------------------------------------------------------------------ */

static void withdraw_explicit(struct hmreg_mr *mr, void *context)
{
    struct pass *pass = context;
    int rc = column_withdraw(mr, pass->member);

    pass->failed = rc ? rc : pass->failed;
}

static int withdraw_entry(struct cache_set *set, struct hmreg_mr *entry, void *context)
{
    withdraw_explicit(entry, context);
    return 0;
}

static bool is_alone(struct cache_pool *pool, const struct hmreg_mr *entry)
{
    bool alone;

    pthread_mutex_lock(&pool->lock);
    alone = entry_pins(pool, entry) == 1; /* the visit's */
    pthread_mutex_unlock(&pool->lock);
    return alone;
}

/* After a barrier that followed the withdrawal: a thread that has read the member's keys holds the
 * region. Of one that ends with its last put the visit's release ends it. */
static int end_left(struct cache_set *set, struct hmreg_mr *entry, void *context)
{
    const struct variant *variant = entry_variant(entry);

    if (!is_alone(&set->pool, entry))
        return 0;
    if (variant && variant->key.attr.endpoint_count)
        mr_unbind_left(entry);
    region_end_left(entry);
    return 0;
}

static void end_all_left(struct cache_set *set)
{
    struct visit visit = {.entry = end_left};

    thread_cache_barrier(&set->pool.thread_caches);
    visit_entries(set, &visit);
}

void group_member_end_left(struct hmreg_domain *domain)
{
    struct hmreg_error_guard guard;
    bool borrowed;

    hmreg_error_guard(&guard);
    borrowed = take_turn(domain->group);
    end_all_left(domain->caches);
    end_turn(domain->group, borrowed);
    hmreg_error_unguard(&guard, true);
}

static void set_withdrawn(struct group *group, size_t member, const char *why)
{
    struct group_member *about = &group->about[member];

    pthread_mutex_lock(&group->lock);
    if (about->state != HMREG_MEMBER_WITHDRAWN) {
        about->state = HMREG_MEMBER_WITHDRAWN;
        snprintf(about->reason, sizeof(about->reason), "%s", why);
        hmreg_fail(-ENODEV, "rail %zu (%s) is withdrawn from the group: %s", member,
                   group->members[member]->caps.fabric, about->reason);
        hmreg_error_save(&about->why);
        atomic_fetch_or(&group->withdrawn, BIT(member));
    }
    pthread_mutex_unlock(&group->lock);
}

static int withdraw(struct hmreg_domain *domain, size_t member, const char *why)
{
    struct pass pass = {.group = domain->group, .member = member};
    struct visit visit = {.entry = withdraw_entry, .context = &pass};
    struct hmreg_error_guard guard;
    bool borrowed = take_turn(domain->group);

    hmreg_error_guard(&guard);
    set_withdrawn(domain->group, member, why);
    cache_discard_pending(&domain->caches->pool);
    origin_each(domain, withdraw_explicit, &pass);
    visit_entries(domain->caches, &visit);
    end_all_left(domain->caches);
    end_turn(domain->group, borrowed);
    hmreg_error_unguard(&guard, true);
    return pass.failed;
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
        if (group->group->members[i] == member)
            (void)withdraw(group, i, member->lost.why);
}

void group_member_lost(struct hmreg_domain *member, const char *why)
{
    cache_set_each_group(member, withdraw_lost);
}

/* ---- replacing -------------------------------------------------------------------------- */

static int count(struct hmreg_mr *mr, const struct origin *origin, void *context)
{
    struct pass *pass = context;

    pass->group->about[pass->member].regions += column_is_wanted(mr, pass->member);
    return 0;
}

static int count_entry(struct cache_set *set, struct hmreg_mr *entry, void *context)
{
    return count(entry, NULL, context);
}

/* Not 0: the member was withdrawn again. */
static int fill(struct hmreg_mr *mr, const struct origin *origin, void *context)
{
    struct pass *pass = context;
    struct group_member *about = &pass->group->about[pass->member];
    int rc;

    column_withdraw(mr, pass->member); /* what a withdrawal had no memory for */
    if (!column_is_wanted(mr, pass->member))
        return 0;
    rc = origin ? origin_fill_member(origin, mr, pass->member)
                : hmreg_fail(-ENOMEM, "hmreg has no memory to register a region again");
    if (atomic_load(&pass->group->withdrawn) & BIT(pass->member))
        return -EAGAIN;
    if (rc)
        column_fail(mr, pass->member);
    atomic_fetch_add(rc ? &about->failed : &about->done, 1);
    return 0;
}

static int fill_entry(struct cache_set *set, struct hmreg_mr *entry, void *context)
{
    struct origin *origin = variant_origin(entry_variant(entry), entry);
    int rc = fill(entry, origin, context);

    free(origin);
    return rc;
}

static void visit_all(struct pass *pass,
                      int (*explicit)(struct hmreg_mr *, const struct origin *, void *),
                      int (*entry)(struct cache_set *, struct hmreg_mr *, void *))
{
    struct hmreg_domain *domain = pass->group->domain;
    struct visit visit = {.entry = entry, .context = pass};
    bool waits;

    if (!origin_visit(domain, NULL, explicit, pass, &waits))
        visit_entries(domain->caches, &visit);
}

/* The thread has the turn. */
static void end_replacement(struct group *group, size_t member)
{
    pthread_mutex_lock(&group->lock);
    while (group->borrowers)
        pthread_cond_wait(&group->returned, &group->lock);
    if (group->about[member].state == HMREG_MEMBER_REPLACING)
        group->about[member].state = HMREG_MEMBER_PRESENT;
    group->has_turn = false;
    suspended_end_turn(&group->lib->suspended);
    group->running = false;
    pthread_mutex_unlock(&group->lock);
}

static void *run(void *argument)
{
    struct pass pass = *(struct pass *)argument;

    free(argument);
    thread_name("hmreg-replace");
    visit_all(&pass, count, count_entry);
    visit_all(&pass, fill, fill_entry);
    end_all_left(pass.group->domain->caches);
    end_replacement(pass.group, pass.member);
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

/* With the turn. */
static int set_replacing(struct group *group, size_t member, struct hmreg_domain *domain)
{
    struct group_member *about = &group->about[member];
    int rc = group_check_new(group, domain);

    pthread_mutex_lock(&group->lock);
    rc = rc ? rc : check_state(group, member);
    rc = rc ? rc : group_set_member(group, member, domain);
    if (!rc) {
        about->state = HMREG_MEMBER_REPLACING;
        about->regions = about->done = about->failed = 0;
        group->running = group->has_turn = true;
        atomic_fetch_and(&group->withdrawn, ~BIT(member));
    }
    pthread_mutex_unlock(&group->lock);
    return rc;
}

static int replace(struct group *group, size_t member, struct hmreg_domain *domain)
{
    struct pass *pass = malloc(sizeof(*pass));
    struct hmreg_error_guard guard;
    int rc;

    if (!pass)
        return hmreg_fail(-ENOMEM, "hmreg has no memory to replace a member");
    *pass = (struct pass){.group = group, .member = member};
    suspended_take_turn(&group->lib->suspended);
    rc = set_replacing(group, member, domain);
    if (rc) {
        suspended_end_turn(&group->lib->suspended);
        free(pass);
        return rc;
    }
    group_member_join(group);
    hmreg_error_guard(&guard);
    group->threaded =
        domain->caps.any_thread &&
        !thread_start(&group->thread, NULL, run, pass, "to register on a group's new member");
    if (!group->threaded)
        run(pass);
    hmreg_error_unguard(&guard, true);
    return 0;
}

int hmreg_group_replace(struct hmreg_domain *group, size_t member, struct hmreg_domain *domain)
{
    LOGS_FAILURE(domain_log(group));
    int rc = check(group, member);
    UNCANCELLED;

    rc = rc ? rc : validate_pointer(domain, "domain");
    if (!rc && group_is_replacing(group->group))
        rc = hmreg_fail(-EBUSY, "a member of the group is being replaced (hmreg_group_query())");
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
    info.done = about->done;
    info.failed = about->failed;
    memcpy(info.why, about->reason, sizeof(info.why));
    pthread_mutex_unlock(&group->group->lock);
    validate_copy_out(out, &info, sizeof(info));
    return 0;
}
