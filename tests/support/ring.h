/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A NIC simulated by the kernel: io_uring's fixed buffers pin the pages that memory has when it is
 * registered, and reads and writes go to those pages for ever, even if the address is reused. So a
 * stale registration of host memory is as wrong here as on hardware: the bytes are lost. Any thread
 * may call.
 */
#ifndef TESTS_RING_H
#define TESTS_RING_H

#include <stddef.h>
#include <stdint.h>

#define RING_SLOTS 8192 /* pieces of memory that can be pinned at once */

struct ring;

/* 0 or a negative error number: the kernel has no io_uring, or does not permit it. */
int ring_open(struct ring **out);
void ring_close(struct ring *ring);

/* Pins [addr, addr+len) in *slot. */
int ring_pin(struct ring *ring, const void *addr, size_t len, unsigned *slot);
void ring_unpin(struct ring *ring, unsigned slot);

/* A peer writes to, or reads from, the pages that the slot has pinned for the address at. */
int ring_write(struct ring *ring, unsigned slot, uint64_t at, const void *bytes, size_t len);
int ring_read(struct ring *ring, unsigned slot, uint64_t at, void *bytes, size_t len);

#endif
