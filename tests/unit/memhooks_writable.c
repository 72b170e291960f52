/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Which memory is writable and executable while hooks are placed and removed: a process that does
 * so stops at each of its system calls, and its parent reads its list of mappings there. None is
 * both. Where the kernel lets code be changed in no other way, only the code of files that are
 * hooked may be, while one of its instructions is replaced; never the pages of stubs. That nothing
 * is left of it is in memhooks.c.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/code_filters.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/* In a process without stubs yet. */
static int place_and_remove(bool moves)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_MEMHOOKS};
    struct hmreg *lib;
    int rc = 0;

    if ((!moves && !code_filter_moves()) || ptrace(PTRACE_TRACEME, 0, NULL, NULL))
        return 77;
    raise(SIGSTOP);
    for (int i = 0; !rc && i < 2; i++) {
        rc = hmreg_open(&config, &lib);
        if (rc == -EOPNOTSUPP)
            return 77;
        rc = rc ? rc : hmreg_close(lib);
    }
    return rc != 0;
}

struct seen {
    unsigned stops, code, other;
    char line[512]; /* of the last that is no file's code */
};

static void look(pid_t child, struct seen *seen)
{
    char path[40], line[512];
    FILE *maps;

    snprintf(path, sizeof(path), "/proc/%d/maps", (int)child);
    maps = fopen(path, "re");
    seen->stops++;
    while (maps && fgets(line, sizeof(line), maps)) {
        if (!strstr(line, " rwx"))
            continue;
        if (strstr(line, "/libc.so") || strstr(line, "/ld-linux")) {
            seen->code++;
            continue;
        }
        seen->other++;
        strcpy(seen->line, line);
    }
    if (maps)
        fclose(maps);
}

/* Returns the child's exit status, or -1 after a signal. */
static int look_until_exit(pid_t child, struct seen *seen)
{
    int status = 0;

    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        int signal = WSTOPSIG(status);

        look(child, seen);
        signal = signal == SIGSTOP || signal == SIGTRAP ? 0 : signal;
        if (ptrace(PTRACE_SYSCALL, child, NULL, (void *)(uintptr_t)signal))
            break;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static struct seen place_and_look(bool moves)
{
    struct seen seen = {.stops = 0};
    int rc;
    pid_t child;

    if (FIXTURE_SANITIZED)
        test_skip("what the linker finds is the sanitizer's");
    fflush(NULL);
    child = fork();
    if (child == 0)
        _exit(place_and_remove(moves));
    rc = look_until_exit(child, &seen);
    if (rc == 77)
        test_skip("memhooks, filters or ptrace(2) cannot be used here");
    assert_int_equal(rc, 0);
    assert_true(seen.stops > 50);
    if (seen.other)
        fail_msg("writable and executable: %s", seen.line);
    return seen;
}

static void open_and_close__at_each_system_call__nothing_writable_and_executable(void **state)
{
    if (!code_moves())
        test_skip("this kernel lets no code be changed but writable code");
    assert_int_equal(place_and_look(true).code, 0);
}

static void open_and_close__code_must_be_writable__only_hooked_code_is(void **state)
{
    assert_true(place_and_look(false).code > 0);
}

TEST_MAIN(TEST(open_and_close__at_each_system_call__nothing_writable_and_executable),
          TEST(open_and_close__code_must_be_writable__only_hooked_code_is))
