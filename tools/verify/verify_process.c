/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The separate processes, seen from the command: each executes this program again (neither CUDA nor
 * libfabric survives fork()) and writes JSON to a pipe. One process runs the checks of a group
 * until one fails, crashes or hangs; another process continues after that one.
 */
#include "tools/verify/verify.h"

#include "tools/child.h"
#include "tools/progress.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST_NAMES 64 /* checks of one process */
#define LIST_LIMIT 60 /* seconds that a list may take */

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- one process ------------------------------------------------------------------------ */

struct process {
    pid_t pid;
    int fd;
    char *text; /* what it wrote and was not taken yet */
    size_t used, room;
    bool timed_out;
};

static int process_start(struct process *process, char **argv)
{
    *process = (struct process){.fd = -1};
    return child_start(argv, STDOUT_FILENO, &process->pid, &process->fd);
}

/* Reads more of its text: false at its end, and when the deadline has passed. */
static bool process_read(struct process *process, int64_t deadline)
{
    struct pollfd ready = {.fd = process->fd, .events = POLLIN};
    int64_t left = deadline - now_ms();
    int polled = left > 0 ? poll(&ready, 1, (int)left) : 0;
    ssize_t got;

    if (polled < 0 && errno == EINTR)
        return true;
    process->timed_out = polled == 0;
    if (polled <= 0)
        return false;
    if (process->room - process->used < 4096) {
        process->room += 1 << 16;
        process->text = realloc(process->text, process->room);
        if (!process->text)
            doc_no_memory();
    }
    got = read(process->fd, process->text + process->used, process->room - process->used - 1);
    if (got > 0)
        process->used += (size_t)got;
    if (process->text)
        process->text[process->used] = '\0';
    return got > 0;
}

/* A process that is stuck in a driver may not die; then gives up waiting. */
static bool process_wait(struct process *process, int64_t deadline, int *status)
{
    const struct timespec moment = {.tv_nsec = 10000000};

    while (waitpid(process->pid, status, WNOHANG) == 0) {
        if (now_ms() > deadline)
            return false;
        nanosleep(&moment, NULL);
    }
    return true;
}

