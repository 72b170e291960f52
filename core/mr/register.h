/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * One registration: chooses a path, exports a dmabuf if the path needs one, and registers.
 */
#ifndef HMREG_CORE_MR_REGISTER_H
#define HMREG_CORE_MR_REGISTER_H

#include "core/mr/layout.h"

/* No single dmabuf contains the range, but several might. */
#define REGISTER_DIVIDES 1

/* Registers a resolved part of a layout on a domain, as one of the natives. Errors of
 * hmreg_mr_reg(). REGISTER_DIVIDES, without an error: the layout has one part, and the request
 * permits several; the natives' rail keeps why the whole was refused. Several threads may register
 * different parts at one time. */
int register_one(struct layout *layout, const struct request *request, const struct resolved *found,
                 struct natives *natives, struct hmreg_domain *domain, size_t index);

/* Fails with the natives' reasons, because the segments of a layout that should be divided cannot
 * be found. -EOPNOTSUPP. */
int register_refused(const struct hmreg_domain *domain, const struct layout *layout,
                     const struct natives *natives);

#endif
