/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A region, of one registration or of several: made, and ended. What is published, and where, is
 * the caller's: explicit.c for explicit regions, get.c for those of the cache.
 */
#ifndef HMREG_CORE_MR_REGION_H
#define HMREG_CORE_MR_REGION_H

#include "core/mr/register.h"

/* Registers what was resolved. *out is freed with region_destroy(). Errors of hmreg_mr_reg().
 * One range that no descriptor names as a whole becomes a composite of its physical segments.
 * When *out is written: as region_create_one(). */
int region_create(struct hmreg_domain *domain, const struct request *request,
                  const struct resolved *found, struct hmreg_mr **out);

/* As region_create(), into a region of the cache's, whose number and node are set, after
 * region_init(). region_destroy() ends it and leaves it to the cache. Never asynchronous. */
int region_make(struct hmreg_domain *domain, const struct request *request,
                const struct resolved *found, struct hmreg_mr *mr);

/* Deregisters and frees. -EBUSY: it is as it was, try again. Any other failure of the fabric is
 * final for it: the region is freed, and the failure returned. Of a composite the pieces closed
 * before a busy one stay closed. */
int region_destroy(struct hmreg_mr *mr);

#endif
