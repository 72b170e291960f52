/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A miss may register the allocation around the get's range. See enum hmreg_cover.
 */
#ifndef HMREG_CORE_CACHE_COVER_H
#define HMREG_CORE_CACHE_COVER_H

#include "core/cache/notice.h"

#define COVER_FLAGS (HMREG_REG_COVER | HMREG_REG_EXACT)
#define COVER_MOST  2

/* May a miss register the allocation, with the get's rights and its COVER_FLAGS? */
bool cover_is_on(const struct hmreg_domain *domain, uint64_t access, uint64_t flags);

/* The ranges to try instead of the get's, whose memory is resolved, largest first. Returns their
 * number, at most COVER_MOST; 0: register the get's range. Keeps the thread's last error.
 */
unsigned cover_find(const struct get *get, struct iovec *out);

#endif
