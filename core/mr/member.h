/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Registers a region of a group on one member that came in the place of another.
 */
#ifndef HMREG_CORE_MR_MEMBER_H
#define HMREG_CORE_MR_MEMBER_H

#include "core/mr/layout.h"

/* Registers a region's layout on one member of its group that was withdrawn from it, and enters the
 * registrations in the region, which is held. -EAGAIN: the member was withdrawn meanwhile. -EXDEV:
 * it would be other parts than the region's. Errors of hmreg_mr_regattr(). */
int region_fill_member(struct layout *layout, struct hmreg_mr *mr, size_t member);

#endif
