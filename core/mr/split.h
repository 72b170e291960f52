/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A cached region that is longer than its fabric registers at once: a composite of the longest
 * pieces, on a group the same ones on each rail.
 */
#ifndef HMREG_CORE_MR_SPLIT_H
#define HMREG_CORE_MR_SPLIT_H

#include "core/mr/register.h"

/* Checks that as many pieces as a region may have are enough for the request's one range, or that
 * it needs none where it must be one registration. -EMSGSIZE. */
int split_check(const struct hmreg_domain *domain, const struct request *request);

/* As rails_make(), for a request of one range of any length. Also -EMSGSIZE, -EOPNOTSUPP: the
 * range takes too many pieces. */
int split_make(struct hmreg_domain *domain, const struct request *request,
               const struct resolved *found, struct hmreg_mr *mr);

#endif
