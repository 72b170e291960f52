/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A domain whose NIC is gone has no hits, no registrations, and no calls of its fabric on a
 * caller's thread, for good. Regions that end leave their native registrations in the domain's
 * undone list, whose thread calls the fabric (core/mr/undone.h).
 *
 * A domain becomes lost in two steps. lost_mark() stops hits and registrations at once, and may be
 * called wherever the fabric has just failed. lost_settle() ends the idle regions and withdraws the
 * domain from its groups; call it while this thread registers no region.
 */
#ifndef HMREG_CORE_CONTEXT_LOST_H
#define HMREG_CORE_CONTEXT_LOST_H

#include "core/context/domain.h"

static inline bool domain_is_lost(const struct hmreg_domain *domain)
{
    return atomic_load(&domain->lost.is);
}

/* Returns -ENODEV, with a text that says why the domain is lost. */
int domain_fail_lost(const struct hmreg_domain *domain);

/* The first reason stays. why: NULL or empty: hmreg's own text. */
void lost_mark(struct hmreg_domain *domain, const char *why);

/* The second step for a marked domain; no effect if it is done, or the domain is not marked. Keeps
 * the thread's last error. It is not done if memory was short. */
void lost_settle(struct hmreg_domain *domain);

#endif
