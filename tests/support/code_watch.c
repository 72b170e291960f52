/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See code_watch.h.
 */
#include "tests/support/code_watch.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

int code_watch_begin(void)
{
    return ptrace(PTRACE_TRACEME, 0, NULL, NULL) || raise(SIGSTOP) ? -1 : 0;
}

static bool may_be(const struct code_watch *watch, const char *line)
{
    for (const char *const *file = watch->files; *file; file++)
        if (strstr(line, *file))
            return true;
    return false;
}

static void look(pid_t child, struct code_watch *watch)
{
    char path[40], line[512];
    FILE *maps;

    snprintf(path, sizeof(path), "/proc/%d/maps", (int)child);
    maps = fopen(path, "re");
    watch->stops++;
    watch->left = 0;
    while (maps && fgets(line, sizeof(line), maps)) {
        if (!strstr(line, " rwx"))
            continue;
        watch->left++;
        if (may_be(watch, line)) {
            watch->code++;
            continue;
        }
        watch->other++;
        strcpy(watch->line, line);
    }
    if (maps)
        fclose(maps);
}

int code_watch(pid_t child, struct code_watch *watch)
{
    int status = 0;

    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        int signal = WSTOPSIG(status);

        look(child, watch);
        signal = signal == SIGSTOP || signal == SIGTRAP ? 0 : signal;
        if (ptrace(PTRACE_SYSCALL, child, NULL, (void *)(uintptr_t)signal))
            break;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
