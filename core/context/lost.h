/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A domain whose NIC is gone: no hit, no registration, and no call of its fabric on a caller's
 * thread, for good. Regions that end leave their native registrations in the domain's undone list,
 * whose thread calls the fabric (core/mr/undone.h).
 *
 * A domain becomes lost in two steps. lost_mark() stops hits and registrations at once, and may be
 * called wherever the fabric has just failed. lost_settle() ends the idle regions and tells the
 * groups; it is called where no region is being registered.
 */
#ifndef HMREG_CORE_CONTEXT_LOST_H
#define HMREG_CORE_CONTEXT_LOST_H

#include "core/context/domain.h"

bool domain_is_lost(const struct hmreg_domain *domain);

/* Returns -ENODEV, with a text that says why the domain is lost. */
int domain_fail_lost(const struct hmreg_domain *domain);

/* The first reason stays. why: NULL or empty: a text of ours. */
void lost_mark(struct hmreg_domain *domain, const char *why);

/* The second step of a domain that is marked; nothing where it is done, or not marked. Keeps the
 * thread's last error. It is not done where there was no memory for all of it. */
void lost_settle(struct hmreg_domain *domain);

#endif
