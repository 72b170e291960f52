/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Prints the fabrics of `hmreg info`. To keep the output short, domains of one fabric that differ
 * only in name share a line, as do devices of one iface with equal results; a reason that several
 * rows share is printed once, with the text of the first.
 */
#include "tools/fabrics.h"
#include "tools/notes.h"
#include "tools/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- what shares a line ----------------------------------------------------------------- */

/* A reason's name; errors without one are distinguished by their text. */
static const char *reason_of(const json_t *path)
{
    return doc_has(path, "slug") ? doc_words(path, "slug") : doc_words(path, "text");
}

static bool paths_alike(json_t *one, const json_t *other)
{
    const json_t *path;
    const char *name;

    json_object_foreach(one, name, path) {
        const json_t *others = json_object_get(other, name);

        if (doc_is(path, "usable") != doc_is(others, "usable") ||
            strcmp(reason_of(path), reason_of(others)))
            return false;
    }
    return true;
}

static bool memory_alike(const json_t *one, const json_t *other)
{
    return doc_equals(one, "iface", doc_words(other, "iface")) &&
           doc_is(one, "simulated") == doc_is(other, "simulated") &&
           paths_alike(json_object_get(one, "paths"), json_object_get(other, "paths"));
}

static bool all_memory_alike(const json_t *one, const json_t *other)
{
    if (json_array_size(one) != json_array_size(other))
        return false;
    for (size_t i = 0; i < json_array_size(one); i++)
        if (!memory_alike(json_array_get(one, i), json_array_get(other, i)))
            return false;
    return true;
}

static bool same(const json_t *one, const json_t *other, const char *key)
{
    const json_t *value = json_object_get(one, key), *others = json_object_get(other, key);

    return value == others || (value && others && json_equal(value, others));
}

static bool fabrics_alike(const json_t *one, const json_t *other)
{
    static const char *const keys[] = {"fabric",   "opened",    "error",      "mr_mode",
                                       "key_size", "iov_limit", "max_mr_size"};

    for (size_t i = 0; i < COUNT(keys); i++)
        if (!same(one, other, keys[i]))
            return false;
    return all_memory_alike(json_object_get(one, "memory"), json_object_get(other, "memory"));
}

/* One line: the fabrics in [first, next). */
struct line {
    const json_t *fabric;
    size_t next;
    char domains[64]; /* "eth0, lo", "mlx5_0 and 7 more" */
};

static void name_domains(const json_t *fabrics, size_t first, struct line *out)
{
    size_t used = 0;

    for (size_t i = first; i < out->next; i++) {
        const char *domain = doc_words(json_array_get(fabrics, i), "domain");

        if (used + strlen(domain) + 2 > 32 && i > first) {
            snprintf(out->domains + used, sizeof(out->domains) - used, " and %zu more",
                     out->next - i);
            return;
        }
        used += (size_t)snprintf(out->domains + used, sizeof(out->domains) - used, "%s%.40s",
                                 i > first ? ", " : "", domain);
    }
}

static struct line line_from(const json_t *fabrics, size_t first)
{
    struct line line = {.fabric = json_array_get(fabrics, first), .next = first + 1};

    while (line.next < json_array_size(fabrics) &&
           fabrics_alike(line.fabric, json_array_get(fabrics, line.next)))
        line.next++;
    name_domains(fabrics, first, &line);
    return line;
}

const char *fabrics_library(const json_t *fabric)
{
    return doc_equals(fabric, "provider", "ofi")     ? "libfabric"
           : doc_equals(fabric, "provider", "verbs") ? "libibverbs"
                                                     : "hmreg";
}

/* ---- what each demands ------------------------------------------------------------------ */

static void add_modes(struct table *table, const json_t *fabric)
{
    const json_t *modes = json_object_get(fabric, "mr_mode"), *mode;
    char words[160] = "";

    doc_each(mode, modes) {
        size_t used = strlen(words);

        snprintf(words + used, sizeof(words) - used, "%s%s", used ? " " : "",
                 json_string_value(mode));
    }
    table_add(table, "%s", words[0] ? words : "nothing");
}

