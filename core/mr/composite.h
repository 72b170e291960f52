/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Several registrations behind one region.
 */
#ifndef HMREG_CORE_MR_COMPOSITE_H
#define HMREG_CORE_MR_COMPOSITE_H

#include "core/mr/register.h"

/* What a composite is made of. */
struct composite {
    struct request whole;                   /* but for its ranges */
    const struct resolved *found;           /* count, one for each piece */
    struct iovec *iov;                      /* count: what each piece covers */
    const struct hmreg_mr_dmabuf **dmabufs; /* count: what a piece is in, NULL: memory; or NULL */
    size_t count;
};

/* A region of several registrations; found is what the region as a whole is. -EOPNOTSUPP: they
 * would complete one by one in a queue of the caller's. */
int composite_create(struct hmreg_domain *domain, const struct composite *composite,
                     const struct resolved *found, struct hmreg_mr **out);

/* One range that no descriptor names as a whole, by the physical segments under it. whole: why,
 * kept with the region. -EXDEV: a segment has no borders either. */
int composite_split(struct hmreg_domain *domain, const struct request *request,
                    const struct resolved *found, const struct refusals *whole,
                    struct hmreg_mr **out);

/* As region_destroy(). Pieces closed before a busy one stay closed. */
int composite_destroy(struct hmreg_mr *mr);

#endif
