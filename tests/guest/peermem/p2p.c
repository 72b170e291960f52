/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What NVIDIA's nvidia-peermem calls, on the memory of softgpu: here the functions of nvidia.ko
 * that make memory accessible to other devices, with the rules of its file nv-p2p; in core.c the
 * peer memory of ib_core. Built at test time with the headers of NVIDIA's module, which this tree
 * has not.
 *
 * As there, pages have their addresses on the bus from get_pages on, until put_pages or until the
 * callback of pages whose memory is freed has returned; a table that the callback has ended is
 * unknown to put_pages, which then succeeds.
 */
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "nv-p2p.h"

#include "p2p.h"
#include "softgpu.h"

struct pages {
    struct list_head node;
    struct nvidia_p2p_page_table table;
    struct nvidia_p2p_dma_mapping *mapping;
    struct import import;
    const struct mm_struct *mm;
    u64 start, end;            /* in the buffer */
    void (*freed)(void *data); /* NULL: they are persistent */
    void *data;
    struct nvidia_p2p_page page[];
};

static LIST_HEAD(all);
static DEFINE_MUTEX(lock);

static bool persistent = true;
module_param(persistent, bool, 0644);
MODULE_PARM_DESC(persistent, "the GPU has persistent pages; 0: it has not, as with MIG and vGPU");
static int tables, mappings, callbacks;
module_param(tables, int, 0444);
MODULE_PARM_DESC(tables, "page tables that exist");
module_param(mappings, int, 0444);
MODULE_PARM_DESC(mappings, "page tables mapped for a device so far");
module_param(callbacks, int, 0444);
MODULE_PARM_DESC(callbacks, "page tables whose memory was freed so far");

/* ---- page tables ------------------------------------------------------------------------ */

static void mapping_free(struct pages *pages)
{
    if (pages->mapping)
        kfree(pages->mapping->dma_addresses);
    kfree(pages->mapping);
    pages->mapping = NULL;
}

static void pages_free(struct pages *pages)
{
    mapping_free(pages);
    import_end(&pages->import);
    kfree(pages->table.pages);
    kvfree(pages);
}

static int fill(struct pages *pages)
{
    struct nvidia_p2p_page_table *table = &pages->table;
    static u8 uuid[NVIDIA_P2P_GPU_UUID_LEN];
    int rc;

    if (!memory_is_on_bus(pages->import.dmabuf))
        return -EINVAL;
    rc = import_begin(&pages->import);
    if (rc)
        return rc;
    table->pages = kcalloc((pages->end - pages->start) / SOFTGPU_NVIDIA_PAGE,
                           sizeof(table->pages[0]), GFP_KERNEL);
    if (!table->pages)
        return -ENOMEM;
    table->version = NVIDIA_P2P_PAGE_TABLE_VERSION;
    table->page_size = NVIDIA_P2P_PAGE_SIZE_64KB;
    table->gpu_uuid = uuid;
    for (u64 at = pages->start; at < pages->end; at += SOFTGPU_NVIDIA_PAGE) {
        table->pages[table->entries] = &pages->page[table->entries];
        pages->page[table->entries++].physical_address =
            sg_dma_address(pages->import.table->sgl) + at;
    }
    return 0;
}

static void enter(struct pages *pages)
{
    mutex_lock(&lock);
    list_add(&pages->node, &all);
    tables++;
    mutex_unlock(&lock);
}

static void leave(struct pages *pages)
{
    list_del(&pages->node);
    tables--;
}

static int get(u64 start, u64 length, struct nvidia_p2p_page_table **table, void (*freed)(void *),
               void *data)
{
    u64 count = length / SOFTGPU_NVIDIA_PAGE, offset = 0;
    struct dma_buf *dmabuf;
    struct pages *pages;
    int rc;

    *table = NULL;
    if (!length || (start | length) % SOFTGPU_NVIDIA_PAGE)
        return -EINVAL;
    dmabuf = memory_at(start, length, &offset);
    if (!dmabuf)
        return -EINVAL;
    pages = kvzalloc(struct_size(pages, page, count), GFP_KERNEL);
    if (!pages) {
        dma_buf_put(dmabuf);
        return -ENOMEM;
    }
    pages->import.dmabuf = dmabuf;
    pages->mm = current->mm;
    pages->start = offset;
    pages->end = offset + length;
    pages->freed = freed;
    pages->data = data;
    rc = fill(pages);
    if (rc) {
        pages_free(pages);
        return rc;
    }
    enter(pages);
    *table = &pages->table;
    return 0;
}

