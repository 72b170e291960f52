/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Registrations remembered: a domain's caches, one per (iface, device), and the way of a get
 * through them.
 */
#ifndef HMREG_CORE_CACHE_SET_H
#define HMREG_CORE_CACHE_SET_H

#include "core/domain.h"

struct cache;

/* The caches of a domain, made empty with it; its limits are set. NULL: no memory. */
struct cache_set *cache_set_new(struct hmreg_domain *domain);

/* One of them; device -1 is memory of no device. */
struct cache *cache_set_at(struct cache_set *set, enum hmreg_iface iface, int device);

/* How many regions are in use. */
unsigned cache_set_held(struct cache_set *set);

/* Deregisters what nobody holds. Returns how many regions are left, in use or busy below. */
unsigned cache_set_flush(struct cache_set *set);

/* After a flush that left none. */
void cache_set_free(struct cache_set *set);

/* Adds up. */
void cache_set_stats(struct cache_set *set, struct hmreg_stats *out);

#endif
