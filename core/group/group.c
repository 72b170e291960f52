/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See group.h. A group demands what any member demands and can do what every member can.
 */
#include "core/group/group.h"

#include "core/base/error.h"
#include "core/base/validate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- members ---------------------------------------------------------------------------- */

bool group_has(const struct group *group, const struct hmreg_domain *domain)
{
    for (size_t i = 0; i < group->count; i++)
        if (group->members[i] == domain)
            return true;
    return false;
}

/* what: the caller's name for it. */
static int check_domain(const struct hmreg *lib, const struct hmreg_domain *member,
                        const char *what)
{
    if (!member)
        return hmreg_fail(-EINVAL, "%s is NULL", what);
    if (member->lib != lib)
        return hmreg_fail(-EINVAL, "%s is a domain of another lib", what);
    if (member->group)
        return hmreg_fail(-EINVAL, "%s is a group; name its members", what);
    if (member->caps.async)
        return hmreg_fail(-EOPNOTSUPP,
                          "registrations of %s complete in an event queue that the application "
                          "reads, for which a group cannot wait",
                          what);
    return 0;
}

static int check_member(const struct hmreg *lib, struct hmreg_domain *const *members, size_t rail)
{
    const struct hmreg_domain *member = members[rail];
    char what[32];

    snprintf(what, sizeof(what), "members[%zu]", rail);
    for (size_t i = 0; member && i < rail; i++)
        if (members[i] == member)
            return hmreg_fail(-EINVAL, "members[%zu] and members[%zu] are one domain", rail, i);
    return check_domain(lib, member, what);
}

static int check_members(const struct hmreg *lib, struct hmreg_domain *const *members, size_t count)
{
    int rc = validate_pointer(members, "members");

    if (!rc && (!count || count > HMREG_GROUP_MAX))
        rc = hmreg_fail(-EINVAL, "count is %zu; a group has 1 to %d members", count,
                        HMREG_GROUP_MAX);
    for (size_t i = 0; i < count && !rc; i++)
        rc = check_member(lib, members, i);
    return rc;
}

/* ---- the group -------------------------------------------------------------------------- */

static void release_members(const struct group *group, size_t count)
{
    for (size_t i = 0; i < count; i++)
        atomic_store(&group->members[i]->owned, false);
}

/* With two owners, no owner could close a member. */
static int claim_members(const struct group *group)
{
    for (size_t i = 0; i < group->count; i++)
        if (atomic_exchange(&group->members[i]->owned, true)) {
            release_members(group, i);
            return hmreg_fail(
                -EINVAL, "members[%zu] belongs to another group with HMREG_GROUP_OWNS_MEMBERS", i);
        }
    return 0;
}

int group_new(struct hmreg *lib, struct hmreg_domain *const *members, size_t count, uint32_t flags,
              struct group **out)
{
    int rc = check_members(lib, members, count);
    struct group *group;

    if (rc)
        return rc;
    group =
        calloc(1, sizeof(*group) + count * (sizeof(group->members[0]) + sizeof(group->places[0]) +
                                            sizeof(group->about[0])));
    if (!group)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for a group of %zu", count);
    group->lib = lib;
    group->flags = flags;
    group->count = count;
    group->places = (struct hmreg_mr_place *)(group->members + count);
    group->about = (struct group_member *)(group->places + count);
    for (size_t i = 0; i < count; i++) {
        group->members[i] = members[i];
        group->places[i] = members[i]->place;
    }
    pthread_mutex_init(&group->lock, NULL);
    rc = flags & HMREG_GROUP_OWNS_MEMBERS ? claim_members(group) : 0;
    if (rc) {
        pthread_mutex_destroy(&group->lock);
        free(group);
        return rc;
    }
    for (size_t i = 0; i < count; i++)
        atomic_fetch_add(&members[i]->groups, 1);
    pthread_mutex_lock(&lib->sets_lock);
    group->next = lib->groups;
    lib->groups = group;
    pthread_mutex_unlock(&lib->sets_lock);
    *out = group;
    return 0;
}

void group_free(struct group *group)
{
    struct hmreg *lib = group->lib;
    struct group **link = &lib->groups;

    pthread_mutex_lock(&lib->sets_lock);
    while (group->visitors)
        pthread_cond_wait(&lib->sets_left, &lib->sets_lock);
    while (*link != group)
        link = &(*link)->next;
    *link = group->next;
    pthread_mutex_unlock(&lib->sets_lock);
    for (size_t i = 0; i < group->count; i++)
        atomic_fetch_sub(&group->members[i]->groups, 1);
    if (group->flags & HMREG_GROUP_OWNS_MEMBERS)
        release_members(group, group->count);
    pthread_mutex_destroy(&group->lock);
    free(group);
}

