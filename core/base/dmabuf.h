/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A dmabuf's descriptor, whichever driver exported it.
 */
#ifndef HMREG_CORE_BASE_DMABUF_H
#define HMREG_CORE_BASE_DMABUF_H

#include <hmreg/hmreg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Its length in bytes, -1: unknown. A kernel dmabuf reports it through lseek(2); fakes in tests,
 * and kernels before 4.11, through fstat(2). */
int64_t dmabuf_length(int fd);

/* Its inode, which identifies it for as long as anything refers to it: the number of a descriptor
 * does not. False: the descriptor's inode is shared with others (dmabufs before Linux 5.3). */
bool dmabuf_identity(int fd, uint64_t *dev, uint64_t *ino);

/* A duplicate of a descriptor that the vendor keeps, close-on-exec; or a system call's error. */
int dmabuf_duplicate(int fd);

/* Takes over the descriptor fd for the range at offset: makes it close-on-exec, fills *out, or
 * closes it. -EPROTO: it does not cover the range, where a peer's access could reach foreign
 * memory; a system call's error. */
int dmabuf_take(int fd, uint64_t offset, size_t len, struct hmreg_dmabuf *out);

#endif
