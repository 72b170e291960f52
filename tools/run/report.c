/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The document about processes whose trace files lie in a folder.
 */
#include "tools/document.h"
#include "tools/foreign.h"
#include "tools/run/failures.h"
#include "tools/run/run.h"
#include "tools/run/trace_view.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Another user may have filled the folder and the files, so the files read and the rows described
 * are limited. */
#define MOST_FILES  1024
#define MOST_ROWS   32768
#define MOST_RANGES 20 /* per process: the most expensive */

static json_t *number(uint64_t value)
{
    return doc_made(json_integer((json_int_t)(value & INT64_MAX)));
}

static void set_number(json_t *object, const char *key, uint64_t value)
{
    doc_set(object, key, number(value));
}

static json_t *text_or_null(const char *text)
{
    return text[0] ? doc_text(text) : json_null();
}

/* ---- a row ------------------------------------------------------------------------------- */

static const char *how_name(unsigned how)
{
    static const char *const names[RECORD_HOW_COUNT] = {
        [RECORD_PASSED] = "passed on", [RECORD_MADE] = "by hmreg"};

    return names[how] ? names[how] : "?";
}

static const char *rights_name(unsigned rights)
{
    static const char *const names[RECORD_RIGHTS_COUNT] = {
        [RECORD_READ] = "read", [RECORD_WRITTEN] = "write", [RECORD_REMOTE] = "remote"};

    return names[rights];
}

/* The keys that registrations and failures share. */
static json_t *describe_row(const struct trace_view *view, const struct view_row *row)
{
    const struct record_key *key = &row->key;
    bool known = key->iface < HMREG_IFACE_COUNT;
    json_t *made = doc_object();

    doc_set(made, "call", doc_text(record_call_name(key->call)));
    doc_set(made, "how", doc_text(how_name(key->how)));
    doc_set(made, "iface",
            known ? doc_text(hmreg_iface_name((enum hmreg_iface)key->iface)) : json_null());
    doc_set(made, "device", doc_device(key->device));
    doc_set(made, "nic", text_or_null(view->names[key->nic]));
    doc_set(made, "caller", text_or_null(view->names[key->module]));
    doc_set(made, "rights", doc_text(rights_name(key->rights)));
    doc_set(made, "remote", doc_made(json_boolean(key->rights == RECORD_REMOTE)));
    set_number(made, "size_from", key->size ? UINT64_C(1) << (key->size - 1) : 0);
    set_number(made, "count", row->count);
    set_number(made, "bytes", row->bytes);
    set_number(made, "ns", row->ns);
    set_number(made, "longest_ns", row->longest_ns);
    return made;
}

static json_t *describe_registration(const struct trace_view *view, const struct view_row *row)
{
    json_t *made = describe_row(view, row);

    doc_set(made, "path", doc_text(hmreg_path_name((enum hmreg_path)row->key.path)));
    set_number(made, "deregistered", row->ends);
    set_number(made, "deregistration_ns", row->end_ns);
    set_number(made, "deregistration_failures", row->end_failures);
    set_number(made, "left", row->live);
    set_number(made, "left_bytes", row->live_bytes);
    set_number(made, "freed", row->freed + row->live_freed);
    set_number(made, "looked_at", row->looked);
    return made;
}

static json_t *describe_failure(const struct trace_view *view, const struct view_row *row)
{
    struct failure failure = failure_of(&row->key);
    const char *name = strerrorname_np(row->key.error);
    json_t *made = describe_row(view, row);

    doc_set(made, "code", doc_made(json_integer(-row->key.error)));
    doc_set(made, "name", doc_text(name ? name : "?"));
    doc_set(made, "text", doc_text(failure.text));
    doc_set(made, "remedy",
            doc_format("%s%s",
                       !(view->mode & RECORD_MODE_GPU) && failure_wants_gpu(&row->key)
                           ? "hmreg run --gpu registers memory of devices by a dmabuf. Or: "
                           : "",
                       failure.remedy));
    doc_set(made, "finding", failure.finding ? doc_text(failure.finding) : json_null());
    return made;
}

