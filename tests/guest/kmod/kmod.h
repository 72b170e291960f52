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

int regions_init(void);
void regions_exit(void);

extern atomic_t regions_alive; /* regions over dmabufs that exist */
extern atomic_t regions_moved; /* move notices received from exporters */

int peers_init(void);
void peers_exit(void);
bool peers_enabled(void);

#endif
