/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Walks the kernel's list of this process's mappings in address order: with the PROCMAP_QUERY ioctl
 * if the kernel has it (Linux 6.11; about 1 us per query), else by parsing the text of
 * /proc/thread-self/maps. Allocates nothing and takes no lock.
 */
#ifndef HMREG_CORE_BASE_MAPS_H
#define HMREG_CORE_BASE_MAPS_H

#include "core/base/owned_fd.h"

#include <stdbool.h>
#include <stdint.h>

struct map {
    uint64_t start, end;
    bool readable, writable, executable;
    bool anonymous; /* private without a file, including MAP_ANONYMOUS | MAP_HUGETLB */
    /* At most one of these is set, too: */
    bool shared_anonymous; /* MAP_SHARED | MAP_ANONYMOUS: only forked children share it */
    bool device; /* a character device of /dev, not the kernel's own (zero, mem): the driver owns
                  * the pages */
};

/* A walk through the list, upwards. */
struct maps {
    int kept;            /* the shared descriptor of maps_keep(); -1: none, or it is lost */
    int fd;              /* the walk's own descriptor; -1: not opened */
    bool asks;           /* fd supports PROCMAP_QUERY */
    unsigned at, filled; /* position in text, bytes in text */
    unsigned lines;      /* bytes of the text that were read */
    char text[4096]; /* text read without PROCMAP_QUERY, as much as the kernel returns at once */
};

/* Opens a descriptor that all walks share, because opening the list takes several times as long as
 * a query. fd -1: the kernel does not have PROCMAP_QUERY, or the list cannot be opened; walks work
 * without it. A forked child must not use its parent's descriptor. */
struct owned_fd maps_keep(void);

/* From now on walks of this process read the text and make no ioctl. They make no memfd either, so
 * huge pages count as a file's. For sandboxes that end a process for these calls. */
void maps_read_only(void);
bool maps_is_read_only(void);
/* The number of mappings that the last walk through the text read, in any thread; 0: no walk read
 * the text. A mapping takes 0.4 us. */
unsigned maps_read(void);

/* kept: the shared descriptor, or NULL. If the application closed the shared descriptor, or opened
 * another process's list under its number, the walk detects that and opens its own. */
void maps_begin(struct maps *maps, const struct owned_fd *kept);
void maps_end(struct maps *maps);

/* Finds the mapping that contains addr, else the next one above. addr must not decrease during a
 * walk. 1: found; 0: none; or -errno, not recorded. */
int maps_next(struct maps *maps, uint64_t addr, struct map *out);

/* These read other texts of the kernel, after maps_begin(maps, NULL). maps_open(): 0 or -errno, not
 * recorded. maps_read_line() keeps the line's first size - 1 bytes: a file's name may have any
 * length and content. 1: read; 0: end of the text; or -errno. */
int maps_open(struct maps *maps, const char *path);
int maps_read_line(struct maps *maps, char *line, unsigned size);

#endif
