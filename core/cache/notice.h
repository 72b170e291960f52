/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * How a get learns of changes of the memory that it registers: whether the memory may be cached at
 * all, what watches it, and which checks hits need. Of a list each segment by itself.
 */
#ifndef HMREG_CORE_CACHE_NOTICE_H
#define HMREG_CORE_CACHE_NOTICE_H

#include "core/cache/cache_set.h"
#include "core/mr/layout.h"

/* One call of hmreg_mr_get() or hmreg_mr_get_attr(). */
struct get {
    struct cache_set *set;
    struct hmreg_domain *domain;
    struct thread_cache *tcache; /* the thread's; NULL: no memory, or check_puts */
    const struct request *request;
    struct layout *list; /* several segments or ranges; NULL: one range, the request's */
    struct cache_want want;
    uint64_t start, end;    /* the range that the caller asked for: want's, unless it covers */
    bool covers;            /* it registers more than that, and evicts nothing for it */
    struct resolved *found; /* the resolved memory, in this round; of a list that of each segment */
    bool read;              /* in this round: ... all that the monitor had reported by then */
    bool assumed;           /* in this round: that the process can access its memory as it asks */
    bool settled;           /* in this round: all earlier changes have reached the caches */
    size_t watched;         /* segments that the monitor watches although not all are */
    uint64_t since;         /* suspensions before the get: suspended_since() */
    /* The last of so many registrations that were discarded. It ends with the get: where memory is
     * set apart for a fork (ibv_fork_init(3)), registering it alone changes its mapping. */
    struct hmreg_mr *discarded;
    unsigned discards;
    const char *asks_why; /* if hits ask the runtime, why: hmreg_mr_explain()'s */
};

/* Is it host memory, pinned or not? */
static inline bool get_is_host(const struct get *get)
{
    enum hmreg_mem_kind kind = get->found->range.kind;

    return kind == HMREG_MEM_HOST || kind == HMREG_MEM_HOST_PINNED;
}

/* Is a runtime in use? One that is loaded now maps its memory where nothing was. */
static inline bool get_asks_runtimes(const struct get *get)
{
    return atomic_load(&get->domain->lib->runtimes.vendors);
}

/* Does the kernel tell after the range is watched, where that answers for the region's life,
 * whether its memory is mapped as HMREG_MR_ALLOCATED demands? The get need not ask before, and
 * assumes it: notice_changes() is false if it is not so, unless the fabric will refuse it. */
bool notice_asks_later(const struct get *get);
/* Does the thread know that the range is the system's, unless a runtime knows it? */
bool notice_is_known(const struct get *get);

/* The region's policy: the get's, but that a region which would not end with its memory is not kept
 * past its last put: of a caller's dmabuf of unknown memory unless the caller says so, of memory of
 * an iface without a runtime by its address in no case. */
enum hmreg_policy notice_policy(const struct get *get);

/* Is the region, of this policy, shared only while a get holds it, and then only by gets of exactly
 * its range? Then each of them holds all of its memory, which the program does not free meanwhile:
 * nothing has to be noticed. A get of a part would hold only that part of it. */
bool notice_is_whole(const struct get *get);

/* May the resolved memory be cached? sure: the caches know every change up to now. */
bool notice_can(const struct get *get, bool sure);

/* Before notice_changes(), with nothing held or pending that others wait for: does what may wait
 * for the dynamic linker's locks, whose holder may wait for this thread. */
void notice_prepare(struct get *get);

/* Before the registration: will every change of the entry's memory be reported? Also records which
 * checks hits need. False: the caller takes the entry out of the tree and calls notice_undo(). */
bool notice_changes(struct get *get, struct hmreg_mr *mr);
void notice_undo(struct get *get);

/* After it: while the entry exists, is the identity that its hits ask for no other memory's? */
bool notice_is_identity_sure(const struct get *get, const struct hmreg_mr *mr);

/* After it: has all memory still the identity that it was resolved with? */
bool notice_identity_is_valid(struct get *get);

#endif
