// SPDX-License-Identifier: GPL-2.0-only
/* Domains: see hmreg_kfi.h and docs/kernel.md. */
#include <linux/module.h>
#include <linux/slab.h>

#include "internal.h"

static struct hmreg_kfi_domain *domain_of(struct kfid *fid)
{
	return container_of(fid, struct hmreg_kfi_domain, fid.fid);
}

static int domain_close(struct kfid *fid)
{
	struct hmreg_kfi_domain *domain = domain_of(fid);
	int rc;

	hmreg_kfi_region_retry(domain);
	if (atomic_read(&fid->ref_cnt))
		return -KFI_EBUSY;
	rc = hmreg_kfi_events_settle(domain);
	if (!rc)
		rc = hmreg_kfi_pool_close(domain);
	if (rc)
		return rc;
	hmreg_kfi_events_unbind(domain);
	hmreg_kfi_queue_close(domain);
	kfree(domain);
	return 0;
}

static int domain_bind(struct kfid *fid, struct kfid *bfid, u64 flags)
{
	struct hmreg_kfi_domain *domain = domain_of(fid);

	if (!bfid || bfid->fclass != KFI_CLASS_EQ)
		return -KFI_EINVAL;
	if (flags != KFI_REG_MR)
		return -KFI_EBADFLAGS;
	if (domain->eq || atomic_read(&fid->ref_cnt))
		return -KFI_EBUSY;
	return hmreg_kfi_events_bind(domain, bfid);
}

static int domain_control(struct kfid *fid, int command, void *arg)
{
	return -KFI_ENOSYS;
}

static int domain_ops_open(struct kfid *fid, const char *name, u64 flags, void **ops, void *context)
{
	return -KFI_ENOSYS;
}

static struct kfi_ops domain_ops = {
	.size = sizeof(domain_ops),
	.close = domain_close,
	.bind = domain_bind,
	.control = domain_control,
	.ops_open = domain_ops_open,
};

static int check(struct ib_pd *pd, const struct hmreg_kfi_attr *attr)
{
	if (!pd || !rdma_is_port_valid(pd->device, attr->port))
		return -KFI_EINVAL;
	if (attr->qp && (attr->qp->pd != pd || attr->qp->qp_type != IB_QPT_RC))
		return -KFI_EINVAL;
	/* Only its owner polls such a queue, and not while a registration waits. */
	if (attr->qp && attr->qp->send_cq->poll_ctx == IB_POLL_DIRECT)
		return -KFI_EINVAL;
	if (!(pd->device->attrs.device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS))
		return -EOPNOTSUPP;
	return 0;
}

int hmreg_kfi_domain_open(struct ib_pd *pd, const struct hmreg_kfi_attr *given,
			  struct kfid_domain **out)
{
	struct hmreg_kfi_attr attr = {};
	struct hmreg_kfi_domain *domain;
	int rc;

	if (given)
		attr = *given;
	if (!attr.port)
		attr.port = 1;
	rc = out ? check(pd, &attr) : -KFI_EINVAL;
	if (rc)
		return rc;
	domain = kzalloc(sizeof(*domain), GFP_KERNEL);
	if (!domain)
		return -ENOMEM;
	domain->pd = pd;
	domain->device = pd->device;
	domain->attr = attr;
	domain->fid.fid.fclass = KFI_CLASS_DOMAIN;
	domain->fid.fid.ops = &domain_ops;
	init_completion(&domain->fid.fid.comp);
	domain->fid.mr = &hmreg_kfi_mr_ops;
	rc = hmreg_kfi_queue_open(domain);
	if (rc)
		goto free_domain;
	rc = hmreg_kfi_pool_open(domain);
	if (rc)
		goto close_queue;
	*out = &domain->fid;
	return 0;
close_queue:
	hmreg_kfi_queue_close(domain);
free_domain:
	kfree(domain);
	return rc;
}
EXPORT_SYMBOL_GPL(hmreg_kfi_domain_open);

MODULE_DESCRIPTION("Memory regions of kernel memory by kfabric's calls, on kernel verbs");
MODULE_AUTHOR("hmreg developers");
MODULE_VERSION("1");
MODULE_LICENSE("GPL");
