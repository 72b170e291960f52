/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The library's threads do not inherit the program's settings; neither in a program with more
 * thread-local data than their stacks have room for, where libc refuses such a stack.
 */
#include "tests/support/test.h"

#include "core/base/thread.h"

#include <hmreg/hmreg.h>

#include <sched.h>
#include <sys/prctl.h>

static _Thread_local char much[2 << 20];

static void *count_cpus(void *arg)
{
    static int count;
    cpu_set_t cpus;

    much[sizeof(much) - 1] = 1;
    count = sched_getaffinity(0, sizeof(cpus), &cpus) ? 0 : CPU_COUNT(&cpus);
    return &count;
}

TEST(start__much_thread_local_data__all_cpus)
{
    static _Alignas(65536) char small[128 << 10];
    const struct thread_stack own = {small, sizeof(small)};
    const struct thread_stack *stacks[] = {NULL, &own};
    cpu_set_t before, one;
    pthread_t thread;
    void *count;

    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    if (CPU_COUNT(&before) < 2)
        test_skip("there is one CPU");
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_ok(thread_start(&thread, stacks[i], count_cpus, NULL, "to test"));
        assert_int_equal(pthread_join(thread, &count), 0);
        assert_in_range(*(int *)count, CPU_COUNT(&before), CPU_SETSIZE);
    }
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

/* Not the address of a variable: a sanitizer may have those elsewhere. */
static void *get_frame(void *arg)
{
    much[0] = 1;
    *(uintptr_t *)arg = (uintptr_t)__builtin_frame_address(0);
    return NULL;
}

TEST(start__stack_with_room__the_thread_is_on_it)
{
    static _Alignas(65536) char large[sizeof(much) + (1 << 20)];
    const struct thread_stack own = {large, sizeof(large)};
    uintptr_t frame = 0;
    pthread_t thread;

    assert_ok(thread_start(&thread, &own, get_frame, &frame, "to test"));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_in_range(frame, (uintptr_t)large, (uintptr_t)large + sizeof(large));
}

static void *get_slack(void *arg)
{
    *(int *)arg = prctl(PR_GET_TIMERSLACK);
    return NULL;
}

TEST(start__timer_slack_of_a_service__the_threads_is_normal)
{
    int before = prctl(PR_GET_TIMERSLACK), callers = 500000000, threads = 0;
    pthread_t thread;

    if (prctl(PR_SET_TIMERSLACK, callers) || prctl(PR_GET_TIMERSLACK) != callers)
        test_skip("the timer slack cannot be set: %s", strerror(errno));
    assert_ok(thread_start(&thread, NULL, get_slack, &threads, "to test"));
    assert_int_equal(prctl(PR_GET_TIMERSLACK), callers);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_in_range(threads, 1, 50000);
    assert_int_equal(prctl(PR_SET_TIMERSLACK, before), 0);
}

TEST_MAIN()
