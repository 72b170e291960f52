/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See again.h.
 */
#include "bench/again.h"

#include "bench/bench.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t running;

const char *again_path(void)
{
    static char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);

    if (length < 0)
        die("/proc is not mounted");
    path[length] = 0;
    return path;
}

FILE *again_begin(const char *const *argv, const char *environment)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC))
        die("no pipe for %s", argv[0]);
    fflush(NULL);
    running = fork();
    if (running < 0)
        die("no process for %s", argv[0]);
    if (!running) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        if (environment)
            putenv((char *)environment);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    close(ends[1]);
    return fdopen(ends[0], "r");
}

int again_end(FILE *output)
{
    int status = 0;

    fclose(output);
    if (waitpid(running, &status, 0) != running || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}
