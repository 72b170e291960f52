/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The kernel's list of this process's mappings, in the order of addresses: by the PROCMAP_QUERY
 * ioctl where there is one (Linux 6.11: a microsecond a question), by reading the list as text
 * elsewhere. Nothing is allocated and no lock is taken.
 */
#ifndef HMREG_CORE_BASE_MAPS_H
#define HMREG_CORE_BASE_MAPS_H

#include "core/base/owned_fd.h"

#include <stdbool.h>
#include <stdint.h>

struct map {
    uint64_t start, end;
    bool readable, writable, executable;
    bool anonymous; /* private, and of no file; huge pages of MAP_ANONYMOUS | MAP_HUGETLB too */
};

/* A walk up the list. */
struct maps {
    int kept; /* see maps_keep() */
    int fd;   /* this walk's own; -1: not opened */
    bool asks;
    unsigned at, filled;
    char text[2048]; /* of the list, where it is read */
};

/* A descriptor that walks may share, since opening the list costs several times what a question
 * does. None: this kernel's list is read as text, or cannot be opened; walks do without. A forked
 * child must not use its parent's. */
struct owned_fd maps_keep(void);

/* kept: its number. If the application has closed it, walks notice and do without. */
void maps_begin(struct maps *maps, int kept);
void maps_end(struct maps *maps);

/* The mapping that contains addr, or the next above it. addr is not below that of an earlier
 * question of this walk. 1: found; 0: none above; or -errno, nothing recorded. */
int maps_next(struct maps *maps, uint64_t addr, struct map *out);

#endif
