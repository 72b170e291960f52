/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Prints the document as tables, one section for each process.
 */
#include "tools/document.h"
#include "tools/run/run.h"
#include "tools/table.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MOST_ROWS   30
#define MOST_RANGES 5

static const char *time_words(uint64_t ns, char buf[32])
{
    if (ns < 10000)
        snprintf(buf, 32, "%" PRIu64 " ns", ns);
    else if (ns < 10000000)
        snprintf(buf, 32, "%" PRIu64 " us", ns / 1000);
    else if (ns < UINT64_C(10000000000))
        snprintf(buf, 32, "%" PRIu64 " ms", ns / 1000000);
    else
        snprintf(buf, 32, "%" PRIu64 " s", ns / 1000000000);
    return buf;
}

/* "1 region", "2 regions" */
static const char *count_words(uint64_t count, const char *noun, char buf[64])
{
    snprintf(buf, 64, "%" PRIu64 " %s%s", count, noun, count == 1 ? "" : "s");
    return buf;
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* "system", "cuda 0", "unknown". */
static const char *memory_words(const json_t *row, char buf[32])
{
    if (!doc_has(row, "iface"))
        return "unknown";
    if (!doc_has(row, "device"))
        return doc_words(row, "iface");
    snprintf(buf, 32, "%s %" PRIu64, doc_words(row, "iface"), doc_number(row, "device"));
    return buf;
}

/* ", remote, on mlx5_0, by program": the other parts of a row's key. */
static const char *rest_words(const json_t *row, char buf[160])
{
    bool nic = doc_has(row, "nic"), caller = doc_has(row, "caller");

    snprintf(buf, 160, ", %s%s%.64s%s%.64s", doc_words(row, "rights"), nic ? ", on " : "",
             doc_words(row, "nic"), caller ? ", by " : "", file_name(doc_words(row, "caller")));
    return buf;
}

/* "at least " before counts of a full trace file. */
static const char *least(const json_t *process)
{
    static const char *const kinds[] = {"registrations", "regions", "ranges"};
    const json_t *lost = json_object_get(process, "not_recorded");

    for (size_t i = 0; i < COUNT(kinds); i++)
        if (doc_number(lost, kinds[i]))
            return "at least ";
    return "";
}

/* ---- registrations ----------------------------------------------------------------------- */

static const char *cell_memory(const json_t *row, char buf[CELL], json_t *notes)
{
    return memory_words(row, buf);
}

static const char *cell_time(const json_t *ns, char buf[CELL], json_t *notes)
{
    return time_words((uint64_t)json_integer_value(ns), buf);
}

static const char *cell_mean(const json_t *row, char buf[CELL], json_t *notes)
{
    uint64_t count = doc_number(row, "count");

    return time_words(count ? doc_number(row, "ns") / count : 0, buf);
}

static const char *cell_file(const json_t *path, char buf[CELL], json_t *notes)
{
    return file_name(json_string_value(path));
}

/* All were passed on without --gpu. */
static const struct column columns[] = {COLUMN("call", "call"),
                                        COLUMN("memory", NULL, .cell = cell_memory),
                                        COLUMN("path", "path"),
                                        COLUMN("how", "how", .usual = "passed on"),
                                        COLUMN("NIC", "nic", .none = "-"),
                                        COLUMN("rights", "rights"),
                                        COLUMN(">size from", "size_from", .cell = cell_bytes),
                                        COLUMN(">count", "count"),
                                        COLUMN(">bytes", "bytes", .cell = cell_bytes),
                                        COLUMN(">time", "ns", .cell = cell_time),
                                        COLUMN(">mean", NULL, .cell = cell_mean),
                                        COLUMN(">longest", "longest_ns", .cell = cell_time),
                                        COLUMN("caller", "caller", .none = "-", .cell = cell_file),
                                        {0}};

static json_t *first_of(const json_t *rows, size_t most)
{
    json_t *first = doc_array(), *row;

    doc_each(row, rows)
        if (row_i < most)
            doc_add(first, json_incref(row));
    return first;
}

static void print_registrations(const json_t *process)
{
    const json_t *all = json_object_get(process, "registrations"), *row;
    json_t *rows = first_of(all, MOST_ROWS);
    uint64_t left_out = 0, ns = 0;
    char buf[32], count[64];

    print_rows(columns, rows);
    json_decref(rows);
    doc_each(row, all) {
        if (row_i < MOST_ROWS)
            continue;
        left_out += doc_number(row, "count");
        ns += doc_number(row, "ns");
    }
    if (left_out)
        print_paragraph("", "and %s more, %s together; --json has all",
                        count_words(left_out, "registration", count), time_words(ns, buf));
}

static void print_failure(const json_t *process, const json_t *failure)
{
    bool finding = doc_has(failure, "finding"), passed = doc_equals(failure, "how", "passed on");
    char memory[32], size[32], count[64], rest[160];

    print_paragraph(
        "failed: ", "%s%s of %s memory, from %s%s, %s%s: %s. %s %s%s%s%s",
        doc_words(failure, "call"), passed ? "" : " by hmreg", memory_words(failure, memory),
        doc_bytes_words(doc_number(failure, "size_from"), size), rest_words(failure, rest),
        least(process), count_words(doc_number(failure, "count"), "time", count),
        doc_words(failure, "name"), doc_words(failure, "text"), doc_words(failure, "remedy"),
        finding ? " (hmreg doctor --explain " : "", doc_words(failure, "finding"),
        finding ? ")" : "");
}

static void print_failures(const json_t *process)
{
    const json_t *failure;

    doc_each(failure, json_object_get(process, "failures"))
        print_failure(process, failure);
}

/* ---- what could be better ---------------------------------------------------------------- */

static void print_left(const json_t *process)
{
    const json_t *totals = json_object_get(process, "totals");
    bool runs = doc_equals(process, "state", "running");
    char bytes[32], count[64];

    if (doc_number(totals, "left"))
        print_paragraph(runs ? "registered now: " : "never deregistered: ", "%s%s of %s",
                        least(process), count_words(doc_number(totals, "left"), "region", count),
                        doc_bytes_words(doc_number(totals, "left_bytes"), bytes));
}

/* "", or how many of a row's deregistrations were checked. */
static const char *looked_words(const json_t *row, char buf[96])
{
    uint64_t looked = doc_number(row, "looked_at"), of = doc_number(row, "deregistered");

    buf[0] = '\0';
    if (looked < of)
        snprintf(buf, 96, " (%" PRIu64 " of %" PRIu64 " deregistrations were checked)", looked, of);
    return buf;
}

static void print_freed(const json_t *process)
{
    char bytes[32], memory[32], count[64], looked[96], rest[160];
    const json_t *row;

    doc_each(row, json_object_get(process, "registrations"))
        if (doc_number(row, "freed"))
            print_paragraph("freed while registered: ",
                            "%s%s of %s memory, from %s%s%s. The NIC still accesses the old pages: "
                            "deregister first.",
                            least(process), count_words(doc_number(row, "freed"), "range", count),
                            memory_words(row, memory),
                            doc_bytes_words(doc_number(row, "size_from"), bytes),
                            rest_words(row, rest), looked_words(row, looked));
}

static void print_savings(const json_t *process, const json_t *again, bool watched)
{
    const char *bound = least(process);
    char count[64], time[32];

    print_paragraph(
        "a cache would save: ", "%s%s, %s%s.", bound[0] || watched ? bound : "at most ",
        count_words(doc_number(again, "saved"), "registration", count),
        time_words(doc_number(again, "saved_ns"), time),
        watched ? "" : ", if the memory was never freed in between (--trace=watch checks that)");
}

static void print_again(const json_t *process)
{
    static const struct column ranges[] = {
        COLUMN("address", "addr"),
        COLUMN(">length", "len", .cell = cell_bytes),
        COLUMN(">times", "count"),
        COLUMN(">time", "ns", .cell = cell_time),
        COLUMN("rights", "rights", .none = "-"),
        COLUMN("caller", "caller", .none = "-", .cell = cell_file),
        {0}};
    const json_t *again = json_object_get(process, "again");
    uint64_t all = doc_number(again, "count"), own = doc_number(again, "libfabrics");
    bool watched = json_is_true(json_object_get(again, "watched"));
    char buf[32], count[64], words[160] = "";
    json_t *rows;

    if (!all)
        return;
    if (own)
        snprintf(words, sizeof(words),
                 " libfabric made %" PRIu64
                 " of them for its own use, as its provider ofi_rxm does.",
                 own);
    print_paragraph("registered again: ",
                    "%s%s repeated earlier ones of the same range%s and rights, and took %s.%s",
                    least(process), count_words(all, "registration", count),
                    watched ? ", memory" : "", time_words(doc_number(again, "ns"), buf), words);
    if (doc_number(again, "saved"))
        print_savings(process, again, watched);
    rows = first_of(json_object_get(again, "ranges"), MOST_RANGES);
    print_rows(ranges, rows);
    json_decref(rows);
}

static void print_passed_on(const json_t *process)
{
    const json_t *reason;
    char count[64];

    doc_each(reason, json_object_get(process, "passed_on"))
        print_paragraph("passed on: ", "%s: %s (%s)",
                        count_words(doc_number(reason, "count"), "time", count),
                        doc_words(reason, "text"), doc_words(reason, "slug"));
}

static void print_lost(const json_t *process)
{
    static const struct {
        const char *key, *words;
    } kinds[] = {{"registrations", "registrations"},
                 {"regions", "regions that existed"},
                 {"ranges", "ranges"},
                 {"reasons", "reasons"}};
    const json_t *lost = json_object_get(process, "not_recorded");

    for (size_t i = 0; i < COUNT(kinds); i++)
        if (doc_number(lost, kinds[i].key))
            print_paragraph("not recorded: ", "%" PRIu64 " %s, because the trace file was full",
                            doc_number(lost, kinds[i].key), kinds[i].words);
}

/* ---- a process --------------------------------------------------------------------------- */

static void print_process(const json_t *process)
{
    const json_t *totals = json_object_get(process, "totals");
    char bytes[32], took[32], ended[32], made[64], gone[64];

    print_heading("Process %" PRIu64 "%s%s, %s, %s", doc_number(process, "pid"),
                  doc_has(process, "rank") ? ", rank " : "", doc_words(process, "rank"),
                  doc_words(process, "program"), doc_words(process, "state"));
    print_paragraph("", "%s%s of %s, %" PRIu64 " failed; %s. %s, %s.%s", least(process),
                    count_words(doc_number(totals, "registrations"), "registration", made),
                    doc_bytes_words(doc_number(totals, "bytes"), bytes),
                    doc_number(totals, "failures"), time_words(doc_number(totals, "ns"), took),
                    count_words(doc_number(totals, "deregistrations"), "deregistration", gone),
                    time_words(doc_number(totals, "deregistration_ns"), ended),
                    least(process)[0] ? " The trace file was full: each count is a minimum." : "");
    print_registrations(process);
    print_failures(process);
    print_left(process);
    print_freed(process);
    print_again(process);
    print_passed_on(process);
    print_lost(process);
}

static void print_loss(const json_t *loss)
{
    uint64_t count = doc_number(loss, "count");

    print_line("no trace: %" PRIu64 " process%s registered and could not be recorded: %s. %s (The "
               "first was %" PRIu64 ", %s.)",
               count, count == 1 ? "" : "es", doc_words(loss, "text"), doc_words(loss, "remedy"),
               doc_number(loss, "pid"), doc_words(loss, "program"));
}

void report_print(const json_t *document)
{
    const json_t *processes = json_object_get(document, "processes"), *process, *failure;
    const json_t *failures = json_object_get(document, "failures");
    const json_t *lost = json_object_get(document, "lost"), *loss;

    print_line("hmreg run, hmreg %s", doc_words(document, "hmreg"));
    doc_each(process, processes)
        print_process(process);
    if (!json_array_size(processes) && !json_array_size(failures) && !json_array_size(lost))
        print_line("No registration by libibverbs or libfabric was seen.");
    doc_each(loss, lost)
        print_loss(loss);
    doc_each(failure, failures)
        print_line("%s", json_string_value(failure));
}
