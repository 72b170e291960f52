/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The slow path of a get.
 */
#ifndef HMREG_CORE_CACHE_GET_SLOW_H
#define HMREG_CORE_CACHE_GET_SLOW_H

#include "core/context/domain.h"

/* Implements hmreg_mr_get(), arguments and errors included, where this thread's table does not
 * serve the request. */
int get_slowly(struct hmreg_domain *domain, const void *addr, size_t len, uint64_t access,
               struct hmreg_mr **mr);

#endif
