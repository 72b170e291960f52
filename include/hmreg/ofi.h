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

/* Flag of config->flags: the fid_domain is bound to an event queue with FI_REG_MR. */
#define HMREG_OFI_ASYNC (1u << 16)

/*
 * Opens a domain on a libfabric domain. domain is borrowed and must outlive *out. info: the fi_info
 * that domain was opened with; read during the call only. Any thread may use *out in every
 * threading model. With FI_THREAD_DOMAIN hmreg calls libfabric only from inside the caller's calls,
 * one thread at a time; during these calls no thread of the caller may call libfabric on domain
 * (docs/threading.md).
 *
 * info determines the paths for device memory. Path dmabuf requires FI_HMEM in the caps,
 * FI_VERSION(1, 20) or later given to fi_getinfo(), and libfabric 1.20 or later on verbs and efa,
 * 2.5 on cxi, 2.6 on opx. Path peermem requires FI_HMEM. Path mapped is for fabrics that move data
 * with the CPU (tcp, shm, ...). Their local operations take local_addr of hmreg_mr_query().
 *
 * libfabric's verbs, cxi, opx and, before 2.2, efa have a registration cache of their own;
 * since 2.2 efa does not cache the application's registrations. Two stacked caches pin each other's
 * entries. A registration that libfabric's cache makes, of host memory or of device memory by path
 * peermem, grants peers more than was requested: all access rights, addresses beyond the region if
 * an older region is larger, and access after the region is closed. No call can change that. Unless
 * the environment disables libfabric's cache, hmreg's cache is off for this domain; limits in
 * config turn it on. To use hmreg's cache, set FI_MR_CACHE_MAX_COUNT=0 in the environment, and
 * config->max_regions and config->max_bytes: without them this 0 is hmreg's limit too.
 *
 * With FI_MR_MMU_NOTIFY, FI_MR_RMA_EVENT and FI_MR_ENDPOINT the caller must use hmreg_mr_refresh(),
 * hmreg_mr_bind() (with the struct fid of an endpoint or counter) and hmreg_mr_enable(). If domain
 * is bound to an event queue with FI_REG_MR, pass HMREG_OFI_ASYNC; libfabric 2 has no such queue.
 * FI_MR_XPU_DESC is left to the caller: fi_mr_get_xpu_desc() of the head's native.
 *
 * -EINVAL: lib, domain, info or out is NULL, domain is not a domain, or info lacks its fabric or
 * domain attributes. -HMREG_EBADFLAGS: config->flags. -EOPNOTSUPP: an mr_mode that hmreg does not
 * know (the text names it), or HMREG_OFI_ASYNC with libfabric 2. -ENOMEM.
 */
int hmreg_domain_open_ofi(struct hmreg *lib, struct fid_domain *domain, const struct fi_info *info,
                          const struct hmreg_domain_config *config, struct hmreg_domain **out);

/*
 * While the library hibernates (<hmreg/hibernate.h>), gives a domain its libfabric domain for
 * hmreg_thaw(). fid: a domain opened with info, with the old provider and mr_mode, on any NIC that
 * permits at least as much; or the old fid itself. The domain keeps its config. May be repeated
 * until hmreg_thaw(). Any thread, but no other thread may use the domain during the call. -EINVAL:
 * an argument is NULL, domain is of another provider, fid is no domain, or the fabric demands more
 * or permits less than hmreg_domain_query() said. -EBUSY: the library does not hibernate, or
 * hmreg_thaw() has begun: hmreg_hibernate() first. -ENODEV: the domain is lost. -EPERM; other
 * errors as hmreg_domain_open_ofi(). After an error the domain is unchanged.
 */
int hmreg_domain_renew_ofi(struct hmreg_domain *domain, struct fid_domain *fid,
                           const struct fi_info *info);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
