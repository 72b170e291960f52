/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A group: a domain whose regions are registered on several other domains, its members.
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
    pthread_mutex_t lock;       /* guards the columns of the group's regions while one changes
                                   (core/mr/column.h), and the members' fields */
    _Atomic uint64_t withdrawn; /* bit i: nothing is registered on member i */
    struct group_member *about; /* one for each member */
    atomic_uint left;           /* columns that withdrawn members have left in cached regions */
    void (*end_left)(struct hmreg_domain *group); /* of these, of regions without a holder */
    bool running;     /* a replacement has not ended; the next three are its own */
    pthread_t thread; /* a thread to join: `threaded` */
    bool threaded;
    size_t replacing; /* the member */
    bool again;       /* go through the regions once more */
    size_t count;
    _Atomic(struct hmreg_domain *) members[]; /* borrowed, each counted in its `groups` */
};

/* A member's state, for hmreg_group_withdraw() and _replace(). */
struct group_member {
    enum hmreg_member_state state;
    struct hmreg_error why;       /* WITHDRAWN: the reason that its rails give */
    char reason[256];             /* the caller's */
    unsigned replaced;            /* how often it was replaced */
    size_t regions, done, failed; /* REPLACING, and after it, of the last replacement */
};

/* Checks the members and allocates their group, without a domain. -EINVAL, -EOPNOTSUPP, -ENOMEM. */
int group_new(struct hmreg *lib, struct hmreg_domain *const *members, size_t count, uint32_t flags,
              struct group **out);
/* Waits until no thread visits the group, and frees it. */
void group_free(struct group *group);

/* The abilities of a registration on all members. */
struct provider_caps group_caps(const struct group *group);

/* Checks a domain that replaces a member. -EINVAL, -EOPNOTSUPP. */
int group_check_new(const struct group *group, const struct hmreg_domain *domain);
/* The domain becomes this member. -EINVAL: it has another owner. */
int group_set_member(struct group *group, size_t member, struct hmreg_domain *domain);
/* Was a member ever withdrawn? NULL: no. */
bool group_had_withdrawal(struct group *group);
/* Does a thread register on a member that was replaced? */
bool group_is_replacing(struct group *group);
/* Does it, although the member was withdrawn since? Its fabric may not return. NULL: no. */
bool group_is_stuck(struct group *group);

/* Does the group contain this domain? */
bool group_has(const struct group *group, const struct hmreg_domain *domain);

/* Does a request with these `rails` (0: all) register on this member? */
static inline bool group_registers_on(uint64_t rails, size_t rail)
{
    return !rails || (rails & UINT64_C(1) << rail);
}

/* Do a group's cached regions have columns of withdrawn members? */
static inline bool group_has_left(const struct hmreg_domain *domain)
{
    return domain->group && atomic_load(&domain->group->left);
}

/* Is this a withdrawn member of a group? */
static inline bool group_is_without(const struct hmreg_domain *domain, size_t rail)
{
    return domain->group && (atomic_load(&domain->group->withdrawn) & UINT64_C(1) << rail);
}

/* The number of a region's rails; a domain that is no group has one. */
static inline size_t group_rails(const struct hmreg_domain *domain)
{
    return domain->group ? domain->group->count : 1;
}

/* The member of this rail; a domain that is no group is its own rail 0. */
static inline struct hmreg_domain *group_rail(struct hmreg_domain *domain, size_t rail)
{
    return domain->group ? domain->group->members[rail] : domain;
}

/* Must the registration of a request with these `rails` on this member be bound to an endpoint? */
static inline bool group_binds(struct hmreg_domain *domain, uint64_t rails, size_t rail)
{
    return group_registers_on(rails, rail) &&
           (group_rail(domain, rail)->caps.mr_mode & HMREG_MR_ENDPOINT);
}

#endif
