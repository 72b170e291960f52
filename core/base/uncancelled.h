/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A thread cancelled (pthread_cancel(3)) in a call of the fabric or of libc would leave locks that
 * others wait for. So calls that wait, or call the fabric, are no cancellation points.
 */
#ifndef HMREG_CORE_BASE_UNCANCELLED_H
#define HMREG_CORE_BASE_UNCANCELLED_H

#include <pthread.h>

static inline int uncancelled_begin(void)
{
    int before = PTHREAD_CANCEL_ENABLE;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void uncancelled_end(const int *before)
{
    pthread_setcancelstate(*before, NULL);
}

/* Put it first in a block: until the block's end no cancellation takes effect. */
#define UNCANCELLED                                                                                \
    int cancel_state __attribute__((cleanup(uncancelled_end), unused)) = uncancelled_begin()

#endif
