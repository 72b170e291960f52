/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See info_text.h. Devices of one iface that fare alike on a fabric share a line, and a reason
 * that many have is printed once, as a numbered note.
 */
#include "tools/info_text.h"

#include "tools/document.h"
#include "tools/notes.h"
#include "tools/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static const char *yes(bool is)
{
    return is ? "yes" : "no";
}

/* ---- lists of one table each ------------------------------------------------------------ */

static void print_system(const json_t *document)
{
    const json_t *system = json_object_get(document, "system");
    char page[32], memory[32], line[512];

    snprintf(line, sizeof(line), "hmreg %s on Linux %s %s, %s of memory in pages of %s",
             doc_words(document, "hmreg"), doc_words(system, "kernel"),
             doc_words(system, "machine"), doc_bytes_words(doc_number(system, "memory"), memory),
             doc_bytes_words(doc_number(system, "page_size"), page));
    print_line(line);
}

static void add_notes(struct table *table, const char *library, const char *why)
{
    table_add(table, "%s%s%s", library, library[0] && why[0] ? ": " : "", why);
}

static void print_runtimes(const json_t *document)
{
    static const char *const columns[] = {"iface", "usable", ">devices", "version",
                                          "library and notes"};
    struct table *table = table_new(columns, COUNT(columns));
    const json_t *runtime;
    size_t i;

    print_heading("Runtimes");
    json_array_foreach(json_object_get(document, "runtimes"), i, runtime)
    {
        table_add(table, "%s", doc_words(runtime, "iface"));
        table_add(table, "%s", yes(doc_is(runtime, "usable")));
        table_add(table, "%" PRIu64, doc_number(runtime, "devices"));
        table_add(table, "%s", doc_words(runtime, "version"));
        add_notes(table, doc_words(runtime, "library"), doc_words(runtime, "why"));
    }
    table_print(table);
}

static void add_device(struct table *table, const json_t *device)
{
    char memory[32];

    table_add(table, "%s %" PRIu64, doc_words(device, "iface"), doc_number(device, "device"));
    table_add(table, "%s", doc_has(device, "pci") ? doc_words(device, "pci") : "unknown");
    table_add(table, "%s",
              doc_has(device, "memory") ? doc_bytes_words(doc_number(device, "memory"), memory)
                                        : "unknown");
    table_add(table, "%s", yes(doc_is(device, "dmabuf")));
    table_add(table, "%s", doc_is(device, "simulated") ? "simulated" : "hardware");
    table_add(table, "%s", doc_words(device, "name"));
}

static void print_devices(const json_t *document)
{
    static const char *const columns[] = {"device", "PCI address", ">memory",
                                          "dmabuf", "sort",        "name"};
    const json_t *devices = json_object_get(document, "devices"), *device;
    struct table *table = table_new(columns, COUNT(columns));
    size_t i;

    print_heading("Devices");
    if (!json_array_size(devices))
        print_paragraph("", "none");
    json_array_foreach(devices, i, device) add_device(table, device);
    table_print(table);
}

static void print_libraries(const json_t *document)
{
    static const char *const columns[] = {"library", "version", ">fabrics", "note"};
    struct table *table = table_new(columns, COUNT(columns));
    const json_t *library;
    size_t i;

    print_heading("Fabric libraries");
    json_array_foreach(json_object_get(document, "fabric_libraries"), i, library)
    {
        table_add(table, "%s", doc_words(library, "library"));
        table_add(table, "%s", doc_words(library, "version"));
        table_add(table, "%" PRIu64, doc_number(library, "fabrics"));
        table_add(table, "%s", doc_words(library, "why"));
    }
    table_print(table);
}

/* ---- fabrics ---------------------------------------------------------------------------- */

static void print_modes(struct table *table, const json_t *fabric)
{
    const json_t *modes = json_object_get(fabric, "mr_mode"), *mode;
    char words[160] = "";
    size_t i;

    json_array_foreach(modes, i, mode)
    {
        size_t used = strlen(words);

        snprintf(words + used, sizeof(words) - used, "%s%s", used ? " " : "",
                 json_string_value(mode));
    }
    table_add(table, "%s", words[0] ? words : "nothing");
}

static void add_fabric(struct table *table, const json_t *fabric)
{
    char most[32];

    table_add(table, "%s", doc_words(fabric, "fabric"));
    table_add(table, "%s", doc_words(fabric, "domain"));
    if (!doc_is(fabric, "opened")) {
        table_add(table, "%s", "");
        table_add(table, "%s", "");
        table_add(table, "%s", "");
        table_add(table, "not opened: %s", doc_words(json_object_get(fabric, "error"), "text"));
        return;
    }
    table_add(table, "%" PRIu64 " B", doc_number(fabric, "key_size"));
    table_add(table, "%" PRIu64, doc_number(fabric, "iov_limit"));
    table_add(table, "%s",
              doc_has(fabric, "max_mr_size")
                  ? doc_bytes_words(doc_number(fabric, "max_mr_size"), most)
                  : "no limit");
    print_modes(table, fabric);
}

