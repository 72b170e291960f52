/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See barrier.h. Each process must register once for membarrier(2); a child of fork() registers
 * again when the call is refused.
 *
 * A sandbox that is installed later may refuse the call to a process whose hits already rely on it.
 * Hits cannot switch to fences then: a thread may be between its store and its load, and a put
 * reads nothing that could make it execute a fence. So barrier_everywhere() waits. A store leaves
 * the store buffer once its cache line arrives, in microseconds at worst; an interrupt, a context
 * switch or a virtual machine exit drains the buffer at once. So WAIT_NS after the caller's own
 * store is visible, each thread either has made visible the stores that preceded its load of the
 * old value, or will load the new value. C11 only promises that an atomic store becomes visible in
 * a reasonable amount of time (7.17.3); WAIT_NS is a thousand times the time that it takes.
 */
#include "core/base/barrier.h"

#include "core/base/now.h"

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

/* Waits WAIT_NS, also in a sandbox that refuses nanosleep(2). */
static void wait_for_stores(void)
{
    static const struct timespec pause = {.tv_nsec = WAIT_NS};
    int64_t from = now_ns();

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
