/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * HMREG_DEBUG=puts: reports calls of hmreg_mr_put() for a region that no get holds: a second put, a
 * put of an explicit region, a put after the domain was closed.
 *
 * Domains opened with it keep no thread caches, so every get and put takes the lock, and a region's
 * pins are exact at each put. Other domains pay nothing. Freed objects stay readable: an entry is
 * reused only after CACHE_QUARANTINE other entries, and a closed domain and its entries are never
 * freed.
 */
#ifndef HMREG_CORE_CACHE_PUT_CHECK_H
#define HMREG_CORE_CACHE_PUT_CHECK_H

#include "core/mr/mr.h"

/* Implements hmreg_mr_put() for a domain with check_puts. */
void put_checked(struct hmreg_mr *mr);

/* Keeps a closed domain with check_puts instead of freeing it. */
void put_check_keep(struct hmreg_domain *domain);

#endif
