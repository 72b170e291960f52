/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Prints the report of `hmreg doctor` in at most 100 columns: the verdict, what to do, the pairs,
 * and details.
 */
#include "tools/doctor/doctor.h"
#include "tools/doctor/findings.h"
#include "tools/doctor/peer.h"
#include "tools/fabrics.h"
#include "tools/table.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MOST_LINES 60
#define END_LINES  3
#define FEW_PAIRS  16 /* get a table, even if all rows are alike */

/* ---- verdict and findings --------------------------------------------------------------- */

static void print_verdict(const json_t *document)
{
    const json_t *facts = json_object_get(document, "facts");
    const json_t *kernel = json_object_get(facts, "kernel");
    char verdict[16] = "";
    const char *root = doc_words(facts, "root");

    for (size_t i = 0; doc_words(document, "verdict")[i] && i < sizeof(verdict) - 1; i++)
        verdict[i] = (char)toupper((unsigned char)doc_words(document, "verdict")[i]);
    print_line("hmreg doctor %s on Linux %s %s%s%s", doc_words(document, "hmreg"),
               doc_words(kernel, "release"), doc_words(kernel, "machine"),
               root[0] ? ", files read below " : "", root);
    print_heading("%s", verdict);
    print_paragraph("", "%s", doc_words(document, "summary"));
}

static void print_finding(const json_t *finding, size_t number)
{
    char mark[24];

    snprintf(mark, sizeof(mark), "%zu. ", number);
    print_paragraph(mark, "%s (%s)", doc_words(finding, "code"), doc_words(finding, "severity"));
    print_paragraph("   ", "%s", doc_words(finding, "text"));
    print_paragraph("   -> ", "%s", doc_words(finding, "remedy"));
    print_paragraph("   seen in: ", "%s", doc_words(finding, "read_at"));
}

/* Prints a finding that an earlier one explains. Its remedy is the earlier one's. */
static void print_explained(const json_t *finding)
{
    print_paragraph("   so: ", "%s (%s): %s", doc_words(finding, "code"),
                    doc_words(finding, "severity"), doc_words(finding, "text"));
}

static bool is_note(const json_t *finding)
{
    return doc_equals(finding, "severity", "note");
}

static void print_findings(const json_t *document)
{
    const json_t *finding;
    size_t number = 0;

    doc_each(finding, json_object_get(document, "findings")) {
        if (is_note(finding))
            continue;
        if (json_array_size(json_object_get(finding, "causes"))) {
            print_explained(finding);
            continue;
        }
        if (!number)
            print_heading("What to do");
        print_finding(finding, ++number);
    }
}

/* Prints notes without remedy and source, which --explain and --json show. */
static void print_notes_of(const json_t *document)
{
    const json_t *finding;
    size_t printed = 0;

    doc_each(finding, json_object_get(document, "findings")) {
        char mark[64];

        if (!is_note(finding))
            continue;
        if (!printed++)
            print_heading("Worth knowing");
        snprintf(mark, sizeof(mark), "%s: ", doc_words(finding, "code"));
        print_paragraph(mark, "%s", doc_words(finding, "text"));
    }
}

/* ---- pairs ------------------------------------------------------------------------------ */

static const json_t *find_pair(const json_t *pairs, const char *device, const char *nic)
{
    const json_t *pair;

    doc_each(pair, pairs)
        if (doc_equals(pair, "device", device) && doc_equals(pair, "nic", nic))
            return pair;
    return NULL;
}

struct pairs {
    const json_t *list;
    json_t *devices, *nics; /* their names */
};

static const char *name_at(const json_t *names, size_t i)
{
    return json_string_value(json_array_get(names, i));
}

static const char *cell_pair(const void *context, size_t row, size_t column, char buf[CELL])
{
    static const char *const marks[][2] = {
        {"proven", " ok"}, {"failed", " FAILED"}, {"wrong-bytes", " WRONG"}, {"", " ?"}};
    const struct pairs *pairs = context;
    const json_t *pair =
        find_pair(pairs->list, name_at(pairs->devices, row), name_at(pairs->nics, column));
    const char *way = doc_words(json_object_get(pair, "proof"), "way");
    const char *by = strcmp(way, "plain") ? way : "";
    size_t i = 0;

    while (marks[i][0][0] && strcmp(marks[i][0], proof_result(pair)))
        i++;
    if (!pair || doc_equals(pair, "path", "none"))
        return pair ? "none" : "-";
    snprintf(buf, CELL, "%.12s%s%.18s%s", doc_words(pair, "path"), by[0] ? " by " : "", by,
             marks[i][1]);
    return buf;
}

