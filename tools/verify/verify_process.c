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
#define NO_RESULT  "ended without a result"

int64_t verify_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- one process ------------------------------------------------------------------------ */

struct process {
    pid_t pid;
    int fd;
    char *text; /* its output that was not taken yet */
    size_t used, room;
    bool timed_out;
};

static int process_start(struct process *process, char **argv)
{
    *process = (struct process){.fd = -1};
    return child_start(argv, -1, &process->pid, &process->fd);
}

/* Reads more of its text: false at its end, and when the deadline has passed. */
static bool process_read(struct process *process, int64_t deadline)
{
    struct pollfd ready = {.fd = process->fd, .events = POLLIN};
    int64_t left = deadline - verify_now();
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

/* SIGKILL does not end a process that is stuck in a driver; then gives up waiting. */
static bool process_wait(struct process *process, int64_t ms, int *status)
{
    const struct timespec moment = {.tv_nsec = 10000000};
    pid_t ended = waitpid(process->pid, status, WNOHANG);

    for (; !ended && ms > 0; ms -= 10) {
        nanosleep(&moment, NULL);
        ended = waitpid(process->pid, status, WNOHANG);
    }
    return ended;
}

/* Ends the process. seconds: the time that its last work had until the deadline. why: how it ended;
 * empty if it exited with 0 or 1. */
static void process_end(struct process *process, int64_t deadline, int seconds,
                        char why[VERIFY_WHY])
{
    int status = 0;

    why[0] = '\0';
    if (!process->timed_out)
        process->timed_out = !process_wait(process, deadline - verify_now(), &status);
    if (process->timed_out) {
        kill(process->pid, SIGKILL);
        process_wait(process, 2000, &status);
        snprintf(why, VERIFY_WHY, "hung after %d s", seconds);
    } else if (WIFSIGNALED(status)) {
        snprintf(why, VERIFY_WHY, "crashed with signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    } else if (WEXITSTATUS(status) > 1) {
        snprintf(why, VERIFY_WHY, "ended with status %d", WEXITSTATUS(status));
    }
    close(process->fd);
    free(process->text);
}

/* ---- the list --------------------------------------------------------------------------- */

/* NULL: it failed; *why has the reason. */
static json_t *list(int patience, char why[VERIFY_WHY])
{
    char tool[] = "hmreg", verify[] = "verify", list[] = "--list", json[] = "--json";
    char *argv[] = {tool, verify, list, json, NULL};
    int seconds = patience < LIST_LIMIT ? patience : LIST_LIMIT;
    int64_t deadline = verify_now() + seconds * 1000LL;
    struct process process;
    json_t *found;
    int rc = process_start(&process, argv);

    if (rc) {
        snprintf(why, VERIFY_WHY, "has no process: %s", strerror(rc));
        return NULL;
    }
    while (process_read(&process, deadline))
        continue;
    found = process.text ? json_loads(process.text, 0, NULL) : NULL;
    process_end(&process, deadline, seconds, why);
    if (found && !*why)
        return found;
    if (!*why)
        snprintf(why, VERIFY_WHY, "wrote no list");
    json_decref(found);
    return NULL;
}

void verify_list(json_t *report, int patience)
{
    int64_t began = verify_now();
    char why[VERIFY_WHY];
    json_t *found;

    progress_show("hmreg verify: looking for devices and fabrics");
    found = list(patience, why);

    if (!found) {
        doc_add(json_object_get(report, "checks"),
                doc_pack("{s:s, s:s, s:b, s:I, s:o}", "name", "list", "result", "failed",
                         "simulated", 0, "ms", (json_int_t)(verify_now() - began), "text",
                         doc_format("the process that lists devices and fabrics %s; the rest runs "
                                    "without devices' runtimes",
                                    why)));
        setenv("HMREG_IFACES", "system", 1);
        found = list(patience, why);
    }
    doc_set(report, "inventory", found ? found : json_null());
}

/* ---- a group ---------------------------------------------------------------------------- */

struct group {
    const struct checks *checks;
    size_t next, end; /* checks of the group that have no result yet */
    char *pending;    /* the one that runs */
    int64_t began;    /* when the process, or the check that runs, began */
};

static const char *check_name(const struct group *group, size_t i)
{
    return doc_words(json_array_get(group->checks->list, i), "name");
}

static void add_result(struct group *group, const char *name, const char *result, int64_t ms,
                       const char *text)
{
    const json_t *check = doc_find(group->checks->list, "name", name);

    doc_add(group->checks->results,
            doc_pack("{s:s, s:s, s:b, s:I, s:o}", "name", name, "result", result, "simulated",
                     doc_is(check, "simulated"), "ms", (json_int_t)ms, "text", doc_text(text)));
    if (group->next < group->end && !strcmp(name, check_name(group, group->next)))
        group->next++;
}

static void take_result(struct group *group, const json_t *line)
{
    json_t *results = group->checks->results, *proof = json_object_get(line, "proof");

    add_result(group, doc_words(line, "name"), doc_words(line, "result"),
               (int64_t)doc_number(line, "ms"), doc_words(line, "text"));
    if (proof)
        doc_set(json_array_get(results, json_array_size(results) - 1), "proof", json_incref(proof));
}

static void take_line(struct group *group, const char *text)
{
    json_t *line = json_loads(text, 0, NULL);

    free(group->pending);
    group->pending = NULL;
    group->began = verify_now();
    if (doc_has(line, "result"))
        take_result(group, line);
    else
        group->pending = strdup(doc_words(line, "name"));
    if (group->pending)
        progress_show("hmreg %s: check %zu of %zu: %s", group->checks->command, group->next + 1,
                      json_array_size(group->checks->list), group->pending);
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

static int64_t limit_of(const struct checks *checks)
{
    return checks->total ? checks->began + checks->total * 1000LL : INT64_MAX;
}

static int64_t deadline_of(const struct group *group)
{
    int64_t patient = group->began + group->checks->patience * 1000LL;
    int64_t limit = limit_of(group->checks);

    return patient < limit ? patient : limit;
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

static void skip_rest(struct group *group, const char *why)
{
    while (group->next < group->end)
        add_result(group, check_name(group, group->next), "skipped", 0, why);
}

/* Blames the failure of a process on the check that ran; if none had begun, on the first; if all
 * had ended, on the process's end. first: the number of its first check. */
static void blame(struct group *group, size_t first, const char *why)
{
    const char *last = check_name(group, group->end - 1);
    int64_t ms = verify_now() - group->began;
    char name[VERIFY_NAME];

    if (!*why && (group->pending || group->next == first))
        why = NO_RESULT;
    if (group->pending) {
        add_result(group, group->pending, "failed", ms, why);
    } else if (group->next == first && !group->checks->abandon) {
        add_result(group, check_name(group, first), "failed", ms, why);
    } else if (*why) {
        snprintf(name, sizeof(name), "%.*s/end", (int)strcspn(last, "/"), last);
        add_result(group, name, "failed", ms, why);
    }
    if (*why && group->checks->abandon)
        skip_rest(group, why);
    free(group->pending);
    group->pending = NULL;
}

static void run_process(struct group *group)
{
    char **argv = arguments(group), why[VERIFY_WHY] = "";
    size_t first = group->next;
    struct process process;
    int rc = process_start(&process, argv);

    free(argv);
    group->began = verify_now();
    if (rc) {
        snprintf(why, sizeof(why), "has no process: %s", strerror(rc));
    } else {
        while (process_read(&process, deadline_of(group)))
            take_lines(group, &process);
        process_end(&process, deadline_of(group), (int)((deadline_of(group) - group->began) / 1000),
                    why);
    }
    blame(group, first, why);
}

static void run_group(struct group *group)
{
    char why[80];

    while (group->next < group->end && verify_now() < limit_of(group->checks))
        run_process(group);
    snprintf(why, sizeof(why), "not reached within the %d s that all checks have",
             group->checks->total);
    skip_rest(group, why);
}

static bool is_same_group(const char *one, const char *other)
{
    size_t length = strcspn(one, "/");

    return strcspn(other, "/") == length && !strncmp(one, other, length);
}

void checks_run(const struct checks *checks)
{
    struct group group = {.checks = checks};
    size_t count = json_array_size(checks->list);

    while (group.next < count) {
        group.end = group.next + 1;
        while (group.end < count &&
               is_same_group(check_name(&group, group.next), check_name(&group, group.end)))
            group.end++;
        run_group(&group);
    }
    progress_end();
}

/* ---- opening ---------------------------------------------------------------------------- */

/* A process that could not open the fabric ends without a result: its error is this process's too.
 * Vendors' runtimes are not started. */
bool verify_opening_ends(const char *fabric, int patience, char why[VERIFY_WHY])
{
    const char *set = getenv("HMREG_IFACES");
    char *ifaces = set ? strdup(set) : NULL;
    json_t *list = doc_array(), *results = doc_array();
    const json_t *result;
    bool ends;

    doc_add(list, doc_pack("{s:o}", "name", doc_format("%s/" VERIFY_OPEN, fabric)));
    setenv("HMREG_IFACES", "system", 1);
    checks_run(&(struct checks){
        .command = "doctor", .list = list, .patience = patience, .results = results});
    if (ifaces)
        setenv("HMREG_IFACES", ifaces, 1);
    else
        unsetenv("HMREG_IFACES");
    free(ifaces);
    result = json_array_get(results, 0);
    ends = doc_equals(result, "result", "failed") && !doc_equals(result, "text", NO_RESULT);
    snprintf(why, VERIFY_WHY, "%s", doc_words(result, "text"));
    json_decref(list);
    json_decref(results);
    return ends;
}
