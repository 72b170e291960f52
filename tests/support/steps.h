/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The instructions of a call, counted one by one (x86-64).
 */
#ifndef TESTS_STEPS_H
#define TESTS_STEPS_H

#include "tests/support/test.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

/* Waits for the next stop of a traced child: true at a trap in its code, false at a step. */
static inline bool steps_at_trap(pid_t child)
{
    siginfo_t info = {.si_code = 0};
    int status = 0;

    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        test_skip("children cannot be traced here");
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
    assert_int_equal(ptrace(PTRACE_GETSIGINFO, child, 0, &info), 0);
    return info.si_code == SI_KERNEL;
}

/* How many instructions call(arg) takes in a child that has run prepare(arg), which may exit with
 * 77. */
static inline unsigned steps_of(void (*prepare)(void *), void (*call)(void *), void *arg)
{
    unsigned count = 0;
    pid_t child = test_fork();

    if (child == 0) {
        prepare(arg);
        if (ptrace(PTRACE_TRACEME, 0, 0, 0))
            _exit(77);
        __asm__ volatile("int3");
        call(arg);
        __asm__ volatile("int3");
        _exit(0);
    }
    assert_true(steps_at_trap(child));
    do {
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, 0, 0), 0);
        count++;
    } while (!steps_at_trap(child));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return count;
}

#endif