/* The names that pairs have for this key, each once, as an array. */
static json_t *names_of(const json_t *pairs, const char *key)
{
    json_t *names = doc_array(), *done = doc_object();
    const json_t *pair;

    doc_each(pair, pairs) {
        const char *name = doc_words(pair, key);

        if (!json_object_get(done, name))
            doc_add(names, doc_text(name));
        doc_set(done, name, json_true());
    }
    json_decref(done);
    return names;
}

/* The devices' names; simulated ones have that word. */
static json_t *labels_of(const struct pairs *pairs)
{
    json_t *labels = doc_array();
    const json_t *name;

    doc_each(name, pairs->devices) {
        const char *device = json_string_value(name);

        doc_add(labels, doc_format("%s%s", device,
                                   doc_is(doc_find(pairs->list, "device", device), "simulated")
                                       ? ", simulated"
                                       : ""));
    }
    return labels;
}

/* Prints one line for many pairs that are alike. */
static bool print_alike(const struct pairs *pairs)
{
    struct names devices = {.count = 0}, nics = {.count = 0};
    size_t rows = json_array_size(pairs->devices), columns = json_array_size(pairs->nics);
    char first[CELL], other[CELL];

    snprintf(first, sizeof(first), "%s", cell_pair(pairs, 0, 0, other));
    for (size_t i = 0; i < rows * columns; i++)
        if (strcmp(first, cell_pair(pairs, i / columns, i % columns, other)))
            return false;
    if (rows * columns <= FEW_PAIRS)
        return false;
    names_add_list(&devices, pairs->devices);
    names_add_list(&nics, pairs->nics);
    print_paragraph("all pairs: ", "%s", first);
    print_paragraph("devices: ", "%s", names_text(&devices));
    print_paragraph("NICs: ", "%s", names_text(&nics));
    return true;
}

static void print_cells(const json_t *list)
{
    struct pairs pairs = {list, names_of(list, "device"), names_of(list, "nic")};
    json_t *labels = labels_of(&pairs);

    if (!print_alike(&pairs))
        print_matrix(&(struct matrix){"device", labels, pairs.nics, cell_pair, &pairs});
    json_decref(labels);
    json_decref(pairs.devices);
    json_decref(pairs.nics);
}

static void print_pairs(const json_t *facts)
{
    if (!json_array_size(json_object_get(facts, "pairs")))
        return;
    print_heading("Path of each device's memory to each NIC");
    print_cells(json_object_get(facts, "pairs"));
    print_blank();
    print_paragraph("", "ok: proven by writing, reading and comparing 64 KiB. ?: not proven. none: "
                        "no path, see above.");
}

/* ---- details ---------------------------------------------------------------------------- */

