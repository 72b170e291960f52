/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A region's registration ends and the region stays, without keys; later it is registered anew.
 */
#ifndef HMREG_CORE_MR_RENEW_H
#define HMREG_CORE_MR_RENEW_H

#include "core/mr/layout.h"

/* Is an object bound to the region, or to a part of it? */
bool mr_is_bound(const struct hmreg_mr *mr);

/* Deregisters what the region consists of, and sets its keys to none. -EBUSY: the fabric is busy
 * with some of its registrations, which stay; try again. After any other failure of the fabric the
 * registration counts as ended, and the failure is returned. */
int region_suspend(struct hmreg_mr *mr);

/* Registers a resolved layout in a suspended region, which keeps its address, and so do its rails.
 * After a failure the region is as it was. Closes the layout's exports. Errors of region_fill()
 * and, with request.endpoints, of mr_ready(). */
int region_renew(struct hmreg_mr *mr, struct layout *layout);

#endif
