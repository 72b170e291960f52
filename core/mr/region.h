/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Registers the native registrations of regions, and ends them. The callers publish regions:
 * explicit.c and job.c explicit ones, get_slow.c cached ones.
 */
#ifndef HMREG_CORE_MR_REGION_H
#define HMREG_CORE_MR_REGION_H

#include "core/mr/filling.h"
#include "core/mr/undone.h"

/* Allocates the region of a layout; nothing is registered. -ENOMEM. Free it with region_destroy()
 * once it is filled, else with region_free(). */
int region_new(struct hmreg_domain *domain, const struct layout *layout, struct hmreg_mr **out);
/* Frees a region without registrations; if the cache owns it, only its heap fields. */
void region_free(struct hmreg_mr *mr);

/* Registers a resolved layout in a region of region_new(); in one that the cache owns, which has
 * its domain, range, access rights and iface; or in a suspended one, which a failure leaves as it
 * was. With request.endpoints, binds and enables it. Closes the layout's exports. On failure
 * nothing stays registered, except registrations that the fabric is too busy to deregister: see
 * undone_retry(). On a group the call fails if any member fails. With HMREG_GROUP_PARTIAL, or if
 * the group chooses its nearest members, it fails only if all members fail, or one fails for want
 * of memory, room or keys. The error's text names the rail. Errors of hmreg_mr_reg().
 */
int region_fill(struct layout *layout, struct hmreg_mr *mr);

void region_settle_rails(struct hmreg_domain *domain);
/* If earlier registrations have found the domain, or a member, lost: ends its idle regions. This
 * thread must not be registering a region of it. */
static inline void region_settle_lost(struct hmreg_domain *domain)
{
    if (domain->group || domain_is_lost(domain))
        region_settle_rails(domain);
}

/* The steps of region_fill(), for a job's threads, which register the parts: see core/mr/filling.h.
 */

/* Prepares the region for its parts. After a failure too call filling_undo(). -ENOMEM; -EOPNOTSUPP:
 * the registrations would complete one by one in the caller's event queue. */
int filling_begin(struct filling *filling, struct layout *layout, struct hmreg_mr *mr);
/* Registers a part, on all members. Several threads may register one each at the same time. Errors
 * of hmreg_mr_regattr(). */
int filling_part(struct filling *filling, size_t part);
/* After all parts are registered: completes the region. Fails if an endpoint cannot be bound. */
int filling_end(struct filling *filling);
/* After any failure, and instead of filling_end(): deregisters the parts. Keeps the thread's last
 * error. */
void filling_undo(struct filling *filling);

/* Deregisters and frees a region. -EBUSY: nothing changed, or some of several registrations are
 * deregistered; try again. After any other failure of the fabric the region is freed and the
 * failure returned. */
int region_destroy(struct hmreg_mr *mr);
/* Deregisters the region's registrations and clears its keys; the region stays. unbinds: the
 * library has bound it to endpoints. -EBUSY: the fabric is busy with some of its registrations,
 * which stay; try again. After any other failure of the fabric the registration counts as ended,
 * and the failure is returned. */
int region_suspend(struct hmreg_mr *mr, bool unbinds);

/* Deregisters the remaining registrations of withdrawn members; no caller's transfer uses them.
 * -EBUSY: the fabric is busy with some, which stay. */
int region_end_left(struct hmreg_mr *mr);

#endif
