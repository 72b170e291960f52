/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See barrier.h. The kernel must be told once in each process that membarrier(2) will be used; a
 * child of fork() tells it again when it is refused.
 *
 * A sandbox that is installed later may refuse the call to a process whose hits already rely on it.
 * They cannot be made to fence: one may stand between its store and its load, and a put looks at
 * nothing that could tell it to. What is left is time. A thread's store that comes before a load in
 * its program leaves the store buffer once the cache line arrives, in microseconds at the worst; an
 * interrupt, a switch to another thread and an exit of a virtual machine empty it at once. So
 * WAIT_NS after the caller's own store is visible, each thread has either made the stores visible
 * that it made before loading the old value, or loads the new one. C11 promises of an atomic store
 * only that it becomes visible in a reasonable amount of time (7.17.3); WAIT_NS is a thousand times
 * as long as it takes.
 */
#include "core/base/barrier.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WAIT_NS 10000000

static bool ask(int command)
{
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

bool barrier_start(void)
{
    return ask(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && ask(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Also where a sandbox refuses to sleep. */
static void wait_for_stores(void)
{
    static const struct timespec pause = {.tv_nsec = WAIT_NS};
    uint64_t from = now_ns();

    while (now_ns() - from < WAIT_NS)
        if (nanosleep(&pause, NULL))
            sched_yield();
}

void barrier_everywhere(void)
{
    barrier_here();
    if (ask(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
        return;
    if (!ask(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) || !ask(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
        wait_for_stores();
}
