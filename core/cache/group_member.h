/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Withdraws and replaces a group's members.
 */
#ifndef HMREG_CORE_CACHE_GROUP_MEMBER_H
#define HMREG_CORE_CACHE_GROUP_MEMBER_H

#include "core/group/group.h"

/* Joins the ended thread of the last replacement. */
void group_member_join(struct group *group);
/* Ends withdrawn members' registrations of regions without a holder. Does nothing while another
 * thread suspends, resumes, withdraws or replaces. */
void group_member_end_left(struct hmreg_domain *domain);

/* Withdraws a lost member from each of its groups. If memory is short, the loss is not complete
 * (lost_settle()). */
void group_member_lost(struct hmreg_domain *member, const char *why);

#endif
