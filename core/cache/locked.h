/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The process's locked memory, which includes all pinned memory, and its limit.
 */
#ifndef HMREG_CORE_CACHE_LOCKED_H
#define HMREG_CORE_CACHE_LOCKED_H

#include "core/context/domain.h"

#include <stdint.h>

/* RLIMIT_MEMLOCK; UINT64_MAX: none, or CAP_IPC_LOCK exempts from it. */
uint64_t locked_limit(void);
/* The bytes that the kernel has pinned for this process; 0 also if unknown. */
uint64_t locked_now(void);
/* How often a registered range is pinned and counted: once for each member of a group that pins. */
uint64_t locked_times(const struct hmreg_domain *domain);

#endif
