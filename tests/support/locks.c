/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Aborts the program when a thread unlocks a mutex that it has not locked, or locks one that it
 * has: a critical section without its lock fails no other test unless threads meet in it by chance.
 * For programs linked with the options of test_locks.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST 16 /* mutexes that a thread holds at once */

/* A forked child has those of the thread that forked. */
static _Thread_local pthread_mutex_t *held[MOST];

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);

static void die(const char *what)
{
    fprintf(stderr, "a thread %s\n", what);
    abort();
}

/* lock NULL: a free place. */
static pthread_mutex_t **place_of(const pthread_mutex_t *lock)
{
    for (size_t i = 0; i < MOST; i++)
        if (held[i] == lock)
            return &held[i];
    return NULL;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    int rc;

    if (place_of(lock))
        die("locks a mutex that it has locked");
    if (!place_of(NULL))
        die("holds too many mutexes");
    rc = __real_pthread_mutex_lock(lock);
    *place_of(NULL) = lock;
    return rc;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    pthread_mutex_t **place = place_of(lock);

    if (!place)
        die("unlocks a mutex that it has not locked");
    *place = NULL;
    return __real_pthread_mutex_unlock(lock);
}
