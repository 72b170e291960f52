/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Sets the environment of the program, starts it as a child and waits. Signals that another process
 * sends to this one are forwarded; signals of the terminal reach the program by themselves; SIGTSTP
 * of either stops this process too. This process installs no handler: it blocks the signals and
 * waits for them, and the program gets the mask and the dispositions that this process was started
 * with.
 */
#include "tools/foreign.h"
#include "tools/run/places.h"
#include "tools/run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PRELOAD "libhmreg-preload.so"
#define AUDIT   "libhmreg-audit.so"
#define STANDIN "libhmreg-ibverbs.so"
#define HOOK    "libhmreg_hook-fi.so"

/* ---- environment ------------------------------------------------------------------------- */

/* The folder of the libraries, from the place of this command. */
static bool find_libraries(char folder[PATH_MAX], char why[512])
{
    char self[PATH_MAX], path[PATH_MAX + 64];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash;

    self[length > 0 ? length : 0] = '\0';
    slash = strrchr(self, '/');
    if (!slash)
        return snprintf(why, 512, "/proc/self/exe cannot be read"), false;
    *slash = '\0';
    snprintf(path, sizeof(path), "%.*s/%s", PATH_MAX - 64, self, RUN_LIBRARIES);
    if (!realpath(path, folder)) {
        snprintf(why, 512, "the libraries to load into programs are missing: %.300s: %s", path,
                 strerror(errno));
        return false;
    }
    /* LD_PRELOAD separates by both. */
    if (!strpbrk(folder, " :"))
        return true;
    snprintf(why, 512,
             "hmreg is installed in a folder whose path has a space or a colon, %.300s: LD_PRELOAD "
             "cannot name it",
             folder);
    return false;
}

/* Adds an item to the list in a variable, in front or behind; otherwise: the list if the variable
 * is unset. */
static void add_to(const char *name, const char *item, char separator, bool front,
                   const char *otherwise)
{
    const char *list = getenv(name);
    char *text = NULL;

    list = list && list[0] ? list : otherwise;
    if (!list)
        setenv(name, item, 1);
    else if (asprintf(&text, "%s%c%s", front ? item : list, separator, front ? list : item) > 0)
        setenv(name, text, 1);
    free(text);
}

/* Is it in the folder? path: its path. */
static bool has(const char *folder, const char *library, char path[PATH_MAX + 64])
{
    snprintf(path, PATH_MAX + 64, "%s/%s", folder, library);
    return !access(path, R_OK);
}

/* Sets the libraries that hook libibverbs' calls. False: --by names a library that is missing. */
static bool set_verbs(const struct run_options *options, const char *libraries, char why[512])
{
    char path[PATH_MAX + 64];

    if (has(libraries, PRELOAD, path))
        add_to("LD_PRELOAD", path, ':', true, NULL);
    if (has(libraries, STANDIN, path))
        setenv("NCCL_IBVERBS_LIB", path, 0);
    if (!options->audit)
        return true;
    if (!has(libraries, AUDIT, path)) {
        snprintf(why, 512, "%.400s has no %s: this hmreg was built without it", libraries, AUDIT);
        return false;
    }
    add_to("LD_AUDIT", path, ':', true, NULL);
    return true;
}

bool environment_set(const struct run_options *options, const char *folder, char why[512])
{
    char libraries[PATH_MAX], path[PATH_MAX + 64], mode[64];
    bool preload, hook;

    if (!find_libraries(libraries, why))
        return false;
    hook = has(libraries, HOOK, path);
    preload = has(libraries, PRELOAD, path);
    if (!hook && !preload) {
        snprintf(why, 512,
                 "%.400s has neither %s nor %s: this hmreg was built without both fabrics",
                 libraries, PRELOAD, HOOK);
        return false;
    }
    if (!set_verbs(options, libraries, why))
        return false;
    if (hook) {
        /* libfabric searches its own folder only while the variable is not set. */
        add_to("FI_PROVIDER_PATH", libraries, ':', false, RUN_PROVIDERS);
        add_to("FI_HOOK", "hmreg", ';', false, NULL);
    }
    snprintf(mode, sizeof(mode), "trace%s%s", options->watch ? "=watch" : "",
             options->gpu ? ",gpu" : "");
    setenv("HMREG_RUN_MODE", mode, 1);
    setenv("HMREG_RUN_DIR", folder, 1);
    return true;
}

/* ---- the child --------------------------------------------------------------------------- */

struct start {
    sigset_t mask; /* as this process was started */
    bool ignored;  /* SIGCHLD was */
};

