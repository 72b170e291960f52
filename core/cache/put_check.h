/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * HMREG_DEBUG=puts: finds calls of hmreg_mr_put() that give back what no get holds: a second put, a
 * put of an explicit region, a put after the domain was closed.
 *
 * Domains that are opened with it keep no tables for threads, so that every get and put takes the
 * lock and a region's pins are exact at each put; other domains pay nothing. What is freed stays
 * readable: an entry serves another region only after CACHE_QUARANTINE others, and a closed domain
 * and its entries stay for good.
 */
#ifndef HMREG_CORE_CACHE_PUT_CHECK_H
#define HMREG_CORE_CACHE_PUT_CHECK_H

#include "core/mr/mr.h"

/* hmreg_mr_put() on a domain with check_puts. */
void put_checked(struct hmreg_mr *mr);

/* A closed domain with check_puts, instead of freeing it. */
void put_check_keep(struct hmreg_domain *domain);

#endif
