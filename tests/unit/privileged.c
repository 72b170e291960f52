/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * A set-user-id program: its user must not steer the library by the environment. */
#include "tests/support/test.h"

#include <fcntl.h>
#include <hmreg/hmreg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define OTHER_USER 1234

/* With this value hmreg_open() fails, if it reads it. */
static const char variable[] = "HMREG_IFACES=nonsense";

static int open_library(void)
{
    struct hmreg *lib = NULL;

    return hmreg_open(NULL, &lib) || hmreg_close(lib) ? 1 : 0;
}

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

static int run(const char *path)
{
    char *const argv[] = {(char *)(uintptr_t)path, "--open", NULL};
    char *const environment[] = {(char *)(uintptr_t)variable, NULL};
    pid_t child = fork();
    int status;

    if (child == 0) {
        execve(path, argv, environment);
        _exit(77);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void open__in_a_set_user_id_program__environment_is_not_read(void **state)
{
    char path[64];
    int status;

    snprintf(path, sizeof(path), "./privileged-%d", (int)getpid());
    if (geteuid() != 0)
        test_skip("only root can make a program of another user");
    status = copy_program(path) ? run(path) : 77;
    unlink(path);
    if (status == 77)
        test_skip("set-user-id programs have no effect here");
    assert_int_equal(status, 0);
    assert_int_equal(run("/proc/self/exe"), 1); /* as for any other program */
}

static const struct test_case cases[] = {
    TEST(open__in_a_set_user_id_program__environment_is_not_read)};

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--open")) {
        bool privileged = getauxval(AT_SECURE);
        bool copied = strcmp(argv[0], "/proc/self/exe") != 0;

        /* Not by exit(): the kernel keeps LeakSanitizer from looking into a set-user-id program. */
        _exit(copied && !privileged ? 77 : open_library());
    }
    return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
