/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Hooks a domain's registering operations and its close.
 */
#ifndef HMREG_PRELOAD_OFI_DOMAIN_HOOK_H
#define HMREG_PRELOAD_OFI_DOMAIN_HOOK_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <stdbool.h>

/* libfabric has the code at `address`: the process may have several. */
void domain_hook_of(const void *address);

/* *domain was opened with info, and lies below one that is being opened if lower. A domain that
 * cannot be hooked stays as it is. */
void domain_hook_install(struct fid_domain *domain, const struct fi_info *info, bool lower);

#endif
