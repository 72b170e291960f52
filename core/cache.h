/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Registrations remembered: one cache per (domain, iface, device).
 */
#ifndef HMREG_CORE_CACHE_H
#define HMREG_CORE_CACHE_H

#include "core/domain.h"

/* The caches of a domain; made empty with it. NULL: no memory. */
struct cache_set *cache_set_new(struct hmreg_domain *domain);

/* Deregisters what nobody holds. Returns how many regions are left, held or busy. */
unsigned cache_set_flush(struct cache_set *set);

/* After a flush that left none. */
void cache_set_free(struct cache_set *set);

/* Adds up. */
void cache_set_stats(struct cache_set *set, struct hmreg_stats *out);

#endif
