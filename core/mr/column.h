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

/* Is the region registered on what its group's members are now? No: it is on one that was
 * withdrawn, or lacks one that came in its place and was not tried. Any thread that keeps the
 * region. */
bool column_is_current(const struct hmreg_mr *mr);
/* The same of a thread that makes the region visible, or gives it back to other threads, under the
 * lock by which a withdrawal or a replacement finds the region: so one of them sees the other. True
 * also: a replacement that runs will go through the regions again. */
bool column_may_publish(const struct hmreg_mr *mr);
/* Takes out of the region what was withdrawn. Any thread that keeps the region. -ENOMEM. */
int column_settle(struct hmreg_mr *mr);

/* Does the region lack a member that came in the place of another, and was not tried yet? Then the
 * number of the replacement, else 0. A running replacement registers on its member itself:
 * by_replacement. */
unsigned column_wanted(const struct hmreg_mr *mr, size_t member, bool by_replacement);
/* Moves the member's column of these natives, whose `user` that ends, into the region, which no
 * other thread suspends or fills, if it still is wanted there. -EAGAIN: it is not, and nothing has
 * changed. */
int column_enter(struct hmreg_mr *mr, size_t member, struct natives *made);
/* Counts one that was filled with the result rc, of the replacement with this number. After a
 * failure the region does without the member, because of the thread's last error, until the next
 * replacement; unless the member has changed meanwhile. */
void column_count(struct hmreg_mr *mr, size_t member, unsigned number, int rc);

/* Natives that are being filled do without a member that is withdrawn. -ENOMEM. */
int column_leave_out(struct group *group, struct natives *natives, size_t member);
/* They do without all of these: fails with the first one's reason. */
int column_restore_reason(const struct natives *natives, uint64_t members);

/* Is anything left of withdrawn members? No of a suspended region, which its resumption ends. */
bool column_has_left(const struct hmreg_mr *mr);
/* What is left of withdrawn members, to be deregistered by the caller; and given back by it. */
struct natives *column_take_left(struct hmreg_mr *mr);
void column_leave(struct hmreg_mr *mr, struct natives *left);

#endif
