/* SPDX-License-Identifier: GPL-2.0-only
 *
 * The parts of the module softgpu, for tests only:
 *   memory.c   /dev/softgpu: an exporter of dmabufs that stands for a GPU's memory
 *   bus.c      the addresses at which importers reach that memory; memory without pages
 *   regions.c  Soft-RoCE devices register dmabufs, and go while they are in use
 *   pageless.c Soft-RoCE reaches memory without pages
 *   peers.c    the switch that lets them register device memory by its address
 */
#ifndef SIMULATED_GUEST_KMOD_H
#define SIMULATED_GUEST_KMOD_H

#include <linux/atomic.h>
#include <linux/dma-buf.h>
#include <linux/list.h>
#include <linux/types.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
#define dma_buf_move_notify dma_buf_invalidate_mappings
#define move_notify         invalidate_mappings
#endif

struct ib_mr;
struct page;

int memory_init(void);
void memory_exit(void);

/* Takes a reference to the buffer that the single CPU mapping [start, start+length) of the current
 * process shows; *offset: where the range begins in it. NULL: it is no such mapping. */
struct dma_buf *memory_at(u64 start, u64 length, u64 *offset);

/* Is it softgpu's with addresses on the bus? */
bool memory_is_on_bus(const struct dma_buf *dmabuf);

int bus_init(void);
void bus_exit(void);

/* Memory without pages, by page number; 0: no more, or the machine has none. */
unsigned long bar_get(void);
void bar_put(unsigned long pfn);
bool bar_has(unsigned long pfn);
/* The kernel's address of a page of either kind. */
void *memory_bytes(unsigned long pfn);

/* Addresses for these pages, at which the functions below find them until bus_unmap(); 0: no
 * memory. After bus_lose() nothing answers at the addresses that these pages have so far. */
u64 bus_map(const unsigned long *pfn, unsigned long pages);
void bus_unmap(u64 start);
void bus_lose(const unsigned long *pfn);
/* NULL: no page is there. */
struct page *bus_page(u64 address);
/* -EFAULT: no map has the address. From any context. */
int bus_copy(u64 address, void *bytes, size_t length, bool write);

/* A region over memory without pages. */
struct pageless {
    struct list_head node;
    const struct ib_mr *mr;
    u32 lkey;
    u64 bus; /* where it begins */
};
/* A page to be registered in the place of each of a region's; an error, if it cannot have the
 * access. */
struct page *pageless_decoy(int access);
void pageless_decoy_free(struct page *decoy);
void pageless_enter(struct pageless *region, struct ib_mr *mr, u64 bus);
void pageless_leave(struct pageless *region);
void pageless_exit(void);

int regions_init(void);
void regions_exit(void);

/* A dmabuf, attached and mapped for Soft-RoCE as a hardware driver does. */
struct import {
    struct dma_buf *dmabuf;
    struct dma_buf_attachment *attachment;
    struct sg_table *table;
};
/* After a failure, too, import_end() is to be called; it puts the dmabuf. */
int import_begin(struct import *import);
void import_end(struct import *import);

extern atomic_t regions_alive; /* regions over dmabufs that exist */
extern atomic_t regions_moved; /* move notices received from exporters */

/* Memory that a driver of peer memory holds for one region. */
struct peers_lease {
    u64 bus; /* where the first page of the range is */
    bool revoked;
    void (*end)(struct peers_lease *lease);
};

/* A driver of peer memory that takes the place of our imitation: tests/guest/peermem. */
struct peers_driver {
    /* NULL: no client says that the range is its. */
    struct peers_lease *(*begin)(u64 start, u64 length);
    /* A process has unmapped [start, end) of a buffer. */
    void (*freed)(const struct dma_buf *dmabuf, const struct mm_struct *mm, u64 start, u64 end);
};
/* NULL: the imitation again. */
void peers_use(const struct peers_driver *driver);

/* Peers' accesses to the region fail from now on. Does not sleep. */
void regions_revoke(struct peers_lease *lease);

/* A process has unmapped [start, end) of a buffer: revokes what it registered there by address, if
 * the driver of peer memory is one that does. */
void regions_freed(const struct dma_buf *dmabuf, const struct mm_struct *mm, u64 start, u64 end);

int peers_init(void);
void peers_exit(void);
bool peers_enabled(void);

/* The driver of peer memory. */
enum peers_client {
    PEERS_SOFTGPU, /* takes any range; a region outlives the memory's mapping */
    PEERS_NV_MEM,  /* nvidia-peermem: whole pages of 64 KiB; freeing the memory revokes a region */
    PEERS_NV_MEM_NC, /* the same driver's default: freeing revokes nothing */
};
enum peers_client peers_client(void);

#endif
