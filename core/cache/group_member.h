/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A group's members that are withdrawn and replaced.
 */
#ifndef HMREG_CORE_CACHE_GROUP_MEMBER_H
#define HMREG_CORE_CACHE_GROUP_MEMBER_H

#include "core/group/group.h"

/* Joins the thread of the last replacement, which has ended. */
void group_member_join(struct group *group);
/* Ends what withdrawn members have registered for regions without a holder. Does nothing
 * while another thread suspends, resumes, withdraws or replaces. */
void group_member_end_left(struct hmreg_domain *domain);

/* The member is lost: withdraws it from each of its groups. Where there is no memory for it, it is
 * not settled (lost_settle()). */
void group_member_lost(struct hmreg_domain *member, const char *why);

#endif
