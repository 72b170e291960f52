/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Cases that end in each possible way, with which scripts.sh tests the tests' main().
 */
#include "tests/support/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <time.h>

TEST(passes)
{
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

TEST(fails)
{
    assert_true(0);
}

TEST(skips)
{
    test_skip("this one always is");
}

TEST(leaks)
{
    assert_true(open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0);
}

TEST(closes_too_much)
{
    close(STDIN_FILENO);
}

/* The end of a case counts the descriptors by one more, of the next number: closes fd after it. */
static void *close_once_counted(void *fd)
{
    int own = (int)(intptr_t)fd;

    while (fcntl(own + 1, F_GETFD) < 0)
        sched_yield();
    while (fcntl(own + 1, F_GETFD) >= 0)
        sched_yield();
    close(own);
    return NULL;
}

TEST(closed_by_a_thread)
{
    pthread_t thread;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    assert_int_equal(pthread_create(&thread, NULL, close_once_counted, (void *)(intptr_t)fd), 0);
    pthread_detach(thread);
}

TEST(a_tenth)
{
    assert_int_equal(test_times(100), 10);
    assert_int_equal(test_times(3), 1);
}

static int *left; /* on the stack of a failed case */

TEST(ends_badly__things_left)
{
    int value = 0;

    assert_int_equal(pthread_mutex_lock(&lock), 0);
    left = &value;
    setenv("HARNESS_LEFT", "this", 1);
    fail();
}

TEST(after_it__nothing_left)
{
    assert_null(getenv("HARNESS_LEFT"));
    assert_null(left);
    assert_int_equal(pthread_mutex_trylock(&lock), 0);
    pthread_mutex_unlock(&lock);
}

TEST(child_ends_badly)
{
    pid_t child = fork();
    int status;

    if (child == 0)
        fail();
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

TEST_MAIN()
