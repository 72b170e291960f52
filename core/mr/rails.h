/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Regions of groups: one registration for each member, a rail, behind one region. region.h creates
 * each rail, and destroys the whole.
 */
#ifndef HMREG_CORE_MR_RAILS_H
#define HMREG_CORE_MR_RAILS_H

#include "core/mr/mr.h"
#include "core/mr/request.h"

/* Creates the region of a resolved request on one member. what: the caller's. */
typedef int rail_create(struct hmreg_domain *member, const struct request *request,
                        const void *what, struct hmreg_mr **out);

/* Creates a region with a rail on each member of the group, or on those that request->rails names.
 * request->iov and found say what the region is as a whole. Each rail is made by create(), whose
 * request shares its exports with the others. If one fails, none stays; with HMREG_GROUP_PARTIAL
 * only if all fail, or one does for want of memory, room or keys. The error's text names the rail.
 * Free *out with region_destroy(). */
int rails_create(struct hmreg_domain *domain, const struct request *request,
                 const struct resolved *found, rail_create *create, const void *what,
                 struct hmreg_mr **out);

/* The steps of it, for a caller that creates the rails itself. The region of a group without rails,
 * each to be set in ext->rails and marked is_rail; free it with region_free(). -ENOMEM. */
int rails_new(struct hmreg_domain *domain, const struct request *request,
              const struct resolved *found, struct hmreg_mr **out);
/* A rail failed with rc, which is the thread's last error: names the rail in it. 0: the region does
 * without the rail, and has the error as the reason; else the region fails with the result. */
int rails_miss(struct hmreg_mr *mr, size_t rail, int rc);

/* Creates a region of ranges on a domain of either sort, as region_create(). */
int rails_create_ranges(struct hmreg_domain *domain, const struct request *request,
                        const struct resolved *found, struct hmreg_mr **out);

/* As region_make(), on a domain of either sort. */
int rails_make(struct hmreg_domain *domain, const struct request *request,
               const struct resolved *found, struct hmreg_mr *mr);

#endif
