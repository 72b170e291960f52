/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * How much memory a process can have, by the files of the kernel in a folder of the test's. */

#include "core/base/memory_limit.h"

#include "tests/support/code_filters.h"
#include "tests/support/inside.h"
#include "tests/support/test.h"
#include "tests/tools/tree.h"

#include <pthread.h>
#include <sched.h>

static void begin(const char *groups)
{
    tree_begin();
    tree_file("/proc/self/cgroup", groups);
}

static void expect(uint64_t bytes, const char *words)
{
    const char *what;

    assert_int_equal(inside_memory_limit(getenv("HMREG_DOCTOR_ROOT"), &what), bytes);
    assert_string_equal(what, words);
}

static void expect_machines(void)
{
    expect((uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE),
           "this machine's memory");
}

TEST(machine__no_groups__its_memory)
{
    begin("");
    expect_machines();
    tree_remove("/proc/self/cgroup");
    expect_machines();
}

/* 0, or at which step not. */
static int read_without_sysinfo(void)
{
    const char *what;

    if (!code_filter_refuse(SYS_sysinfo, EPERM))
        return 77;
    return inside_memory_limit(getenv("HMREG_DOCTOR_ROOT"), &what) == UINT64_MAX &&
                   !strcmp(what, "unknown")
               ? 0
               : 1;
}

TEST(machine__sysinfo_refused__unknown)
{
    begin("");
    test_in_child_or_skip(read_without_sysinfo(), "no seccomp filter can be made here");
}

TEST(group__of_version_2__the_least_of_all_above)
{
    begin("12:cpuset:/a\n0::/a/b/c\n");
    tree_file("/sys/fs/cgroup/a/b/c/memory.max", "max\n");
    expect_machines();
    tree_file("/sys/fs/cgroup/a/memory.max", "5000\n");
    expect(5000, "memory.max of a control group");
    tree_file("/sys/fs/cgroup/a/b/memory.max", "7000\n");
    expect(5000, "memory.max of a control group");
    tree_file("/sys/fs/cgroup/a/b/c/memory.max", "4000\n");
    expect(4000, "memory.max of a control group");
    tree_file("/sys/fs/memory.max", "1\n"); /* above the mount: another file system's */
    expect(4000, "memory.max of a control group");
}

/* A container with a namespace of groups of its own, whose group lies outside of it, or which sees
 * the group's path on the host. */
TEST(group__of_a_container__its_mounts_root)
{
    static const char *const groups[] = {"0::/\n", "0::/../other\n", "0::/docker/x\n"};

    for (size_t i = 0; i < 3; i++) {
        begin(groups[i]);
        tree_file("/sys/fs/cgroup/memory.max", "3000\n");
        expect(3000, "memory.max of a control group");
        test_finish();
    }
}

/* The smallest stack of a thread holds no line and no path of the longest length. */
static void *read_on_a_small_stack(void *arg)
{
    *(struct memory_limit *)arg = memory_limit_read(getenv("HMREG_DOCTOR_ROOT"));
    return NULL;
}

TEST(stack__the_smallest_of_a_thread__suffices)
{
    struct memory_limit limit = {0, ""};
    pthread_attr_t small;
    pthread_t thread;

    if (TEST_ASAN || TEST_TSAN)
        test_skip("a sanitizer needs more of the stack");
    begin("0::/a\n");
    tree_file("/sys/fs/cgroup/a/memory.max", "5000\n");
    pthread_attr_init(&small);
    assert_int_equal(pthread_attr_setstacksize(&small, (size_t)sysconf(_SC_THREAD_STACK_MIN)), 0);
    assert_int_equal(pthread_create(&thread, &small, read_on_a_small_stack, &limit), 0);
    pthread_attr_destroy(&small);
    pthread_join(thread, NULL);
    assert_int_equal(limit.bytes, 5000);
}

/* ---- the right to lock more ------------------------------------------------------------- */

/* Root of a user namespace has every capability in it, and the kernel asks in the first one. */
TEST(lock_right__of_a_user_namespace__exempts_from_nothing)
{
    test_forks_with_threads();
    test_in_child_or_skip(unshare(CLONE_NEWUSER) ? 77 : inside_may_lock(),
                          "no user namespace can be made here");
}

TEST_MAIN()
