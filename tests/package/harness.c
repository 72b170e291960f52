/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Cases that end in each possible way, with which scripts.sh tests the tests' main().
 */
#include "tests/support/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void passes(void **state)
{
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

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

static int *left; /* on the stack of a failed case */

static void ends_badly__things_left(void **state)
{
    int value = 0;

    assert_int_equal(pthread_mutex_lock(&lock), 0);
    left = &value;
    setenv("HARNESS_LEFT", "this", 1);
    fail();
}

static void after_it__nothing_left(void **state)
{
    assert_null(getenv("HARNESS_LEFT"));
    assert_null(left);
    assert_int_equal(pthread_mutex_trylock(&lock), 0);
    pthread_mutex_unlock(&lock);
}

static void child_ends_badly(void **state)
{
    pid_t child = fork();
    int status;

    if (child == 0)
        fail();
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

TEST_MAIN(TEST(a_tenth), TEST(passes), TEST(fails), TEST(skips), TEST(leaks), TEST(closes_too_much),
          TEST(closed_by_a_thread), TEST(ends_badly__things_left), TEST(after_it__nothing_left),
          TEST(child_ends_badly))
