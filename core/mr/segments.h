/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Registers explicit regions of segments, for hmreg_mr_regsgl() and hmreg_mr_regattr().
 */
#ifndef HMREG_CORE_MR_SEGMENTS_H
#define HMREG_CORE_MR_SEGMENTS_H

#include "core/mr/composite.h"

/* Checks pointer, count and kinds of a list of segments. -EINVAL. */
int segments_check(const struct hmreg_segment *segments, size_t count);

/* Resolves and registers segments and publishes the region. request is checked and has no ranges.
 * Errors of hmreg_mr_regsgl(). */
int segments_register(struct hmreg_domain *domain, const struct hmreg_segment *segments,
                      size_t count, const struct request *request, struct hmreg_mr **mr);

/* Takes a list of checked attributes, which the request is of: `count` segments, or with NULL the
 * request's ranges. Checks what the list says. Free *out with segments_free(), after a failure too.
 * Errors of hmreg_mr_regattr() that come before any runtime is queried. */
int segments_gather(struct hmreg_domain *domain, const struct hmreg_segment *segments, size_t count,
                    const struct request *request, struct composite *out);
void segments_free(struct composite *gathered);

/* Finds the memory of each segment, in gathered->found. Errors of request_resolve(), and -EINVAL:
 * the segments are of two ifaces or kinds. */
int segments_resolve(struct hmreg_domain *domain, const struct composite *gathered);

/* As rails_make(), for the resolved segments. */
int segments_make(struct hmreg_domain *domain, const struct composite *gathered,
                  struct hmreg_mr *mr);

#endif
