/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The queue of memory changes: one ring of address ranges for the process. Hooks on libc's calls,
 * the thread that reads the kernel's events, and hmreg_invalidate() push to it; each domain's
 * caches read it at their own pace (cache_drain()).
 *
 * A producer takes no lock, allocates nothing, waits for no thread and preserves errno: it may run
 * inside malloc, in the dynamic linker, in a signal handler, in a child of vfork(2), or while every
 * other thread of the process is stopped. It pushes the range, and marks the gates of the domains
 * that the range may concern (gate.h), before the kernel changes the memory; no later hit takes the
 * fast path until the domain has read the range.
 *
 * A reader that cannot know what a producer pushed gets a change of all memory: the producers have
 * overtaken it by a whole ring, or a slot was still being written by an earlier producer.
 */
#ifndef HMREG_CORE_MONITOR_CHANGE_CHANGE_QUEUE_H
#define HMREG_CORE_MONITOR_CHANGE_CHANGE_QUEUE_H

#include "core/monitor/change/gate.h"

#include <stdint.h>

/* [start, end) has changed, or is about to change. Whole pages, except in a notice. */
struct change {
    uint64_t start, end;
    enum change_source source;
    bool unmapped;    /* the range was unmapped, so the kernel no longer watches it */
    uint32_t library; /* for notices: the monitor that got it */
};

/* Hooks and the kernel report changes of host memory only. */
static inline bool change_is_of_host_memory(const struct change *change)
{
    return change->source == CHANGE_HOOKS || change->source == CHANGE_KERNEL;
}

/* Pushes a change, sets GATE_PENDING in the gates it concerns, and wakes the reaper.
 * Async-signal-safe. */
void changes_push(const struct change *change);

/* The changes that the ring holds; a reader that is further behind gets CHANGE_LOST. */
#define CHANGES_SIZE 8192

/* The unfinished changes that a reader can skip and come back to. */
#define CHANGES_OPEN 8

/* One reader's position in the queue. One thread uses it at a time. */
struct change_reader {
    uint64_t next;    /* ticket of the first change it has not read */
    uint64_t refused; /* `refused` at the last read */
    unsigned open_count;
    uint64_t open[CHANGES_OPEN]; /* open tickets */
};

/* Starts a reader at the next push. */
void changes_start(struct change_reader *reader);

/* Reads the next change. False: there is none, or its producer has not finished, and will mark the
 * gate when it has. */
bool changes_next(struct change_reader *reader, struct change *out);

/* The ticket of the next push: a reader whose `next` has reached it has read, or noted as open,
 * every change pushed before. */
uint64_t changes_end(void);

#endif
