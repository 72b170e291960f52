/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Explicit regions of segments, for the calls that take other things as well.
 */
#ifndef HMREG_CORE_MR_SEGMENTS_H
#define HMREG_CORE_MR_SEGMENTS_H

#include "core/mr/request.h"

/* Is this a list of segments at all? -EINVAL. */
int segments_check(const struct hmreg_segment *segments, size_t count);

/* Resolves them, registers them, and publishes the region. request is checked, and has no ranges.
 * Errors of hmreg_mr_regsgl(). */
int segments_register(struct hmreg_domain *domain, const struct hmreg_segment *segments,
                      size_t count, const struct request *request, struct hmreg_mr **mr);

#endif
