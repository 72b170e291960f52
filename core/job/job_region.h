/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The region of a job: one range, whose parts several threads register, in any order.
 */
#ifndef HMREG_CORE_JOB_JOB_REGION_H
#define HMREG_CORE_JOB_JOB_REGION_H

#include "core/mr/layout.h"

struct job_region;

/* Checks a range of any length, divides it and allocates its region; registers nothing. piece_len:
 * 0: the library chooses. any_key: it chooses all keys too. Free *out with job_region_free().
 * Errors of hmreg_job_start(). */
int job_region_new(struct hmreg_domain *domain, const struct hmreg_mr_attr *attr, uint64_t flags,
                   bool any_key, uint64_t piece_len, struct job_region **out);

/* The ranges of its parts. */
const struct ranges *job_region_pieces(const struct job_region *region);

/* Must part 0 be registered before the others, because it has a key of the caller's, which the
 * library must not choose for another? */
bool job_region_begins_alone(const struct job_region *region);

/* Registers a part, on all members. Other threads may register others at the same time. Errors of
 * hmreg_mr_regattr(); the text begins with the part. */
int job_region_make(struct job_region *region, size_t piece);

/* Once no thread is in job_region_make(), one of these: all parts are registered, publishes the
 * region, of which a member in the place of another may have to be completed first, and undoes it
 * where that fails; or deregisters those that are. Errors of job_region_make(). */
int job_region_publish(struct job_region *region, struct hmreg_mr **out);
void job_region_undo(struct job_region *region);

/* Frees all but the published region. NULL is accepted. */
void job_region_free(struct job_region *region);

#endif