static int put(struct nvidia_p2p_page_table *table)
{
    struct pages *pages, *found = NULL;

    mutex_lock(&lock);
    list_for_each_entry(pages, &all, node) if (&pages->table == table) found = pages;
    if (found)
        leave(found);
    mutex_unlock(&lock);
    if (found)
        pages_free(found);
    return 0;
}

/* ---- memory is freed -------------------------------------------------------------------- */

static struct pages *take_freed(const struct dma_buf *dmabuf, const struct mm_struct *mm, u64 start,
                                u64 end)
{
    struct pages *pages, *found = NULL;

    mutex_lock(&lock);
    list_for_each_entry(pages, &all, node) if (pages->freed && pages->import.dmabuf == dmabuf &&
                                               pages->mm == mm && pages->start < end &&
                                               start < pages->end) found = pages;
    if (found) {
        leave(found);
        callbacks++;
    }
    mutex_unlock(&lock);
    return found;
}

void p2p_freed(const struct dma_buf *dmabuf, const struct mm_struct *mm, u64 start, u64 end)
{
    struct pages *pages;

    while ((pages = take_freed(dmabuf, mm, start, end))) {
        pages->freed(pages->data);
        pages_free(pages);
    }
}

/* ---- NVIDIA's functions ----------------------------------------------------------------- */

int nvidia_p2p_get_pages(uint64_t token, uint32_t space, uint64_t start, uint64_t length,
                         struct nvidia_p2p_page_table **table, void (*freed)(void *data),
                         void *data)
{
    return freed ? get(start, length, table, freed, data) : -EINVAL;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_get_pages);

int nvidia_p2p_get_pages_persistent(uint64_t start, uint64_t length,
                                    struct nvidia_p2p_page_table **table, uint32_t flags)
{
    if (flags)
        return -EINVAL;
    return persistent ? get(start, length, table, NULL, NULL) : -ENOTSUPP;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_get_pages_persistent);

int nvidia_p2p_put_pages(uint64_t token, uint32_t space, uint64_t start,
                         struct nvidia_p2p_page_table *table)
{
    return put(table);
}
EXPORT_SYMBOL_GPL(nvidia_p2p_put_pages);

int nvidia_p2p_put_pages_persistent(uint64_t start, struct nvidia_p2p_page_table *table,
                                    uint32_t flags)
{
    return flags ? -EINVAL : put(table);
}
EXPORT_SYMBOL_GPL(nvidia_p2p_put_pages_persistent);

int nvidia_p2p_dma_map_pages(struct pci_dev *peer, struct nvidia_p2p_page_table *table,
                             struct nvidia_p2p_dma_mapping **mapping)
{
    struct pages *pages = container_of(table, struct pages, table);
    struct nvidia_p2p_dma_mapping *made = kzalloc(sizeof(*made), GFP_KERNEL);

    *mapping = NULL;
    if (!made)
        return -ENOMEM;
    made->version = NVIDIA_P2P_DMA_MAPPING_VERSION;
    made->page_size_type = table->page_size;
    made->entries = table->entries;
    made->pci_dev = peer;
    made->dma_addresses = kcalloc(table->entries, sizeof(made->dma_addresses[0]), GFP_KERNEL);
    if (!made->dma_addresses) {
        kfree(made);
        return -ENOMEM;
    }
    for (u32 i = 0; i < table->entries; i++)
        made->dma_addresses[i] = table->pages[i]->physical_address;
    mutex_lock(&lock);
    mappings++;
    mutex_unlock(&lock);
    *mapping = pages->mapping = made;
    return 0;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_dma_map_pages);

int nvidia_p2p_dma_unmap_pages(struct pci_dev *peer, struct nvidia_p2p_page_table *table,
                               struct nvidia_p2p_dma_mapping *mapping)
{
    struct pages *pages = container_of(table, struct pages, table);

    if (!peer || !mapping)
        return -EINVAL;
    WARN_ON(mapping != pages->mapping || peer != mapping->pci_dev);
    mapping_free(pages);
    return 0;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_dma_unmap_pages);

/* These do nothing in NVIDIA's driver either: what the callback gets, goes when it has returned. */
int nvidia_p2p_free_page_table(struct nvidia_p2p_page_table *table)
{
    return 0;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_free_page_table);

int nvidia_p2p_free_dma_mapping(struct nvidia_p2p_dma_mapping *mapping)
{
    return 0;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_free_dma_mapping);
