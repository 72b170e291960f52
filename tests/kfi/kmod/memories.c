// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Kinds of kernel memory that the client registers. */
#include "client.h"

#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

/* Attaches to dmabufs: rxe, a network device's software, has no device that could. */
static struct platform_device *importer;

static void add_piece(struct region *region, void *base, size_t length)
{
    region->piece[region->pieces++] = (struct kvec){base, length};
    region->length += length;
}

static int make_kmalloc(struct region *region)
{
    region->kmalloced = kmalloc(32768, GFP_KERNEL);
    if (!region->kmalloced)
        return -ENOMEM;
    add_piece(region, region->kmalloced + 100, 12345);
    return 0;
}

static int make_vmalloc(struct region *region, u32 kind, size_t pages)
{
    void *base = region->vmalloced = vmalloc(pages * PAGE_SIZE);

    if (!base)
        return -ENOMEM;
    switch (kind) {
    case MEMORY_VMALLOC:
        add_piece(region, base + 5 * PAGE_SIZE + 3000, 3 * PAGE_SIZE - 3000);
        add_piece(region, base + PAGE_SIZE, 2 * PAGE_SIZE);
        add_piece(region, base, 77);
        break;
    case MEMORY_HALVES:
        add_piece(region, base + 16, 2000);
        add_piece(region, base + 2016, PAGE_SIZE);
        break;
    case MEMORY_GAP:
        add_piece(region, base, 100);
        add_piece(region, base + 2 * PAGE_SIZE + 8, 100);
        break;
    default:
        add_piece(region, base, pages * PAGE_SIZE);
    }
    return 0;
}

static int make_pages(struct region *region)
{
    int i;

    region->vectors = kcalloc(5, sizeof(*region->vectors), GFP_KERNEL);
    if (!region->vectors)
        return -ENOMEM;
    for (i = 0; i < 5; i++) {
        unsigned int offset = i ? 0 : 512, length = i == 4 ? 1000 : PAGE_SIZE - offset;

        region->pages[i] = alloc_page(GFP_KERNEL);
        if (!region->pages[i])
            return -ENOMEM;
        region->vectors[i] =
            (struct bio_vec){.bv_page = region->pages[i], .bv_len = length, .bv_offset = offset};
        add_piece(region, page_address(region->pages[i]) + offset, length);
    }
    region->count = 5;
    return 0;
}

static int make_list(struct region *region)
{
    struct scatterlist *sg;
    int i, rc = make_pages(region);

    if (!rc)
        rc = sg_alloc_table(&region->list, 5, GFP_KERNEL);
    if (rc)
        return rc;
    for_each_sg(region->list.sgl, sg, 5, i) sg_set_page(
        sg, region->vectors[i].bv_page, region->vectors[i].bv_len, region->vectors[i].bv_offset);
    region->count = ib_dma_map_sg(client_device, region->list.sgl, 5, DMA_BIDIRECTIONAL);
    return region->count > 0 ? 0 : -EIO;
}

static int make_user(struct region *region, u64 address, size_t length)
{
    size_t offset = offset_in_page(address), at = 0;
    int i, n = DIV_ROUND_UP(offset + length, PAGE_SIZE);

    if (n > PIECES)
        return -E2BIG;
    region->vectors = kcalloc(n, sizeof(*region->vectors), GFP_KERNEL);
    if (!region->vectors)
        return -ENOMEM;
    region->pinned =
        pin_user_pages_fast(address - offset, n, FOLL_WRITE | FOLL_LONGTERM, region->pages);
    if (region->pinned != n)
        return -EFAULT;
    for (i = 0; i < n; i++, offset = 0) {
        size_t part = min_t(size_t, PAGE_SIZE - offset, length - at);

        region->vectors[i] =
            (struct bio_vec){.bv_page = region->pages[i], .bv_len = part, .bv_offset = offset};
        add_piece(region, page_address(region->pages[i]) + offset, part);
        at += part;
    }
    region->count = n;
    return 0;
}

