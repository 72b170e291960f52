/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Which mappings the userfaultfd watches. Always whole ones: to watch a part would split the
 * mapping, and with it the program's huge pages, its mremap(2) of the whole and its account of
 * mappings. A mapping is watched from the first region in it until the last has gone; a large one
 * longer, since the kernel walks all its pages to end a watch.
 */
#ifndef HMREG_CORE_MONITOR_USERFAULTFD_WATCHED_H
#define HMREG_CORE_MONITOR_USERFAULTFD_WATCHED_H

#include "core/monitor/change_queue.h"
#include "core/monitor/userfaultfd/uffd.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

/* A piece of memory, in whole pages. */
struct span {
    uint64_t start, end;
};

#define WATCHING_KEPT    4            /* large mappings without a region that stay watched */
#define WATCHING_LARGE   (1ull << 20) /* bytes from which on a mapping is large */
#define WATCHING_MOVES   64           /* a power of two */
#define WATCHING_REFUSED 8

struct watching {
    int fd; /* the userfaultfd */
    /* Must any of [start, end) stay watched? Called under the lock. */
    bool (*needed)(void *arg, uint64_t start, uint64_t end);
    void *arg;
    uint64_t page_size;
    struct owned_fd maps;         /* see maps_keep() */
    pthread_mutex_t lock;         /* of what follows, but for moves */
    struct change_reader changes; /* what was unmapped since the last look */
    struct span *spans; /* what is watched, by address, disjoint; some of it may be gone */
    size_t count, room;
    struct span kept[WATCHING_KEPT]; /* the oldest first */
    unsigned kept_count;
    struct span refused[WATCHING_REFUSED]; /* where a region was to be, and is not */
    unsigned refused_count;
    struct span moves[WATCHING_MOVES]; /* where watched memory went, from the thread that reads */
    atomic_uint moves_end, moves_begin;
};

void watching_open(struct watching *watching, int fd,
                   bool (*needed)(void *arg, uint64_t start, uint64_t end), void *arg);
/* Nothing is needed any more: ends every watch. */
void watching_close(struct watching *watching);
/* Ends no watch, only frees: in a forked child, and where nothing was watched. */
void watching_forget(struct watching *watching);

/* Watches the mappings that hold [start, end), any bytes. False: a hole, or the kernel cannot. */
bool watching_add(struct watching *watching, uint64_t start, uint64_t end);
/* A region of [start, end) is gone; unmapped: and its memory before it. */
void watching_leave(struct watching *watching, uint64_t start, uint64_t end, bool unmapped);

/* Watched memory has moved to [start, end), and is still watched there. On one thread at a time;
 * takes no lock. What is found there without a region is left at the next watching_leave(). */
void watching_note_move(struct watching *watching, uint64_t start, uint64_t end);

/* Ends the watch of one large mapping that has no region, or of what has moved. False: there is
 * none any more. The kernel walks the mapping's pages, and calls above wait. */
bool watching_tidy(struct watching *watching);

#endif
