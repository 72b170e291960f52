/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The queue of changes of memory: one ring of ranges for the process. Hooks on libc's calls, the
 * thread that reads the kernel's events, and hmreg_invalidate() push to it; each domain's caches
 * read it at their own pace (cache_drain()).
 *
 * A producer takes no lock, allocates nothing, waits for no thread and keeps errno: it may run
 * inside malloc, in the dynamic linker, in a signal handler, in a child of vfork(2), or while every
 * other thread of the process is stopped. It pushes the range and marks the gates of the domains
 * that the range may concern (gate.h) before the kernel changes the memory, so no later hit takes
 * the fast path until the domain has read the range.
 *
 * A reader that cannot know what a producer meant to say gets a change of all memory: the producers
 * have overtaken it by a whole ring, or a slot was still being written by an earlier producer.
 */
#ifndef HMREG_CORE_MONITOR_CHANGE_QUEUE_H
#define HMREG_CORE_MONITOR_CHANGE_QUEUE_H

#include "core/monitor/gate.h"

#include <stdint.h>

/* [start, end) changed, or is about to. Whole pages, but for those of a notice. */
struct change {
    uint64_t start, end;
    enum change_source source;
    bool unmapped;    /* the kernel has stopped watching what is in it */
    uint32_t library; /* of a notice: the monitor it was given to */
};

/* Hooks and the kernel know nothing of devices' memory. */
static inline bool change_is_of_host_memory(const struct change *change)
{
    return change->source == CHANGE_HOOKS || change->source == CHANGE_KERNEL;
}

/* Pushes a change, marks the gates it concerns as pending, and wakes the reaper. Async-signal-safe.
 */
void changes_push(const struct change *change);

/* How many changes the ring holds: a reader that is further behind gets CHANGE_LOST. */
#define CHANGES_SIZE 8192

/* Changes that a reader has passed before their producers had finished writing them. */
#define CHANGES_OPEN 8

/* One reader's place in the queue. One thread uses it at a time. */
struct change_reader {
    uint64_t next;    /* ticket of the first change it has not looked at */
    uint64_t refused; /* producers that had found no slot when it last looked */
    unsigned open_count;
    uint64_t open[CHANGES_OPEN]; /* tickets */
};

/* The reader will get what is pushed from now on. */
void changes_start(struct change_reader *reader);

/* The next change. False: there is none; the producer of one that is being pushed marks the gate
 * when it has finished. */
bool changes_next(struct change_reader *reader, struct change *out);

/* The ticket of the next push: a reader whose `next` has reached it has looked at every change that
 * was pushed before. */
uint64_t changes_end(void);

#endif
