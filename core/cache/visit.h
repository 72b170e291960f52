/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Visits cached regions of a domain, each held meanwhile, so that it stays registered.
 */
#ifndef HMREG_CORE_CACHE_VISIT_H
#define HMREG_CORE_CACHE_VISIT_H

#include "core/cache/cache_set.h"
#include "core/explicit/origin.h"

/* Visits registered regions; call() gets no origin. Stops at the first failure, and returns it. */
int visit_entries(struct cache_set *set, struct visit *visit);
/* Visits the domain's explicit regions first (origin_visit()), then its cached ones. */
int visit_all(struct cache_set *set, struct visit *visit);

#endif
