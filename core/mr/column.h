/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A column: the registrations of a group's region on one member. A withdrawn member loses its
 * column in regions that other threads use, and its replacement gets a new one. The old column's
 * registrations are kept apart until no caller's transfer can use them.
 *
 * This file only moves keys, under the group's lock. It registers and deregisters nothing, and
 * never waits.
 */
#ifndef HMREG_CORE_MR_COLUMN_H
#define HMREG_CORE_MR_COLUMN_H

#include "core/group/group.h"
#include "core/mr/mr.h"

/* Is the region registered on its group's present members? False: it is on a withdrawn member, or
 * lacks a replacement that was not tried. Any thread that keeps the region. */
bool column_is_current(const struct hmreg_mr *mr);
bool column_may_publish_on_group(const struct hmreg_mr *mr);
/* column_is_current() for a thread that publishes the region, or gives it back to other threads. It
 * holds the lock by which a withdrawal or a replacement finds the region, so one of them sees the
 * other. Also true: a running replacement will visit the regions again. */
static inline bool column_may_publish(const struct hmreg_mr *mr)
{
    return !mr_whole(mr)->domain->group || column_may_publish_on_group(mr);
}
/* Takes the columns of withdrawn members out of the region. Any thread that keeps the region.
 * -ENOMEM. */
int column_settle(struct hmreg_mr *mr);

/* The number of a replacement whose member the region lacks and that was not tried yet; else 0. A
 * running replacement registers on its member itself: by_replacement. */
unsigned column_wanted(const struct hmreg_mr *mr, size_t member, bool by_replacement);
/* Moves the member's column from these natives, whose `user` that ends, into the region if it is
 * still wanted there. No other thread suspends or fills the region. -EAGAIN: not wanted, and
 * nothing has changed. */
int column_enter(struct hmreg_mr *mr, size_t member, struct natives *made);
/* Counts a column that was filled with result rc, for the replacement with this number. After a
 * failure the region does without the member until the next replacement, with the thread's last
 * error as the reason; unless the member has changed meanwhile. */
void column_count(struct hmreg_mr *mr, size_t member, unsigned number, int rc);

/* Natives that are being filled do without withdrawn members. -ENOMEM. */
int column_leave_out(struct group *group, struct natives *natives, size_t member);
/* They do without all their members: fails with the first one's reason. */
int column_restore_reason(const struct natives *natives, uint64_t members);

/* Do registrations of withdrawn members remain? False for a suspended region: its resumption ends
 * them. */
bool column_has_left(const struct hmreg_mr *mr);
/* Takes the remaining registrations of withdrawn members, for the caller to deregister; and gives
 * back those that it could not. */
struct natives *column_take_left(struct hmreg_mr *mr);
void column_leave(struct hmreg_mr *mr, struct natives *left);

#endif