/* Sorts the longest first. */
static int by_time(const void *a, const void *b)
{
    const struct view_row *first = a, *second = b;

    return (first->ns < second->ns) - (first->ns > second->ns);
}

static int by_range_time(const void *a, const void *b)
{
    const struct view_range *first = a, *second = b;

    return (first->again_ns < second->again_ns) - (first->again_ns > second->again_ns);
}

/* ---- a process --------------------------------------------------------------------------- */

static void set_rows(json_t *process, struct trace_view *view)
{
    json_t *registrations = doc_array(), *failures = doc_array();

    qsort(view->rows, view->row_count, sizeof(view->rows[0]), by_time);
    for (unsigned i = 0; i < view->row_count; i++) {
        if (view->rows[i].key.error)
            doc_add(failures, describe_failure(view, &view->rows[i]));
        else
            doc_add(registrations, describe_registration(view, &view->rows[i]));
    }
    doc_set(process, "registrations", registrations);
    doc_set(process, "failures", failures);
}

static void set_totals(json_t *process, const struct trace_view *view)
{
    struct view_row sum = {0};
    uint64_t failed = 0;
    json_t *totals = doc_object();

    for (unsigned i = 0; i < view->row_count; i++) {
        const struct view_row *row = &view->rows[i];
        bool good = !row->key.error;

        failed += good ? 0 : row->count;
        sum.count += good ? row->count : 0;
        sum.bytes += good ? row->bytes : 0;
        sum.ns += row->ns;
        sum.ends += row->ends;
        sum.end_ns += row->end_ns;
        sum.freed += row->freed + row->live_freed;
    }
    set_number(totals, "registrations", sum.count);
    set_number(totals, "bytes", sum.bytes);
    set_number(totals, "ns", sum.ns);
    set_number(totals, "failures", failed);
    set_number(totals, "deregistrations", sum.ends);
    set_number(totals, "deregistration_ns", sum.end_ns);
    set_number(totals, "left", view->live);
    set_number(totals, "left_bytes", view->live_bytes);
    set_number(totals, "freed", sum.freed);
    doc_set(process, "totals", totals);
}

/* Did libfabric call itself? A provider may register with the provider below it, as ofi_rxm
 * does. */
static bool is_libfabrics(const struct trace_view *view, const struct view_range *range)
{
    const struct record_key *key;
    const char *slash;

    if (range->row >= view->row_count)
        return false;
    key = &view->rows[range->row].key;
    slash = strrchr(view->names[key->module], '/');
    return !strncmp(record_call_name(key->call), "fi_", 3) &&
           !strncmp(slash ? slash + 1 : view->names[key->module], "libfabric.so", 12);
}

/* Counts repeated registrations: the program's own, which a cache would save, and libfabric's. */
static void set_savings(json_t *again, const struct trace_view *view)
{
    uint64_t saved = 0, saved_ns = 0, libfabrics = 0;

    for (unsigned i = 0; i < view->range_count; i++) {
        const struct view_range *range = &view->ranges[i];

        if (is_libfabrics(view, range)) {
            libfabrics += range->count - 1;
        } else if (range->row < view->row_count) {
            saved += range->count - 1;
            saved_ns += range->again_ns;
        }
    }
    set_number(again, "libfabrics", libfabrics);
    set_number(again, "saved", saved);
    set_number(again, "saved_ns", saved_ns);
}

