/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A group: a domain whose regions are registered with several other domains, its members.
 */
#ifndef HMREG_CORE_GROUP_GROUP_H
#define HMREG_CORE_GROUP_GROUP_H

#include "core/context/domain.h"

#include <hmreg/group.h>

struct nearest;

struct group {
    struct hmreg *lib;
    struct hmreg_domain *domain; /* the group's own; NULL until it is open. Under lib->sets_lock, as
                                    are the next two: */
    struct group *next;          /* in the list of the library's groups */
    unsigned visitors;           /* threads that read the group's cache for a member */
    uint32_t flags;              /* HMREG_GROUP_* */
    _Atomic(struct nearest *) nearest; /* owned; NULL: regions are registered on all members */
    struct hmreg_mr_place *places;     /* of the members' domains */
    size_t count;
    struct hmreg_domain *members[]; /* borrowed, each counted in its `groups` */
};

/* Checks the members and makes their group, without a domain. -EINVAL, -EOPNOTSUPP, -ENOMEM. */
int group_new(struct hmreg *lib, struct hmreg_domain *const *members, size_t count, uint32_t flags,
              struct group **out);
/* Waits until no thread visits the group, and frees it. */
void group_free(struct group *group);

/* What a registration on all members can do. */
struct provider_caps group_caps(const struct group *group);

/* Does the group contain this domain? */
bool group_has(const struct group *group, const struct hmreg_domain *domain);

/* Does a request with these `rails` (0: all) register on this one? */
static inline bool group_registers_on(uint64_t rails, size_t rail)
{
    return !rails || (rails & UINT64_C(1) << rail);
}

/* How many rails a region has; a domain that is no group has one. */
static inline size_t group_rails(const struct hmreg_domain *domain)
{
    return domain->group ? domain->group->count : 1;
}

/* The member that is this rail; a domain that is no group is its own rail 0. */
static inline struct hmreg_domain *group_rail(struct hmreg_domain *domain, size_t rail)
{
    return domain->group ? domain->group->members[rail] : domain;
}

/* Must what a request with these `rails` registers on this one be bound to an endpoint? */
static inline bool group_binds(struct hmreg_domain *domain, uint64_t rails, size_t rail)
{
    return group_registers_on(rails, rail) &&
           (group_rail(domain, rail)->caps.mr_mode & HMREG_MR_ENDPOINT);
}

#endif
