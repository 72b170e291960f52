/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Registrations that a failed call has to undo. No caller has them, so the domain keeps those that
 * the fabric does not deregister yet (-EBUSY), with their keys, and tries again.
 */
#ifndef HMREG_CORE_MR_UNDONE_H
#define HMREG_CORE_MR_UNDONE_H

#include "core/mr/register.h"

/* Deregisters and frees a region that no caller has, a composite or a region of a group too. What
 * the fabric is busy with stays registered until undone_retry(). Keeps the thread's last error. */
void undone_add(struct hmreg_mr *mr);

/* Tries again to deregister `most` of a domain's, on a group of each member's. Calls that register
 * on the domain or deregister do so; most of them find none, which costs one load. Keeps the
 * thread's last error. */
void undone_retry(struct hmreg_domain *domain, unsigned most);

/* How many are still registered. */
unsigned undone_left(const struct hmreg_domain *domain);

#endif
