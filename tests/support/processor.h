/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A thread on one processor: its datagrams to this machine's sockets arrive in the order in which
 * it sent them, since all pass that processor's queue.
 */
#ifndef TESTS_PROCESSOR_H
#define TESTS_PROCESSOR_H

#include <sched.h>
#include <stdlib.h>

/* Keeps the thread where it is; returns where it may run, for processor_leave(). */
static inline cpu_set_t processor_stay(void)
{
    int here = sched_getcpu();
    cpu_set_t before, one;

    CPU_ZERO(&one);
    CPU_SET((size_t)(here < 0 ? 0 : here), &one);
    if (sched_getaffinity(0, sizeof(before), &before) || sched_setaffinity(0, sizeof(one), &one))
        abort();
    return before;
}

static inline void processor_leave(const cpu_set_t *before)
{
    if (sched_setaffinity(0, sizeof(*before), before))
        abort();
}

#endif
