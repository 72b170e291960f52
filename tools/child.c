/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See child.h. posix_spawn(3) cannot call prctl(2). fork(2) would call handlers that libraries
 * registered by pthread_atfork(3); libfabric's efa provider ends the process in its own.
 */
#include "tools/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

void child_end_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
}

/* from may equal to. The executed program inherits `to`. */
static int move(int from, int to)
{
    return from != to && dup3(from, to, O_CLOEXEC) < 0 ? -1 : fcntl(to, F_SETFD, 0);
}

/* Runs in the child. Writes to the pipe `report` why the program does not start. */
static void execute(char **argv, int in, int writer, int report)
{
    int error;

    if ((in < 0 || move(in, STDIN_FILENO) >= 0) && move(writer, STDOUT_FILENO) >= 0)
        execv("/proc/self/exe", argv);
    error = errno;
    _exit(write(report, &error, sizeof(error)) < 0);
}

static int start(char **argv, int in, int writer, pid_t *pid)
{
    pid_t parent = getpid();
    int ends[2], error = 0;

    if (pipe2(ends, O_CLOEXEC))
        return errno;
    /* If standard output was closed, the pipe must not get its number. */
    if (ends[1] <= STDOUT_FILENO) {
        int high = fcntl(ends[1], F_DUPFD_CLOEXEC, STDOUT_FILENO + 1);

        close(ends[1]);
        ends[1] = high;
    }
    *pid = ends[1] < 0 ? -1 : _Fork();
    if (*pid == 0) {
        child_end_with(parent);
        execute(argv, in, writer, ends[1]);
    }
    if (*pid < 0)
        error = errno;
    if (ends[1] >= 0)
        close(ends[1]);
    if (*pid > 0 && read(ends[0], &error, sizeof(error)) == sizeof(error))
        waitpid(*pid, NULL, 0);
    close(ends[0]);
    return error;
}

int child_start(char **argv, int in, pid_t *pid, int *reader)
{
    int ends[2], error;

    if (pipe2(ends, O_CLOEXEC))
        return errno;
    error = start(argv, in, ends[1], pid);
    close(ends[1]);
    if (error)
        close(ends[0]);
    else
        *reader = ends[0];
    return error;
}

int child_run(char **argv, int in, int out, int err)
{
    pid_t parent = getpid(), pid = _Fork();
    int status;

    if (pid == 0) {
        child_end_with(parent);
        if (move(in, STDIN_FILENO) >= 0 && move(out, STDOUT_FILENO) >= 0 &&
            move(err, STDERR_FILENO) >= 0)
            execvp(argv[0], argv);
        _exit(127);
    }
    if (pid < 0)
        return -1;
    while (waitpid(pid, &status, 0) != pid)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
