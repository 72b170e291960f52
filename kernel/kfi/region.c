// SPDX-License-Identifier: GPL-2.0-only
/*
 * Regions: kfi_mr_reg() and its kin, kfi_close(), kfi_mr_bind().
 *
 * A region with remote rights is an ib_mr whose key IB_WR_REG_MR makes valid. One with local rights
 * only has neither: the protection domain's local_dma_lkey reaches its addresses.
 *
 * All of it runs with memalloc_noio_save(), so block devices may register while memory is short.
 */
#include <linux/sched/mm.h>

#include "internal.h"

#define ALL_RIGHTS (KFI_SEND | KFI_RECV | KFI_READ | KFI_WRITE | KFI_REMOTE_READ | KFI_REMOTE_WRITE)

static struct hmreg_kfi_domain *domain_of(struct kfid *fid)
{
	return container_of(fid, struct hmreg_kfi_domain, fid.fid);
}

static struct hmreg_kfi_mr *mr_of(struct kfid *fid)
{
	return container_of(fid, struct hmreg_kfi_mr, fid.fid);
}

static int check(struct hmreg_kfi_domain *domain, const struct kfi_mr_attr *attr, u64 flags,
		 struct kfid_mr **out)
{
	if (!out || !attr || !attr->mr_iov || !attr->iov_count || attr->auth_key_size)
		return -KFI_EINVAL;
	if (!attr->access || attr->access & ~ALL_RIGHTS || attr->offset)
		return -KFI_EINVAL;
	if (flags)
		return -KFI_EBADFLAGS;
	/* Devices choose all but eight bits of a key. */
	if (attr->requested_key && attr->requested_key != KFI_KEY_NOTAVAIL)
		return -KFI_EKEYREJECTED;
	/* iWARP delivers a read response as a peer's write, which needs a key. */
	if (attr->access & KFI_READ && rdma_protocol_iwarp(domain->device, domain->attr.port))
		return -EOPNOTSUPP;
	return 0;
}

static int rights_of(struct hmreg_kfi_mr *mr)
{
	const u64 both = KFI_REMOTE_READ | KFI_REMOTE_WRITE;
	int rights = 0;

	if (mr->access & (KFI_RECV | KFI_READ | KFI_REMOTE_WRITE))
		rights |= IB_ACCESS_LOCAL_WRITE; /* InfiniBand permits no remote write without it */
	if (mr->access & KFI_REMOTE_READ)
		rights |= IB_ACCESS_REMOTE_READ;
	if (mr->access & KFI_REMOTE_WRITE)
		rights |= IB_ACCESS_REMOTE_WRITE;
	/* Atomic operations return the old value, so they take the right to read, too. */
	if ((mr->access & both) == both && mr->domain->device->attrs.atomic_cap != IB_ATOMIC_NONE)
		rights |= IB_ACCESS_REMOTE_ATOMIC;
	return rights;
}

static int map_pages(struct hmreg_kfi_mr *mr)
{
	int n;

	n = ib_map_mr_sg(mr->mr, mr->own, mr->count, NULL, PAGE_SIZE);
	if (n < 0)
		return n;
	/* ib_map_mr_sg() stops without an error where the device cannot continue. */
	if (n < mr->count || mr->mr->length != mr->length)
		return -KFI_EINVAL;
	/* Peers' addresses begin in the first page. The other bits are ours to choose, and would be
	 * an address of the kernel's on software devices.
	 */
	mr->mr->iova &= PAGE_SIZE - 1;
	return 0;
}

static int make_valid(struct hmreg_kfi_mr *mr)
{
	struct ib_reg_wr wr = {.wr.opcode = IB_WR_REG_MR};
	int rc;

	/* A peer that still has the key of the pool's previous region is refused. */
	ib_update_fast_reg_key(mr->mr, ib_inc_rkey(mr->mr->rkey));
	wr.mr = mr->mr;
	wr.key = mr->mr->rkey;
	wr.access = rights_of(mr);
	rc = hmreg_kfi_send(mr, &wr.wr);
	mr->key = rc ? KEY_UNKNOWN : KEY_VALID;
	return rc;
}

/* The key, if the region has one. Sleeps. */
static int complete_region(struct hmreg_kfi_mr *mr)
{
	int rc;

	if (!hmreg_kfi_is_remote(mr->access))
		return 0;
	rc = map_pages(mr);
	if (!rc)
		rc = make_valid(mr);
	if (rc)
		return rc;
	mr->fid.key = mr->mr->rkey;
	mr->fid.iova = mr->mr->iova;
	return 0;
}

