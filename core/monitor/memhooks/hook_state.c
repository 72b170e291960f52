/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See hook_state.h.
 */
#include "core/monitor/memhooks/hook_state.h"

#include "core/base/error.h"
#include "core/base/process.h"

#include <errno.h>

void *hook_state_wiped(size_t size)
{
    void *made = process_wiped(size);

    if (!made && errno == ENOMEM)
        hmreg_fail_os(errno, "hmreg has no memory for memhooks");
    else if (!made)
        hmreg_fail(-EOPNOTSUPP, "memhooks: this kernel does not wipe memory at fork "
                                "(MADV_WIPEONFORK); use userfaultfd or import");
    return made;
}

struct hook_state *hook_state_get(void)
{
    static struct hook_state *state;

    if (!state)
        state = hook_state_wiped(sizeof(*state));
    return state;
}

void hook_state_name(struct hook_state *state, uint64_t epoch)
{
    uint64_t name = epoch << (HOOK_COUNT_BITS + 1) >> 1;

    name = name ? name : UINT64_C(1) << HOOK_COUNT_BITS;
    if (atomic_load(&state->begun) >> HOOK_COUNT_BITS == name >> HOOK_COUNT_BITS)
        return;
    atomic_fetch_add(&state->begun, name); /* threads of the child may be in calls */
    atomic_fetch_add(&state->ended, name);
}
