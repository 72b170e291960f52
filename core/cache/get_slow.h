/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The way of a get where it is no simple hit.
 */
#ifndef HMREG_CORE_CACHE_GET_SLOW_H
#define HMREG_CORE_CACHE_GET_SLOW_H

#include "core/context/domain.h"

/* hmreg_mr_get(), arguments, errors and all, where this thread's table does not have the region. */
int get_slowly(struct hmreg_domain *domain, const void *addr, size_t len, uint64_t access,
               struct hmreg_mr **mr);

#endif
