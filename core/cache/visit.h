/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Visits cached regions of a domain, each held meanwhile, so that it stays registered.
 */
#ifndef HMREG_CORE_CACHE_VISIT_H
#define HMREG_CORE_CACHE_VISIT_H

#include "core/cache/cache_set.h"
#include "core/context/suspended.h"

struct visit {
    const struct suspended_range *range; /* the regions that touch it; NULL: all */
    int (*entry)(struct cache_set *set, struct hmreg_mr *entry, void *context);
    void *context;
    bool held;  /* of unpublished entries only */
    bool waits; /* set: there are regions that other threads are about to finish */
    int failed; /* set: the fabric is busy with a region that no get holds */
};

/* Calls entry() for each region that is registered, with no lock held. Stops at the first failure,
 * and returns it. */
int visit_entries(struct cache_set *set, struct visit *visit);

#endif
