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
    ORIGIN_VISITED, /* hmreg_suspend() or _resume() has it: its close waits */
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

/* Registers the region, which is held, on one member of its group that came in the place of
 * another; see region_fill_member(). -EINVAL also: it is of a caller's dmabuf. -EOPNOTSUPP: its
 * rails are bound to endpoints. */
int origin_fill_member(const struct origin *origin, struct hmreg_mr *mr, size_t member);

/* ---- explicit regions ------------------------------------------------------------------- */

/* Lists the region, whose registration begins, and checks that its memory was not suspended
 * since: -EAGAIN. -ENOMEM. After a failure too call origin_end(), unless the registration succeeds:
 * then origin_open(). */
int origin_begin(struct hmreg_mr *mr, struct origin *origin, enum origin_state state,
                 uint64_t since);
void origin_open(struct hmreg_mr *mr);
/* The region is being closed: waits until no other call has it. Returns its origin. */
struct origin *origin_close(struct hmreg_mr *mr);
/* A busy close left the region open. */
void origin_reopen(struct origin *origin);
/* The region is gone: frees its origin, listed or not. NULL is accepted. */
void origin_end(struct hmreg_domain *domain, struct origin *origin);

/* Calls visit() for each open region of the domain that touches the range, or with NULL for all; no
 * lock is held. Stops at the first failure, and returns it. *waits: set to whether such regions are
 * being registered or closed. -EBUSY: a job registers one of the range. */
int origin_visit(struct hmreg_domain *domain, const struct suspended_range *range,
                 int (*visit)(struct hmreg_mr *mr, const struct origin *origin, void *context),
                 void *context, bool *waits);

/* Calls call() for each region of the domain that is open, visited or not, with the list's lock
 * held, which calls that register explicit regions wait for. */
void origin_each(struct hmreg_domain *domain, void (*call)(struct hmreg_mr *mr, void *context),
                 void *context);

#endif
