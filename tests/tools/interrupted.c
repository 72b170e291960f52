/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Commands that a signal ends: by that signal, with their children, and without harm to the files
 * that they write. A fabric's library has installed handlers (tests/support/exiter.c).
 */
#include "tests/support/exiter.h"
#include "tests/tools/tool.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* ---- a command --------------------------------------------------------------------------- */

struct command {
    pid_t pid;
    int words; /* of exiter.c */
    int out;
};

static void in_child(const char *const *argv, int words, int out)
{
    char number[16];

    signal(SIGINT, SIG_DFL); /* a shell's background commands ignore it */
    snprintf(number, sizeof(number), "%d", getpid());
    setenv("EXITER_COMMAND", number, 1);
    snprintf(number, sizeof(number), "%d", fcntl(words, F_DUPFD, 10));
    setenv("EXITER_PIPE", number, 1);
    if (dup2(out, STDOUT_FILENO) >= 0)
        execv(argv[0], (char **)(uintptr_t)argv);
    _exit(127);
}

#define begin(...) begin_list((const char *const[]){getenv("HMREG_TOOL"), __VA_ARGS__, NULL})
static struct command begin_list(const char *const *argv)
{
    struct command command;
    int words[2], out[2];

    assert_non_null(argv[0]);
    assert_int_equal(pipe2(words, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    /* Its children's parent is this process when it has ended. */
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    tool_preload_nic(true);
    command.pid = test_fork();
    if (command.pid == 0)
        in_child(argv, words[1], out[1]);
    tool_preload_nic(false);
    close(words[1]);
    close(out[1]);
    command.words = words[0];
    command.out = out[0];
    return command;
}

/* Waits until a process of the command tells something; 0: all have ended. */
static pid_t hear(const struct command *command, int what)
{
    struct exiter_word word = {0};
    ssize_t got = read(command->words, &word, sizeof(word));

    if (got && word.what != what) {
        kill(command->pid, SIGKILL);
        fail_msg("process %d is %s", word.pid, word.what == EXITER_ENDS ? "in exit()" : "inside");
    }
    return got ? word.pid : 0;
}

/* The signal that ended a process; 0: it exited. */
static int ended_by(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* All of it has ended, the command by this signal. */
static void expect_end(const struct command *command, int number)
{
    assert_int_equal(hear(command, 0), 0);
    assert_int_equal(ended_by(command->pid), number);
    if (!TEST_TSAN) /* which has a child of its own, to name functions */
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    close(command->words);
    close(command->out);
}

/* ---- its end ----------------------------------------------------------------------------- */

TEST(command__interrupted_in_a_library__ends_by_the_signal)
{
    static const char *const names[] = {"info", "plan", "doctor"};
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGSEGV};
    /* A sanitizer reports a crash and exits. */
    const size_t count = TEST_ASAN || TEST_TSAN ? 5 : 6;

    for (size_t i = 0; i < count; i++) {
        struct command command = begin(names[i < 3 ? i : 0]);
        int number = numbers[i < 3 ? 0 : i - 2];

        assert_int_equal(hear(&command, EXITER_INSIDE), command.pid);
        assert_int_equal(kill(command.pid, number), 0);
        expect_end(&command, number);
    }
}

static void expect_child_ends(struct command *command)
{
    pid_t child = hear(command, EXITER_INSIDE);

    assert_int_not_equal(child, command->pid);
    assert_int_equal(kill(command->pid, SIGINT), 0);
    assert_int_equal(ended_by(command->pid), SIGINT);
    /* The kernel's signal came first. */
    assert_int_equal(kill(child, SIGUSR1), 0);
    assert_int_equal(ended_by(child), SIGKILL);
    assert_int_equal(hear(command, 0), 0);
    close(command->words);
    close(command->out);
}

TEST(command__interrupted_while_its_child_is_in_a_library__the_child_ends)
{
    struct command command;

    test_setenv("EXITER_IN", "child");
    command = begin("verify", "--json");
    expect_child_ends(&command);
}

TEST(stats__watching__ends_by_the_signal)
{
    struct command command = begin("stats", "--json", "--watch", "86400");
    char first;

    assert_int_equal(read(command.out, &first, 1), 1);
    assert_int_equal(kill(command.pid, SIGINT), 0);
    expect_end(&command, SIGINT);
}

/* As nohup(1) and a shell's jobs in the background are. */
TEST(command__started_with_the_signal_ignored__ignores_it)
{
    struct command command;
    void (*before)(int) = signal(SIGHUP, SIG_IGN);

    command = begin("info");
    signal(SIGHUP, before);
    assert_int_equal(hear(&command, EXITER_INSIDE), command.pid);
    assert_int_equal(kill(command.pid, SIGHUP), 0);
    assert_int_equal(kill(command.pid, SIGTERM), 0);
    expect_end(&command, SIGTERM);
}

/* ---- its files --------------------------------------------------------------------------- */

static int count_files(const char *path)
{
    DIR *folder = opendir(path);
    int count = 0;

    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        count += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
    closedir(folder);
    return count;
}

static void expect_old(const char *path)
{
    char text[16] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    assert_int_equal(read(fd, text, sizeof(text)), 3);
    assert_string_equal(text, "old");
    close(fd);
}

TEST(verify__interrupted__the_previous_report_stays)
{
    char folder[] = "/tmp/hmreg-test-XXXXXX", out[64], files[2][80];
    static const char *const endings[] = {"txt", "json"};
    struct command command;

    assert_non_null(mkdtemp(folder));
    snprintf(out, sizeof(out), "%s/report", folder);
    for (int i = 0; i < 2; i++) {
        int fd;

        snprintf(files[i], sizeof(files[i]), "%s.%s", out, endings[i]);
        fd = open(files[i], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        assert_int_equal(write(fd, "old", 3), 3);
        close(fd);
    }
    setenv("EXITER_IN", "child", 1);
    command = begin("verify", "--out", out);
    expect_child_ends(&command);
    unsetenv("EXITER_IN");
    assert_int_equal(count_files(folder), 2);
    for (int i = 0; i < 2; i++) {
        expect_old(files[i]);
        unlink(files[i]);
    }
    assert_int_equal(rmdir(folder), 0);
}

TEST_MAIN()
