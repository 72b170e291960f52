/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Hooks a domain's registering operations and its close.
 */
#ifndef HMREG_PRELOAD_OFI_DOMAIN_HOOK_H
#define HMREG_PRELOAD_OFI_DOMAIN_HOOK_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <stdbool.h>

/* address: of code of the libfabric that loaded this hook, since a process may have several. */
void domain_hook_of(const void *address);

/* Hooks *domain, which was opened with info. lower: a provider opened it for an upper domain. A
 * domain that cannot be hooked stays unchanged. */
void domain_hook_install(struct fid_domain *domain, const struct fi_info *info, bool lower);

#endif
