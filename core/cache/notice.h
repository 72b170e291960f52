/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Decides how changes of a get's memory will be detected: whether the memory may be cached at all,
 * what watches it, and which checks hits need. For a list, each segment by itself.
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
    uint64_t start, end; /* the caller's range: want's, unless the get covers more */
    bool covers; /* the get registers more than the caller's range, and evicts nothing for it */
    struct resolved *found; /* the resolved memory, in this round; for a list, each segment's */
    bool read;              /* ... in this round: the number of changes that the monitor had
                               reported by then */
    bool assumed;           /* in this round: assumes that the process has the requested access */
    bool settled;           /* in this round: all earlier changes have reached the caches */
    size_t watched;         /* segments that the monitor watches although not all are */
    uint64_t since;         /* suspensions before the get: suspended_since() */
    /* The last discarded registration. It ends with the get: after ibv_fork_init(3), registering
     * memory itself changes its mapping. */
    struct hmreg_mr *discarded;
    unsigned discards;
    const char *asks_why; /* if hits ask the runtime, the reason for hmreg_mr_explain() */
};

/* Is it host memory, pinned or not? */
static inline bool get_is_host(const struct get *get)
{
    enum hmreg_mem_kind kind = get->found->range.kind;

    return kind == HMREG_MEM_HOST || kind == HMREG_MEM_HOST_PINNED;
}

/* Is a runtime in use? A runtime that is loaded now maps its memory at free addresses. */
static inline bool get_asks_runtimes(const struct get *get)
{
    return atomic_load(&get->domain->lib->runtimes.vendors);
}

/* Will the kernel say whether the range's memory is mapped as HMREG_MR_ALLOCATED demands, after the
 * range is watched, and as long as the region exists? Then the get need not ask before, and assumes
 * it. notice_watch_entry() returns false if it is not so, unless the fabric will refuse it. */
bool notice_asks_later(const struct get *get);
/* Does the thread know that the range is the system's, unless a runtime knows it? */
bool notice_is_known(const struct get *get);

/* The region's policy: the get's, except that a region which would not end with its memory ends
 * with its last put. A caller's dmabuf of unknown memory is kept only if the caller requests it;
 * memory of an iface without a runtime, by its address, never. */
enum hmreg_policy notice_policy(const struct get *get);

/* Is a region of this policy shared only while a get holds it, and only by gets of exactly its
 * range? Then each of them holds all of its memory, which the program does not free meanwhile: no
 * change must be detected. A get of a part would hold only that part. */
bool notice_is_whole(const struct get *get);

/* May the resolved memory be cached? host_cacheable: the caches know every change up to now. */
bool notice_may_cache(const struct get *get, bool host_cacheable);

/* Call before notice_watch_entry(), while this thread holds nothing that others wait for, a pending
 * entry included: makes the calls that may wait for the dynamic linker's locks, whose holder may
 * wait for this thread. */
void notice_prepare(struct get *get);

/* Before the registration: will every change of the entry's memory be reported? Also records which
 * checks hits need. False: the caller takes the entry out of the tree and calls notice_undo(). */
bool notice_watch_entry(struct get *get, struct hmreg_mr *mr);
void notice_undo(struct get *get);

/* After the registration: while the entry exists, can no other memory have the identity that its
 * hits ask for? */
bool notice_identity_is_unique(const struct get *get, const struct hmreg_mr *mr);

/* After the registration: has all memory still the identity that it was resolved with? */
bool notice_identity_is_valid(struct get *get);

#endif
