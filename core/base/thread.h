/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The library's own threads. They serve every thread of the process, so they take after none: all
 * CPUs that the process may use, the normal scheduling class, no signal handled. A thread that
 * inherited a polling thread's CPU and real-time priority would never run beside it.
 */
#ifndef HMREG_CORE_BASE_THREAD_H
#define HMREG_CORE_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* A stack of the caller's, which stays until the thread is joined. */
struct thread_stack {
    void *base;
    size_t size;
};

/* stack: NULL for one of libc's, with a guard below it, which is two mappings. A stack of the
 * caller's is not used if it has no room for the program's thread-local data. name: as for
 * pthread_setname_np(3). 0, or -ENOMEM, -EAGAIN with the failure recorded; what: the end of that
 * sentence, as in "no thread to monitor host memory". */
int thread_start(pthread_t *out, const char *name, const struct thread_stack *stack,
                 void *(*run)(void *), void *arg, const char *what);

#endif
