/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Counts what a call that must not wait may not do: this thread's locks and reads of changes. For
 * programs linked with -Wl,--wrap=pthread_mutex_lock and -Wl,--wrap=cache_drain.
 */
#ifndef HMREG_TESTS_UNIT_SLOW_STEPS_H
#define HMREG_TESTS_UNIT_SLOW_STEPS_H

#include <pthread.h>
#include <stdbool.h>

static _Thread_local unsigned locks, drains;

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    locks++;
    return __real_pthread_mutex_lock(mutex);
}

struct cache_pool;

bool __real_cache_drain(struct cache_pool *pool);
bool __wrap_cache_drain(struct cache_pool *pool);
bool __wrap_cache_drain(struct cache_pool *pool)
{
    drains++;
    return __real_cache_drain(pool);
}

#endif
