/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See set_user_id.h.
 */
#include "tests/support/set_user_id.h"

#include "tests/support/test.h"

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define OTHER_USER 1234

/* Copies this program. False: not possible here. */
static bool copy_program(const char *path)
{
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to;
    struct stat status;
    ssize_t sent;

    assert_true(from >= 0);
    assert_int_equal(fstat(from, &status), 0);
    to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    assert_true(to >= 0);
    do {
        sent = sendfile(to, from, NULL, (size_t)status.st_size);
    } while (sent > 0);
    close(from);
    if (sent < 0 || fchown(to, OTHER_USER, OTHER_USER) || fchmod(to, 04755)) {
        close(to);
        return false;
    }
    close(to);
    return true;
}

static int run(const char *path, const char *argument, const char *const *environment)
{
    const char *argv[] = {path, argument, NULL};
    pid_t child = fork();
    int status;

    if (child == 0) {
        execve(path, (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)environment);
        _exit(77);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int run_again(const char *argument, const char *const *environment)
{
    return run("/proc/self/exe", argument, environment);
}

int run_set_user_id(const char *argument, const char *const *environment)
{
    char path[64];
    int status;

    if (geteuid() != 0) /* only root can make one */
        return 77;
    snprintf(path, sizeof(path), "./privileged-%d", (int)getpid());
    status = copy_program(path) ? run(path, argument, environment) : 77;
    unlink(path);
    return status;
}
