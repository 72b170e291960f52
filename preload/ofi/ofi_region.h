/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the program has in place of the provider's fid_mr for a region that hmreg registered: a
 * fid_mr of its own. desc and key are the provider's; closing it closes hmreg's region; every other
 * operation goes to the provider's object.
 */
#ifndef HMREG_PRELOAD_OFI_OFI_REGION_H
#define HMREG_PRELOAD_OFI_OFI_REGION_H

#include "preload/ofi/ofi_domain.h"

/* Takes mr, which has one native region. NULL: no memory; mr is still the caller's. */
struct fid_mr *ofi_region_new(struct ofi_domain *domain, const struct ofi_call *call,
                              struct hmreg_mr *mr);

/* The provider's region behind such a one; of any other fid_mr, itself. */
struct fid_mr *ofi_region_native(struct fid_mr *mr);

#endif
