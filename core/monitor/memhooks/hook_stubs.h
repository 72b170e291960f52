/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Writes a stub for each site (hook_sites.h), and puts the jumps to them there and back. A stub
 * decides in some twenty instructions, without a lock, whether the call may change memory that is
 * watched; only then it calls the hook, with every register saved. Where HOOK_COUNTS_CALLS, the
 * stub of a call that may change what is mapped also counts that it begins and that it is over.
 *
 * Stubs and what they read are never unmapped, since a thread may be interrupted in one at any
 * time and go on much later. Nothing of the library's own code runs after hook_stubs_remove().
 */
#ifndef HMREG_CORE_MONITOR_MEMHOOKS_HOOK_STUBS_H
#define HMREG_CORE_MONITOR_MEMHOOKS_HOOK_STUBS_H

#include "core/monitor/memhooks/hook_sites.h"
#include "core/monitor/memhooks/hook_state.h"

/* Hooks the sites; those that are hooked already stay so. One at a time. All or none of them:
 * -EOPNOTSUPP, with the reason; -ENOMEM. */
int hook_stubs_install(const struct hook_sites *sites, struct hook_state *state);

/* Is the code still as it was after the last hook_stubs_install()? Not at the same time as that. */
bool hook_stubs_are_whole(void);
/* The same at any time and without asking the kernel; false also where that has to be looked at
 * closely, or meanwhile changes. */
bool hook_stubs_look_whole(void);

/* Restores the sites, and returns when no thread is in the hook, or will be. A site that somebody
 * else has changed meanwhile is left to pass through our stub, which does nothing any more. */
void hook_stubs_remove(struct hook_state *state);

#endif
