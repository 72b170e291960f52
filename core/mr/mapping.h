/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A CPU mapping of a dmabuf: how a fabric that moves bytes with the CPU reaches device memory
 * (path `mapped`).
 */
#ifndef HMREG_CORE_MR_MAPPING_H
#define HMREG_CORE_MR_MAPPING_H

#include <hmreg/hmreg.h>

struct mapping {
    void *base;    /* NULL: none */
    size_t len;    /* bytes mapped, whole pages */
    uint64_t addr; /* where the exported range begins in it */
    int sync_fd;   /* the dmabuf, kept for the end of CPU access; -1: it has no such call */
};

/* Maps a dmabuf's range for reading and writing and begins CPU access. The descriptor stays the
 * caller's. Fails as a refusal: -EOPNOTSUPP, -ENOMEM, ... with *why. */
int mapping_open(const struct hmreg_dmabuf *dmabuf, struct mapping *out, struct hmreg_reason *why);
void mapping_close(struct mapping *mapping);

#endif