/* Executes a script without an interpreter line by the shell, as execvp(3) does. */
static void execute_script(char **words, const char *path)
{
    size_t count = 0;
    char **shell;

    while (words[count])
        count++;
    shell = calloc(count + 2, sizeof(*shell));
    if (!shell)
        return;
    shell[0] = (char *)(uintptr_t) "/bin/sh";
    shell[1] = (char *)(uintptr_t)path;
    memcpy(shell + 2, words + 1, count * sizeof(*shell));
    execv(shell[0], shell);
    free(shell);
}

/* Runs in the child. Writes to the pipe `report` why the program does not start. */
static void execute(char **words, const char *path, const struct start *start, int report)
{
    int error;

    if (start->ignored)
        signal(SIGCHLD, SIG_IGN);
    sigprocmask(SIG_SETMASK, &start->mask, NULL);
    execv(path, words);
    error = errno;
    if (error == ENOEXEC)
        execute_script(words, path);
    if (write(report, &error, sizeof(error)) < 0)
        _exit(RUN_FAILED);
    _exit(RUN_NOT_EXECUTABLE);
}

/* The child's pid once it executes the program; 0: it does not, and *error says why. */
static pid_t start_child(char **words, const char *path, const struct start *start, int *error)
{
    int ends[2];
    ssize_t length;
    pid_t child;

    if (pipe2(ends, O_CLOEXEC)) {
        *error = errno;
        return 0;
    }
    child = fork();
    if (child == 0)
        execute(words, path, start, ends[1]);
    *error = errno;
    close(ends[1]);
    length = child > 0 ? read(ends[0], error, sizeof(*error)) : -1;
    close(ends[0]);
    if (child > 0 && length <= 0)
        return child;
    if (child > 0)
        waitpid(child, NULL, 0);
    return 0;
}

/* ---- signals ----------------------------------------------------------------------------- */

/* Blocks the signals that wait_for() takes. A fault still ends this process, and its terminal still
 * stops it when it reads or writes in the background. */
static void block_signals(sigset_t *set, struct start *start)
{
    struct sigaction child = {.sa_handler = SIG_DFL}, before;

    sigfillset(set);
    sigdelset(set, SIGTTIN);
    sigdelset(set, SIGTTOU);
    sigprocmask(SIG_BLOCK, set, &start->mask);
    sigaction(SIGCHLD, &child, &before);
    start->ignored = before.sa_handler == SIG_IGN;
}

/* Did a process send it? Terminal signals are excluded: the kernel sends them to the program as
 * well. */
static bool is_sent(const siginfo_t *info)
{
    return info->si_code == SI_USER || info->si_code == SI_QUEUE || info->si_code == SI_TKILL;
}

static void forward(pid_t child, const siginfo_t *info)
{
    if (!is_sent(info) || info->si_signo == SIGCHLD || info->si_signo == SIGCONT)
        return;
    if (info->si_code != SI_QUEUE || sigqueue(child, info->si_signo, info->si_value))
        kill(child, info->si_signo);
}

/* Stops this process as SIGTSTP does. When it is continued, continues the program too if this
 * process had stopped it. */
static void stop(pid_t child, const siginfo_t *info)
{
    sigset_t set;

    forward(child, info);
    sigemptyset(&set);
    sigaddset(&set, SIGTSTP);
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (is_sent(info))
        kill(child, SIGCONT);
}

static int status_of(int status, int *killed)
{
    *killed = WIFSIGNALED(status) ? status : 0;
    return *killed ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int wait_for(pid_t child, const sigset_t *set, unsigned seconds, void (*on_report)(void *),
                    void *context, int *killed)
{
    const struct timespec pause = {.tv_sec = seconds};
    siginfo_t info;
    int status;

    for (;;) {
        int got = seconds ? sigtimedwait(set, &info, &pause) : sigwaitinfo(set, &info);

        if (waitpid(child, &status, WNOHANG) == child)
            return status_of(status, killed);
        if ((got < 0 && errno == EAGAIN) || got == SIGRTMIN)
            on_report(context);
        else if (got == SIGTSTP)
            stop(child, &info);
        else if (got > 0)
            forward(child, &info);
    }
}

int program_run(char **words, const char *path, unsigned seconds, void (*on_report)(void *),
                void *context, int *killed)
{
    struct start start;
    sigset_t set;
    pid_t child;
    int error, status;

    *killed = 0;
    fflush(NULL);
    block_signals(&set, &start);
    child = start_child(words, path, &start, &error);
    if (!child) {
        sigprocmask(SIG_SETMASK, &start.mask, NULL);
        print_error("hmreg run: %s cannot be started: %s", path, strerror(error));
        return error == ENOENT ? RUN_NOT_FOUND : RUN_NOT_EXECUTABLE;
    }
    status = wait_for(child, &set, seconds, on_report, context, killed);
    sigprocmask(SIG_SETMASK, &start.mask, NULL);
    return status;
}