static void add_detail(json_t *rows, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void add_detail(json_t *rows, const char *what, const char *format, ...)
{
    char found[CELL];
    va_list args;

    va_start(args, format);
    vsnprintf(found, sizeof(found), format, args);
    va_end(args);
    doc_add(rows, doc_pack("{s:o, s:o}", "what", doc_text(what), "found", doc_text(found)));
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

static void add_runtimes(json_t *rows, const json_t *facts)
{
    const json_t *runtime;

    doc_each(runtime, json_object_get(facts, "runtimes")) {
        const char *iface = doc_words(runtime, "iface"), *why = doc_words(runtime, "why");
        const char *unreported = doc_words(runtime, "unreported");
        uint64_t devices = doc_number(runtime, "devices");

        if (!strcmp(iface, "system"))
            continue;
        if (doc_is(runtime, "usable"))
            add_detail(rows, iface, "%s, %" PRIu64 " device%s%s%s%s%s",
                       doc_words(runtime, "version"), devices, plural(devices), *why ? "; " : "",
                       why, *unreported ? "; each cache hit asks the runtime about " : "",
                       unreported);
        else
            add_detail(rows, iface, "not usable: %s", why);
    }
}

static void add_nics(json_t *rows, const json_t *facts)
{
    const json_t *nic, *port;
    char words[96];

    doc_each(nic, json_object_get(facts, "nics")) {
        const char *firmware = doc_words(nic, "firmware");
        struct names ports = {.count = 0};

        doc_each(port, json_object_get(nic, "ports")) {
            const char *rate = doc_words(port, "rate");

            snprintf(words, sizeof(words), "port %" PRIu64 " %.32s%s%.32s",
                     doc_number(port, "port"), doc_words(port, "state"), rate[0] ? " at " : "",
                     rate);
            names_add(&ports, words);
        }
        snprintf(words, sizeof(words), "RDMA device %.64s", doc_words(nic, "name"));
        add_detail(rows, words, "%s, %s%s%s",
                   doc_has(nic, "pci") ? doc_words(nic, "pci") : "on no bus", names_text(&ports),
                   *firmware ? ", firmware " : "", firmware);
    }
}

static void add_libraries(json_t *rows, const json_t *facts)
{
    const json_t *library;

    doc_each(library, json_object_get(facts, "fabric_libraries")) {
        struct names lacks = {.count = 0};
        const char *version = doc_words(library, "version"), *why = doc_words(library, "why");
        uint64_t fabrics = doc_number(library, "fabrics");

        if (doc_equals(library, "provider", "loopback"))
            continue;
        names_add_list(&lacks, json_object_get(library, "lacks"));
        add_detail(rows, doc_words(library, "library"), "%s%s%" PRIu64 " fabric%s%s%s%s%s", version,
                   *version ? ", " : "", fabrics, plural(fabrics), *why ? ": " : "", why,
                   lacks.count ? "; lacks " : "", names_text(&lacks));
    }
}

static void add_names(json_t *rows, const char *what, const json_t *list, const char *none)
{
    struct names names = {.count = 0};

    names_add_list(&names, list);
    add_detail(rows, what, "%s", names.count ? names_text(&names) : none);
}

static void add_peers(json_t *rows, const json_t *facts)
{
    const json_t *peers = json_object_get(facts, "peer_memory");

    add_names(rows, "peer memory clients", json_object_get(peers, "clients"),
              "none in /sys/kernel/mm/memory_peers");
    add_names(rows, "peer memory modules", json_object_get(peers, "modules"),
              "none of nvidia_peermem, nv_peer_mem, efa_nv_peermem");
}

static void add_process(json_t *rows, const json_t *facts)
{
    const json_t *process = json_object_get(facts, "process");
    char words[32];

    add_detail(rows, "locked memory", "%s%s",
               doc_has(process, "memlock") ? doc_bytes_words(doc_number(process, "memlock"), words)
                                           : "no limit",
               doc_is(process, "ipc_lock") ? " (not enforced: CAP_IPC_LOCK)" : "");
    add_detail(rows, "watching host memory", "%s",
               doc_is(json_object_get(process, "userfaultfd"), "available") ? "userfaultfd works"
                                                                            : "not permitted");
}

/* Appends "; failed: cuda 0, cuda 1 (why)", and forgets the names. */
static void append_proofs(char *words, size_t size, const char *label, struct names *names,
                          const char *why)
{
    size_t used = strlen(words);

    if (names->count)
        snprintf(words + used, size - used, "%s%s: %s%s%s%s", used ? "; " : "", label,
                 names_text(names), why[0] ? " (" : "", why, why[0] ? ")" : "");
    *names = (struct names){.count = 0};
}

/* "proven: host, cuda 0; no transfer: cuda 1 (why)" for one fabric, a part for each reason; empty:
 * nothing was tried. */
static void describe_proofs(const json_t *fabric, char *words, size_t size)
{
    static const char *const results[][2] = {{"proven", "proven"},
                                             {"failed", "failed"},
                                             {"wrong-bytes", "wrong bytes"},
                                             {"untried", "no transfer"}};
    const json_t *memory;

    words[0] = '\0';
    for (size_t r = 0; r < COUNT(results); r++) {
        struct names names = {.count = 0};
        const char *why = "";

        doc_each(memory, json_object_get(fabric, "memory")) {
            const char *text = r ? doc_words(json_object_get(memory, "proof"), "text") : "";
            char name[64];

            if (strcmp(proof_result(memory), results[r][0]))
                continue;
            if (strcmp(text, why))
                append_proofs(words, size, results[r][1], &names, why);
            names_add(&names, doc_device_words(memory, name));
            why = text;
        }
        append_proofs(words, size, results[r][1], &names, why);
    }
}

/* Fabrics of one library with equal results share a row. */
static void add_proofs(json_t *rows, const json_t *facts)
{
    json_t *alike = doc_object(), *names;
    const json_t *fabric;
    char what[256], words[1600], more[32];
    const char *said;

    doc_each(fabric, json_object_get(facts, "fabrics")) {
        bool loopback = doc_equals(fabric, "provider", "loopback");
        const char *domain = doc_words(fabric, "domain");
        json_t *key;

        describe_proofs(fabric, words, sizeof(words));
        if (!words[0])
            continue;
        key = doc_format("%s%s%s", loopback ? "inside this process, without a fabric; " : "", words,
                         loopback || doc_has(fabric, "nic") ? "" : " (the CPU moves the bytes)");
        snprintf(what, sizeof(what), "%s %.100s%s%.100s", fabrics_library(fabric),
                 doc_words(fabric, "fabric"), *domain ? " " : "", domain);
        if (!json_object_get(alike, json_string_value(key)))
            doc_set(alike, json_string_value(key), doc_array());
        doc_add(json_object_get(alike, json_string_value(key)), doc_text(what));
        json_decref(key);
    }
    json_object_foreach(alike, said, names) {
        snprintf(more, sizeof(more), " and %zu more", json_array_size(names) - 1);
        snprintf(what, sizeof(what), "%.200s%s", name_at(names, 0),
                 json_array_size(names) > 1 ? more : "");
        add_detail(rows, what, "%s", said);
    }
    json_decref(alike);
}

/* Pairs with equal results share a row. */
static void add_ways(json_t *rows, const json_t *facts)
{
    json_t *alike = doc_object(), *pairs;
    const json_t *pair;
    const char *said;
    char words[256], more[64];

    doc_each(pair, json_object_get(facts, "pairs")) {
        if (!ways_describe(pair, words, sizeof(words)))
            continue;
        if (!json_object_get(alike, words))
            doc_set(alike, words, doc_array());
        doc_add(json_object_get(alike, words),
                doc_format("%s with %s", doc_words(pair, "device"), doc_words(pair, "nic")));
    }
    json_object_foreach(alike, said, pairs) {
        snprintf(more, sizeof(more), " and %zu more pairs", json_array_size(pairs) - 1);
        add_detail(rows, "ways of path dmabuf", "%s (%s%s)", said, name_at(pairs, 0),
                   json_array_size(pairs) > 1 ? more : "");
    }
    json_decref(alike);
}

static void print_details(const json_t *facts)
{
    static const struct column columns[] = {
        COLUMN("looked at", "what"), COLUMN("found", "found"), {0}};
    json_t *rows = doc_array();

    print_heading("Details");
    add_runtimes(rows, facts);
    add_libraries(rows, facts);
    add_nics(rows, facts);
    add_peers(rows, facts);
    add_process(rows, facts);
    add_proofs(rows, facts);
    add_ways(rows, facts);
    print_rows(columns, rows);
    json_decref(rows);
}

static bool print_all;

void doctor_print_all(bool all)
{
    print_all = all;
}

void doctor_print_text(const json_t *document)
{
    const json_t *facts = json_object_get(document, "facts");
    size_t left_out;

    print_width(PAGE_WIDTH);
    print_most(print_all ? 0 : MOST_LINES - END_LINES);
    print_verdict(document);
    doctor_print_compared(document);
    print_findings(document);
    if (json_object_get(facts, "peer"))
        peer_print(facts);
    else
        print_pairs(facts);
    print_notes_of(document);
    if (!json_object_get(facts, "peer"))
        print_details(facts);
    left_out = print_most(0);
    print_blank();
    if (left_out)
        print_line("%zu more lines: hmreg doctor --verbose", left_out);
    print_line(
        "More: hmreg doctor --explain CODE, hmreg topo; all that was read: hmreg doctor --json");
}
