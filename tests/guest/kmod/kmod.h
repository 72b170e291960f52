/* SPDX-License-Identifier: GPL-2.0-only
 *
 * The parts of the module softgpu, for tests only:
 *   memory.c   /dev/softgpu: an exporter of dmabufs that stands for a GPU's memory
 *   regions.c  Soft-RoCE devices register dmabufs, and go while they are in use
 *   peers.c    the switch that lets them register device memory by its address
 */
#ifndef TESTS_GUEST_KMOD_H
#define TESTS_GUEST_KMOD_H

#include <linux/atomic.h>
#include <linux/dma-buf.h>
#include <linux/types.h>

int memory_init(void);
void memory_exit(void);

/* Takes a reference to the buffer that the single CPU mapping [start, start+length) of the current
 * process shows; *offset: where the range begins in it. NULL: it is no such mapping. */
struct dma_buf *memory_at(u64 start, u64 length, u64 *offset);

/* Lies [start, end) of a buffer in whole pages of NVIDIA's? */
bool memory_has_nvidia_pages(const struct dma_buf *dmabuf, u64 start, u64 end);

int regions_init(void);
void regions_exit(void);

extern atomic_t regions_alive; /* regions over dmabufs that exist */
extern atomic_t regions_moved; /* move notices received from exporters */

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
