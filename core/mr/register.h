/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * One registration: chooses a path, exports a dmabuf if the path needs one, and registers. region.h
 * handles requests that may need several registrations.
 */
#ifndef HMREG_CORE_MR_REGISTER_H
#define HMREG_CORE_MR_REGISTER_H

#include "core/mr/mr.h"
#include "core/mr/request.h"

/* The reasons why paths refused a range. */
struct refusals {
    uint32_t count;
    struct hmreg_reason *reasons; /* count, on the heap */
};

/* Registers a resolved request as one registration. Free *out with region_destroy_one(). Errors of
 * hmreg_mr_reg(). If whole is not NULL, also -EXDEV: no single dmabuf contains the range, but
 * several might; then the caller owns the refusals in *whole and no error is recorded.
 * On an async domain *out is written before the fabric is called, since the event may be read
 * before that call returns; a failure restores the old value. */
int region_create_one(struct hmreg_domain *domain, const struct request *request,
                      const struct resolved *found, struct refusals *whole, struct hmreg_mr **out);

/* Fails because every path refused, and keeps the reasons for hmreg_explain(). Returns -EOPNOTSUPP;
 * for host memory, which has one path, that path's own error. */
int refuse_all(const struct hmreg_domain *domain, const struct resolved *found,
               const struct hmreg_reason *reasons, uint32_t count);

/* Allocates a region with the fields that come from its request and its memory, and without a node.
 * NULL: no memory. */
struct hmreg_mr *region_alloc(struct hmreg_domain *domain, const struct request *request,
                              const struct resolved *found);

/* Allocates an unregistered region for a request. NULL: no memory. Free it with region_free(). */
struct hmreg_mr *region_new(struct hmreg_domain *domain, const struct request *request,
                            const struct resolved *found);
void region_free(struct hmreg_mr *mr);

/* Registers one range of host memory by its own address, into a region of the caller's, or of the
 * cache's with its slot offset set; the caller has set its other fields. Such a
 * region needs no mr_ext, unless the fabric gives it another key than requested. Never
 * asynchronous. Errors of hmreg_mr_reg(). */
int region_make_plain(struct hmreg_domain *domain, const struct request *request,
                      const struct resolved *found, struct hmreg_mr *mr);

/* As region_destroy(), for a region that is not a composite. */
int region_destroy_one(struct hmreg_mr *mr);

#endif
