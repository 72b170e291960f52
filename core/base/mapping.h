/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A CPU mapping of a dmabuf. Through it a fabric that moves data with the CPU accesses device
 * memory (path `mapped`).
 */
#ifndef HMREG_CORE_BASE_MAPPING_H
#define HMREG_CORE_BASE_MAPPING_H

#include <hmreg/hmreg.h>

struct mapping {
    void *base;    /* NULL: none */
    size_t len;    /* bytes mapped, whole pages */
    uint64_t addr; /* address of the exported range in the mapping */
    int sync_fd;   /* a duplicate of the dmabuf, to end CPU access; -1: it has no sync ioctl */
};

/* Maps a dmabuf's range for reading and writing and begins CPU access. The caller keeps the
 * descriptor. A failure (-EOPNOTSUPP, -ENOMEM, ...) fills *why and records no error. */
int mapping_open(const struct hmreg_dmabuf *dmabuf, struct mapping *out, struct hmreg_reason *why);
void mapping_close(struct mapping *mapping);

#endif
