/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * How `hmreg run` starts programs, which it refuses, and what becomes of signals.
 */
#include "tests/preload/command.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>

/* ---- refusals ---------------------------------------------------------------------------- */

static void expect_refusal(const char *program, int status, const char *words)
{
    struct tool tool = tool_run("run", "--", program);

    assert_int_equal(tool.status, status);
    assert_says(tool.err, words);
    assert_string_equal(tool.out, "");
}

TEST(run__program_that_takes_no_library__refused)
{
    char path[] = "/tmp/hmreg-test-XXXXXX";
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    expect_refusal(environment("STATIC"), 126, "is statically linked");
    expect_refusal(path, 126, "you may not execute it");
    assert_int_equal(write(fd, "\177ELF\1\1\1", 7), 7);
    assert_int_equal(fchmod(fd, 0755), 0);
    close(fd);
    expect_refusal(path, 126, "another processor");
    unlink(path);
    expect_refusal(path, 127, "No such file");
    expect_refusal("/tmp", 126, "not a regular file");
    expect_refusal("no-such-program-of-hmreg", 127, "no such program in PATH");
}

TEST(run__set_user_id__refused)
{
    char command[4200], path[64];

    if (getuid())
        test_skip("only root makes another user's set-user-ID program");
    snprintf(path, sizeof(path), "/tmp/hmreg-test-suid-%d", (int)getpid());
    snprintf(command, sizeof(command), "cp %s %s && chown 65534 %s && chmod 4755 %s",
             environment("PROGRAM"), path, path, path);
    assert_int_equal(system(command), 0);
    expect_refusal(path, 126, "another user's rights");
    unlink(path);
}

/* ---- of another user --------------------------------------------------------------------- */

#define USER_OWNER    65534
#define USER_STRANGER 1234

static char strange[64];

