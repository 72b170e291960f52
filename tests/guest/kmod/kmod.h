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

/* A hold on the buffer that [start, start+length) of the current process is one CPU mapping of,
 * and where in it the range begins; NULL: it is none. */
struct dma_buf *memory_at(u64 start, u64 length, u64 *offset);

int regions_init(void);
void regions_exit(void);

extern atomic_t regions_alive; /* over dmabufs */
extern atomic_t regions_moved; /* notices that a buffer moves, from exporters */

int peers_init(void);
void peers_exit(void);
bool peers_enabled(void);

#endif
