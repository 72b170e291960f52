/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Composites: regions that consist of several registrations, one for each piece.
 */
#ifndef HMREG_CORE_MR_COMPOSITE_H
#define HMREG_CORE_MR_COMPOSITE_H

#include "core/mr/register.h"

/* The pieces of a composite to be created. */
struct composite {
    struct request whole;                   /* the caller's request; its ranges are not used */
    struct resolved *found;                 /* count: the memory of each piece */
    struct iovec *iov;                      /* count: the range of each piece */
    const struct hmreg_mr_dmabuf **dmabufs; /* count: a piece's dmabuf, NULL: memory; or NULL */
    size_t count;
};

/* The request for one piece. */
struct request composite_piece(const struct composite *composite, size_t index);

/* Registers each piece and creates the region. found: the memory of the region as a whole.
 * -EOPNOTSUPP: the registrations would complete one by one in the caller's event queue. */
int composite_create(struct hmreg_domain *domain, const struct composite *composite,
                     const struct resolved *found, struct hmreg_mr **out);

/* The region of a composite without its pieces, each to be created in ext->pieces; destroy it with
 * composite_destroy(). -ENOMEM. */
int composite_new(struct hmreg_domain *domain, const struct composite *composite,
                  const struct resolved *found, struct hmreg_mr **out);

/* Finds the physical segments under a range of device memory: writes iov, found and count, which
 * the caller frees. -EXDEV, not recorded: the borders of a segment cannot be found. */
int composite_divide(struct hmreg_domain *domain, const struct iovec *range,
                     struct composite *composite);

/* Registers a range that no single dmabuf contains: one piece for each physical segment under it.
 * -EXDEV: the borders of a segment cannot be found. */
int composite_split(struct hmreg_domain *domain, const struct request *request,
                    const struct resolved *found, struct hmreg_mr **out);

/* As region_destroy(), also for a region with a rail on each member of a group. Parts deregistered
 * before a busy one stay deregistered. */
int composite_destroy(struct hmreg_mr *mr);

#endif