static int make_dmabuf(struct region *region, int fd)
{
    struct scatterlist *sg;
    int i;

    region->dmabuf = dma_buf_get(fd);
    if (IS_ERR(region->dmabuf)) {
        i = PTR_ERR(region->dmabuf);
        region->dmabuf = NULL;
        return i;
    }
    region->attachment = dma_buf_attach(region->dmabuf, &importer->dev);
    if (IS_ERR(region->attachment)) {
        i = PTR_ERR(region->attachment);
        region->attachment = NULL;
        return i;
    }
    region->attached = dma_buf_map_attachment_unlocked(region->attachment, DMA_BIDIRECTIONAL);
    if (IS_ERR(region->attached)) {
        i = PTR_ERR(region->attached);
        region->attached = NULL;
        return i;
    }
    region->vectors = kcalloc(region->attached->orig_nents, sizeof(*region->vectors), GFP_KERNEL);
    if (!region->vectors)
        return -ENOMEM;
    for_each_sg(region->attached->sgl, sg, region->attached->orig_nents, i)
    {
        region->vectors[i] =
            (struct bio_vec){.bv_page = sg_page(sg), .bv_len = sg->length, .bv_offset = sg->offset};
        region->length += sg->length;
    }
    region->count = i;
    return 0;
}

int memory_make(struct region *region, struct client_reg *reg)
{
    switch (reg->memory) {
    case MEMORY_KMALLOC:
    case MEMORY_ATTR:
        return make_kmalloc(region);
    case MEMORY_VMALLOC:
    case MEMORY_HALVES:
    case MEMORY_GAP:
        return make_vmalloc(region, reg->memory, 8);
    case MEMORY_COUNT:
        return make_vmalloc(region, MEMORY_COUNT, reg->length);
    case MEMORY_PAGES:
        return make_pages(region);
    case MEMORY_LIST:
        return make_list(region);
    case MEMORY_USER:
        return make_user(region, reg->address, reg->length);
    case MEMORY_DMABUF:
        return make_dmabuf(region, reg->fd);
    default:
        return -EINVAL;
    }
}

void memory_end(struct region *region)
{
    int i;

    if (region->attached)
        dma_buf_unmap_attachment_unlocked(region->attachment, region->attached, DMA_BIDIRECTIONAL);
    if (region->attachment)
        dma_buf_detach(region->dmabuf, region->attachment);
    if (region->dmabuf)
        dma_buf_put(region->dmabuf);
    if (region->list.sgl) {
        ib_dma_unmap_sg(client_device, region->list.sgl, 5, DMA_BIDIRECTIONAL);
        sg_free_table(&region->list);
    }
    if (region->pinned > 0)
        unpin_user_pages_dirty_lock(region->pages, region->pinned, true);
    for (i = 0; i < PIECES && region->pinned <= 0; i++)
        if (region->pages[i])
            __free_page(region->pages[i]);
    kfree(region->vectors);
    kfree(region->kmalloced);
    vfree(region->vmalloced);
    *region = (struct region){.index = region->index};
}

/* Writes the bytes, or counts those that differ. */
u64 memory_bytes(struct region *region, u32 seed, bool compare)
{
    u64 wrong = 0;
    size_t at = 0, i;
    int k;

    for (k = 0; k < region->pieces; k++) {
        u8 *bytes = region->piece[k].iov_base;

        for (i = 0; i < region->piece[k].iov_len; i++, at++) {
            u8 value = seed + at * 7;

            if (!compare)
                bytes[i] = value;
            else
                wrong += bytes[i] != value;
        }
    }
    return wrong;
}

int memories_init(void)
{
    importer = platform_device_register_simple("hmreg_kfi_importer", -1, NULL, 0);
    if (IS_ERR(importer))
        return PTR_ERR(importer);
    return dma_coerce_mask_and_coherent(&importer->dev, DMA_BIT_MASK(64));
}

void memories_exit(void)
{
    platform_device_unregister(importer);
}