/* ---- replacing a member ----------------------------------------------------------------- */

/* hmreg_domain_query()'s earlier answer must stay true. */
int group_check_new(const struct group *group, const struct hmreg_domain *domain)
{
    int rc = check_domain(group->lib, domain, "domain");
    struct provider_caps all;

    if (rc)
        return rc;
    if (group_has(group, domain))
        return hmreg_fail(-EINVAL, "domain is a member of the group already");
    all = group->domain->caps;
    if ((domain->caps.mr_mode & ~all.mr_mode) || (all.flags & ~domain->caps.flags) ||
        domain->caps.key_size < all.key_size || domain->caps.iov_limit < all.iov_limit ||
        domain->caps.max_len < all.max_len || (all.any_thread && !domain->caps.any_thread))
        return hmreg_fail(-EINVAL,
                          "domain (%s) demands more, or permits less, than hmreg_domain_query() of "
                          "the group reports: open a new group with it",
                          domain->caps.fabric);
    return 0;
}

int group_set_member(struct group *group, size_t member, struct hmreg_domain *domain)
{
    struct hmreg_domain *before = group->members[member];
    bool owns = group->flags & HMREG_GROUP_OWNS_MEMBERS;

    if (owns && atomic_exchange(&domain->owned, true))
        return hmreg_fail(-EINVAL, "domain belongs to another group with HMREG_GROUP_OWNS_MEMBERS");
    if (owns)
        atomic_store(&before->owned, false);
    atomic_fetch_add(&domain->groups, 1);
    pthread_mutex_lock(&group->lib->sets_lock);
    group->members[member] = domain;
    group->places[member] = domain->place;
    pthread_mutex_unlock(&group->lib->sets_lock);
    atomic_fetch_sub(&before->groups, 1);
    return 0;
}

bool group_is_replacing(struct group *group)
{
    bool running;

    pthread_mutex_lock(&group->lock);
    running = group->running;
    pthread_mutex_unlock(&group->lock);
    return running;
}

bool group_had_withdrawal(struct group *group)
{
    bool had = false;

    if (!group)
        return false;
    pthread_mutex_lock(&group->lock);
    for (size_t i = 0; i < group->count; i++)
        had |= group->about[i].replaced || group->about[i].state == HMREG_MEMBER_WITHDRAWN;
    pthread_mutex_unlock(&group->lock);
    return had;
}

bool group_is_stuck(struct group *group)
{
    bool stuck;

    if (!group)
        return false;
    pthread_mutex_lock(&group->lock);
    stuck = group->running && group->about[group->replacing].state == HMREG_MEMBER_WITHDRAWN;
    pthread_mutex_unlock(&group->lock);
    return stuck;
}

/* ---- what a group can do ---------------------------------------------------------------- */

/* "group of 8: mlx5_0, mlx5_1, ..." */
static void name_fabric(const struct group *group, char *fabric, size_t size)
{
    size_t used = (size_t)snprintf(fabric, size, "group of %zu:", group->count);

    for (size_t i = 0; i < group->count; i++) {
        const char *name = group->members[i]->caps.fabric;
        bool last = i + 1 == group->count;

        if (used + strlen(name) + (last ? 2 : sizeof(" , ...")) > size) {
            snprintf(fabric + used, size - used, " ...");
            return;
        }
        used += (size_t)snprintf(fabric + used, size - used, " %s%s", name, last ? "" : ",");
    }
}

/* Leaves out the accepted options, since each member has its own, and the NIC, since a group has
 * several. */
struct provider_caps group_caps(const struct group *group)
{
    struct provider_caps caps = {.key_size = UINT32_MAX,
                                 .iov_limit = UINT32_MAX,
                                 .max_len = UINT64_MAX,
                                 .flags = UINT64_MAX,
                                 .any_thread = true};

    name_fabric(group, caps.fabric, sizeof(caps.fabric));
    for (size_t i = 0; i < group->count; i++) {
        const struct provider_caps *member = &group->members[i]->caps;

        caps.mr_mode |= member->mr_mode;
        caps.flags &= member->flags;
        caps.any_thread &= member->any_thread;
        caps.local_keys |= member->local_keys;
        caps.caches |= member->caches;
        caps.pins |= member->pins;
        if (member->key_size < caps.key_size)
            caps.key_size = member->key_size;
        if (member->iov_limit < caps.iov_limit)
            caps.iov_limit = member->iov_limit;
        if (member->max_len < caps.max_len)
            caps.max_len = member->max_len;
        if (member->max_mr && (!caps.max_mr || member->max_mr < caps.max_mr))
            caps.max_mr = member->max_mr;
    }
    return caps;
}
