/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See stepper.h. The child raises SIGSTOP to begin and to end the counting.
 */
#include "bench/stepper.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void be_counted(void (*prepare)(void *arg), void (*work)(void *arg), void *arg)
{
    prepare(arg);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
        _exit(1);
    raise(SIGSTOP);
    work(arg);
    raise(SIGSTOP);
    _exit(0);
}

static bool stopped_by(pid_t child, int signal)
{
    int status;

    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return WIFSTOPPED(status) && WSTOPSIG(status) == signal;
}

static double step_through(pid_t child)
{
    double steps = 0;

    if (!stopped_by(child, SIGSTOP))
        return -1;
    for (;;) {
        int status;

        if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) || waitpid(child, &status, 0) != child ||
            !WIFSTOPPED(status))
            return -1;
        if (WSTOPSIG(status) == SIGSTOP)
            return steps;
        steps++;
    }
}

double count_steps(void (*prepare)(void *arg), void (*work)(void *arg), void *arg)
{
    pid_t child;
    double steps;

    fflush(NULL);
    child = fork();
    if (child < 0)
        return -1;
    if (!child)
        be_counted(prepare, work, arg);
    steps = step_through(child);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return steps;
}
