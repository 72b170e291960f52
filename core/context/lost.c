/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See lost.h.
 */
#include "core/context/lost.h"

#include "core/base/error.h"
#include "core/base/failure.h"
#include "core/base/uncancelled.h"
#include "core/monitor/change/gate.h"

#include <hmreg/lost.h>

#include <errno.h>
#include <stdio.h>

int domain_fail_lost(const struct hmreg_domain *domain)
{
    return hmreg_fail(-ENODEV, "the domain is lost: %s", domain->lost.why);
}

/* Threads that have read `is` read the reason without the lock. */
void lost_mark(struct hmreg_domain *domain, const char *why)
{
    struct lost *lost = &domain->lost;

    pthread_mutex_lock(&lost->lock);
    if (!domain_is_lost(domain)) {
        snprintf(lost->why, sizeof(lost->why), "%s",
                 why && *why ? why : "the application gave no reason");
        atomic_store(&lost->is, true);
        gate_lose(lost->gate);
        domain->ops.lost(domain->self, lost->why);
        log_say(&domain->lib->settings.log, HMREG_LOG_WARN, "%s: the domain is lost: %s",
                *domain->caps.nic ? domain->caps.nic : domain->caps.fabric, lost->why);
    }
    pthread_mutex_unlock(&lost->lock);
}

void lost_settle(struct hmreg_domain *domain)
{
    struct lost *lost = &domain->lost;
    struct hmreg_error before;
    UNCANCELLED;

    if (!domain_is_lost(domain) || atomic_exchange(&lost->settled, true))
        return;
    hmreg_error_save(&before);
    lost->end_idle(domain);
    if (lost->group_lost)
        lost->group_lost(domain, lost->why);
    hmreg_error_restore(&before);
}

int hmreg_domain_lost(struct hmreg_domain *domain, const char *why)
{
    LOGS_FAILURE(domain_log(domain));
    int rc = domain_check(domain);

    if (rc)
        return rc;
    if (domain->group)
        return hmreg_fail(-EINVAL, "domain is a group: pass its lost member instead");
    lost_mark(domain, why);
    lost_settle(domain);
    return atomic_load(&domain->lost.settled)
               ? 0
               : hmreg_fail(-ENOMEM,
                            "the domain is lost, but hmreg has no memory to take it out of "
                            "each region of its groups: call again");
}
