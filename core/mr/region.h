/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Makes regions from layouts and ends them. A region is one registration, or has parts: pieces on
 * its domain, or on a group a rail for each member, which may have pieces itself. The callers
 * publish regions: explicit.c and job.c explicit ones, get_slow.c cached ones.
 */
#ifndef HMREG_CORE_MR_REGION_H
#define HMREG_CORE_MR_REGION_H

#include "core/mr/layout.h"

/* Allocates the region of a layout; nothing is registered. -ENOMEM. Free it with region_destroy()
 * once it is filled, else with region_free(). */
int region_new(struct hmreg_domain *domain, const struct layout *layout, struct hmreg_mr **out);
/* Frees a region of which nothing is registered; of one that the cache owns only what it points to.
 */
void region_free(struct hmreg_mr *mr);

/* Registers a resolved layout into a region of region_new(), or into one that the cache owns, which
 * has its domain, range, access rights and iface. On failure nothing stays registered but what the
 * fabric is too busy to deregister: see undone_retry(). Closes the layout's exports. On a group, if
 * a rail fails, no rail stays; with HMREG_GROUP_PARTIAL, or where the group chooses its nearest
 * members, only if all fail, or one does for want of memory, room or keys; the error's text names
 * the rail. Errors of hmreg_mr_reg(). */
int region_fill(struct layout *layout, struct hmreg_mr *mr);

/* The steps of region_fill(), for a job, whose threads register the parts. */
struct filling {
    struct layout *layout;
    struct hmreg_mr *mr;
    pthread_mutex_t lock;    /* held to change the next two and the reasons of a group's region */
    _Atomic uint64_t rails;  /* bit i: rail i is wanted */
    _Atomic uint64_t missed; /* bit i: the region does without rail i */
    const struct nearest_order *order; /* replaces a rail that is missed; NULL: nothing does */
};

/* Prepares the region for its parts. -ENOMEM; -EOPNOTSUPP: the registrations would complete one by
 * one in the caller's event queue. */
int filling_begin(struct filling *filling, struct layout *layout, struct hmreg_mr *mr);
/* Registers a part, on all members. Several threads may register one each at the same time. Errors
 * of hmreg_mr_regattr(). */
int filling_part(struct filling *filling, size_t part);
/* With all parts registered: the region is complete, or an endpoint could not be bound. */
int filling_end(struct filling *filling);
/* After any failure, and instead of filling_end(): deregisters the parts. Keeps the thread's last
 * error. */
void filling_undo(struct filling *filling);

/* Deregisters a region of one registration, unless it is suspended, and gives its key back. */
int region_deregister(struct hmreg_mr *mr);
/* Deregisters and frees a region. -EBUSY: the region is unchanged; try again. After any other
 * failure of the fabric the region is freed and the failure returned. Parts that were deregistered
 * before a busy one stay deregistered. */
int region_destroy(struct hmreg_mr *mr);

/* Deregisters and frees a region with an extension that no caller has, or leaves it to
 * undone_retry(). */
void region_undo(struct hmreg_mr *mr);

/* Registrations that a failed call has to undo. No caller has them, so the domain keeps those that
 * the fabric does not deregister yet (-EBUSY), with their keys. undone_retry() tries again to
 * deregister `most` of a domain's, on a group of each member's. Calls that register on the domain
 * or deregister do so; most of them find none, which costs one load. Keeps the thread's last error.
 */
void undone_retry(struct hmreg_domain *domain, unsigned most);
/* Is one of them in this range? */
bool undone_touch(struct hmreg_domain *domain, uint64_t start, uint64_t end);
/* How many are still registered. */
unsigned undone_left(const struct hmreg_domain *domain);

#endif
