/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The paths of a get out of line: the thread's table for gets with attributes, then the search and
 * registration if the table does not serve.
 */
#ifndef HMREG_CORE_CACHE_GET_SLOW_H
#define HMREG_CORE_CACHE_GET_SLOW_H

#include "core/cache/cache_pool.h"
#include "core/context/domain.h"
#include "core/mr/layout.h"

/* Implements hmreg_mr_get(), arguments and errors included, if this thread's table does not serve
 * the request. In the request only range, access, context, any_key and claim are set; `want`
 * repeats it, and may leave the policy to the domain. */
int get_past_table(struct hmreg_domain *domain, const struct request *request,
                   struct cache_want *want, struct hmreg_mr **mr);

/* Pins and returns the region that this thread's table has for a get out of line. NULL: none. In
 * get_fast.c. */
struct hmreg_mr *get_remembered(struct hmreg_domain *domain, const struct cache_want *want);

/* Likewise, but only the first entry that hmreg_mr_get() would try, in a few nanoseconds; else
 * NULL. domain: not NULL. attr: one range, without a variant. */
struct hmreg_mr *get_hit(struct hmreg_domain *domain, const struct hmreg_mr_attr *attr);

/* Gets a region for a checked request of one range, which `want` repeats. The caller uses its
 * variant. list: NULL, or the request's gathered list of segments or ranges, which `want` encloses
 * and want->variant has. cacheable: false: the region is registered for this get alone. *mr is
 * written only on success. Errors of hmreg_mr_get() that come from the memory and the fabric. */
int get_region(struct hmreg_domain *domain, const struct request *request, struct layout *list,
               const struct cache_want *want, bool cacheable, struct hmreg_mr **mr);

/* May the request's region serve other gets? False: the caller has to bind it first. */
bool get_may_share(struct hmreg_domain *domain, const struct request *request);

/* Refuses gets if the caller reads the domain's event queue. -EOPNOTSUPP. */
int get_check(const struct hmreg_domain *domain);

#endif
