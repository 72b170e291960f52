/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#ifndef TESTS_GUEST_PEERMEM_P2P_H
#define TESTS_GUEST_PEERMEM_P2P_H

#include "kmod.h"

/* A process has unmapped [start, end) of a buffer: ends the page tables of that memory that are not
 * persistent. */
void p2p_freed(const struct dma_buf *dmabuf, const struct mm_struct *mm, u64 start, u64 end);

#endif
