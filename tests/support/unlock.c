/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * For programs linked with -Wl,--wrap=pthread_mutex_unlock: one that unlocks a mutex that no
 * thread has locked is aborted, since what the mutex guards was used without it. Not for recursive
 * mutexes, which their owner may lock again: hmreg has none.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

/* Weak: a program may have its own. */
__attribute__((weak)) int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    if (!pthread_mutex_trylock(mutex)) {
        fprintf(stderr, "%s\n", "a mutex is unlocked that no thread has locked");
        abort();
    }
    return __real_pthread_mutex_unlock(mutex);
}
