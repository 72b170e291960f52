/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What a miss registers beyond the range that was asked for: the allocation around it. See enum
 * hmreg_cover.
 */
#ifndef HMREG_CORE_CACHE_COVER_H
#define HMREG_CORE_CACHE_COVER_H

#include "core/cache/notice.h"

#define COVER_FLAGS (HMREG_REG_COVER | HMREG_REG_EXACT)
#define COVER_MOST  2

/* May a miss with these rights and flags of the get, of COVER_FLAGS, register the allocation? */
bool cover_is_on(const struct hmreg_domain *domain, uint64_t access, uint64_t flags);

/* The ranges to try in place of the get's one, whose memory is resolved, largest first. Returns
 * their number, at most COVER_MOST; 0: register what was asked for. Keeps the thread's last error.
 */
unsigned cover_find(const struct get *get, struct iovec *out);

#endif
