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

/* A flag of config->flags: domain was bound to an event queue with FI_REG_MR. */
#define HMREG_OFI_ASYNC (1u << 16)

/*
 * Opens a domain on a libfabric domain. domain is borrowed and must outlive *out; info is the
 * one it was opened with, read during the call only. Its threading model is the caller's to
 * keep: hmreg calls fi_mr_regattr and fi_close on the thread that called hmreg.
 *
 * info decides how device memory can be registered. By dmabuf: on verbs and efa with libfabric 1.20
 * or later, on cxi with 2.5, on opx with 2.6, FI_VERSION(1, 20) or later given to fi_getinfo(), and
 * FI_HMEM in the caps. By its address (path peermem): with FI_HMEM. By a mapping: where the fabric
 * moves bytes with the CPU (tcp, shm, ...), whose local operations then take hmreg_mr_query()'s
 * local_addr.
 *
 * libfabric has a cache of registrations in verbs, efa, cxi and opx. Two on top of each other pin
 * each other's entries, and what comes through libfabric's is more than was asked for: peers have
 * all rights, beyond the ends where an older region is larger, and still when it is closed; no call
 * can change that. Where the environment does not switch it off, hmreg's own cache stays off for
 * this domain unless config sets its limits.
 * To use hmreg's: FI_MR_CACHE_MAX_COUNT=0 in the environment, and config->max_regions and
 * config->max_bytes (that 0 is hmreg's default as well).
 *
 * FI_MR_MMU_NOTIFY, FI_MR_RMA_EVENT and FI_MR_ENDPOINT ask for hmreg_mr_refresh(), hmreg_mr_bind()
 * (with the struct fid of an endpoint or counter) and hmreg_mr_enable() of the caller. A domain
 * that was bound to an event queue with FI_REG_MR is opened with HMREG_OFI_ASYNC; libfabric 2 has
 * no such queue.
 *
 * -EINVAL: lib, domain, info or out is NULL, domain is none, or info lacks its fabric or domain
 * attributes. -HMREG_EBADFLAGS: config->flags. -EOPNOTSUPP: an mr_mode this layer does not know;
 * the sentence names it; or HMREG_OFI_ASYNC with libfabric 2. -ENOMEM.
 */
int hmreg_domain_open_ofi(struct hmreg *lib, struct fid_domain *domain, const struct fi_info *info,
                          const struct hmreg_domain_config *config, struct hmreg_domain **out);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
