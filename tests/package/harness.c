/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Cases that end in each way a case can, for scripts.sh to see what the tests' main makes of them.
 */
#include "tests/support/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void passes(void **state)
{
}

static void fails(void **state)
{
    assert_true(0);
}

static void skips(void **state)
{
    test_skip("this one always is");
}

static void leaks(void **state)
{
    assert_true(open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0);
}

static void closes_too_much(void **state)
{
    close(STDIN_FILENO);
}

static void *close_later(void *fd)
{
    const struct timespec moment = {.tv_nsec = 100000000};

    nanosleep(&moment, NULL);
    close((int)(intptr_t)fd);
    return NULL;
}

static void closed_by_a_thread(void **state)
{
    pthread_t thread;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    assert_int_equal(pthread_create(&thread, NULL, close_later, (void *)(intptr_t)fd), 0);
    pthread_detach(thread);
}

static void a_tenth(void **state)
{
    assert_int_equal(test_times(100), 10);
    assert_int_equal(test_times(3), 1);
}

TEST_MAIN(TEST(a_tenth), TEST(passes), TEST(fails), TEST(skips), TEST(leaks), TEST(closes_too_much),
          TEST(closed_by_a_thread))
