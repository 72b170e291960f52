/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A call of the program's, from its begin to its end in these libraries: the guard of
 * record_enter(), and no cancellation (pthread_cancel(3)) meanwhile. libibverbs' and libfabric's
 * registrations are no cancellation points; open(2) and msync(2), which the recorder calls, are,
 * and a thread that ends there would keep hmreg's locks and lose the region that it has made.
 *
 * A call that was left by a jump out of a signal handler never reaches its end: record_was_left()
 * gives the thread its cancellation back.
 */
#ifndef HMREG_PRELOAD_GUARD_H
#define HMREG_PRELOAD_GUARD_H

#include "preload/record.h"

#include <pthread.h>

struct guard {
    int cancellation; /* as the program has set it */
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