static void print_fabrics(const json_t *document)
{
    static const char *const columns[] = {"fabric",  "domain",          ">key",
                                          ">ranges", ">longest region", "demands (mr_mode)"};
    struct table *table = table_new(columns, COUNT(columns));
    const json_t *fabric;
    size_t i;

    print_heading("Fabrics");
    json_array_foreach(json_object_get(document, "fabrics"), i, fabric) add_fabric(table, fabric);
    table_print(table);
}

/* ---- memory ----------------------------------------------------------------------------- */

static void add_path(struct table *table, const json_t *paths, const char *name, json_t *notes)
{
    const json_t *path = json_object_get(paths, name);

    if (!path)
        table_add(table, "-");
    else if (doc_is(path, "usable"))
        table_add(table, "yes");
    else
        table_add(table, "no [%zu]", note_number(notes, doc_words(path, "text")));
}

static bool fare_alike(const json_t *one, const json_t *other)
{
    return other && !strcmp(doc_words(one, "iface"), doc_words(other, "iface")) &&
           doc_is(one, "simulated") == doc_is(other, "simulated") &&
           json_equal(json_object_get(one, "paths"), json_object_get(other, "paths"));
}

static void add_label(struct table *table, const json_t *first, const json_t *last)
{
    const char *simulated = doc_is(first, "simulated") ? ", simulated" : "";
    const char *iface = doc_words(first, "iface");
    uint64_t from = doc_number(first, "device"), to = doc_number(last, "device");

    if (!doc_has(first, "device"))
        table_add(table, "host");
    else if (from == to)
        table_add(table, "%s %" PRIu64 "%s", iface, from, simulated);
    else
        table_add(table, "%s %" PRIu64 "-%" PRIu64 "%s", iface, from, to, simulated);
}

static void add_memory(struct table *table, const json_t *fabric, json_t *notes)
{
    const json_t *list = json_object_get(fabric, "memory");

    for (size_t i = 0, next; i < json_array_size(list); i = next) {
        const json_t *first = json_array_get(list, i);
        const json_t *paths = json_object_get(first, "paths");

        for (next = i + 1; fare_alike(first, json_array_get(list, next));)
            next++;
        table_add(table, "%s", doc_words(fabric, "fabric"));
        table_add(table, "%s", doc_words(fabric, "domain"));
        add_label(table, first, json_array_get(list, next - 1));
        add_path(table, paths, "system", notes);
        add_path(table, paths, "dmabuf", notes);
        add_path(table, paths, "peermem", notes);
        add_path(table, paths, "mapped", notes);
    }
}

static void print_memory(const json_t *document)
{
    static const char *const columns[] = {"fabric", "domain",  "memory of", "system",
                                          "dmabuf", "peermem", "mapped"};
    struct table *table = table_new(columns, COUNT(columns));
    json_t *notes = doc_made(json_array());
    const json_t *fabric;
    size_t i;

    print_heading("Memory each fabric can register, by path");
    json_array_foreach(json_object_get(document, "fabrics"), i, fabric)
        add_memory(table, fabric, notes);
    table_print(table);
    print_notes(notes);
    json_decref(notes);
}

/* ---- limits and environment ------------------------------------------------------------- */

static void add_bytes(struct table *table, const json_t *object, const char *key)
{
    char words[32];

    table_add(table, "%s",
              doc_has(object, key) ? doc_bytes_words(doc_number(object, key), words) : "no limit");
}

static void add_count(struct table *table, const json_t *object, const char *key)
{
    if (doc_has(object, key))
        table_add(table, "%" PRIu64, doc_number(object, key));
    else
        table_add(table, "no limit");
}

static void add_monitor(struct table *table, const json_t *userfaultfd)
{
    if (doc_is(userfaultfd, "available"))
        table_add(table, "available: changes of host memory are noticed");
    else
        table_add(table, "no: %s", doc_words(json_object_get(userfaultfd, "error"), "text"));
}

static void print_limits(const json_t *document)
{
    static const char *const columns[] = {"limit", "value"};
    const json_t *limits = json_object_get(document, "limits");
    struct table *table = table_new(columns, COUNT(columns));

    print_heading("Limits");
    table_add(table, "locked memory (ulimit -l)");
    add_bytes(table, json_object_get(limits, "memlock"), "soft");
    table_add(table, "open files (ulimit -n)");
    add_count(table, json_object_get(limits, "open_files"), "soft");
    table_add(table, "cached regions, each cache");
    add_count(table, json_object_get(limits, "cache"), "regions");
    table_add(table, "cached bytes, each cache");
    add_bytes(table, json_object_get(limits, "cache"), "bytes");
    table_add(table, "userfaultfd");
    add_monitor(table, json_object_get(limits, "userfaultfd"));
    table_print(table);
}

static void print_environment(const json_t *document)
{
    static const char *const columns[] = {"variable", "value"};
    struct table *table = table_new(columns, COUNT(columns));
    const json_t *value;
    const char *name;

    if (json_object_size(json_object_get(document, "environment")))
        print_heading("Environment that is honoured");
    json_object_foreach(json_object_get(document, "environment"), name, value)
    {
        table_add(table, "%s", name);
        table_add(table, "%s", json_string_value(value));
    }
    table_print(table);
}

void info_print_text(const json_t *document)
{
    print_system(document);
    print_runtimes(document);
    print_devices(document);
    print_libraries(document);
    print_fabrics(document);
    print_memory(document);
    print_limits(document);
    print_environment(document);
}
