/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The stubs that sites jump to (hook_sites.h), and putting the jumps there and back. A stub
 * decides in some twenty instructions, without a lock or a shared write, whether the call may
 * change memory that is watched; only then it calls the hook, with every register saved. Then it
 * runs the instruction that the jump replaced and goes back to the site's `syscall`: no thread
 * is ever inside a stub while it is in the kernel.
 *
 * Stubs and what they read are never unmapped, since a thread may be interrupted in one at any
 * time and go on much later. Nothing of the library's own code runs after hook_stubs_remove().
 */
#ifndef HMREG_CORE_HOOK_STUBS_H
#define HMREG_CORE_HOOK_STUBS_H

#include "core/hook_sites.h"

#include <stdatomic.h>

#define HOOK_GRANULE_SHIFT 21    /* 2 MiB */
#define HOOK_GRANULES      65536 /* memory further apart than 128 GiB shares them */

/* A system call that is about to be made, in the order of its arguments. */
struct hook_call {
    uint64_t number;
    uint64_t args[6];
};

/* Read by the stubs, which know its layout. On pages that are wiped in a forked child: there
 * nothing is watched and nobody called. */
struct hook_state {
    _Atomic(void (*)(const struct hook_call *)) hook; /* NULL: nobody */
    _Atomic uint64_t inside;                          /* threads that are in the hook */
    _Atomic uint32_t watched;                         /* ranges */
    uint32_t unused[11];
    _Atomic uint32_t granules[HOOK_GRANULES]; /* ranges that touch each */
};

/* The process's state; NULL with -ENOMEM or -EOPNOTSUPP recorded. */
struct hook_state *hook_state_get(void);

/* Hooks the sites; those that are hooked already stay so. One at a time. All or none of them:
 * -EOPNOTSUPP, with the reason; -ENOMEM. */
int hook_stubs_install(const struct hook_sites *sites, struct hook_state *state);

/* Is the code still as it was after the last hook_stubs_install()? Not at the same time as that. */
bool hook_stubs_are_whole(void);

/* Restores the sites, and returns when no thread is in the hook, or will be. A site that somebody
 * else has changed meanwhile is left to pass through our stub, which does nothing any more. */
void hook_stubs_remove(struct hook_state *state);

#endif
