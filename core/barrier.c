/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See barrier.h. The kernel must be told once in each process that membarrier(2) will be used; a
 * child of fork() tells it again when it is refused.
 */
#include "core/barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_bool fallback;

static bool ask(int command)
{
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

bool barrier_start(void)
{
    bool there =
        ask(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && ask(MEMBARRIER_CMD_PRIVATE_EXPEDITED);

    if (!there)
        atomic_store(&fallback, true);
    return !atomic_load(&fallback);
}

void barrier_everywhere(void)
{
    barrier_here();
    if (atomic_load(&fallback) || ask(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
        return;
    ask(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
    ask(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}