/* Ends the process. why: empty if it exited with 0 or 1. */
static void process_end(struct process *process, int64_t deadline, char why[160])
{
    int status = 0;

    why[0] = '\0';
    if (!process->timed_out)
        process->timed_out = !process_wait(process, deadline, &status);
    if (process->timed_out) {
        kill(process->pid, SIGKILL);
        process_wait(process, now_ms() + 2000, &status);
        snprintf(why, 160, "it did not come to an end in time and was stopped");
    } else if (WIFSIGNALED(status)) {
        snprintf(why, 160, "its process was ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    } else if (WEXITSTATUS(status) > 1) {
        snprintf(why, 160, "its process exited with status %d", WEXITSTATUS(status));
    }
    close(process->fd);
    free(process->text);
}

/* ---- the list --------------------------------------------------------------------------- */

/* NULL: it failed, and *why says so. */
static json_t *list(int patience, char why[160])
{
    char tool[] = "hmreg", verify[] = "verify", list[] = "--list", json[] = "--json";
    char *argv[] = {tool, verify, list, json, NULL};
    int64_t deadline = now_ms() + (patience < LIST_LIMIT ? patience : LIST_LIMIT) * 1000LL;
    struct process process;
    json_t *found;
    int rc = process_start(&process, argv);

    if (rc) {
        snprintf(why, 160, "no process was started: %s", strerror(rc));
        return NULL;
    }
    while (process_read(&process, deadline))
        continue;
    found = process.text ? json_loads(process.text, 0, NULL) : NULL;
    process_end(&process, deadline, why);
    if (found && !*why)
        return found;
    if (!*why)
        snprintf(why, 160, "its process wrote no list");
    json_decref(found);
    return NULL;
}

void verify_list(json_t *report, int patience)
{
    int64_t began = now_ms();
    char why[160];
    json_t *found;

    progress_show("hmreg verify: looking for devices and fabrics");
    found = list(patience, why);

    if (!found) {
        doc_add(json_object_get(report, "checks"),
                doc_pack("{s:s, s:s, s:b, s:I, s:o}", "name", "list", "result", "failed",
                         "simulated", 0, "ms", (json_int_t)(now_ms() - began), "text",
                         doc_format("what is here was not listed: %s; what follows is without "
                                    "devices' runtimes",
                                    why)));
        setenv("HMREG_IFACES", "system", 1);
        found = list(patience, why);
    }
    doc_set(report, "inventory", found ? found : json_null());
}

/* ---- a group ---------------------------------------------------------------------------- */

struct group {
    json_t *results;
    const json_t *checks; /* of the inventory */
    size_t next, end;     /* checks of the group that have no result yet */
    char *pending;        /* the one that runs */
    int64_t began;        /* when the process, or the check that runs, began */
    int64_t patience, limit;
};

static const char *check_name(const struct group *group, size_t i)
{
    return doc_words(json_array_get(group->checks, i), "name");
}

static void add_result(struct group *group, const char *name, const char *result, int64_t ms,
                       const char *text)
{
    const json_t *check = doc_find(group->checks, "name", name);

    doc_add(group->results,
            doc_pack("{s:s, s:s, s:b, s:I, s:o}", "name", name, "result", result, "simulated",
                     doc_is(check, "simulated"), "ms", (json_int_t)ms, "text", doc_text(text)));
    if (group->next < group->end && !strcmp(name, check_name(group, group->next)))
        group->next++;
}

static void take_line(struct group *group, const char *text)
{
    json_t *line = json_loads(text, 0, NULL);

    free(group->pending);
    group->pending = NULL;
    group->began = now_ms();
    if (doc_has(line, "result"))
        add_result(group, doc_words(line, "name"), doc_words(line, "result"),
                   (int64_t)doc_number(line, "ms"), doc_words(line, "text"));
    else
        group->pending = strdup(doc_words(line, "name"));
    if (group->pending)
        progress_show("hmreg verify: check %zu of %zu: %s", group->next + 1,
                      json_array_size(group->checks), group->pending);
    json_decref(line);
}

static void take_lines(struct group *group, struct process *process)
{
    char *start = process->text, *end;

    for (; start && (end = strchr(start, '\n')); start = end + 1) {
        *end = '\0';
        take_line(group, start);
    }
    if (!start)
        return;
    process->used = strlen(start);
    memmove(process->text, start, process->used + 1);
}

static int64_t deadline_of(const struct group *group)
{
    int64_t patient = group->began + group->patience;

    return patient < group->limit ? patient : group->limit;
}

/* argv of a process for the checks that have no result. The caller frees it. */
static char **arguments(const struct group *group)
{
    static char tool[] = "hmreg", verify[] = "verify", check[] = "--check", json[] = "--json";
    char **argv = calloc(2 * MOST_NAMES + 4, sizeof(*argv));
    size_t used = 3;

    if (!argv)
        doc_no_memory();
    argv[0] = tool;
    argv[1] = verify;
    argv[2] = json;
    for (size_t i = group->next; i < group->end && i < group->next + MOST_NAMES; i++) {
        argv[used++] = check;
        argv[used++] = (char *)(uintptr_t)check_name(group, i);
    }
    return argv;
}

/* The failure of a process is that of the check which ran; of the first, if none had begun; or, if
 * it had ended its last check, of its end. */
static void blame(struct group *group, size_t first, const char *why)
{
    const char *last = check_name(group, group->end - 1);
    int64_t ms = now_ms() - group->began;
    char name[VERIFY_NAME];

    if (group->pending) {
        add_result(group, group->pending, "failed", ms, why);
    } else if (group->next == first) {
        add_result(group, check_name(group, first), "failed", ms,
                   *why ? why : "its process ended without a result");
    } else if (*why) {
        snprintf(name, sizeof(name), "%.*s/end", (int)strcspn(last, "/"), last);
        add_result(group, name, "failed", ms, why);
    }
    free(group->pending);
    group->pending = NULL;
}

static void run_process(struct group *group)
{
    char **argv = arguments(group), why[160] = "";
    size_t first = group->next;
    struct process process;
    int rc = process_start(&process, argv);

    free(argv);
    group->began = now_ms();
    if (rc) {
        snprintf(why, sizeof(why), "no process was started: %s", strerror(rc));
    } else {
        while (process_read(&process, deadline_of(group)))
            take_lines(group, &process);
        process_end(&process, deadline_of(group), why);
    }
    blame(group, first, why);
}

static void run_group(struct group *group)
{
    char why[80];

    snprintf(why, sizeof(why), "not reached within the %d s that all checks have", VERIFY_LIMIT);
    while (group->next < group->end)
        if (now_ms() < group->limit)
            run_process(group);
        else
            add_result(group, check_name(group, group->next), "skipped", 0, why);
}

static bool is_same_group(const char *one, const char *other)
{
    size_t length = strcspn(one, "/");

    return strcspn(other, "/") == length && !strncmp(one, other, length);
}

void verify_run_all(json_t *report, int patience, int left)
{
    struct group group = {
        .results = json_object_get(report, "checks"),
        .checks = json_object_get(json_object_get(report, "inventory"), "checks"),
        .patience = (int64_t)patience * 1000,
        .limit = now_ms() + (int64_t)left * 1000,
    };
    size_t count = json_array_size(group.checks);

    while (group.next < count) {
        group.end = group.next + 1;
        while (group.end < count &&
               is_same_group(check_name(&group, group.next), check_name(&group, group.end)))
            group.end++;
        run_group(&group);
    }
    progress_end();
}