static void add_fabric(struct table *table, const struct line *line)
{
    const json_t *fabric = line->fabric;
    char most[32];

    table_add(table, "%s", fabrics_library(fabric));
    table_add(table, "%s", doc_words(fabric, "fabric"));
    table_add(table, "%s", line->domains);
    if (!doc_is(fabric, "opened")) {
        for (int i = 0; i < 3; i++)
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
    add_modes(table, fabric);
}

static void print_fabrics(const json_t *fabrics)
{
    struct table *table = table_new("library", "fabric", "domain", ">key", ">ranges",
                                    ">longest region", "demands (mr_mode)", NULL);

    print_heading("Fabrics");
    for (size_t i = 0; i < json_array_size(fabrics);) {
        struct line line = line_from(fabrics, i);

        add_fabric(table, &line);
        i = line.next;
    }
    table_print(table);
}

/* ---- what each can register ------------------------------------------------------------- */

static void add_path(struct table *table, const json_t *paths, const char *name, json_t *notes)
{
    const json_t *path = json_object_get(paths, name);
    char words[400];

    if (!path || doc_is(path, "usable")) {
        table_add(table, "%s", path ? "yes" : "-");
        return;
    }
    snprintf(words, sizeof(words), "%s%s%s", doc_words(path, "slug"),
             doc_has(path, "slug") ? ": " : "", doc_words(path, "text"));
    table_add(table, "no [%zu]", note_number(notes, reason_of(path), words));
}

/* Whether a real device's dmabuf can be mapped shows only when it is tried. */
static void add_mapped(struct table *table, const json_t *memory, json_t *notes)
{
    const json_t *path = json_object_get(json_object_get(memory, "paths"), "mapped");
    const char *words = "whether this device's dmabufs can be mapped for the CPU shows when it is "
                        "tried, by hmreg verify; NVIDIA's driver refuses on most machines";

    if (path && doc_is(path, "usable") && !doc_is(memory, "simulated"))
        table_add(table, "untried [%zu]", note_number(notes, words, words));
    else
        add_path(table, json_object_get(memory, "paths"), "mapped", notes);
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

static void add_memory(struct table *table, const struct line *line, json_t *notes)
{
    const json_t *list = json_object_get(line->fabric, "memory");

    for (size_t i = 0, next; i < json_array_size(list); i = next) {
        const json_t *first = json_array_get(list, i);
        const json_t *paths = json_object_get(first, "paths");

        for (next = i + 1; next < json_array_size(list); next++)
            if (!memory_alike(first, json_array_get(list, next)))
                break;
        table_add(table, "%s", fabrics_library(line->fabric));
        table_add(table, "%s", doc_words(line->fabric, "fabric"));
        table_add(table, "%s", line->domains);
        add_label(table, first, json_array_get(list, next - 1));
        add_path(table, paths, "system", notes);
        add_path(table, paths, "dmabuf", notes);
        add_path(table, paths, "peermem", notes);
        add_mapped(table, first, notes);
    }
}

static void print_memory(const json_t *fabrics)
{
    struct table *table = table_new("library", "fabric", "domain", "memory of", "system", "dmabuf",
                                    "peermem", "mapped", NULL);
    json_t *notes = doc_array();

    print_heading("Memory each fabric can register, by path");
    for (size_t i = 0; i < json_array_size(fabrics);) {
        struct line line = line_from(fabrics, i);

        add_memory(table, &line, notes);
        i = line.next;
    }
    table_print(table);
    print_notes(notes);
    json_decref(notes);
}

void fabrics_print_text(const json_t *fabrics)
{
    if (!json_array_size(fabrics))
        return;
    print_fabrics(fabrics);
    print_memory(fabrics);
}
