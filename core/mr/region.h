/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Creates and destroys regions of one registration or of several. The callers publish them:
 * explicit.c and segments.c publish explicit regions, get_slow.c publishes cached ones.
 */
#ifndef HMREG_CORE_MR_REGION_H
#define HMREG_CORE_MR_REGION_H

#include "core/mr/register.h"

/* Registers a resolved request. Free *out with region_destroy(). Errors of hmreg_mr_reg(). A range
 * that no single dmabuf contains becomes a composite of its physical segments. *out is written as
 * by region_create_one(). */
int region_create(struct hmreg_domain *domain, const struct request *request,
                  const struct resolved *found, struct hmreg_mr **out);

/* As region_create(), into a region that the cache owns. The caller has set its slot offset and
 * other fields. region_destroy() deregisters it but leaves the struct to the
 * cache. Never asynchronous. */
int region_make(struct hmreg_domain *domain, const struct request *request,
                const struct resolved *found, struct hmreg_mr *mr);

/* Moves what is registered to a region that the cache owns, and frees the other's struct. */
void region_move(struct hmreg_mr *from, struct hmreg_mr *mr);

/* Deregisters and frees a region. -EBUSY: the region is unchanged; try again. After any other
 * failure of the fabric the region is freed and the failure returned. Pieces of a composite, and
 * rails, that were deregistered before a busy one stay deregistered. */
int region_destroy(struct hmreg_mr *mr);

#endif
