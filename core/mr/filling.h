/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A region while its registrations are made: one for each part on each member.
 */
#ifndef HMREG_CORE_MR_FILLING_H
#define HMREG_CORE_MR_FILLING_H

#include "core/mr/layout.h"

/* The natives of a region without an extension. */
struct natives_one {
    struct natives natives;
    struct mr_note note;
    struct iovec asked, iov;
    struct mr_rail rail;
};

struct filling {
    struct layout *layout;
    const struct ranges *ranges; /* the parts: the layout's ranges, or its segments */
    struct hmreg_mr *mr;
    struct natives *natives;
    bool extended;           /* this filling made the region's extension */
    pthread_mutex_t lock;    /* held to change the next three */
    _Atomic uint64_t rails;  /* bit i: member i is wanted */
    _Atomic uint64_t missed; /* bit i: the region lacks member i */
    int first_missed;        /* the member, if the region lacks one */
    _Atomic uint64_t locked; /* bytes locked by the other registrations, made or under way */
    struct natives_one one;
};

/* No lock is needed: each bit changes once. */
static inline bool filling_wants(const struct filling *filling, size_t member)
{
    return atomic_load(&filling->rails) & ~atomic_load(&filling->missed) & UINT64_C(1) << member;
}

/* Registers one part on one member. Idle cached regions are evicted for it if room is short. Errors
 * of hmreg_mr_regattr(); REGISTER_DIVIDES: see register.h. */
int filling_register(struct filling *filling, size_t member, size_t part);

/* Turns a group's request into a member's: the group's settings apply. */
void filling_ask_as_group(const struct hmreg_domain *domain, struct layout *layout);

#endif
