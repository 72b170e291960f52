/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The library's threads do not inherit the program's settings; neither in a program with more
 * thread-local data than their stacks have room for, where libc refuses such a stack. They
 * may have descriptors of their own, and end without a trace.
 */
#include "tests/support/code_filters.h"
#include "tests/support/test.h"

#include "core/base/thread.h"

#include <hmreg/hmreg.h>

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

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

/* ---- descriptors ------------------------------------------------------------------------ */

struct keeping {
    int fd, other, foreign;
    bool done;
    bool has_fd, has_other, has_foreign, has_stderr;
};

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void *keep_only(void *arg)
{
    struct keeping *keeping = arg;

    keeping->done = thread_keep_only(keeping->fd, keeping->other);
    keeping->has_fd = is_open(keeping->fd);
    keeping->has_other = keeping->other >= 0 && is_open(keeping->other);
    keeping->has_foreign = is_open(keeping->foreign);
    keeping->has_stderr = is_open(2);
    return NULL;
}

static struct keeping keep_in_a_thread(int fd, int other, int foreign)
{
    struct keeping keeping = {.fd = fd, .other = other, .foreign = foreign};
    pthread_t thread;

    assert_ok(thread_start(&thread, NULL, keep_only, &keeping, "to test"));
    assert_int_equal(pthread_join(thread, NULL), 0);
    return keeping;
}

TEST(keep_only__two_descriptors__all_else_stays_the_programs_alone)
{
    int pipes[2][2];

    assert_int_equal(pipe(pipes[0]), 0);
    assert_int_equal(pipe(pipes[1]), 0);
    for (int i = 0; i < 4; i++) { /* beside each other or not, in either order; one; the lowest */
        int fd = i == 3 ? 0 : pipes[i % 2][0], other = i < 2 ? pipes[1 - i % 2][1 - i % 2] : -1;
        struct keeping keeping = keep_in_a_thread(fd, other, pipes[0][1]);

        if (!keeping.done)
            test_skip("this kernel has no close_range(2)");
        assert_true(keeping.has_fd);
        assert_int_equal(keeping.has_other, other >= 0);
        assert_int_equal(keeping.has_foreign, other == pipes[0][1]);
        assert_false(keeping.has_stderr);
        for (int fd_of_all = 0; fd_of_all < 4; fd_of_all++)
            assert_true(is_open(pipes[fd_of_all / 2][fd_of_all % 2]));
        assert_true(is_open(2));
    }
    for (int i = 0; i < 4; i++)
        close(pipes[i / 2][i % 2]);
}

static int keep_refused(void)
{
    if (!code_filter_refuse(SYS_close_range, EPERM))
        return 77;
    return keep_in_a_thread(2, -1, 1).done;
}

TEST(keep_only__close_range_refused__false)
{
    test_forks_with_threads();
    test_in_child_or_skip(keep_refused(), "this kernel has no seccomp filters");
}

/* ---- joining ---------------------------------------------------------------------------- */

static void *get_tid(void *arg)
{
    __atomic_store_n((pid_t *)arg, gettid(), __ATOMIC_RELEASE);
    return NULL;
}

/* pthread_join(3) alone lets one in some tries find it. */
TEST(join__the_kernel_does_not_count_it)
{
    for (int i = 0; i < 1000; i++) {
        pthread_t thread;
        pid_t tid = 0;

        assert_ok(thread_start(&thread, NULL, get_tid, &tid, "to test"));
        while (!__atomic_load_n(&tid, __ATOMIC_ACQUIRE))
            sched_yield();
        thread_join(thread, &tid);
        assert_int_equal(syscall(SYS_tgkill, getpid(), tid, 0), -1);
    }
}

TEST_MAIN()
