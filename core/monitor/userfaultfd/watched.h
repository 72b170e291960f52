/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The mappings registered with the userfaultfd. Always whole mappings: to register a part would
 * split the mapping, which breaks the program's huge pages and its mremap(2) of the whole, and uses
 * up its limit of mappings. A mapping is watched from the first region in it until the last has
 * gone; a large one longer, since the kernel walks all its pages to end a watch.
 */
#ifndef HMREG_CORE_MONITOR_USERFAULTFD_WATCHED_H
#define HMREG_CORE_MONITOR_USERFAULTFD_WATCHED_H

#include "core/monitor/change/change_queue.h"
#include "core/monitor/userfaultfd/uffd.h"

#include <stdatomic.h>
#include <stddef.h>

/* A range of memory, in whole pages. */
struct span {
    uint64_t start, end;
};

#define WATCHING_KEPT    4 /* large mappings without a region that stay watched, at most */
#define WATCHING_LARGE   (1ull << 20) /* a mapping of at least this many bytes is large */
#define WATCHING_MOVES   64           /* a power of two */
#define WATCHING_REFUSED 8

struct watching {
    int fd; /* the userfaultfd */
    /* Must a part of [start, end) stay watched? */
    bool (*needed)(void *arg, uint64_t start, uint64_t end);
    void *arg;
    uint64_t page_size;
    struct owned_fd maps;         /* see maps_keep() */
    struct change_reader changes; /* reader of unmapped memory since the last look */
    struct span *spans;           /* watched ranges, by address, disjoint; parts may be unmapped */
    size_t count, room;
    struct span kept[WATCHING_KEPT]; /* large ranges without a region; the oldest first */
    unsigned kept_count;
    struct span refused[WATCHING_REFUSED]; /* ranges whose watch was refused */
    unsigned refused_count;
    struct span moves[WATCHING_MOVES]; /* new places of moved watched memory; the event thread
                                        * writes them */
    atomic_uint moves_end, moves_begin;
};

/* Only one thread at a time may call these, except watching_note_move(). */

void watching_open(struct watching *watching, int fd,
                   bool (*needed)(void *arg, uint64_t start, uint64_t end), void *arg);
/* Frees without ending any watch: call it when no memory is watched any more. */
void watching_close(struct watching *watching);
/* Call when every watch was ended. */
void watching_reset(struct watching *watching);

/* Watches the mappings that contain [start, end), any bytes. False: there is a hole, or the kernel
 * cannot. */
bool watching_add(struct watching *watching, uint64_t start, uint64_t end);
/* A region of [start, end) was deregistered. unmapped: its memory had been unmapped before. */
void watching_leave(struct watching *watching, uint64_t start, uint64_t end, bool unmapped);

/* Watched memory has moved to [start, end), and is still watched there. Called on one thread at a
 * time; takes no lock. The next watching_leave() stops watching it if no region needs it. */
void watching_note_move(struct watching *watching, uint64_t start, uint64_t end);

/* Ends the watch of one large mapping without a region, or of moved memory. False: no such large
 * mapping is left. The kernel walks the mapping's pages meanwhile. */
bool watching_tidy(struct watching *watching);

#endif
