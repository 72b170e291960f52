/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The preloaded watcher of locks measures holds of a known length. */
#include "tests/support/test.h"

#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

#define HOLD_NS 2000000

static void longest(int64_t *wall, int64_t *own)
{
    void (*ask)(int64_t *, int64_t *) =
        (void (*)(int64_t *, int64_t *))dlsym(RTLD_DEFAULT, "lockwatch_longest");

    assert_non_null(ask);
    ask(wall, own);
}

static int64_t own_time(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void burn(void)
{
    int64_t end = own_time() + HOLD_NS;

    while (own_time() < end)
        ;
}

TEST(hold__mutex__is_as_long_by_both_clocks)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int64_t wall, own;

    longest(&wall, &own);
    pthread_mutex_lock(&lock);
    burn();
    pthread_mutex_unlock(&lock);
    longest(&wall, &own);
    assert_true(own >= HOLD_NS);
    assert_true(wall >= HOLD_NS);
}

TEST(hold__reader_writer_lock__is_seen)
{
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    int64_t wall, own;

    longest(&wall, &own);
    pthread_rwlock_wrlock(&lock);
    burn();
    pthread_rwlock_unlock(&lock);
    longest(&wall, &own);
    assert_true(own >= HOLD_NS);
}

TEST(hold__between_two_looks__is_forgotten)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int64_t wall, own;

    pthread_mutex_lock(&lock);
    burn();
    pthread_mutex_unlock(&lock);
    longest(&wall, &own);
    longest(&wall, &own);
    assert_true(own < HOLD_NS);
}

TEST(hold__released_for_a_condition__is_no_hold)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    struct timespec past = {.tv_sec = 1};
    int64_t wall, own;

    longest(&wall, &own);
    pthread_mutex_lock(&lock);
    burn();
    pthread_cond_timedwait(&never, &lock, &past);
    longest(&wall, &own); /* the hold before the wait */
    assert_true(own >= HOLD_NS);
    pthread_mutex_unlock(&lock);
    longest(&wall, &own);
    assert_true(own < HOLD_NS);
}

TEST_MAIN()
