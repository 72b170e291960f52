/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Registers explicit regions of segments, for hmreg_mr_regsgl() and hmreg_mr_regattr().
 */
#ifndef HMREG_CORE_MR_SEGMENTS_H
#define HMREG_CORE_MR_SEGMENTS_H

#include "core/mr/request.h"

/* Checks pointer, count and kinds of a list of segments. -EINVAL. */
int segments_check(const struct hmreg_segment *segments, size_t count);

/* Resolves and registers segments and publishes the region. request is checked and has no ranges.
 * Errors of hmreg_mr_regsgl(). */
int segments_register(struct hmreg_domain *domain, const struct hmreg_segment *segments,
                      size_t count, const struct request *request, struct hmreg_mr **mr);

#endif
