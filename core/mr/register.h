/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * One registration: chooses a path, exports a dmabuf if the path needs one, and registers.
 */
#ifndef HMREG_CORE_MR_REGISTER_H
#define HMREG_CORE_MR_REGISTER_H

#include "core/mr/layout.h"

/* Registers a resolved part of a layout in a region. Its extension has the ranges; without one the
 * memory is one range of host memory at its own address, and the region gets an extension only if
 * the fabric gives it another key than requested. Errors of hmreg_mr_reg(). If whole is not NULL,
 * also -EXDEV: no single dmabuf contains the range, but several might; then the caller owns the
 * refusals in *whole and no error is recorded. */
int register_one(struct layout *layout, const struct request *request, const struct resolved *found,
                 struct refusals *whole, struct hmreg_mr *mr);

/* Fails because every path refused, and keeps the reasons for hmreg_mr_explain(). Returns
 * -EOPNOTSUPP; for host memory, which has one path, that path's own error. */
int refuse_all(const struct hmreg_domain *domain, const struct resolved *found,
               const struct refusals *refused);

#endif
