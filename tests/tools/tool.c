/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See tool.h. A file receives a child's whole output before the test reads it; a terminal is read
 * while the child writes, since it holds little.
 */
#include "tests/tools/tool.h"

#include <pty.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define MOST_ARGUMENTS 48

/* ---- output ----------------------------------------------------------------------------- */

static int new_file(void)
{
    int fd = memfd_create("output", MFD_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

/* Reads fd until end of file; on a terminal that is EIO. */
static char *read_all(int fd)
{
    size_t used = 0, room = 1 << 16;
    char *text = malloc(room);

    for (;;) {
        ssize_t got = read(fd, text + used, room - used - 1);

        if (got <= 0)
            break;
        used += (size_t)got;
        if (room - used < 2)
            text = realloc(text, room *= 2);
        assert_non_null(text);
    }
    text[used] = '\0';
    close(fd);
    return text;
}

static char *read_file(int fd)
{
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return read_all(fd);
}

/* Returns the end to write to; *reader: the other one. */
static int new_terminal(unsigned columns, int *reader)
{
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    int writer;

    assert_int_equal(openpty(reader, &writer, NULL, NULL, &size), 0);
    return writer;
}

/* ---- children --------------------------------------------------------------------------- */

static int status_of(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

struct job {
    void (*print)(void); /* or, if NULL, a program: */
    char *argv[MOST_ARGUMENTS + 2];
    unsigned columns;
    bool watched; /* its standard error is the terminal */
};

static void in_child(const struct job *job, int out, int err)
{
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    if (job->print) {
        job->print();
        fflush(stdout);
        _exit(0);
    }
    execv(job->argv[0], job->argv);
    _exit(127);
}

/* What a case runs prints is freed after it. */
static struct {
    char *texts[1024];
    json_t *documents[1024];
    size_t text_count, document_count;
} kept;

static void free_kept(void)
{
    while (kept.text_count)
        free(kept.texts[--kept.text_count]);
    while (kept.document_count)
        json_decref(kept.documents[--kept.document_count]);
}

static char *keep(char *text)
{
    test_after(free_kept);
    assert_true(kept.text_count < 1024);
    return kept.texts[kept.text_count++] = text;
}

static struct tool run(const struct job *job)
{
    int reader = -1, terminal = job->columns ? new_terminal(job->columns, &reader) : -1;
    int err = job->watched ? terminal : new_file();
    int out = job->columns && !job->watched ? terminal : new_file();
    struct tool tool;
    pid_t child;

    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        in_child(job, out, err);
    close(terminal);
    if (job->watched)
        tool.err = keep(read_all(reader));
    else if (job->columns)
        tool.out = keep(read_all(reader));
    tool.status = status_of(child);
    if (out != terminal)
        tool.out = keep(read_file(out));
    if (err != terminal)
        tool.err = keep(read_file(err));
    return tool;
}

char *tool_metrics_list(const char *const *arguments)
{
    const char *made[MOST_ARGUMENTS] = {NULL};
    struct job parser = {.argv = {"/usr/bin/python3", METRICS_PY}};
    struct tool metrics, read;
    int before = dup(STDIN_FILENO), in = new_file();
    size_t count = 0;

    for (; arguments[count]; count++)
        made[count] = arguments[count];
    made[count] = "--openmetrics";
    metrics = tool_run_list(0, made);
    tool_preload_nic(false); /* not into the parser */
    assert_string_equal(metrics.err, "");
    assert_int_equal(write(in, metrics.out, strlen(metrics.out)), strlen(metrics.out));
    assert_int_equal(lseek(in, 0, SEEK_SET), 0);
    dup2(in, STDIN_FILENO);
    read = run(&parser);
    dup2(before, STDIN_FILENO);
    close(before);
    close(in);
    if (read.status == 77)
        test_skip("python3-prometheus-client, which parses metrics, is not installed");
    if (read.status)
        fail_msg("%s\nof:\n%s", read.err, metrics.out);
    return read.out;
}

static bool is_limited(const char *command)
{
    return command && (!strcmp(command, "doctor") || !strcmp(command, "verify"));
}

/* A check that takes longer than the command's own limit, which the test did not choose, is slow,
 * not wrong. */
static struct tool run_tool(struct job job, const char *const *arguments)
{
    bool chosen = !is_limited(arguments[0]);
    int count;

    job.argv[0] = getenv("HMREG_TOOL");
    assert_non_null(job.argv[0]);
    for (count = 0; arguments[count]; count++) {
        assert_true(count < MOST_ARGUMENTS - 2);
        job.argv[count + 1] = (char *)(uintptr_t)arguments[count];
        chosen |= !strcmp(arguments[count], "--patience");
    }
    if (!chosen) {
        job.argv[count + 1] = (char *)(uintptr_t) "--patience";
        job.argv[count + 2] = (char *)(uintptr_t)TOOL_PATIENCE;
    }
    return run(&job);
}

struct tool tool_run_list(unsigned columns, const char *const *arguments)
{
    return run_tool((struct job){.columns = columns}, arguments);
}

struct tool tool_run_watched_list(const char *const *arguments)
{
    return run_tool((struct job){.columns = 80, .watched = true}, arguments);
}

char *output_of(void (*print)(void), unsigned columns)
{
    struct job job = {.print = print, .columns = columns};
    struct tool tool = run(&job);

    assert_int_equal(tool.status, 0);
    return tool.out;
}

/* ---- documents --------------------------------------------------------------------------- */

json_t *tool_keep(json_t *document)
{
    test_after(free_kept);
    assert_true(kept.document_count < 1024);
    return kept.documents[kept.document_count++] = document;
}

json_t *tool_document_list(int status, const char *const *arguments)
{
    struct tool tool = tool_run_list(0, arguments);
    json_error_t error;
    json_t *document = json_loads(tool.out, JSON_REJECT_DUPLICATES, &error);

    if (!document)
        fail_msg("line %d: %s in:\n%s\n%s", error.line, error.text, tool.out, tool.err);
    if (tool.status != status)
        fail_msg("exit status %d, not %d:\n%s", tool.status, status, tool.out);
    assert_string_equal(tool.err, "");
    return tool_keep(document);
}

size_t longest_line(const char *text)
{
    size_t longest = 0;

    while (*text) {
        size_t length = strcspn(text, "\r\n");

        longest = length > longest ? length : longest;
        text += length;
        text += strspn(text, "\r\n");
    }
    return longest;
}

json_t *at(const json_t *value, const char *path)
{
    char words[256], *name, *rest = words;

    snprintf(words, sizeof(words), "%s", path);
    while ((name = strsep(&rest, "/")))
        value = json_is_array(value) ? json_array_get(value, (size_t)atoi(name))
                                     : json_object_get(value, name);
    if (!value)
        fail_msg("there is no \"%s\"", path);
    return (json_t *)(uintptr_t)value;
}

const char *words_at(const json_t *object, const char *path)
{
    if (!json_is_string(at(object, path)))
        fail_msg("\"%s\" is no string", path);
    return json_string_value(at(object, path));
}

json_t *list_at(const json_t *object, const char *path)
{
    if (!json_is_array(at(object, path)))
        fail_msg("\"%s\" is no array", path);
    return at(object, path);
}

int64_t number_at(const json_t *object, const char *path)
{
    if (!json_is_integer(at(object, path)))
        fail_msg("\"%s\" is no number", path);
    return json_integer_value(at(object, path));
}

json_t *find(const json_t *array, const char *key, const char *words)
{
    json_t *object;
    size_t i;

    json_array_foreach(array, i, object)
        if (!strcmp(words_at(object, key), words))
            return object;
    return NULL;
}

json_t *with(const json_t *array, const char *key, const char *words)
{
    json_t *object = find(array, key, words);

    if (!object)
        fail_msg("no object with %s \"%s\"", key, words);
    return object;
}

void tool_preload_nic(bool on)
{
    static char plain[512], with[600];

    if (!plain[0])
        snprintf(plain, sizeof(plain), "%s", getenv("ASAN_OPTIONS") ? getenv("ASAN_OPTIONS") : "");
    snprintf(with, sizeof(with), "%s%sverify_asan_link_order=0", plain, plain[0] ? ":" : "");
    if (on)
        setenv("LD_PRELOAD", getenv("FAKE_NIC_LIBRARY"), 1);
    else
        unsetenv("LD_PRELOAD");
    setenv("ASAN_OPTIONS", on ? with : plain, 1);
}