static int end_key(struct hmreg_kfi_mr *mr)
{
	struct ib_send_wr wr = {.opcode = IB_WR_LOCAL_INV};
	int rc;

	rc = hmreg_kfi_settle(mr);
	if (rc)
		return rc;
	/* Ends an ib_mr that is not used again, whatever its key's state. */
	if (!mr->domain->attr.regions)
		return hmreg_kfi_pool_drop_mr(mr);
	if (mr->key == KEY_VALID) {
		wr.ex.invalidate_rkey = mr->mr->rkey;
		rc = hmreg_kfi_send(mr, &wr);
		mr->key = rc ? KEY_UNKNOWN : KEY_FREE;
		if (mr->posted)
			return rc;
	}
	return mr->key == KEY_FREE ? 0 : hmreg_kfi_pool_drop_mr(mr);
}

/* After an error the device may still reach the memory: everything stays as it was. */
static int release(struct hmreg_kfi_mr *mr)
{
	int rc = end_key(mr);

	if (rc)
		return rc;
	hmreg_kfi_unmap(mr);
	hmreg_kfi_pool_put(mr);
	return 0;
}

/* After a failed call without a region to return: the domain keeps a region that the device did not
 * end.
 */
static void undo(struct hmreg_kfi_mr *mr)
{
	struct hmreg_kfi_domain *domain = mr->domain;

	if (!release(mr))
		return;
	spin_lock(&domain->lock);
	list_add(&mr->entry, &domain->undone);
	spin_unlock(&domain->lock);
}

void hmreg_kfi_region_retry(struct hmreg_kfi_domain *domain)
{
	struct hmreg_kfi_mr *mr, *next;

	list_for_each_entry_safe(mr, next, &domain->undone, entry) {
		list_del_init(&mr->entry);
		undo(mr);
	}
}

static int mr_close(struct kfid *fid)
{
	struct hmreg_kfi_mr *mr = mr_of(fid);
	unsigned int noio;
	long left;
	int rc;

	if (atomic_read(&fid->ref_cnt))
		return -KFI_EBUSY;
	if (mr->domain->eq) {
		left = wait_for_completion_killable_timeout(&mr->registered, hmreg_kfi_limit());
		rc = hmreg_kfi_waited(left);
		if (rc)
			return rc;
		hmreg_kfi_events_remove(mr);
	}
	noio = memalloc_noio_save();
	rc = release(mr);
	memalloc_noio_restore(noio);
	return rc;
}

static int mr_bind(struct kfid *fid, struct kfid *bfid, u64 flags)
{
	if (!bfid)
		return -KFI_EINVAL;
	/* No RDMA device counts accesses by region. */
	if (bfid->fclass == KFI_CLASS_CNTR)
		return -KFI_ENOSYS;
	if (bfid->fclass != KFI_CLASS_EP && bfid->fclass != KFI_CLASS_RX_CTX)
		return -KFI_EINVAL;
	if (flags)
		return -KFI_EBADFLAGS;
	/* Every queue pair of the domain accepts the key. */
	atomic_inc(&fid->ref_cnt);
	return 0;
}

int hmreg_kfi_unbind(struct kfid_mr *mr)
{
	return atomic_dec_if_positive(&mr->fid.ref_cnt) < 0 ? -KFI_EINVAL : 0;
}
EXPORT_SYMBOL_GPL(hmreg_kfi_unbind);

static int mr_control(struct kfid *fid, int command, void *arg)
{
	return command == KFI_ENABLE ? 0 : -KFI_ENOSYS;
}

static int mr_ops_open(struct kfid *fid, const char *name, u64 flags, void **ops, void *context)
{
	return -KFI_ENOSYS;
}

static struct kfi_ops mr_ops = {
	.size = sizeof(mr_ops),
	.close = mr_close,
	.bind = mr_bind,
	.control = mr_control,
	.ops_open = mr_ops_open,
};

static void complete_asynchronously(struct work_struct *work)
{
	struct hmreg_kfi_mr *mr = container_of(work, struct hmreg_kfi_mr, registration);
	unsigned int noio = memalloc_noio_save();
	int rc = complete_region(mr);

	memalloc_noio_restore(noio);
	hmreg_kfi_events_add(mr, rc);
}

static void begin(struct hmreg_kfi_mr *mr, const struct kfi_mr_attr *attr)
{
	mr->fid.fid.ops = &mr_ops;
	mr->registration.func = complete_asynchronously;
	mr->access = attr->access;
	mr->fid.fid.context = attr->context;
	mr->fid.key = KFI_KEY_NOTAVAIL;
	mr->fid.iova = 0;
	mr->status = IB_WC_SUCCESS;
	reinit_completion(&mr->registered);
}

/* The size of the region's ib_mr. Some devices count pages, others elements; a page may have
 * several elements.
 */
