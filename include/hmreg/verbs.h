/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Domains on libibverbs. Link with libhmreg-verbs.
 */
#ifndef HMREG_VERBS_H
#define HMREG_VERBS_H

#include <hmreg/hmreg.h>
#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Flags of a verbs domain's config, besides HMREG_DOMAIN_*. A flag that the device or its kernel
 * does not support is ignored, except where its comment says otherwise. For one region,
 * hmreg_mr_attr's ordering, on_demand and atomics override the first, second and last. */
#define HMREG_VERBS_RELAXED_ORDERING (1u << 16) /* the device may write out of order */
#define HMREG_VERBS_ON_DEMAND        (1u << 17) /* host memory is paged on demand, not pinned */
/* Memory windows can be bound to regions, except regions of dmabufs. Closing a region returns
 * -EBUSY while a window is bound to it. All regions have local write access. */
#define HMREG_VERBS_MEMORY_WINDOWS (1u << 18)
/* Peers with HMREG_REMOTE_WRITE may also use atomic operations, which return the previous value of
 * the memory. Never ignored: see -EOPNOTSUPP. */
#define HMREG_VERBS_ATOMICS (1u << 19)
/* The same, ignored where the device has no atomic operations. */
#define HMREG_VERBS_ATOMICS_IF_POSSIBLE (1u << 20)

/*
 * Opens a domain on a protection domain, which is borrowed and must outlive *out. Of its regions,
 * hmreg_mr_native() and hmreg_mr_desc() return the struct ibv_mr *. A program that forks must call
 * ibv_fork_init() before anything registers memory; hmreg never calls it.
 * -EINVAL: lib, pd or out is NULL. -HMREG_EBADFLAGS: config->flags.
 * -EOPNOTSUPP: HMREG_VERBS_ATOMICS, but the device has no atomic operations.
 * -EIO: the device's limits could not be read. -ENOMEM.
 */
int hmreg_domain_open_verbs(struct hmreg *lib, struct ibv_pd *pd,
                            const struct hmreg_domain_config *config, struct hmreg_domain **out);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
