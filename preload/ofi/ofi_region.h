/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The fid_mr that the program gets for a region that hmreg registered. Its desc and key are the
 * provider's; its close closes hmreg's region; every other operation goes to the provider's fid_mr.
 */
#ifndef HMREG_PRELOAD_OFI_OFI_REGION_H
#define HMREG_PRELOAD_OFI_OFI_REGION_H

#include "preload/ofi/ofi_domain.h"

/* Takes ownership of mr, which has one native region. NULL: no memory; the caller still owns mr. */
struct fid_mr *ofi_region_new(struct ofi_domain *domain, const struct ofi_call *call,
                              struct hmreg_mr *mr);

/* The provider's region behind mr; mr itself if ofi_region_new() did not make it. */
struct fid_mr *ofi_region_native(struct fid_mr *mr);

#endif
