/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Checks the attributes of explicit and cached registrations.
 */
#ifndef HMREG_CORE_EXPLICIT_EXPLICIT_H
#define HMREG_CORE_EXPLICIT_EXPLICIT_H

#include "core/mr/request.h"

#include <stdbool.h>

/* A caller's attributes. The request refers to the other fields, and to the caller's memory. */
struct attributes {
    struct hmreg_mr_attr attr; /* a copy; fields beyond the caller's size are zero */
    struct iovec in_dmabuf;    /* the range of attr.dmabuf */
    struct dmabuf_file file;   /* attr.dmabuf's */
    struct request request;    /* without ranges if attr.segments is set */
};

static inline bool attributes_of_segments(const struct attributes *attributes)
{
    return attributes->attr.segments || attributes->attr.segment_count;
}

/* The request of checked attributes and flags, except for the range of a dmabuf. */
struct request attributes_request(const struct hmreg_mr_attr *attr, uint64_t flags);

/* Refuses a policy and endpoints, which only gets have. -EINVAL. */
int attributes_not_of_get(const struct attributes *attributes);

/* Checks attributes and flags for hmreg_mr_regattr(), and makes a request of them. Returns the
 * errors that it finds before the memory is resolved, except the length's, which layout_gather() or
 * the caller checks. *out is undefined after an error. */
int request_from_attr(const struct hmreg_domain *domain, const struct hmreg_mr_attr *callers,
                      uint64_t flags, struct attributes *out);

#endif
