/* SPDX-License-Identifier: GPL-2.0-only
 *
 * Memory regions of kernel memory, by the calls of kfabric's kfi_mr(3), on the kernel verbs of a
 * caller's protection domain (struct ib_pd). docs/kernel.md explains them.
 *
 * Names, members and values are kfabric's. A client that includes kfabric's <kfi_domain.h> and
 * <kfi_errno.h> first uses those; their declarations are left out here.
 */
#ifndef HMREG_KFI_H
#define HMREG_KFI_H

#include <linux/bvec.h>
#include <linux/completion.h>
#include <linux/errno.h>
#include <linux/scatterlist.h>
#include <linux/types.h>
#include <linux/uio.h>
#include <rdma/ib_verbs.h>

#ifndef _KFI_ERRNO_H_

#define KFI_EAGAIN EAGAIN
#define KFI_EBUSY EBUSY
#define KFI_EINVAL EINVAL
#define KFI_ENOSYS ENOSYS
#define KFI_EKEYREJECTED EKEYREJECTED

enum {
	KFI_ETOOSMALL = 257,
	KFI_EAVAIL = 259,
	KFI_EBADFLAGS = 260,
	KFI_ENOKEY = 266,
};

#endif /* _KFI_ERRNO_H_ */

#ifndef _KFI_DOMAIN_H_

/* Rights: what the device may do with the memory, for this side and for its peers. */
#define KFI_READ BIT_ULL(8)
#define KFI_WRITE BIT_ULL(9)
#define KFI_RECV BIT_ULL(10)
#define KFI_SEND BIT_ULL(11)
#define KFI_REMOTE_READ BIT_ULL(12)
#define KFI_REMOTE_WRITE BIT_ULL(13)

#define KFI_LOCAL_MR BIT_ULL(55)
#define KFI_REG_MR BIT_ULL(59)
#define KFI_MR_PROV_KEY BIT(4)
#define KFI_KEY_NOTAVAIL (~0ULL)

enum {
	KFI_CLASS_DOMAIN = 2,
	KFI_CLASS_EP = 3,
	KFI_CLASS_RX_CTX = 5,
	KFI_CLASS_MR = 12,
	KFI_CLASS_EQ = 13,
	KFI_CLASS_CNTR = 15,
};

enum { KFI_MR_COMPLETE = 4 };

enum { KFI_ENABLE = 6 };

enum kfi_iov_type { KFI_KVEC = 1, KFI_BVEC, KFI_SGL };

struct kfid;
struct kfid_eq;
struct kfid_mr;

struct kfi_ops {
	size_t size;
	int (*close)(struct kfid *fid);
	int (*bind)(struct kfid *fid, struct kfid *bfid, u64 flags);
	int (*control)(struct kfid *fid, int command, void *arg);
	int (*ops_open)(struct kfid *fid, const char *name, u64 flags, void **ops, void *context);
};

struct kfid {
	size_t fclass;
	void *context;
	struct kfi_ops *ops;
	struct completion comp;
	atomic_t ref_cnt;
};

struct kfid_mr {
	struct kfid fid;
	void *mem_desc;
	u64 key;
	u64 iova; /* a peer's address of the first byte */
};

struct kfi_mr_attr {
	enum kfi_iov_type type;
	union {
		const struct kvec *mr_iov;
		const struct bio_vec *mr_biov;
		const struct scatterlist *mr_sgl;
	};
	size_t iov_count;
	u64 access;
	u64 offset;
	u64 requested_key;
	void *context;
	size_t auth_key_size;
	u8 *auth_key;
};

