/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A region that is being filled with its registrations: one for each part on each member.
 */
#ifndef HMREG_CORE_MR_FILLING_H
#define HMREG_CORE_MR_FILLING_H

#include "core/mr/layout.h"

/* What natives of a region without an extension are made of. */
struct natives_one {
    struct natives natives;
    struct mr_note note;
    struct iovec asked, iov;
    struct mr_rail rail;
};

struct filling {
    struct layout *layout;
    const struct ranges *ranges; /* what the parts are: the layout's ranges, or its segments */
    struct hmreg_mr *mr;
    struct natives *natives;
    bool extended;           /* the region's extension was made for this filling */
    pthread_mutex_t lock;    /* held to change the next three */
    _Atomic uint64_t rails;  /* bit i: member i is wanted */
    _Atomic uint64_t missed; /* bit i: the region does without member i */
    int first_missed;        /* the member, if one is missed */
    _Atomic uint64_t locked; /* of several registrations: bytes that those made or under way lock */
    struct natives_one one;
};

/* Needs no lock: a member is wanted once, and missed once. */
static inline bool filling_wants(const struct filling *filling, size_t member)
{
    return atomic_load(&filling->rails) & ~atomic_load(&filling->missed) & UINT64_C(1) << member;
}

/* Registers one part on one member. Idle cached regions give way to it where something is full.
 * Errors of hmreg_mr_regattr(); REGISTER_DIVIDES: see register.h. */
int filling_register(struct filling *filling, size_t member, size_t part);

/* Makes the request on a group what it is on each member: what the group says counts there. */
void filling_ask_as_group(const struct hmreg_domain *domain, struct layout *layout);

#endif
