// SPDX-License-Identifier: GPL-2.0-only
/*
 * The memory of a region as a list of DMA addresses. Kernel addresses and bio vectors are mapped
 * for the device here; a scatterlist is mapped, and stays mapped, by the client, and is copied.
 */
#include <linux/dma-map-ops.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "internal.h"

int hmreg_kfi_allocate_elements(struct hmreg_kfi_mr *mr, size_t count)
{
	mr->own = kvmalloc_array(count, sizeof(*mr->own), GFP_KERNEL);
	if (!mr->own)
		return -ENOMEM;
	mr->own_max = count;
	return 0;
}

/* Makes mr->own a list of `count` elements. */
static int make_elements(struct hmreg_kfi_mr *mr, size_t count)
{
	int rc;

	if (!mr->domain->attr.regions) {
		if (count > INT_MAX / sizeof(*mr->own))
			return -E2BIG;
		rc = hmreg_kfi_allocate_elements(mr, count);
		if (rc)
			return rc;
	}
	if (count > mr->own_max)
		return -E2BIG;
	sg_init_table(mr->own, count);
	return 0;
}

static struct page *page_of(const void *address)
{
	struct page *page;

	if (!is_vmalloc_addr(address))
		return virt_addr_valid(address) ? virt_to_page(address) : NULL;
	page = vmalloc_to_page(address);
	/* Device registers, mapped by ioremap(), have no struct page. */
	return page && pfn_valid(page_to_pfn(page)) ? page : NULL;
}

/* One element for each page: neighbours in the kernel's address space are not in physical memory.
 */
static struct scatterlist *elements_of_range(struct scatterlist *sg, const void *address,
					     size_t length)
{
	while (length) {
		size_t offset = offset_in_page(address);
		size_t part = min_t(size_t, PAGE_SIZE - offset, length);
		struct page *page = page_of(address);

		if (!page)
			return ERR_PTR(-KFI_EINVAL);
		sg_set_page(sg, page, part, offset);
		sg = sg_next(sg);
		address += part;
		length -= part;
	}
	return sg;
}

static int fill_from_kvec(struct hmreg_kfi_mr *mr, const struct kvec *iov, size_t count)
{
	struct scatterlist *sg;
	size_t pages = 0, i;
	uintptr_t end;
	int rc;

	for (i = 0; i < count; i++) {
		uintptr_t start = (uintptr_t)iov[i].iov_base;

		if (!iov[i].iov_len || check_add_overflow(start, iov[i].iov_len, &end))
			return -KFI_EINVAL;
		pages += DIV_ROUND_UP(offset_in_page(start) + iov[i].iov_len, PAGE_SIZE);
	}
	rc = make_elements(mr, pages);
	if (rc)
		return rc;
	sg = mr->own;
	for (i = 0; i < count; i++) {
		sg = elements_of_range(sg, iov[i].iov_base, iov[i].iov_len);
		if (IS_ERR(sg))
			return PTR_ERR(sg);
	}
	mr->own_mapped = pages;
	return 0;
}

static int fill_from_bvec(struct hmreg_kfi_mr *mr, const struct bio_vec *vec, size_t count)
{
	struct scatterlist *sg;
	size_t i;
	int rc;

	rc = make_elements(mr, count);
	if (rc)
		return rc;
	for (i = 0, sg = mr->own; i < count; i++, sg = sg_next(sg)) {
		if (!vec[i].bv_page || !vec[i].bv_len)
			return -KFI_EINVAL;
		sg_set_page(sg, vec[i].bv_page, vec[i].bv_len, vec[i].bv_offset);
	}
	mr->own_mapped = count;
	return 0;
}

static int fill_from_list(struct hmreg_kfi_mr *mr, const struct scatterlist *list, size_t count)
{
	struct scatterlist *from = (struct scatterlist *)list, *sg;
	size_t i;
	int rc;

	rc = make_elements(mr, count);
	if (rc)
		return rc;
	for (i = 0, sg = mr->own; i < count; i++, sg = sg_next(sg), from = sg_next(from)) {
		if (!from)
			return -KFI_EINVAL;
		sg_dma_address(sg) = sg_dma_address(from);
		sg_dma_len(sg) = sg_dma_len(from);
	}
	mr->count = count;
	return 0;
}

static int fill(struct hmreg_kfi_mr *mr, const struct kfi_mr_attr *attr)
{
	switch (attr->type) {
	case KFI_KVEC:
		return fill_from_kvec(mr, attr->mr_iov, attr->iov_count);
	case KFI_BVEC:
		return fill_from_bvec(mr, attr->mr_biov, attr->iov_count);
	case KFI_SGL:
		return fill_from_list(mr, attr->mr_sgl, attr->iov_count);
	default:
		return -KFI_EINVAL;
	}
}

/* Does the device access a copy of the memory (bounce buffer)? That would need a sync before and
 * after each access, but the time of a peer's access is unknown.
 */
