/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The listener to the ends of vendors' memory; see hmem.h.
 */
#include "core/contract/hmem.h"

#include <stdatomic.h>

static _Atomic(hmem_listener) listener;

void hmem_listen(hmem_listener to)
{
    atomic_store(&listener, to);
}

void hmem_ended(uint64_t start, uint64_t end)
{
    hmem_listener to = atomic_load(&listener);

    if (to && start < end)
        to(start, end);
}
