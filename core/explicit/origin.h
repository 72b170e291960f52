/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A region's origin: the arguments of its registration. hmreg_suspend() ends the registration, and
 * the region stays without keys; hmreg_resume() registers it again from its origin. An explicit
 * region has its origin from its registration on, in a list of its domain, where hmreg_suspend()
 * finds it. A cached region's origin is made from its variant when needed.
 */
#ifndef HMREG_CORE_EXPLICIT_ORIGIN_H
#define HMREG_CORE_EXPLICIT_ORIGIN_H

#include "core/mr/layout.h"

#include <hmreg/suspend.h>

enum origin_state {
    ORIGIN_FILLING, /* a call is registering the region, and may already have returned it */
    ORIGIN_JOB,     /* a job registers the region */
    ORIGIN_OPEN,
    ORIGIN_VISITED, /* a visit holds it: its close waits */
    ORIGIN_CLOSING,
};

struct origin {
    struct origin *previous, *next; /* in the domain's list */
    struct hmreg_mr *mr;
    enum origin_state state; /* guarded by the list's lock */
    struct request request;  /* its pointers' data are copies, except hmem_data; the descriptor of a
                                dmabuf is -1 */
    struct hmreg_segment *segments; /* the caller's list, if the request has no ranges; else NULL */
    size_t segment_count;
    uint64_t piece_len; /* the range is cut into pieces of so many bytes; 0: one piece */
    bool callers;       /* piece_len is the caller's choice */
};

/* The origin of the request's ranges, or of the segments. NULL: no memory. Free it with free()
 * unless it was listed, or with origin_end(). */
struct origin *origin_new(const struct request *request, const struct hmreg_segment *segments,
                          size_t segment_count);

/* Does the region touch a suspended range other than this one? */
bool origin_is_suspended(const struct origin *origin, struct suspended *suspended,
                         const struct suspended_range *but);

/* Registers a suspended region anew. After a failure it is as before. Asks config, which may be
 * NULL, for descriptors. Errors of hmreg_resume(). */
int origin_resume(const struct origin *origin, struct hmreg_mr *mr,
                  const struct hmreg_resume_config *config);

/* Takes withdrawn members out of the region, which no other thread suspends or completes, and
 * registers it on their replacements. A running replacement registers on its member itself:
 * by_replacement. Skips members on which the registration fails, for instance of a caller's dmabuf,
 * or of a region bound to an endpoint. origin: NULL: no memory. -ENOMEM: it still has withdrawn
 * members. Keeps the thread's last error. */
int origin_complete(const struct origin *origin, struct hmreg_mr *mr, bool by_replacement);

/* ---- explicit regions ------------------------------------------------------------------- */

/* A pass over the regions of a domain. With no lock held, calls call() for each open region; until
 * it returns no other visit holds the region, and the region stays. */
struct visit {
    const struct suspended_range *range;      /* visit regions that touch it; NULL: all */
    bool (*wants)(const struct hmreg_mr *mr); /* NULL: all; called under a lock */
    int (*call)(struct hmreg_mr *mr, const struct origin *origin, void *context);
    void *context;
    bool shares; /* also regions that another visit holds; call() is short, with a lock held */
    bool held;   /* of the cached regions, only unpublished ones */
    bool waits;  /* set: other threads hold some regions that touch the range */
    bool busy;   /* set: other visits hold some wanted regions */
    int failed;  /* set: the fabric is busy with a cached region that no get holds */
};

/* Lists the region, whose registration begins, and checks that its memory was not suspended
 * since: -EAGAIN. -ENOMEM. After a failure too call origin_end(), unless the registration succeeds:
 * then origin_open(). */
int origin_begin(struct hmreg_mr *mr, struct origin *origin, enum origin_state state,
                 uint64_t since);
/* Call when the region is registered, or a busy close left it open. If a member of its group was
 * withdrawn or replaced meanwhile, it is completed first. */
void origin_open(struct hmreg_mr *mr);
/* Begins the region's close: waits until no other call holds it, and returns its origin, perhaps
 * NULL. -EBUSY: a call inside a member's fabric that does not return holds it. */
int origin_close(struct hmreg_mr *mr, struct origin **out);
/* Frees an ended region's origin, listed or not. NULL is accepted. */
void origin_end(struct hmreg_domain *domain, struct origin *origin);

/* Visits the explicit regions of the domain. Stops at the first failure, and returns it. -EBUSY: a
 * job is registering a region of the range. */
int origin_visit(struct hmreg_domain *domain, struct visit *visit);
/* Wakes the closes that wait for a holder: its member may not answer any more. */
void origin_wake(struct hmreg_domain *domain);

#endif
