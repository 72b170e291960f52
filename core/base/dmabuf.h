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

/* Its length in bytes, -1: unknown. */
int64_t dmabuf_length(int fd);

/* The kernel's answer about a descriptor. */
struct dmabuf_file {
    int64_t length; /* as dmabuf_length() */
    /* The inode identifies the dmabuf while anything refers to it; the number of a descriptor does
     * not. identified: false if other files share the inode (before Linux 5.3). */
    uint64_t dev, ino;
    bool identified;
};

/* Fills *out, since Linux 5.3 by one call of fstat(2). False: fd is no open descriptor. */
bool dmabuf_look(int fd, struct dmabuf_file *out);

/* A duplicate of a descriptor that the vendor keeps, close-on-exec; or a system call's error. */
int dmabuf_duplicate(int fd);

/* Takes over the descriptor fd for the range at offset: makes it close-on-exec and fills *out, or
 * closes it. -EPROTO: the dmabuf does not cover the range, so a peer could reach foreign memory; or
 * a system call's error. */
int dmabuf_take(int fd, uint64_t offset, size_t len, struct hmreg_dmabuf *out);

#endif