struct kfi_ops_mr {
	size_t size;
	int (*reg)(struct kfid *fid, const void *buf, size_t len, u64 access, u64 offset,
		   u64 requested_key, u64 flags, struct kfid_mr **mr, void *context);
	int (*regv)(struct kfid *fid, const struct kvec *iov, size_t count, u64 access, u64 offset,
		    u64 requested_key, u64 flags, struct kfid_mr **mr, void *context);
	int (*regbv)(struct kfid *fid, const struct bio_vec *biov, size_t count, u64 access,
		     u64 offset, u64 requested_key, u64 flags, struct kfid_mr **mr, void *context);
	int (*regattr)(struct kfid *fid, const struct kfi_mr_attr *attr, u64 flags,
		       struct kfid_mr **mr);
	int (*regsgl)(struct kfid *fid, const struct scatterlist *sgl, size_t count, u64 access,
		      u64 offset, u64 requested_key, u64 flags, struct kfid_mr **mr, void *context);
};

struct kfi_ops_domain;

struct kfid_domain {
	struct kfid fid;
	struct kfi_ops_domain *ops;
	struct kfi_ops_mr *mr;
};

struct kfi_eq_entry {
	struct kfid *fid;
	void *context;
	u64 data;
};

struct kfi_eq_err_entry {
	struct kfid *fid;
	void *context;
	u64 data;
	int err;
	int prov_errno;
	void *err_data;
	size_t err_data_size;
};

struct kfi_ops_eq {
	size_t size;
	ssize_t (*read)(struct kfid_eq *eq, u32 *event, void *buf, size_t len, u64 flags);
	ssize_t (*readerr)(struct kfid_eq *eq, struct kfi_eq_err_entry *buf, u64 flags);
	ssize_t (*write)(struct kfid_eq *eq, u32 event, const void *buf, size_t len, u64 flags);
	ssize_t (*sread)(struct kfid_eq *eq, u32 *event, void *buf, size_t len, int timeout,
			 u64 flags);
	const char *(*strerror)(struct kfid_eq *eq, int prov_errno, const void *err_data, char *buf,
				size_t len);
};

typedef void (*kfi_event_handler)(struct kfid_eq *eq, void *context);

struct kfid_eq {
	struct kfid fid;
	struct kfi_ops_eq *ops;
	kfi_event_handler event_handler;
};

static inline int kfi_close(struct kfid *fid)
{
	return fid->ops->close(fid);
}

static inline int kfi_domain_bind(struct kfid_domain *domain, struct kfid *fid, u64 flags)
{
	return domain->fid.ops->bind(&domain->fid, fid, flags);
}

static inline int kfi_mr_reg(struct kfid_domain *domain, const void *buf, size_t len, u64 access,
			     u64 offset, u64 requested_key, u64 flags, struct kfid_mr **mr,
			     void *context)
{
	return domain->mr->reg(&domain->fid, buf, len, access, offset, requested_key, flags, mr,
			       context);
}

static inline int kfi_mr_regv(struct kfid_domain *domain, const struct kvec *iov, size_t count,
			      u64 access, u64 offset, u64 requested_key, u64 flags,
			      struct kfid_mr **mr, void *context)
{
	return domain->mr->regv(&domain->fid, iov, count, access, offset, requested_key, flags, mr,
				context);
}

static inline int kfi_mr_regbv(struct kfid_domain *domain, const struct bio_vec *biov, size_t count,
			       u64 access, u64 offset, u64 requested_key, u64 flags,
			       struct kfid_mr **mr, void *context)
{
	return domain->mr->regbv(&domain->fid, biov, count, access, offset, requested_key, flags,
				 mr, context);
}

static inline int kfi_mr_regsgl(struct kfid_domain *domain, const struct scatterlist *sgl,
				size_t count, u64 access, u64 offset, u64 requested_key, u64 flags,
				struct kfid_mr **mr, void *context)
{
	return domain->mr->regsgl(&domain->fid, sgl, count, access, offset, requested_key, flags,
				  mr, context);
}

static inline int kfi_mr_regattr(struct kfid_domain *domain, const struct kfi_mr_attr *attr,
				 u64 flags, struct kfid_mr **mr)
{
	return domain->mr->regattr(&domain->fid, attr, flags, mr);
}

static inline void *kfi_mr_desc(struct kfid_mr *mr)
{
	return mr->mem_desc;
}

static inline u64 kfi_mr_key(struct kfid_mr *mr)
{
	return mr->key;
}