static bool is_bounced(struct ib_device *device, dma_addr_t address)
{
	struct device *dev = device->dma_device;

	if (ib_uses_virt_dma(device) || !dma_need_sync(dev, address))
		return false;
#ifndef HAVE_DMA_SKIP_SYNC
	/* Older kernels report true for every device behind an IOMMU; only external (untrusted)
	 * devices use copies.
	 */
	if (device_iommu_mapped(dev) && get_dma_ops(dev) && dev_is_dma_coherent(dev))
		return dev_is_pci(dev) && to_pci_dev(dev)->untrusted;
#endif
	return true;
}

static bool bridges_gaps(const struct ib_device *device)
{
#ifdef HAVE_IBK_SG_GAPS_REG
	return device->attrs.kernel_cap_flags & IBK_SG_GAPS_REG;
#else
	return device->attrs.device_cap_flags & IB_DEVICE_SG_GAPS_REG;
#endif
}

/* A region for peers has one key and one range of addresses. So it has only whole pages between its
 * first and its last byte, except on devices that bridge gaps.
 */
static int check_size(struct hmreg_kfi_mr *mr, u64 pages)
{
	const bool is_remote = hmreg_kfi_is_remote(mr->access);

	if (is_remote && mr->gaps) {
		if (!bridges_gaps(mr->domain->device))
			return -KFI_EINVAL;
		/* The device lists elements instead of pages. */
		pages = max_t(u64, pages, mr->count);
	}
	if (is_remote && pages > mr->domain->device->attrs.max_fast_reg_page_list_len)
		return -E2BIG;
	if (mr->domain->attr.regions && pages > mr->domain->attr.pages)
		return -E2BIG;
	mr->pages = pages;
	return 0;
}

/* Counts bytes and pages. */
static int measure(struct hmreg_kfi_mr *mr)
{
	struct scatterlist *sg;
	u64 last = 0, pages = 0;
	int i;

	mr->length = 0;
	mr->gaps = false;
	for_each_sg(mr->own, sg, mr->count, i) {
		u64 start = sg_dma_address(sg), end = start + sg_dma_len(sg);
		bool follows = i && start == last;

		if (start == end)
			return -KFI_EINVAL;
		if (is_bounced(mr->domain->device, start))
			return -EOPNOTSUPP;
		if (i && !follows && offset_in_page(start | last))
			mr->gaps = true;
		pages += (PAGE_ALIGN(end) - (follows ? PAGE_ALIGN(start) : start & PAGE_MASK)) >>
			 PAGE_SHIFT;
		mr->length += sg_dma_len(sg);
		last = end;
	}
	return check_size(mr, pages);
}

/* The device reads memory that this side sends or writes, or that peers read; it writes other
 * memory.
 */
static enum dma_data_direction direction_of(u64 access)
{
	bool reads = access & (KFI_SEND | KFI_WRITE | KFI_REMOTE_READ);
	bool writes = access & (KFI_RECV | KFI_READ | KFI_REMOTE_WRITE);

	if (reads && writes)
		return DMA_BIDIRECTIONAL;
	return reads ? DMA_TO_DEVICE : DMA_FROM_DEVICE;
}

int hmreg_kfi_map(struct hmreg_kfi_mr *mr, const struct kfi_mr_attr *attr)
{
	int rc;

	mr->direction = direction_of(mr->access);
	rc = fill(mr, attr);
	if (!rc && mr->own_mapped) {
		mr->count =
			ib_dma_map_sg(mr->domain->device, mr->own, mr->own_mapped, mr->direction);
		if (mr->count <= 0) {
			mr->own_mapped = 0;
			rc = -EIO;
		}
	}
	return rc ? rc : measure(mr);
}

void hmreg_kfi_unmap(struct hmreg_kfi_mr *mr)
{
	if (mr->own_mapped)
		ib_dma_unmap_sg(mr->domain->device, mr->own, mr->own_mapped, mr->direction);
	mr->own_mapped = 0;
}

/* Describes a region with local rights only: its elements, with the key of all memory. */
static int sge_of_list(struct hmreg_kfi_mr *mr, size_t offset, size_t length, struct ib_sge *sge,
		       int max)
{
	struct scatterlist *sg;
	int used = 0, i;

	for_each_sg(mr->own, sg, mr->count, i) {
		size_t part, have = sg_dma_len(sg);

		if (offset >= have) {
			offset -= have;
			continue;
		}
		if (used == max)
			return -E2BIG;
		part = min(have - offset, length);
		sge[used].addr = sg_dma_address(sg) + offset;
		sge[used].length = part;
		sge[used++].lkey = mr->domain->pd->local_dma_lkey;
		offset = 0;
		length -= part;
		if (!length)
			break;
	}
	return used;
}

int hmreg_kfi_sge(void *desc, size_t offset, size_t length, struct ib_sge *sge, int max)
{
	struct hmreg_kfi_mr *mr = desc;

	if (!mr || !sge || !length || offset > mr->length || length > mr->length - offset)
		return -KFI_EINVAL;
	if (!hmreg_kfi_is_remote(mr->access))
		return sge_of_list(mr, offset, length, sge, max);
	if (mr->key != KEY_VALID)
		return -KFI_EINVAL;
	if (max < 1 || length > U32_MAX)
		return -E2BIG;
	sge->addr = mr->fid.iova + offset;
	sge->length = length;
	sge->lkey = mr->mr->lkey;
	return 1;
}
EXPORT_SYMBOL_GPL(hmreg_kfi_sge);
