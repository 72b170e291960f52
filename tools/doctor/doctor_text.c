/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Prints the report of `hmreg doctor` in at most 100 columns: the verdict, what to do, the pairs,
 * and details.
 */
#include "tools/doctor/doctor.h"
#include "tools/doctor/findings.h"
#include "tools/fabrics.h"
#include "tools/table.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define GAP 2 /* spaces between the columns of a table, and before the first */

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

static bool is_note(const json_t *finding)
{
    return doc_equals(finding, "severity", "note");
}

static void print_findings(const json_t *document)
{
    const json_t *finding;
    size_t i;

    json_array_foreach(json_object_get(document, "findings"), i, finding) {
        if (is_note(finding))
            return;
        if (!i)
            print_heading("What to do");
        print_finding(finding, i + 1);
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

#define CELL 48

static void describe_cell(const json_t *pair, char words[CELL])
{
    static const char *const marks[][2] = {
        {"proven", " ok"}, {"failed", " FAILED"}, {"wrong-bytes", " WRONG"}, {"", " ?"}};
    const char *way = doc_words(json_object_get(pair, "proof"), "way");
    const char *by = strcmp(way, "plain") ? way : "";
    size_t i = 0;

    while (marks[i][0][0] && strcmp(marks[i][0], proof_result(pair)))
        i++;
    if (!pair || doc_equals(pair, "path", "none"))
        snprintf(words, CELL, "%s", pair ? "none" : "-");
    else
        snprintf(words, CELL, "%.12s%s%.18s%s", doc_words(pair, "path"), by[0] ? " by " : "", by,
                 marks[i][1]);
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

static const char *name_at(const json_t *names, size_t i)
{
    return json_string_value(json_array_get(names, i));
}

/* How many columns of NICs fit beside the devices' names. */
static size_t columns_that_fit(const json_t *pairs)
{
    size_t column = 0, row = 0, width = print_columns();
    const json_t *pair;

    doc_each(pair, pairs) {
        size_t nic = strlen(doc_words(pair, "nic"));
        size_t device = strlen(doc_words(pair, "device")) + (doc_is(pair, "simulated") ? 11 : 0);
        char words[CELL];

        describe_cell(pair, words);
        column = nic > column ? nic : column;
        column = strlen(words) > column ? strlen(words) : column;
        row = device > row ? device : row;
    }
    if (!width)
        return SIZE_MAX;
    return width > row + GAP + column ? (width - row - GAP) / (column + GAP) : 1;
}

/* The table of the NICs from first up to, not including, end. */
static void print_part(const json_t *pairs, const json_t *nics, size_t first, size_t end)
{
    struct table *table = table_new("device", NULL);
    json_t *devices = names_of(pairs, "device");
    char words[CELL];

    for (size_t nic = first; nic < end; nic++)
        table_add_column(table, name_at(nics, nic));
    for (size_t i = 0; i < json_array_size(devices); i++) {
        const char *device = name_at(devices, i);

        table_add(table, "%s%s", device,
                  doc_is(doc_find(pairs, "device", device), "simulated") ? ", simulated" : "");
        for (size_t nic = first; nic < end; nic++) {
            describe_cell(find_pair(pairs, device, name_at(nics, nic)), words);
            table_add(table, "%s", words);
        }
    }
    table_print(table);
    json_decref(devices);
}

static void print_matrix(const json_t *pairs)
{
    json_t *nics = names_of(pairs, "nic");
    size_t count = json_array_size(nics), fit = columns_that_fit(pairs);

    for (size_t first = 0; first < count; first += fit < count ? fit : count) {
        if (first)
            putchar('\n');
        print_part(pairs, nics, first, fit < count - first ? first + fit : count);
    }
    json_decref(nics);
}

static void print_pairs(const json_t *facts)
{
    if (!json_array_size(json_object_get(facts, "pairs")))
        return;
    print_heading("Path of each device's memory to each NIC");
    print_matrix(json_object_get(facts, "pairs"));
    putchar('\n');
    print_paragraph("", "ok: proven, 64 KiB were written to the device by the NIC, read back, and "
                        "compared. ?: not proven. none: no path, see above.");
}

/* ---- details ---------------------------------------------------------------------------- */

static void add_runtimes(struct table *table, const json_t *facts)
{
    const json_t *runtime;

    doc_each(runtime, json_object_get(facts, "runtimes")) {
        const char *iface = doc_words(runtime, "iface");

        if (!strcmp(iface, "system"))
            continue;
        table_add(table, "%s", iface);
        if (doc_is(runtime, "usable"))
            table_add(
                table, "%s, %" PRIu64 " device%s%s%s%s%s", doc_words(runtime, "version"),
                doc_number(runtime, "devices"), doc_number(runtime, "devices") == 1 ? "" : "s",
                doc_words(runtime, "why")[0] ? "; " : "", doc_words(runtime, "why"),
                doc_words(runtime, "unreported")[0] ? "; cache hits ask the runtime for: " : "",
                doc_words(runtime, "unreported"));
        else
            table_add(table, "not usable: %s", doc_words(runtime, "why"));
    }
}

static void add_nics(struct table *table, const json_t *facts)
{
    const json_t *nic, *port;

    doc_each(nic, json_object_get(facts, "nics")) {
        struct names ports = {.count = 0};

        doc_each(port, json_object_get(nic, "ports")) {
            char words[64];

            snprintf(words, sizeof(words), "port %" PRIu64 " %.32s", doc_number(port, "port"),
                     doc_words(port, "state"));
            names_add(&ports, words);
        }
        table_add(table, "RDMA device %s", doc_words(nic, "name"));
        table_add(table, "%s, %s%s%s", doc_has(nic, "pci") ? doc_words(nic, "pci") : "on no bus",
                  names_text(&ports), doc_words(nic, "firmware")[0] ? ", firmware " : "",
                  doc_words(nic, "firmware"));
    }
}

static void add_libraries(struct table *table, const json_t *facts)
{
    const json_t *library;

    doc_each(library, json_object_get(facts, "fabric_libraries")) {
        struct names lacks = {.count = 0};
        const char *version = doc_words(library, "version"), *why = doc_words(library, "why");

        if (doc_equals(library, "provider", "loopback"))
            continue;
        table_add(table, "%s", doc_words(library, "library"));
        names_add_list(&lacks, json_object_get(library, "lacks"));
        table_add(table, "%s%s%" PRIu64 " fabric%s%s%s%s%s", version, version[0] ? ", " : "",
                  doc_number(library, "fabrics"), doc_number(library, "fabrics") == 1 ? "" : "s",
                  why[0] ? ": " : "", why, lacks.count ? "; lacks " : "", names_text(&lacks));
    }
}

static void add_names(struct table *table, const char *label, const json_t *list, const char *none)
{
    struct names names = {.count = 0};

    names_add_list(&names, list);
    table_add(table, "%s", label);
    table_add(table, "%s", names.count ? names_text(&names) : none);
}

static void add_peers(struct table *table, const json_t *facts)
{
    const json_t *peers = json_object_get(facts, "peer_memory");

    add_names(table, "peer memory clients", json_object_get(peers, "clients"),
              "none in /sys/kernel/mm/memory_peers");
    add_names(table, "peer memory modules", json_object_get(peers, "modules"),
              "none of nvidia_peermem, nv_peer_mem, efa_nv_peermem");
}

static void add_process(struct table *table, const json_t *facts)
{
    const json_t *process = json_object_get(facts, "process");
    char words[32];

    table_add(table, "locked memory");
    table_add(table, "%s%s",
              doc_has(process, "memlock") ? doc_bytes_words(doc_number(process, "memlock"), words)
                                          : "no limit",
              doc_is(process, "ipc_lock") ? " (not enforced: CAP_IPC_LOCK)" : "");
    table_add(table, "watching host memory");
    table_add(table, "%s",
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

static void add_proofs(struct table *table, const json_t *facts)
{
    const json_t *fabric;
    char words[1600];

    doc_each(fabric, json_object_get(facts, "fabrics")) {
        bool loopback = doc_equals(fabric, "provider", "loopback");

        describe_proofs(fabric, words, sizeof(words));
        if (!words[0])
            continue;
        table_add(table, "%s %s%s%s", fabrics_library(fabric), doc_words(fabric, "fabric"),
                  doc_words(fabric, "domain")[0] ? " " : "", doc_words(fabric, "domain"));
        table_add(table, "%s%s%s", loopback ? "inside this process, without a fabric; " : "", words,
                  loopback || doc_has(fabric, "nic") ? "" : " (the CPU moves the bytes)");
    }
}

/* Pairs of which the same is to be said have one row. */
static void add_ways(struct table *table, const json_t *facts)
{
    json_t *rows = doc_object(), *alike;
    const json_t *pair;
    const char *said;
    char words[256];

    doc_each(pair, json_object_get(facts, "pairs")) {
        if (!ways_describe(pair, words, sizeof(words)))
            continue;
        if (!json_object_get(rows, words))
            doc_set(rows, words, doc_array());
        doc_add(json_object_get(rows, words),
                doc_format("%s with %s", doc_words(pair, "device"), doc_words(pair, "nic")));
    }
    json_object_foreach(rows, said, alike) {
        size_t more = json_array_size(alike) - 1;

        table_add(table, "ways of path dmabuf");
        if (more)
            table_add(table, "%s (%s and %zu more pairs)", said, name_at(alike, 0), more);
        else
            table_add(table, "%s (%s)", said, name_at(alike, 0));
    }
    json_decref(rows);
}

static void print_details(const json_t *facts)
{
    struct table *table = table_new("looked at", "found", NULL);

    print_heading("Details");
    add_runtimes(table, facts);
    add_libraries(table, facts);
    add_nics(table, facts);
    add_peers(table, facts);
    add_process(table, facts);
    add_proofs(table, facts);
    add_ways(table, facts);
    table_print(table);
}

void doctor_print_text(const json_t *document)
{
    const json_t *facts = json_object_get(document, "facts");

    print_width(PAGE_WIDTH);
    print_verdict(document);
    print_findings(document);
    print_pairs(facts);
    print_notes_of(document);
    print_details(facts);
    putchar('\n');
    print_line(
        "More: hmreg doctor --explain CODE, hmreg topo; all that was read: hmreg doctor --json");
}
