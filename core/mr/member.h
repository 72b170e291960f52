/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Registers a group's region on a member that replaced another.
 */
#ifndef HMREG_CORE_MR_MEMBER_H
#define HMREG_CORE_MR_MEMBER_H

#include "core/mr/layout.h"

/* Registers a held region's layout on a member that the region lacks, and enters the registrations
 * in the region. -EAGAIN: the member was withdrawn meanwhile. -EXDEV: its parts would differ from
 * the region's. Errors of hmreg_mr_regattr(). */
int region_fill_member(struct layout *layout, struct hmreg_mr *mr, size_t member);

#endif
