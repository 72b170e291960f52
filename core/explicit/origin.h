/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * How a region was asked for, so that hmreg_resume() can register it again, after hmreg_suspend()
 * ended its registration and the region stayed, without keys. An explicit region has
 * its origin from its registration on, in a list of its domain by which hmreg_suspend() finds it;
 * that of a cached region is made of its variant when it is needed.
 */
#ifndef HMREG_CORE_EXPLICIT_ORIGIN_H
#define HMREG_CORE_EXPLICIT_ORIGIN_H

#include "core/mr/layout.h"

#include <hmreg/suspend.h>

enum origin_state {
    ORIGIN_FILLING, /* a call registers the region; its caller may have it already */
    ORIGIN_JOB,     /* a job does */
    ORIGIN_OPEN,
    ORIGIN_VISITED, /* a visit has it: its close waits */
    ORIGIN_CLOSING,
};

struct origin {
    struct origin *previous, *next; /* in the domain's list */
    struct hmreg_mr *mr;
    enum origin_state state; /* guarded by the list's lock */
    struct request request;  /* what it points to is copied, but for hmem_data; the descriptor of
                                a dmabuf is -1 */
    struct hmreg_segment
        *segments; /* the caller's list, of which request has no ranges; else NULL */
    size_t segment_count;
    uint64_t piece_len; /* the range is cut into pieces of so many bytes; 0: it is not */
    bool callers;       /* piece_len is the caller's choice */
};

/* What is asked for is the request's ranges, or the segments. NULL: no memory. Free it with free()
 * unless it was listed, or with origin_end(). */
struct origin *origin_new(const struct request *request, const struct hmreg_segment *segments,
                          size_t segment_count);

/* Does it touch a suspended range other than this one? */
bool origin_is_suspended(const struct origin *origin, struct suspended *suspended,
                         const struct suspended_range *but);

/* Registers the region anew; what it was is suspended. After a failure it is as it was. Asks
 * config, which may be NULL, for descriptors. Errors of hmreg_resume(). */
int origin_resume(const struct origin *origin, struct hmreg_mr *mr,
                  const struct hmreg_resume_config *config);

/* Takes withdrawn members out of the region, which no other thread suspends or completes, and
 * registers it on those that came in their place, but for one of a replacement that runs:
 * by_replacement. Not on one where that fails, such as of a caller's dmabuf, or one bound to an
 * endpoint. origin: NULL: no memory. -ENOMEM: it has withdrawn members yet. Keeps the thread's last
 * error. */
int origin_complete(const struct origin *origin, struct hmreg_mr *mr, bool by_replacement);

/* ---- explicit regions ------------------------------------------------------------------- */

/* A pass over the regions of a domain. With no lock held, call() is called for each that is open;
 * until it returns no other visit has the region, and the region stays. */
struct visit {
    const struct suspended_range *range;      /* that touch it; NULL: all */
    bool (*wants)(const struct hmreg_mr *mr); /* NULL: all; called under a lock */
    int (*call)(struct hmreg_mr *mr, const struct origin *origin, void *context);
    void *context;
    bool shares; /* also those that another visit has; call() is short, with a lock held */
    bool held;   /* of cached regions, unpublished ones only */
    bool waits;  /* set: of those that touch the range, other threads have some */
    bool busy;   /* set: of those that are wanted, other visits have some */
    int failed;  /* set: the fabric is busy with a cached region that no get holds */
};

/* Lists the region, whose registration begins, and checks that its memory was not suspended
 * since: -EAGAIN. -ENOMEM. After a failure too call origin_end(), unless the registration succeeds:
 * then origin_open(). */
int origin_begin(struct hmreg_mr *mr, struct origin *origin, enum origin_state state,
                 uint64_t since);
/* It is registered, or a busy close left it open. Where a member of its group was withdrawn or
 * replaced meanwhile, it is completed first. */
void origin_open(struct hmreg_mr *mr);
/* The region is being closed: waits until no other call has it, and sets its origin, which may be
 * NULL. -EBUSY: a member that does not answer has it. */
int origin_close(struct hmreg_mr *mr, struct origin **out);
/* The region is gone: frees its origin, listed or not. NULL is accepted. */
void origin_end(struct hmreg_domain *domain, struct origin *origin);

/* Visits the explicit regions of the domain. Stops at the first failure, and returns it. -EBUSY: a
 * job registers one of the range. */
int origin_visit(struct hmreg_domain *domain, struct visit *visit);
/* A region may not be left to what has it any more. */
void origin_wake(struct hmreg_domain *domain);

#endif
