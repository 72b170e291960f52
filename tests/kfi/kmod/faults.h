/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Included before each source of hmreg_kfi in its test build: each call that can fail fails once
 * when the test asks for it, and allocations are counted.
 */
#ifndef TESTS_KFI_FAULTS_H
#define TESTS_KFI_FAULTS_H

#include <linux/device.h>
#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

/* What the test asked for: the call of that name fails. */
bool hmreg_kfi_fails(const char *call);
/* The same for one that allocates, which is counted. */
bool hmreg_kfi_allocation_fails(const char *call);
/* ib_post_send(), or with "completion" a work request in place of the given one that the device
 * refuses. */
int hmreg_kfi_post_send(struct ib_qp *qp, struct ib_send_wr *wr);

/* Its completion comes when the test releases it, or unless it is stuck when the queue pair has an
 * error. released: of those that are stuck, too. */
int hmreg_kfi_post_held(struct ib_qp *qp, struct ib_send_wr *wr, bool stuck);
int hmreg_kfi_modify_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask);

/* Soft-RoCE's, as of a device that bridges gaps: of a list with gaps it registers what is before
 * the first. */
struct ib_mr *hmreg_kfi_alloc_mr(struct ib_pd *pd, enum ib_mr_type type, u32 elements);
int hmreg_kfi_map_mr_sg(struct ib_mr *mr, struct scatterlist *sg, int count);

/* For the client. */
void hmreg_kfi_arm(const char *call, unsigned int skip, unsigned int times);
unsigned int hmreg_kfi_hits(void);
void hmreg_kfi_counted(unsigned int *allocations, unsigned int *with_io);
void hmreg_kfi_release_held(bool stuck);
unsigned int hmreg_kfi_held(void);
struct kfid_mr;
void hmreg_kfi_secret(struct kfid_mr *mr, u64 *key, u64 *iova);

static inline void *plain_kzalloc(size_t size, gfp_t flags)
{
    return kzalloc(size, flags);
}

static inline void *plain_kvmalloc_array(size_t count, size_t size, gfp_t flags)
{
    return kvmalloc_array(count, size, flags);
}

static inline struct workqueue_struct *plain_alloc_workqueue(const char *name, unsigned int flags)
{
    return alloc_workqueue("%s", flags, 0, name);
}

#ifndef HMREG_KFI_WITHOUT_FAULTS
#undef kzalloc
#undef kvmalloc_array
#undef alloc_workqueue
#define kzalloc(size, flags)                                                                       \
    (hmreg_kfi_allocation_fails("kzalloc") ? NULL : plain_kzalloc(size, flags))
#define kvmalloc_array(count, size, flags)                                                         \
    (hmreg_kfi_allocation_fails("kvmalloc_array") ? NULL : plain_kvmalloc_array(count, size, flags))
#define alloc_workqueue(name, flags, active)                                                       \
    (hmreg_kfi_fails("alloc_workqueue") ? NULL : plain_alloc_workqueue(name, flags))
#define ib_alloc_mr(...)                                                                           \
    (hmreg_kfi_allocation_fails("ib_alloc_mr") ? ERR_PTR(-ENOMEM) : hmreg_kfi_alloc_mr(__VA_ARGS__))
#define ib_dereg_mr(mr) (hmreg_kfi_fails("ib_dereg_mr") ? -EBUSY : (ib_dereg_mr)(mr))
#define ib_map_mr_sg(mr, sg, count, offset, size)                                                  \
    (hmreg_kfi_fails("ib_map_mr_sg") ? -ENOMEM : hmreg_kfi_map_mr_sg(mr, sg, count))
#define IBK_SG_GAPS_REG    (hmreg_kfi_fails("IBK_SG_GAPS_REG") ? ~0ull : (u64)IBK_SG_GAPS_REG)
#define ib_dma_map_sg(...) (hmreg_kfi_fails("ib_dma_map_sg") ? 0 : (ib_dma_map_sg)(__VA_ARGS__))
#define ib_post_send(qp, wr, bad)                                                                  \
    (hmreg_kfi_fails("ib_post_send") ? -ENOMEM : hmreg_kfi_post_send(qp, wr))
#define ib_query_port(...)                                                                         \
    (hmreg_kfi_fails("ib_query_port") ? -ENODEV : (ib_query_port)(__VA_ARGS__))
#define ib_modify_qp(...)                                                                          \
    (hmreg_kfi_fails("ib_modify_qp") ? -EINVAL : hmreg_kfi_modify_qp(__VA_ARGS__))
#define ib_create_qp(...)                                                                          \
    (hmreg_kfi_fails("ib_create_qp") ? ERR_PTR(-ENOMEM) : (ib_create_qp)(__VA_ARGS__))
#define ib_alloc_cq_any(...)                                                                       \
    (hmreg_kfi_fails("ib_alloc_cq_any") ? ERR_PTR(-ENOMEM) : (ib_alloc_cq_any)(__VA_ARGS__))
#define rdma_query_gid(...)                                                                        \
    (hmreg_kfi_fails("rdma_query_gid") ? -ENOENT : (rdma_query_gid)(__VA_ARGS__))
/* As of a device that reads and writes memory by bounce buffers. Soft-RoCE has no struct device. */
#define ib_uses_virt_dma(device)                                                                   \
    (hmreg_kfi_fails("ib_uses_virt_dma") ? false : (ib_uses_virt_dma)(device))
#define dma_need_sync(dev, address) ((dev) ? (dma_need_sync)(dev, address) : true)
#define device_iommu_mapped(dev)    ((dev) && (device_iommu_mapped)(dev))
/* As on InfiniBand: Soft-RoCE's port demands a global route, too. */
#define rdma_ah_find_type(...)                                                                     \
    (hmreg_kfi_fails("rdma_ah_find_type") ? RDMA_AH_ATTR_TYPE_IB : (rdma_ah_find_type)(__VA_ARGS__))
#define rdma_get_gid_attr(...)                                                                     \
    (hmreg_kfi_fails("rdma_get_gid_attr") ? ERR_PTR(-ENODATA) : (rdma_get_gid_attr)(__VA_ARGS__))
#endif

#endif
