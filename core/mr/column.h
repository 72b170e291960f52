/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A column: the registrations of a group's region on one member. A member that is withdrawn loses
 * its column in regions that others use, and one that comes in its place gets one. What a withdrawn
 * member had registered stays registered, apart, until no caller's transfer can use it.
 *
 * Only keys move here, under the group's lock; nothing is registered, deregistered or waited for.
 */
#ifndef HMREG_CORE_MR_COLUMN_H
#define HMREG_CORE_MR_COLUMN_H

#include "core/group/group.h"
#include "core/mr/mr.h"

/* Does the region register on a domain that its group has withdrawn, or replaced? Any thread. */
bool column_is_outdated(const struct hmreg_mr *mr);
/* Takes out of the region what is outdated. Any thread that keeps the region registered. -ENOMEM.
 */
int column_withdraw(struct hmreg_mr *mr, size_t member);
/* The region is visible to others from now on, and a member may have been withdrawn before: takes
 * it out. */
void column_settle(struct hmreg_mr *mr);

/* Is the member withdrawn from the region, and to be replaced in it? */
bool column_is_wanted(const struct hmreg_mr *mr, size_t member);
/* Moves the member's column of these natives, whose `user` that ends, into the region, if it still
 * is wanted there. -EAGAIN: it is not, and nothing has changed. */
int column_enter(struct hmreg_mr *mr, size_t member, struct natives *made);
/* The region does without the member because of the thread's last error. */
void column_fail(struct hmreg_mr *mr, size_t member);

/* Natives that are being filled do without a member that is withdrawn. -ENOMEM. */
int column_leave_out(struct group *group, struct natives *natives, size_t member);
/* They do without all of these: fails with the first one's reason. */
int column_restore_reason(const struct natives *natives, uint64_t members);

/* What is left of withdrawn members, to be deregistered by the caller; and given back by it. */
struct natives *column_take_left(struct hmreg_mr *mr);
void column_leave(struct hmreg_mr *mr, struct natives *left);

#endif
