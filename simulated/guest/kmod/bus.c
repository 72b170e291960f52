/* SPDX-License-Identifier: GPL-2.0-only
 *
 * What a device on the bus sees of device memory. Each map of a buffer has addresses of its own,
 * which end with it and are never given out again, as each map of NVIDIA's exporter is a mapping of
 * its own in BAR1. An importer reaches bytes by these only.
 *
 * And memory that has no pages (struct page): a PCI BAR, that of QEMU's ivshmem device.
 */
#include <linux/bitmap.h>
#include <linux/io.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "kmod.h"

#define IVSHMEM_VENDOR 0x1af4
#define IVSHMEM_DEVICE 0x1110
#define IVSHMEM_BAR    2

struct map {
    struct list_head node;
    u64 start;
    unsigned long pages;
    const unsigned long *pfn;
    bool lost;
};

static LIST_HEAD(maps);
static u64 next = 1ull << 44; /* beyond any memory of the guest */
static DEFINE_SPINLOCK(lock); /* also while a map is used; taken in tasklets */

static struct pci_dev *card;
static u8 *bar;
static unsigned long bar_first, bar_pages; /* page numbers */
static unsigned long *bar_taken;

/* ---- the BAR ---------------------------------------------------------------------------- */

bool bar_has(unsigned long pfn)
{
    return pfn - bar_first < bar_pages;
}

/* The lowest, so that what was freed is used again at once. */
unsigned long bar_get(void)
{
    unsigned long flags, at;

    spin_lock_irqsave(&lock, flags);
    at = find_first_zero_bit(bar_taken, bar_pages);
    if (at < bar_pages)
        set_bit(at, bar_taken);
    spin_unlock_irqrestore(&lock, flags);
    if (at >= bar_pages)
        return 0;
    memset(bar + (at << PAGE_SHIFT), 0, PAGE_SIZE);
    return bar_first + at;
}

void bar_put(unsigned long pfn)
{
    clear_bit(pfn - bar_first, bar_taken);
}

void *memory_bytes(unsigned long pfn)
{
    return bar_has(pfn) ? bar + ((pfn - bar_first) << PAGE_SHIFT) : page_address(pfn_to_page(pfn));
}

static int bar_open(void)
{
    int rc = pci_enable_device(card);

    if (rc)
        return rc;
    bar_first = pci_resource_start(card, IVSHMEM_BAR) >> PAGE_SHIFT;
    bar_pages = pci_resource_len(card, IVSHMEM_BAR) >> PAGE_SHIFT;
    bar_taken = bitmap_zalloc(bar_pages, GFP_KERNEL);
    bar = bar_taken ? memremap(pci_resource_start(card, IVSHMEM_BAR), bar_pages << PAGE_SHIFT,
                               MEMREMAP_WB)
                    : NULL;
    return bar ? 0 : -ENOMEM;
}

static void bar_close(void)
{
    if (bar) {
        memunmap(bar);
        pci_disable_device(card);
    }
    bitmap_free(bar_taken);
    pci_dev_put(card);
}

int bus_init(void)
{
    int rc;

    card = pci_get_device(IVSHMEM_VENDOR, IVSHMEM_DEVICE, NULL);
    rc = card ? bar_open() : 0; /* without it there is no memory without pages */
    if (rc)
        bar_close();
    return rc;
}

void bus_exit(void)
{
    bar_close();
}

/* ---- maps ------------------------------------------------------------------------------- */

u64 bus_map(const unsigned long *pfn, unsigned long pages)
{
    struct map *map = kzalloc(sizeof(*map), GFP_KERNEL);
    unsigned long flags;

    if (!map)
        return 0;
    map->pages = pages;
    map->pfn = pfn;
    spin_lock_irqsave(&lock, flags);
    map->start = next;
    next += (u64)(pages + 1) << PAGE_SHIFT; /* nothing follows directly */
    list_add(&map->node, &maps);
    spin_unlock_irqrestore(&lock, flags);
    return map->start;
}

/* Under the lock. */
static struct map *map_at(u64 address)
{
    struct map *map;

    list_for_each_entry(map, &maps,
                        node) if (address - map->start < (u64)map->pages << PAGE_SHIFT) return map;
    return NULL;
}

void bus_unmap(u64 start)
{
    unsigned long flags;
    struct map *map;

    spin_lock_irqsave(&lock, flags);
    map = map_at(start);
    if (map)
        list_del(&map->node);
    spin_unlock_irqrestore(&lock, flags);
    kfree(map);
}

void bus_lose(const unsigned long *pfn)
{
    unsigned long flags;
    struct map *map;

    spin_lock_irqsave(&lock, flags);
    list_for_each_entry(map, &maps, node) if (map->pfn == pfn) map->lost = true;
    spin_unlock_irqrestore(&lock, flags);
}

struct page *bus_page(u64 address)
{
    struct page *page = NULL;
    unsigned long flags;
    struct map *map;

    spin_lock_irqsave(&lock, flags);
    map = map_at(address);
    if (map && !map->lost) {
        unsigned long pfn = map->pfn[(address - map->start) >> PAGE_SHIFT];

        page = bar_has(pfn) ? NULL : pfn_to_page(pfn);
    }
    spin_unlock_irqrestore(&lock, flags);
    return page;
}

/* Within a page. Where nothing answers, writes end and reads have all bits set, as on PCIe. */
static int copy_part(u64 address, void *bytes, size_t length, bool write)
{
    struct map *map = map_at(address);
    void *there;

    if (!map)
        return -EFAULT;
    if (map->lost) {
        if (!write)
            memset(bytes, 0xff, length);
        return 0;
    }
    there = memory_bytes(map->pfn[(address - map->start) >> PAGE_SHIFT]) + offset_in_page(address);
    if (write)
        memcpy(there, bytes, length);
    else
        memcpy(bytes, there, length);
    return 0;
}

int bus_copy(u64 address, void *bytes, size_t length, bool write)
{
    unsigned long flags;
    int rc = 0;

    while (length && !rc) {
        size_t part = min_t(size_t, length, PAGE_SIZE - offset_in_page(address));

        spin_lock_irqsave(&lock, flags);
        rc = copy_part(address, bytes, part, write);
        spin_unlock_irqrestore(&lock, flags);
        address += part;
        bytes += part;
        length -= part;
    }
    return rc;
}
