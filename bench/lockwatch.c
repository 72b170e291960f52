/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Preloaded into a measurement to time how long threads hold locks. It interposes libpthread's
 * mutexes and reader-writer locks and reads two clocks at lock and unlock: the monotonic clock,
 * which shows how long a waiter may have to wait, and the holder's CPU time, which stops while it
 * is preempted. Time in a condition wait does not count as held.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#pragma GCC visibility push(default)

#define MOST_HELD 16 /* per thread at a time; further locks are not timed */

enum { WALL, OWN, CLOCKS };
static const clockid_t clocks[CLOCKS] = {CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID};

struct hold {
    const void *lock;
    int64_t since[CLOCKS];
};

static _Thread_local struct hold held[MOST_HELD];
static _Atomic int64_t longest[CLOCKS];

static int64_t now(int clock)
{
    struct timespec time;

    clock_gettime(clocks[clock], &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int taken(const void *lock, int rc)
{
    if (rc)
        return rc;
    for (int i = 0; i < MOST_HELD; i++)
        if (!held[i].lock) {
            held[i] = (struct hold){lock, {now(WALL), now(OWN)}};
            break;
        }
    return 0;
}

static void update_longest(int clock, int64_t hold)
{
    int64_t before = atomic_load(&longest[clock]);

    while (hold > before && !atomic_compare_exchange_weak(&longest[clock], &before, hold))
        ;
}

static void given_back(const void *lock)
{
    int64_t at[CLOCKS] = {[OWN] = now(OWN), [WALL] = now(WALL)};

    for (int i = 0; i < MOST_HELD; i++) {
        if (held[i].lock != lock)
            continue;
        held[i].lock = NULL;
        for (int clock = 0; clock < CLOCKS; clock++)
            update_longest(clock, at[clock] - held[i].since[clock]);
        return;
    }
}

/* The longest holds since the last call, in ns. */
void lockwatch_longest(int64_t *wall, int64_t *own);
void lockwatch_longest(int64_t *wall, int64_t *own)
{
    *wall = atomic_exchange(&longest[WALL], 0);
    *own = atomic_exchange(&longest[OWN], 0);
}

/* Calls the interposed function of the same name. */
#define BEHIND(name, ...)                                                                          \
    static int (*behind)(__VA_ARGS__);                                                             \
    if (!behind)                                                                                   \
    behind = (int (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

#define WRAP_LOCK(name, type)                                                                      \
    int name(type *lock)                                                                           \
    {                                                                                              \
        BEHIND(#name, type *);                                                                     \
        return taken(lock, behind(lock));                                                          \
    }

#define WRAP_UNLOCK(name, type)                                                                    \
    int name(type *lock)                                                                           \
    {                                                                                              \
        BEHIND(#name, type *);                                                                     \
        given_back(lock);                                                                          \
        return behind(lock);                                                                       \
    }

WRAP_LOCK(pthread_mutex_lock, pthread_mutex_t)
WRAP_LOCK(pthread_mutex_trylock, pthread_mutex_t)
WRAP_UNLOCK(pthread_mutex_unlock, pthread_mutex_t)
WRAP_LOCK(pthread_rwlock_rdlock, pthread_rwlock_t)
WRAP_LOCK(pthread_rwlock_wrlock, pthread_rwlock_t)
WRAP_LOCK(pthread_rwlock_tryrdlock, pthread_rwlock_t)
WRAP_LOCK(pthread_rwlock_trywrlock, pthread_rwlock_t)
WRAP_UNLOCK(pthread_rwlock_unlock, pthread_rwlock_t)

int pthread_cond_wait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict lock)
{
    BEHIND("pthread_cond_wait", pthread_cond_t *, pthread_mutex_t *);
    int rc;

    given_back(lock);
    rc = behind(cond, lock);
    taken(lock, 0);
    return rc;
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict lock,
                           const struct timespec *restrict until)
{
    BEHIND("pthread_cond_timedwait", pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    int rc;

    given_back(lock);
    rc = behind(cond, lock, until);
    taken(lock, 0);
    return rc;
}