static unsigned int most_elements(const struct hmreg_kfi_mr *mr)
{
	if (mr->domain->attr.regions)
		return mr->domain->attr.pages;
	return clamp_t(unsigned int, mr->count, mr->pages,
		       mr->domain->device->attrs.max_fast_reg_page_list_len);
}

/* Returns a region that the device may still reach, so that the caller closes it: its memory must
 * stay until then.
 */
static int give_up(struct hmreg_kfi_mr *mr, int rc, struct kfid_mr **out)
{
	if (rc == -EINTR || rc == -ETIMEDOUT) {
		*out = &mr->fid;
		complete_all(&mr->registered);
	} else {
		undo(mr);
	}
	return rc;
}

static int register_region(struct hmreg_kfi_domain *domain, const struct kfi_mr_attr *attr,
			   struct kfid_mr **out)
{
	struct hmreg_kfi_mr *mr = hmreg_kfi_pool_get(domain);
	int rc;

	if (IS_ERR(mr))
		return PTR_ERR(mr);
	begin(mr, attr);
	rc = hmreg_kfi_map(mr, attr);
	if (!rc && hmreg_kfi_is_remote(mr->access))
		rc = hmreg_kfi_pool_mr(mr, most_elements(mr));
	if (!rc && domain->eq) {
		*out = &mr->fid; /* before the event can be read */
		queue_work(domain->work, &mr->registration);
		return 0;
	}
	if (!rc)
		rc = complete_region(mr);
	if (rc)
		return give_up(mr, rc, out);
	*out = &mr->fid;
	return 0;
}

static int mr_regattr(struct kfid *fid, const struct kfi_mr_attr *attr, u64 flags,
		      struct kfid_mr **out)
{
	struct hmreg_kfi_domain *domain = domain_of(fid);
	unsigned int noio;
	int rc;

	rc = check(domain, attr, flags, out);
	if (rc)
		return rc;
	noio = memalloc_noio_save();
	rc = register_region(domain, attr, out);
	memalloc_noio_restore(noio);
	return rc;
}

/* attr: the type and the pieces. */
static int reg_pieces(struct kfid *fid, struct kfi_mr_attr attr, size_t count, u64 access,
		      u64 offset, u64 requested_key, u64 flags, struct kfid_mr **out, void *context)
{
	attr.iov_count = count;
	attr.access = access;
	attr.offset = offset;
	attr.requested_key = requested_key;
	attr.context = context;
	return mr_regattr(fid, &attr, flags, out);
}

static int mr_regv(struct kfid *fid, const struct kvec *iov, size_t count, u64 access, u64 offset,
		   u64 requested_key, u64 flags, struct kfid_mr **out, void *context)
{
	const struct kfi_mr_attr attr = {.type = KFI_KVEC, .mr_iov = iov};

	return reg_pieces(fid, attr, count, access, offset, requested_key, flags, out, context);
}

static int mr_reg(struct kfid *fid, const void *buf, size_t len, u64 access, u64 offset,
		  u64 requested_key, u64 flags, struct kfid_mr **out, void *context)
{
	struct kvec iov = {.iov_base = (void *)buf, .iov_len = len};

	return mr_regv(fid, &iov, 1, access, offset, requested_key, flags, out, context);
}

static int mr_regbv(struct kfid *fid, const struct bio_vec *biov, size_t count, u64 access,
		    u64 offset, u64 requested_key, u64 flags, struct kfid_mr **out, void *context)
{
	const struct kfi_mr_attr attr = {.type = KFI_BVEC, .mr_biov = biov};

	return reg_pieces(fid, attr, count, access, offset, requested_key, flags, out, context);
}

static int mr_regsgl(struct kfid *fid, const struct scatterlist *sgl, size_t count, u64 access,
		     u64 offset, u64 requested_key, u64 flags, struct kfid_mr **out, void *context)
{
	const struct kfi_mr_attr attr = {.type = KFI_SGL, .mr_sgl = sgl};

	return reg_pieces(fid, attr, count, access, offset, requested_key, flags, out, context);
}

struct kfi_ops_mr hmreg_kfi_mr_ops = {
	.size = sizeof(hmreg_kfi_mr_ops),
	.reg = mr_reg,
	.regv = mr_regv,
	.regbv = mr_regbv,
	.regattr = mr_regattr,
	.regsgl = mr_regsgl,
};

void hmreg_kfi_invalidated(struct kfid_mr *fid)
{
	struct hmreg_kfi_mr *mr = mr_of(&fid->fid);

	if (mr->key == KEY_VALID)
		mr->key = KEY_FREE;
}
EXPORT_SYMBOL_GPL(hmreg_kfi_invalidated);
