/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See put_check.h.
 */
#include "core/cache/put_check.h"

#include "core/base/error.h"
#include "core/cache/cache_set.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

/* Reports a wrong put as the thread's last error, and on standard error. */
static void report(const struct hmreg_mr *mr, const char *why)
{
    hmreg_fail(-EINVAL, "hmreg_mr_put() of the region [%#" PRIx64 ", +%" PRIu64 "): %s",
               mr_start(mr), mr_len(mr), why);
    dprintf(STDERR_FILENO, "hmreg: %s\n", hmreg_last_error()->text);
}

void put_checked(struct hmreg_mr *mr)
{
    struct hmreg_domain *domain = mr->domain;
    struct hmreg_mr *gone = NULL;

    if (atomic_load(&domain->closed)) {
        report(mr, "its domain was closed");
    } else if (!mr->slot_offset) {
        report(mr, "it was registered explicitly: use hmreg_mr_close()");
    } else if (!domain_check(domain)) {
        cache_set_reap(domain->caches);
        if (!cache_unpin_checked(&domain->caches->pool, mr, &gone))
            report(mr, "no get holds it: an earlier put released it");
        else if (gone)
            cache_set_free_entry(domain->caches, gone);
    }
}

void put_check_keep(struct hmreg_domain *domain)
{
    static _Atomic(struct hmreg_domain *) kept; /* so that leak checkers find them */

    atomic_store(&domain->closed, true);
    domain->next_closed = atomic_load(&kept);
    while (!atomic_compare_exchange_weak(&kept, &domain->next_closed, domain))
        ;
}
