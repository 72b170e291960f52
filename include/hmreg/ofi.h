/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Domains on libfabric. Link with libhmreg-ofi.
 */
#ifndef HMREG_OFI_H
#define HMREG_OFI_H

#include <hmreg/hmreg.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * Opens a domain on a libfabric domain. domain is borrowed and must outlive *out; info is the
 * one it was opened with, read during the call only. Its threading model is the caller's to
 * keep: hmreg calls fi_mr_reg and fi_close on the thread that called hmreg.
 * -EINVAL: lib, domain, info or out is NULL, or info lacks its fabric or domain attributes.
 * -HMREG_EBADFLAGS: config->flags. -EOPNOTSUPP: an mr_mode this layer cannot meet; the sentence
 * names it. -ENOMEM.
 */
int hmreg_domain_open_ofi(struct hmreg *lib, struct fid_domain *domain, const struct fi_info *info,
                          const struct hmreg_domain_config *config, struct hmreg_domain **out);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
