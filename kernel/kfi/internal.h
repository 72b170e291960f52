/* SPDX-License-Identifier: GPL-2.0-only
 *
 * Internal declarations of hmreg_kfi.
 */
#ifndef HMREG_KFI_INTERNAL_H
#define HMREG_KFI_INTERNAL_H

#include <linux/list.h>
#include <linux/rwsem.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "hmreg_kfi.h"

struct hmreg_kfi_eq {
	struct kfid_eq fid;
	spinlock_t lock;	 /* of events */
	struct list_head events; /* hmreg_kfi_mr.event */

	struct workqueue_struct *work; /* NULL: no handler */
	struct work_struct delivery;
	atomic_t undelivered; /* calls of the handler that have not returned */
	wait_queue_head_t returned;
};

struct hmreg_kfi_domain {
	struct kfid_domain fid;
	struct ib_pd *pd;
	struct ib_device *device;
	struct hmreg_kfi_attr attr;

	struct hmreg_kfi_eq *eq; /* NULL: registration is synchronous */
	struct workqueue_struct *work;

	struct ib_cq *cq; /* NULL: the queue pair is the client's */
	struct ib_qp *qp;
	bool connected;
	unsigned int sends; /* entries of the send queue */
	atomic_t posted;    /* send queue entries in use */
	wait_queue_head_t answered;
	struct rw_semaphore restart; /* read: posting; write: the queue pair is reset */
	unsigned int restarts;

	spinlock_t lock;	 /* of the lists */
	struct list_head idle;	 /* the pool's regions that are not in use */
	struct list_head undone; /* regions of failed calls, whose key the device did not end */
};

enum hmreg_kfi_key {
	KEY_FREE,    /* the device knows none: the ib_mr can be registered anew */
	KEY_VALID,   /* peers may use it */
	KEY_UNKNOWN, /* a work request failed: only ib_dereg_mr() ends it */
};

struct hmreg_kfi_mr {
	struct kfid_mr fid;
	struct hmreg_kfi_domain *domain;
	struct list_head entry; /* domain's idle or undone */

	struct scatterlist *own; /* the registered memory, mapped for DMA */
	unsigned int own_max;
	int own_mapped; /* elements that this module has mapped, before any were merged */
	int count;	/* of elements */
	size_t length;
	unsigned int pages;
	bool gaps; /* there are gaps between elements inside of pages */
	u64 access;
	enum dma_data_direction direction;

	struct ib_mr *mr; /* NULL: local rights only */
	bool bridges;	  /* it takes gaps */
	enum hmreg_kfi_key key;
	struct ib_cqe cqe;
	bool posted; /* the device has not answered yet: all of the region must stay */
	struct completion sent;
	enum ib_wc_status status;

	struct work_struct registration;
	struct completion registered;
	struct list_head event;
	int error;
};

/* wait.c: each wait ends with a fatal signal, and takes so long at most */
long hmreg_kfi_limit(void);

/* The kernel has no wait with both a timeout and fatal signals. */
static inline int hmreg_kfi_waited(long left)
{
	if (left > 0)
		return 0;
	return left ? -EINTR : -ETIMEDOUT;
}

/* queue.c */
int hmreg_kfi_queue_open(struct hmreg_kfi_domain *domain);
void hmreg_kfi_queue_close(struct hmreg_kfi_domain *domain);
int hmreg_kfi_send(struct hmreg_kfi_mr *mr, struct ib_send_wr *wr);
int hmreg_kfi_settle(struct hmreg_kfi_mr *mr);

/* memory.c */
int hmreg_kfi_allocate_elements(struct hmreg_kfi_mr *mr, size_t count);
int hmreg_kfi_map(struct hmreg_kfi_mr *mr, const struct kfi_mr_attr *attr);
void hmreg_kfi_unmap(struct hmreg_kfi_mr *mr);

/* pool.c */
int hmreg_kfi_pool_open(struct hmreg_kfi_domain *domain);
int hmreg_kfi_pool_close(struct hmreg_kfi_domain *domain);
struct hmreg_kfi_mr *hmreg_kfi_pool_get(struct hmreg_kfi_domain *domain);
void hmreg_kfi_pool_put(struct hmreg_kfi_mr *mr);
int hmreg_kfi_pool_mr(struct hmreg_kfi_mr *mr, unsigned int pages);
int hmreg_kfi_pool_drop_mr(struct hmreg_kfi_mr *mr);

/* region.c */
extern struct kfi_ops_mr hmreg_kfi_mr_ops;
void hmreg_kfi_region_retry(struct hmreg_kfi_domain *domain);

/* events.c */
int hmreg_kfi_events_bind(struct hmreg_kfi_domain *domain, struct kfid *fid);
int hmreg_kfi_events_settle(struct hmreg_kfi_domain *domain);
void hmreg_kfi_events_unbind(struct hmreg_kfi_domain *domain);
void hmreg_kfi_events_add(struct hmreg_kfi_mr *mr, int error);
void hmreg_kfi_events_remove(struct hmreg_kfi_mr *mr);

static inline bool hmreg_kfi_is_remote(u64 access)
{
	return access & (KFI_REMOTE_READ | KFI_REMOTE_WRITE);
}

#endif
