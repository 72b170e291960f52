/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Brackets a call of the program in these libraries: takes the guard of record_enter() and disables
 * cancellation (pthread_cancel(3)). Registrations of libibverbs and libfabric are no cancellation
 * points, but open(2) and msync(2) are, and the recorder calls them. A thread cancelled there would
 * keep hmreg's locks and leak the region that it has made.
 *
 * A signal handler that jumps out of a call abandons it: guard_leave() never runs.
 * record_was_abandoned() then restores the thread's cancellation.
 */
#ifndef HMREG_PRELOAD_GUARD_H
#define HMREG_PRELOAD_GUARD_H

#include "preload/record.h"

#include <pthread.h>

struct guard {
    int cancellation; /* the program's setting */
};

/* False: this thread is inside a call already, and *guard is not used. */
__attribute__((always_inline)) static inline bool guard_enter(struct guard *guard)
{
    if (!record_enter())
        return false;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &guard->cancellation);
    record_guard.cancellation = guard->cancellation;
    return true;
}

static inline void guard_leave(const struct guard *guard)
{
    int disabled;

    record_leave();
    pthread_setcancelstate(guard->cancellation, &disabled);
}

#endif
