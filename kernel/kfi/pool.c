// SPDX-License-Identifier: GPL-2.0-only
/*
 * Allocates regions. A domain with a limit of regions allocates all of them when it is opened, each
 * with its elements and its ib_mr, so that its clients register and close without allocation.
 * Otherwise each registration allocates what it needs.
 */
#include <linux/slab.h>

#include "internal.h"

static void free_region(struct hmreg_kfi_mr *mr)
{
	kvfree(mr->own);
	kfree(mr);
}

static struct hmreg_kfi_mr *new_region(struct hmreg_kfi_domain *domain)
{
	struct hmreg_kfi_mr *mr = kzalloc(sizeof(*mr), GFP_KERNEL);

	if (!mr)
		return NULL;
	mr->domain = domain;
	mr->fid.fid.fclass = KFI_CLASS_MR;
	mr->fid.mem_desc = mr;
	init_completion(&mr->fid.fid.comp);
	init_completion(&mr->sent);
	init_completion(&mr->registered);
	INIT_LIST_HEAD(&mr->entry);
	INIT_LIST_HEAD(&mr->event);
	INIT_WORK(&mr->registration, NULL); /* region.c sets the function */
	return mr;
}

int hmreg_kfi_pool_drop_mr(struct hmreg_kfi_mr *mr)
{
	int rc = mr->mr ? ib_dereg_mr(mr->mr) : 0;

	if (rc)
		return rc;
	mr->mr = NULL;
	mr->key = KEY_FREE;
	return 0;
}

/* Gives the region an ib_mr for `pages` pages. An ib_mr with gaps serves all regions. */
int hmreg_kfi_pool_mr(struct hmreg_kfi_mr *mr, unsigned int pages)
{
	struct ib_mr *made;
	int rc;

	if (mr->mr && (!mr->gaps || mr->bridges))
		return 0;
	rc = hmreg_kfi_pool_drop_mr(mr);
	if (rc)
		return rc;
	made = ib_alloc_mr(mr->domain->pd, mr->gaps ? IB_MR_TYPE_SG_GAPS : IB_MR_TYPE_MEM_REG,
			   pages);
	if (IS_ERR(made))
		return PTR_ERR(made);
	mr->mr = made;
	mr->bridges = mr->gaps;
	return 0;
}

static int fill_pool(struct hmreg_kfi_domain *domain)
{
	unsigned int i;
	int rc;

	for (i = 0; i < domain->attr.regions; i++) {
		struct hmreg_kfi_mr *mr = new_region(domain);

		if (!mr)
			return -ENOMEM;
		list_add(&mr->entry, &domain->idle);
		rc = hmreg_kfi_allocate_elements(mr, domain->attr.pages);
		if (!rc)
			rc = hmreg_kfi_pool_mr(mr, domain->attr.pages);
		if (rc)
			return rc;
	}
	return 0;
}

int hmreg_kfi_pool_open(struct hmreg_kfi_domain *domain)
{
	unsigned int most = domain->device->attrs.max_fast_reg_page_list_len;
	int rc;

	spin_lock_init(&domain->lock);
	INIT_LIST_HEAD(&domain->idle);
	INIT_LIST_HEAD(&domain->undone);
	if (!domain->attr.pages)
		domain->attr.pages = most;
	if (domain->attr.pages > most)
		return -KFI_EINVAL;
	rc = fill_pool(domain);
	if (rc)
		hmreg_kfi_pool_close(domain);
	return rc;
}

/* Call after all regions were closed. After an error the remaining ones can be freed later. */
int hmreg_kfi_pool_close(struct hmreg_kfi_domain *domain)
{
	struct hmreg_kfi_mr *mr, *next;
	int rc;

	list_for_each_entry_safe(mr, next, &domain->idle, entry) {
		rc = hmreg_kfi_pool_drop_mr(mr);
		if (rc)
			return rc;
		list_del(&mr->entry);
		free_region(mr);
	}
	return 0;
}

struct hmreg_kfi_mr *hmreg_kfi_pool_get(struct hmreg_kfi_domain *domain)
{
	struct hmreg_kfi_mr *mr;

	if (!domain->attr.regions) {
		mr = new_region(domain);
		if (!mr)
			return ERR_PTR(-ENOMEM);
	} else {
		spin_lock(&domain->lock);
		mr = list_first_entry_or_null(&domain->idle, struct hmreg_kfi_mr, entry);
		if (mr)
			list_del_init(&mr->entry);
		spin_unlock(&domain->lock);
		if (!mr)
			return ERR_PTR(-KFI_EAGAIN);
	}
	atomic_inc(&domain->fid.fid.ref_cnt);
	return mr;
}

void hmreg_kfi_pool_put(struct hmreg_kfi_mr *mr)
{
	struct hmreg_kfi_domain *domain = mr->domain;

	if (domain->attr.regions) {
		spin_lock(&domain->lock);
		list_add(&mr->entry, &domain->idle);
		spin_unlock(&domain->lock);
	} else {
		free_region(mr);
	}
	atomic_dec(&domain->fid.fid.ref_cnt);
}