/* Prints what the command says, and its exit status. */
static void run_as_stranger(void)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        dup2(STDOUT_FILENO, STDERR_FILENO);
        if (setgid(USER_STRANGER) == 0 && setuid(USER_STRANGER) == 0)
            execl(getenv("HMREG_TOOL"), "hmreg", "run", strange, "has started", (char *)NULL);
        _exit(99);
    }
    waitpid(child, &status, 0);
    printf("status %d", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

/* The command, run by a third user, must refuse a copy of echo(1) of another owner and this mode.
 */
static void expect_strange_refusal(mode_t mode, bool capable, const char *words)
{
    static const struct vfs_cap_data raw = {VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE,
                                            {{1 << CAP_NET_RAW, 0}}};
    char command[256], *text;

    snprintf(command, sizeof(command), "cp -L /bin/echo %s", strange);
    assert_int_equal(system(command), 0);
    assert_int_equal(chown(strange, USER_OWNER, USER_OWNER), 0);
    assert_int_equal(chmod(strange, mode), 0);
    if (capable && setxattr(strange, "security.capability", &raw, XATTR_CAPS_SZ_2, 0)) {
        unlink(strange);
        test_skip("the file system of /tmp has no file capabilities");
    }
    text = output_of(run_as_stranger, 0);
    unlink(strange);
    if (strstr(text, "status 99"))
        test_skip("the command is in a folder that other users must not enter");
    assert_silent(text, "has started");
    assert_says(text, words);
    assert_says(text, "status 126");
}

static void begin_strange(void)
{
    if (getuid())
        test_skip("only root makes another user's programs");
    snprintf(strange, sizeof(strange), "/tmp/hmreg-test-strange-%d", (int)getpid());
}

TEST(run__set_user_id_that_cannot_be_read__refused)
{
    begin_strange();
    expect_strange_refusal(04711, false, "another user's rights");
    expect_strange_refusal(02711, false, "another user's rights");
}

TEST(run__capabilities_that_cannot_be_read__refused)
{
    begin_strange();
    expect_strange_refusal(0755, true, "another user's rights");
    expect_strange_refusal(0711, true, "another user's rights");
}

TEST(run__file_that_cannot_be_read__refused)
{
    begin_strange();
    expect_strange_refusal(0711, false, "cannot be read (Permission denied)");
}

/* ---- scripts ----------------------------------------------------------------------------- */

/* The program's path, in path, becomes that of a script whose interpreter it was. */
static void wrap(char path[PATH_MAX], const char *folder, int number)
{
    char script[PATH_MAX];
    FILE *file;

    snprintf(script, sizeof(script), "%s/%d", folder, number);
    file = fopen(script, "we");
    assert_non_null(file);
    fprintf(file, "#!%s\n", path);
    fclose(file);
    assert_int_equal(chmod(script, 0755), 0);
    strcpy(path, script);
}

static void unwrap(const char *folder, int count)
{
    char script[PATH_MAX];

    for (int i = 0; i < count; i++) {
        snprintf(script, sizeof(script), "%s/%d", folder, i);
        unlink(script);
    }
    rmdir(folder);
}

/* Linux executes a program below five scripts, and none below six. */
TEST(run__scripts_of_scripts__judged_by_the_last_interpreter)
{
    char folder[] = "/tmp/hmreg-test-XXXXXX", path[PATH_MAX];
    struct tool tool;

    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s", environment("STATIC"));
    for (int i = 0; i < 5; i++) {
        wrap(path, folder, i);
        expect_refusal(path, 126, "is statically linked");
    }
    strcpy(path, "/bin/echo");
    for (int i = 0; i < 5; i++)
        wrap(path, folder, i);
    tool = tool_run("run", path, "word");
    assert_int_equal(tool.status, 0);
    assert_says(tool.out, " word\n");
    wrap(path, folder, 5);
    expect_refusal(path, 126, "Linux executes no longer chain");
    unwrap(folder, 6);
}

/* A script is judged by its interpreter, and without one it is the shell's. */
TEST(run__scripts__run)
{
    static const char *const texts[] = {"#!/bin/sh\necho a script $1\n", "echo a script $1\n"};
    char path[] = "/tmp/hmreg-test-XXXXXX";

    for (int i = 0; i < 2; i++) {
        int fd = mkostemp(path, O_CLOEXEC);
        struct tool tool;

        assert_true(fd >= 0);
        assert_true(write(fd, texts[i], strlen(texts[i])) > 0);
        assert_int_equal(fchmod(fd, 0755), 0);
        close(fd);
        tool = tool_run("run", path, "word");
        assert_int_equal(tool.status, 0);
        assert_string_equal(tool.out, "a script word\n");
        unlink(path);
        strcpy(path, "/tmp/hmreg-test-XXXXXX");
    }
}

TEST(run__wrong_command_line__said)
{
    struct tool tool = tool_run("run", "--cache", "true");

    assert_int_equal(tool.status, 125);
    assert_says(tool.err, "--cache");
    tool = tool_run("run");
    assert_int_equal(tool.status, 125);
    assert_says(tool.err, "a program to run is missing");
    tool = tool_run("run", "sh", "-c", "echo $0 $HMREG_RUN_MODE", "--json");
    assert_string_equal(tool.out, "--json trace\n");
    tool = tool_run("run", "--gpu", "--trace=watch", "sh", "-c", "echo $HMREG_RUN_MODE");
    assert_string_equal(tool.out, "trace=watch,gpu\n");
}

/* ---- signals ----------------------------------------------------------------------------- */

struct job {
    pid_t pid;
    int out, err;
};

/* In a process group of its own with a parent in another: else SIGTSTP would stop nothing. */
static void start(struct job *job, const char *const words[])
{
    int out[2], err[2];

    assert_int_equal(pipe(out) | pipe(err), 0);
    fflush(NULL);
    job->pid = fork();
    assert_true(job->pid >= 0);
    if (job->pid == 0) {
        setpgid(0, 0);
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        close(out[0]);
        close(err[0]);
        close(out[1]);
        close(err[1]);
        execv(words[0], (char *const *)(uintptr_t)words);
        _exit(95);
    }
    close(out[1]);
    close(err[1]);
    job->out = out[0];
    job->err = err[0];
}

/* Reads until the text has the words, or the end. */
static char *read_until(int fd, const char *words)
{
    size_t used = 0, room = 1 << 16;
    char *text = calloc(1, room);

    assert_non_null(text);
    while (!words || !strstr(text, words)) {
        ssize_t got = read(fd, text + used, room - used - 1);

        if (got <= 0)
            break;
        used += (size_t)got;
        text[used] = '\0';
    }
    return text;
}

/* The program ends at SIGTERM, with the status 5. Returns what is reported then. */
static char *terminate(const struct job *job)
{
    char *text;
    int status;

    assert_int_equal(kill(job->pid, SIGTERM), 0);
    text = read_until(job->err, NULL);
    assert_int_equal(waitpid(job->pid, &status, 0), job->pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 5);
    close(job->out);
    close(job->err);
    return text;
}

/* SIGRTMIN: a report so far; SIGTERM is the program's, whose own status is the command's. */
TEST(run__signals__a_report_or_the_programs)
{
    const char *const words[] = {environment("HMREG_TOOL"), "run",   "env", fake(),
                                 environment("PROGRAM"),    "waits", NULL};
    struct job job;
    char *text;

    start(&job, words);
    text = read_until(job.out, "waiting");
    assert_string_equal(text, "waiting\n");
    free(text);
    assert_int_equal(kill(job.pid, SIGRTMIN), 0);
    text = read_until(job.err, "registered now: 1 region");
    assert_says(text, "running");
    free(text);
    text = terminate(&job);
    assert_says(text, "never deregistered: 1 region");
    free(text);
}

static void expect_received(const struct job *job, int number, int value)
{
    char expected[32], *text;

    snprintf(expected, sizeof(expected), "[%d %d]\n", number, value);
    text = read_until(job->out, "]\n");
    assert_string_equal(text, expected);
    free(text);
}

static void start_receiver(struct job *job)
{
    const char *const words[] = {environment("HMREG_TOOL"), "run",      "env", fake(),
                                 environment("PROGRAM"),    "receives", NULL};

    start(job, words);
    free(read_until(job->out, "ready\n"));
}

static void end_receiver(struct job *job)
{
    int status;

    assert_int_equal(kill(job->pid, SIGTERM), 0);
    expect_received(job, SIGTERM, 0);
    assert_int_equal(waitpid(job->pid, &status, 0), job->pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 6);
    close(job->out);
    close(job->err);
}

TEST(run__signals_of_another_process__forwarded)
{
    static const int numbers[] = {SIGHUP,  SIGINT,    SIGQUIT, SIGILL,  SIGTRAP, SIGABRT,
                                  SIGBUS,  SIGFPE,    SIGUSR1, SIGSEGV, SIGUSR2, SIGPIPE,
                                  SIGALRM, SIGSTKFLT, SIGURG,  SIGXCPU, SIGXFSZ, SIGVTALRM,
                                  SIGPROF, SIGWINCH,  SIGIO,   SIGPWR,  SIGSYS};
    const union sigval value = {.sival_int = 42};
    struct job job;

    start_receiver(&job);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        assert_int_equal(kill(job.pid, numbers[i]), 0);
        expect_received(&job, numbers[i], 0);
    }
    assert_int_equal(sigqueue(job.pid, SIGRTMIN + 1, value), 0);
    expect_received(&job, SIGRTMIN + 1, 42);
    assert_int_equal(sigqueue(job.pid, SIGUSR1, value), 0);
    expect_received(&job, SIGUSR1, 42);
    end_receiver(&job);
}

TEST(run__stop_and_continue__both_processes)
{
    struct job job;
    int status;

    start_receiver(&job);
    assert_int_equal(kill(job.pid, SIGTSTP), 0);
    expect_received(&job, SIGTSTP, 0);
    assert_int_equal(waitpid(job.pid, &status, WUNTRACED), job.pid);
    assert_true(WIFSTOPPED(status));
    assert_int_equal(WSTOPSIG(status), SIGTSTP);
    assert_int_equal(kill(job.pid, SIGCONT), 0);
    expect_received(&job, SIGCONT, 0);
    end_receiver(&job);
}

TEST(run__follow__reports_meanwhile)
{
    const char *const words[] = {environment("HMREG_TOOL"), "run",   "--follow", "1", "env", fake(),
                                 environment("PROGRAM"),    "waits", NULL};
    struct job job;
    char *text;

    start(&job, words);
    text = read_until(job.err, "registered now: 1 region");
    assert_says(text, "1 registration of 4 KiB");
    free(text);
    free(terminate(&job));
}

TEST_MAIN()