/* Call before set_rows(), which sorts the rows that ranges refer to. */
static void set_again(json_t *process, struct trace_view *view)
{
    json_t *again = doc_object(), *ranges = doc_array();

    qsort(view->ranges, view->range_count, sizeof(view->ranges[0]), by_range_time);
    for (unsigned i = 0; i < view->range_count && i < MOST_RANGES; i++) {
        const struct view_range *range = &view->ranges[i];
        bool known = range->row < view->row_count;
        const char *caller = known ? view->names[view->rows[range->row].key.module] : "";
        const char *rights = known ? rights_name(view->rows[range->row].key.rights) : "";
        json_t *made = doc_object();

        doc_set(made, "addr", doc_hex(range->addr));
        set_number(made, "len", range->len);
        set_number(made, "count", range->count);
        set_number(made, "ns", range->again_ns);
        doc_set(made, "rights", text_or_null(rights));
        doc_set(made, "caller", text_or_null(caller));
        doc_add(ranges, made);
    }
    set_number(again, "count", view->again);
    set_number(again, "ns", view->again_ns);
    doc_set(again, "watched", json_boolean(view->mode & RECORD_MODE_WATCH));
    set_savings(again, view);
    doc_set(again, "ranges", ranges);
    doc_set(process, "again", again);
}

static void set_reasons(json_t *process, const struct trace_view *view)
{
    json_t *list = doc_array();

    for (unsigned i = 0; i < view->reason_count; i++)
        doc_add(list,
                doc_pack("{s:o, s:o, s:o}", "slug", doc_text(view->reasons[i].slug), "count",
                         number(view->reasons[i].count), "text", doc_text(view->reasons[i].text)));
    if (view->mode & RECORD_MODE_WRONG)
        doc_add(list, doc_pack("{s:s, s:i, s:s}", "slug", "wrong-mode", "count", 1, "text",
                               "HMREG_RUN_MODE has an unknown word, which was ignored; accepted "
                               "are trace, trace=watch, gpu, separated by commas"));
    doc_set(process, "passed_on", list);
}

static void set_lost(json_t *process, const struct trace_view *view)
{
    json_t *lost = doc_object();

    set_number(lost, "registrations", view->dropped_rows);
    set_number(lost, "regions", view->dropped_live);
    set_number(lost, "ranges", view->dropped_ranges);
    set_number(lost, "names", view->dropped_names);
    set_number(lost, "reasons", view->dropped_reasons);
    set_number(lost, "deregistrations", view->unknown_ends);
    doc_set(process, "not_recorded", lost);
}

static json_t *modes_of(const struct trace_view *view)
{
    json_t *modes = doc_array();

    doc_add(modes, doc_text(view->mode & RECORD_MODE_WATCH ? "trace=watch" : "trace"));
    if (view->mode & RECORD_MODE_GPU)
        doc_add(modes, doc_text("gpu"));
    return modes;
}

static json_t *ways_of(const struct trace_view *view)
{
    json_t *ways = doc_array();

    if (view->by & RECORD_BY_PRELOAD)
        doc_add(ways, doc_text("preload"));
    if (view->by & RECORD_BY_AUDIT)
        doc_add(ways, doc_text("audit"));
    return ways;
}

/* The process's state. A pid that exists may be another program's by now. */
static const char *state_of(const struct trace_view *view)
{
    if (view->ended)
        return "exited";
    if (view->pid > 0 && (!kill(view->pid, 0) || errno == EPERM))
        return "running";
    return "ended";
}

static json_t *time_of(int64_t nanoseconds)
{
    time_t seconds = (time_t)(nanoseconds / 1000000000);
    char words[64];
    struct tm parts;

    if (!gmtime_r(&seconds, &parts) ||
        !strftime(words, sizeof(words), "%Y-%m-%dT%H:%M:%SZ", &parts))
        return json_null();
    return doc_text(words);
}

static json_t *describe_process(struct trace_view *view, const char *file)
{
    json_t *process = doc_object();

    doc_set(process, "pid", doc_made(json_integer(view->pid)));
    doc_set(process, "parent", doc_made(json_integer(view->parent)));
    doc_set(process, "rank", text_or_null(view->rank));
    doc_set(process, "program", text_or_null(view->program));
    doc_set(process, "hmreg", text_or_null(view->hmreg));
    doc_set(process, "modes", modes_of(view));
    doc_set(process, "by", ways_of(view));
    doc_set(process, "state", doc_text(state_of(view)));
    doc_set(process, "began", time_of(view->began));
    doc_set(process, "file", doc_text(file));
    set_totals(process, view);
    set_again(process, view);
    set_rows(process, view);
    set_reasons(process, view);
    set_lost(process, view);
    return process;
}