static inline int kfi_mr_bind(struct kfid_mr *mr, struct kfid *bfid, u64 flags)
{
	return mr->fid.ops->bind(&mr->fid, bfid, flags);
}

static inline ssize_t kfi_eq_read(struct kfid_eq *eq, u32 *event, void *buf, size_t len, u64 flags)
{
	return eq->ops->read(eq, event, buf, len, flags);
}

static inline ssize_t kfi_eq_readerr(struct kfid_eq *eq, struct kfi_eq_err_entry *buf, u64 flags)
{
	return eq->ops->readerr(eq, buf, flags);
}

static inline const char *kfi_eq_strerror(struct kfid_eq *eq, int prov_errno, const void *err_data,
					  char *buf, size_t len)
{
	return eq->ops->strerror(eq, prov_errno, err_data, buf, len);
}

#endif /* _KFI_DOMAIN_H_ */

/* The rest is hmreg's: kfabric opens domains and queues through a fabric, which this module
 * lacks.
 */

/**
 * struct hmreg_kfi_attr - how a domain registers. All zeros is valid.
 * @port: the device's port that the domain's own queue pair uses; 0: the first
 * @qp: a connected RC queue pair of the protection domain, on whose send queue the domain posts
 *	its work requests; its send completion queue is one of ib_alloc_cq(), other than
 *	IB_POLL_DIRECT. NULL: the domain makes a queue pair of its own, connected to itself, which
 *	iWARP has not
 * @sends: how many entries of @qp's send queue the domain uses at most; 0: one
 * @regions: how many regions the domain has at most, all allocated when it is opened; 0: any
 *	number, each allocated when it is registered
 * @pages: with @regions, how many pages, and elements, a region has at most; 0: as many as the
 *device permits
 */
struct hmreg_kfi_attr {
	u32 port;
	struct ib_qp *qp;
	unsigned int sends;
	unsigned int regions;
	unsigned int pages;
};

/* A wait of a call below, or of kfabric's calls, ends with a fatal signal (-EINTR), or after the
 * module's timeout_ms (-ETIMEDOUT; 60,000; 0: no limit). After either a call that registers has
 * written its output: a region without a key, whose memory must stay until kfi_close() of it is 0.
 * After either kfi_close() has closed nothing: call it again. docs/kernel.md describes the
 * remaining cases.
 */

/* 0; -EINVAL; -EOPNOTSUPP: the device cannot register kernel memory, or needs attr->qp; -ENOMEM;
 * or the device's error. Close it by kfi_close(), which may sleep, before @pd.
 */
int hmreg_kfi_domain_open(struct ib_pd *pd, const struct hmreg_kfi_attr *attr,
			  struct kfid_domain **domain);

/* An event queue, for kfi_domain_bind(domain, &eq->fid, KFI_REG_MR). @handler, if given, is called
 * from a workqueue once for each event, which it may read. It may sleep, register and close
 * regions, and close the domain; it must not wait for another call of itself. kfi_close() of a
 * domain or an event queue, other than by the handler, waits until it has returned from each call.
 */
int hmreg_kfi_eq_open(kfi_event_handler handler, void *context, struct kfid_eq **eq);

/* Fills in at most @max elements that cover [offset, offset + length) of the region whose
 * kfi_mr_desc() is @desc, for work requests of queue pairs of the protection domain. Returns their
 * number, -EINVAL (also where a region with remote rights has no key) or -E2BIG. Any context.
 */
int hmreg_kfi_sge(void *desc, size_t offset, size_t length, struct ib_sge *sge, int max);

/* Ends one binding of kfi_mr_bind(), when its endpoint has closed. 0; -EINVAL: the region has none.
 * Any context.
 */
int hmreg_kfi_unbind(struct kfid_mr *mr);

/* Call when a peer has invalidated the region's key: a receive completion with
 * IB_WC_WITH_INVALIDATE reports it (wc->ex.invalidate_rkey). The region must still be closed. Any
 * context.
 */
void hmreg_kfi_invalidated(struct kfid_mr *mr);

#endif /* HMREG_KFI_H */
