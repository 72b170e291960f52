/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The library's own threads. They serve every thread of the process, so they take after none: all
 * CPUs that the process may use, the normal scheduling class, no signal handled. A thread that
 * inherited a polling thread's CPU and real-time priority would never run beside it.
 */
#ifndef HMREG_CORE_THREAD_H
#define HMREG_CORE_THREAD_H

#include <pthread.h>

/* name: as for pthread_setname_np(3). 0, or -ENOMEM, -EAGAIN with the failure recorded; what: the
 * end of that sentence, as in "no thread to monitor host memory". */
int thread_start(pthread_t *out, const char *name, void *(*run)(void *), void *arg,
                 const char *what);

#endif