/* ---- files ------------------------------------------------------------------------------- */

struct reading {
    json_t *processes, *lost, *failures;
    unsigned rows; /* described so far */
};

static void read_descriptor(struct reading *reading, int fd, const char *path)
{
    char why[256];
    struct trace_view *view;

    if (untraced_read(fd, reading->lost))
        return;
    view = trace_view_read(fd, why);
    if (view) {
        reading->rows += view->row_count + view->reason_count +
                         (view->range_count < MOST_RANGES ? view->range_count : MOST_RANGES);
        doc_add(reading->processes, describe_process(view, path));
    } else {
        doc_add(reading->failures, doc_format("%.500s: %s", path, why));
    }
    free(view);
}

/* Reads a file of a folder. Opens only regular files: opening others may have effects. shown: the
 * path to print. */
static void read_file(struct reading *reading, int folder, const char *name, const char *shown)
{
    struct stat status;
    int fd = -1;

    errno = 0;
    if (!fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) && S_ISREG(status.st_mode))
        fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        doc_add(
            reading->failures,
            doc_format("%.500s: %s", shown, errno ? strerror(errno) : "it is not a regular file"));
        return;
    }
    read_descriptor(reading, fd, shown);
    close(fd);
}

static int is_trace(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name), suffix = strlen(RECORD_SUFFIX);

    return !strcmp(entry->d_name, RECORD_UNTRACED_FILE) ||
           (length > suffix && !strcmp(entry->d_name + length - suffix, RECORD_SUFFIX));
}

static void read_entry(struct reading *reading, int folder, const char *path, const char *name)
{
    char shown[PATH_MAX + 300];
    int length = snprintf(shown, sizeof(shown), "%s/", path);

    snprintf(shown + length, sizeof(shown) - (size_t)length, "%s", name);
    foreign_text(shown + length);
    read_file(reading, folder, name, shown);
}

static void read_folder(struct reading *reading, int folder, const char *path)
{
    struct dirent **entries;
    int count = scandirat(folder, ".", &entries, is_trace, versionsort), read = 0;

    if (count < 0) {
        doc_add(reading->failures, doc_format("%.500s: %s", path, strerror(errno)));
        return;
    }
    for (; read < count && read < MOST_FILES && reading->rows < MOST_ROWS; read++)
        read_entry(reading, folder, path, entries[read]->d_name);
    if (read < count)
        doc_add(reading->failures,
                doc_format("%.500s has %d trace files; the first %d were read", path, count, read));
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
}

static struct reading begin_reading(void)
{
    return (struct reading){.processes = doc_array(), .lost = doc_array(), .failures = doc_array()};
}

static json_t *document_of(const struct reading *reading)
{
    json_t *document = doc_new("run");

    doc_set(document, "processes", reading->processes);
    doc_set(document, "lost", reading->lost);
    doc_set(document, "failures", reading->failures);
    return document;
}

json_t *report_of_folder(int folder, const char *path)
{
    struct reading reading = begin_reading();

    read_folder(&reading, folder, path);
    return document_of(&reading);
}

json_t *report_of(const char *path)
{
    struct reading reading = begin_reading();
    int folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (folder >= 0) {
        read_folder(&reading, folder, path);
        close(folder);
    } else {
        read_file(&reading, AT_FDCWD, path, path);
    }
    return document_of(&reading);
}

json_t *report_of_descriptor(int fd, const char *path)
{
    struct reading reading = begin_reading();

    read_descriptor(&reading, fd, path);
    return document_of(&reading);
}
