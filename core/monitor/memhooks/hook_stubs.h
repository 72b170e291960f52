/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Writes a stub for each site (hook_sites.h), replaces the sites by jumps to their stubs, and
 * restores them. A stub decides in some twenty instructions, without a lock, whether the call may
 * change watched memory; only then it saves every register that a function may change, and calls
 * the hook. Where HOOK_COUNTS_CALLS is set, the stub of a call that may change mappings also counts
 * its beginning and its end.
 *
 * Stubs and the data they read are never unmapped, since a thread may be interrupted in a stub at
 * any time and continue much later. No other code of the library runs on behalf of a hook after
 * hook_stubs_remove().
 */
#ifndef HMREG_CORE_MONITOR_MEMHOOKS_HOOK_STUBS_H
#define HMREG_CORE_MONITOR_MEMHOOKS_HOOK_STUBS_H

#include "core/monitor/memhooks/hook_sites.h"
#include "core/monitor/memhooks/hook_state.h"

/* Hooks all of the sites or none; sites that are hooked already stay so. Calls are serialized by
 * the caller. -EOPNOTSUPP, with the reason; -ENOMEM; -EBUSY: other code has changed a site since it
 * was found. */
int hook_stubs_install(const struct hook_sites *sites, struct hook_state *state);

/* Is the code unchanged since the last hook_stubs_install()? Not to be called concurrently with it.
 */
bool hook_stubs_are_whole(void);
/* Are all of these sites hooked by us? As above. */
bool hook_stubs_have(const struct hook_sites *sites);
/* hook_stubs_are_whole(), at any time and without a system call; false also where only
 * hook_stubs_are_whole() can decide, and while the code changes. */
bool hook_stubs_look_whole(void);

/* If a tracer has set or removed a probe on an instruction that we replaced, restores the bytes
 * behind the first one from the file, so that the instruction is whole without the probe. */
void hook_stubs_mend(void);

/* Restores the sites, and returns when no thread is, or will be, in the hook. A site that other
 * code has changed meanwhile keeps leading through our stub, which then calls no hook. */
void hook_stubs_remove(struct hook_state *state);

#endif
