/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The registering operations of a hooked domain.
 */
#ifndef HMREG_PRELOAD_OFI_MR_HOOK_H
#define HMREG_PRELOAD_OFI_MR_HOOK_H

#include <rdma/fi_domain.h>
#include <stdbool.h>

/* Replaces the operations in a domain's copy. The copy's owner is its struct ofi_domain. */
void mr_hook_change(struct fi_ops_mr *copy);
/* Is it a copy that mr_hook_change() changed? */
bool mr_hook_is_ours(const struct fi_ops_mr *ops);

#endif
