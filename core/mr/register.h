/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * One registration: choose a path -> export -> register. What may take several is region.h's.
 */
#ifndef HMREG_CORE_MR_REGISTER_H
#define HMREG_CORE_MR_REGISTER_H

#include "core/mr/mr.h"
#include "core/mr/request.h"

/* Why each path refused a range. */
struct refusals {
    uint32_t count;
    struct hmreg_reason reasons[HMREG_PATH_COUNT - 1];
};

/* Registers what was resolved, as one. *out is freed with region_destroy_one(). Errors of
 * hmreg_mr_reg(). With whole also -EXDEV: one descriptor cannot name the range, but several might;
 * nothing is recorded but what is in *whole.
 * On a domain that completes registrations elsewhere *out is written before the fabric is called,
 * since the event may be read before the call returns; a failure puts the old value back. */
int region_create_one(struct hmreg_domain *domain, const struct request *request,
                      const struct resolved *found, struct refusals *whole, struct hmreg_mr **out);

/* Every path refused: keeps the reasons for hmreg_explain(). -EOPNOTSUPP; of host memory, which
 * has one path, that one's own error. */
int refuse_all(const struct hmreg_domain *domain, const struct resolved *found,
               const struct hmreg_reason *reasons, uint32_t count);

/* Sets what a region takes from its request and from its memory. */
void region_init(struct hmreg_mr *mr, struct hmreg_domain *domain, const struct request *request,
                 const struct resolved *found);

/* An empty region of a request, to be filled; NULL: no memory. Freed with region_free(). */
struct hmreg_mr *region_new(struct hmreg_domain *domain, const struct request *request,
                            const struct resolved *found);
void region_free(struct hmreg_mr *mr);

/* Registers one range of host memory by its own address into a region of the cache's, whose number
 * and node are set, after region_init(). Such a region needs nothing out of line, and keeps nothing
 * there. Never asynchronous. Errors of hmreg_mr_reg(). */
int region_make_plain(struct hmreg_domain *domain, const struct request *request,
                      const struct resolved *found, struct hmreg_mr *mr);

/* As region_destroy(), of what is no composite. */
int region_destroy_one(struct hmreg_mr *mr);

#endif
