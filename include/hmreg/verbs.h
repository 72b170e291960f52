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
 * hmreg_mr_attr's ordering, on_demand and atomics override the first, second and last flag. */
#define HMREG_VERBS_RELAXED_ORDERING (1u << 16) /* the device may write out of order */
#define HMREG_VERBS_ON_DEMAND        (1u << 17) /* host memory is paged on demand, not pinned */
/* Memory windows can be bound to regions (hmreg_window_open(), or by the caller's own work
 * requests), except regions of dmabufs. Closing a region returns -EBUSY while a window is bound to
 * it. All regions have local write access. */
#define HMREG_VERBS_MEMORY_WINDOWS (1u << 18)
/* Peers with HMREG_REMOTE_WRITE may also use atomic operations, which return the previous value of
 * the memory. Never ignored: see -EOPNOTSUPP. */
#define HMREG_VERBS_ATOMICS (1u << 19)
/* As HMREG_VERBS_ATOMICS, but ignored if the device has no atomic operations. */
#define HMREG_VERBS_ATOMICS_IF_POSSIBLE (1u << 20)

/*
 * Opens a domain on a protection domain, which is borrowed and must outlive *out. A region's native
 * object and desc are its struct ibv_mr *. A program that forks must call ibv_fork_init() before
 * anything registers memory; hmreg never calls it.
 * -EINVAL: lib, pd or out is NULL. -HMREG_EBADFLAGS: config->flags.
 * -EOPNOTSUPP: HMREG_VERBS_ATOMICS, but the device has no atomic operations.
 * -EIO: the device's limits could not be read. -ENOMEM.
 */
int hmreg_domain_open_verbs(struct hmreg *lib, struct ibv_pd *pd,
                            const struct hmreg_domain_config *config, struct hmreg_domain **out);

/*
 * While the library hibernates (<hmreg/hibernate.h>), gives a domain its protection domain for
 * hmreg_thaw(): the old one, or a new one on any NIC that permits at least as much. The domain
 * keeps its config. May be repeated until hmreg_thaw(). Any thread, but no other thread may use the
 * domain during the call. -EINVAL: domain or pd is NULL, domain is of another provider, or the NIC
 * demands more or permits less than hmreg_domain_query() said. -EBUSY: the library does not
 * hibernate, or hmreg_thaw() has begun: hmreg_hibernate() first. -ENODEV: the domain is lost.
 * -EPERM; other errors as hmreg_domain_open_verbs(). After an error the domain is unchanged.
 */
int hmreg_domain_renew_verbs(struct hmreg_domain *domain, struct ibv_pd *pd);

/* A memory window: a key for peers to exactly a part of a region. The owner can end it at any time;
 * the region and its own key stay as they are. */
struct hmreg_window;

/*
 * Opens a window on [addr, addr+len), a part of region mr, with access HMREG_REMOTE_READ or
 * HMREG_REMOTE_WRITE or both. The region itself needs no remote rights: without them the windows'
 * keys are all that peers can use. mr must be a single registration, not of a dmabuf, on a verbs
 * domain with HMREG_VERBS_MEMORY_WINDOWS. With HMREG_VERBS_ATOMICS peers that may write may also
 * use atomic operations.
 *
 * A work request on qp, the caller's connected queue pair, binds the window. It takes a place in
 * qp's send queue. Its completion, with wr_id and opcode IBV_WC_BIND_MW, arrives where qp's sends
 * complete. The caller reads it, and closes the window if it is an error. The key is valid after
 * this completion. A key that is sent on qp behind the work request is valid when it arrives. type:
 * IBV_MW_TYPE_1: the key serves all queue pairs of the protection domain. IBV_MW_TYPE_2: qp alone.
 *
 * The window holds the region: until it is closed, hmreg_mr_close() and hmreg_suspend() refuse it
 * as busy. A cached region that is put stays registered, even if its memory is freed: peers reach
 * the old pages. Close a window before qp is destroyed. -EINVAL: mr, addr, qp or out is NULL, len
 * is 0, the range wraps, access or type is invalid, or qp is of another protection domain. -ERANGE:
 * the range leaves the region. -EACCES: mr's domain is without HMREG_VERBS_MEMORY_WINDOWS.
 * -EOPNOTSUPP: mr is of loopback or libfabric, of a group (its rails have windows), a composite, or
 * registered by a dmabuf; or the device has no windows of this type. -EAGAIN: mr is suspended.
 * -EPERM, -ENOMEM; other errors are the device's: no work request was posted.
 */
int hmreg_window_open(struct hmreg_mr *mr, const void *addr, size_t len, uint64_t access,
                      struct ibv_qp *qp, enum ibv_mw_type type, uint64_t wr_id,
                      struct hmreg_window **out);
/* The key; HMREG_VERBS_KEY_NOTAVAIL: window is NULL. */
uint32_t hmreg_window_rkey(const struct hmreg_window *window);
/* Ends the window and its key: the fabric then refuses peers that use the key. No work request is
 * needed. On a lost domain (<hmreg/lost.h>) it returns at once; the window ends before its region
 * does. NULL: no effect. -EPERM; other errors are the device's, and the window is unchanged. */
int hmreg_window_close(struct hmreg_window *window);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
