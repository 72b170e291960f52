/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The process's locked memory, of which registrations take as much as they pin, and its limit.
 */
#ifndef HMREG_CORE_CACHE_LOCKED_H
#define HMREG_CORE_CACHE_LOCKED_H

#include "core/context/domain.h"

#include <stdint.h>

/* RLIMIT_MEMLOCK; UINT64_MAX: there is none, or CAP_IPC_LOCK exempts from it. */
uint64_t locked_limit(void);
/* The bytes that the kernel has pinned for this process; 0 also if it does not say. */
uint64_t locked_now(void);
/* How many registrations of one range pin it and are counted: each member's of a group is. */
uint64_t locked_times(const struct hmreg_domain *domain);

#endif
