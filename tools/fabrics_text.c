/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Prints the fabrics of `hmreg info`. To keep the output short, domains of one fabric that differ
 * only in name share a line, as do devices of one iface with equal results; a reason that several
 * rows share is printed once, with the text of the first.
 */
#include "tools/fabrics.h"
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

/* "eth0, lo", "mlx5_0 and 7 more": the domains of the fabrics in [first, next). */
static void name_domains(const json_t *fabrics, size_t first, size_t next, char domains[64])
{
    size_t used = 0;

    for (size_t i = first; i < next; i++) {
        const char *domain = doc_words(json_array_get(fabrics, i), "domain");

        if (used + strlen(domain) + 2 > 32 && i > first) {
            snprintf(domains + used, 64 - used, " and %zu more", next - i);
            return;
        }
        used +=
            (size_t)snprintf(domains + used, 64 - used, "%s%.40s", i > first ? ", " : "", domain);
    }
}

/* The fabrics. Of equal fabrics only the first, with the domains of all. */
static json_t *lines_of(const json_t *fabrics)
{
    json_t *lines = doc_array(), *line;
    char domains[64];

    for (size_t i = 0, next; i < json_array_size(fabrics); i = next) {
        const json_t *first = json_array_get(fabrics, i);

        for (next = i + 1; next < json_array_size(fabrics); next++)
            if (!fabrics_alike(first, json_array_get(fabrics, next)))
                break;
        name_domains(fabrics, i, next, domains);
        line = doc_made(json_copy((json_t *)(uintptr_t)first));
        doc_set(line, "domains", doc_text(domains));
        doc_add(lines, line);
    }
    return lines;
}

const char *fabrics_library(const json_t *fabric)
{
    return doc_equals(fabric, "provider", "ofi")     ? "libfabric"
           : doc_equals(fabric, "provider", "verbs") ? "libibverbs"
                                                     : "hmreg";
}

const char *cell_library(const json_t *fabric, char buf[CELL], json_t *notes)
{
    return fabrics_library(fabric);
}

/* ---- what each demands ------------------------------------------------------------------ */

static const char *cell_modes(const json_t *fabric, char buf[CELL], json_t *notes)
{
    const json_t *mode;
    size_t used = 0;

    if (!doc_is(fabric, "opened")) {
        snprintf(buf, CELL, "not opened: %s", doc_words(json_object_get(fabric, "error"), "text"));
        return buf;
    }
    doc_each(mode, json_object_get(fabric, "mr_mode"))
        used += (size_t)snprintf(buf + used, CELL - used, "%s%s", used ? " " : "",
                                 json_string_value(mode));
    return used ? buf : "nothing";
}

static void print_fabrics(const json_t *lines)
{
    static const struct column columns[] = {
        COLUMN("library", NULL, .cell = cell_library),
        COLUMN("fabric", "fabric"),
        COLUMN("domain", "domains"),
        COLUMN(">key", "key_size", .cell = cell_bytes),
        COLUMN(">ranges", "iov_limit"),
        COLUMN(">longest region", "max_mr_size", .none = "no limit", .cell = cell_bytes),
        COLUMN("demands (mr_mode)", NULL, .cell = cell_modes),
        {0}};

    print_heading("Fabrics");
    print_rows(columns, lines);
}

/* ---- what each can register ------------------------------------------------------------- */

static const char *cell_path(const json_t *path, char buf[CELL], json_t *notes)
{
    char words[400];

    if (doc_is(path, "usable"))
        return "yes";
    snprintf(words, sizeof(words), "%s%s%s", doc_words(path, "slug"),
             doc_has(path, "slug") ? ": " : "", doc_words(path, "text"));
    snprintf(buf, CELL, "no [%zu]", note_number(notes, reason_of(path), words));
    return buf;
}

/* A real device's dmabuf must be mapped to know whether it can be. */
static const char *cell_mapped(const json_t *memory, char buf[CELL], json_t *notes)
{
    const json_t *path = json_object_get(json_object_get(memory, "paths"), "mapped");
    const char *words = "hmreg verify tests whether the CPU can map this device's dmabufs; "
                        "NVIDIA's driver refuses on most machines";

    if (!path || !doc_is(path, "usable") || doc_is(memory, "simulated"))
        return path ? cell_path(path, buf, notes) : "-";
    snprintf(buf, CELL, "untried [%zu]", note_number(notes, words, words));
    return buf;
}

static const char *cell_label(const json_t *memory, char buf[CELL], json_t *notes)
{
    uint64_t from = doc_number(memory, "device"), to = doc_number(memory, "last");
    size_t used;

    if (!doc_has(memory, "device"))
        return "host";
    used = (size_t)snprintf(buf, CELL, "%s %" PRIu64, doc_words(memory, "iface"), from);
    if (from != to)
        used += (size_t)snprintf(buf + used, CELL - used, "-%" PRIu64, to);
    snprintf(buf + used, CELL - used, "%s", doc_is(memory, "simulated") ? ", simulated" : "");
    return buf;
}

/* One row for equal memories in a line: the first memory, with the last one's device. */
static void add_memory(json_t *rows, const json_t *line)
{
    static const char *const keys[] = {"provider", "fabric", "domains"};
    static const char *const paths[] = {"system", "dmabuf", "peermem"};
    const json_t *list = json_object_get(line, "memory");

    for (size_t i = 0, next; i < json_array_size(list); i = next) {
        json_t *first = json_array_get(list, i), *row = doc_made(json_copy(first));

        for (next = i + 1; next < json_array_size(list); next++)
            if (!memory_alike(first, json_array_get(list, next)))
                break;
        doc_set(row, "last",
                json_incref(json_object_get(json_array_get(list, next - 1), "device")));
        for (size_t k = 0; k < COUNT(keys); k++)
            doc_set(row, keys[k], json_incref(json_object_get(line, keys[k])));
        for (size_t k = 0; k < COUNT(paths); k++) {
            json_t *path = json_object_get(json_object_get(first, "paths"), paths[k]);

            doc_set(row, paths[k], path ? json_incref(path) : json_null());
        }
        doc_add(rows, row);
    }
}

static void print_memory(const json_t *lines)
{
    static const struct column columns[] = {
        COLUMN("library", NULL, .cell = cell_library),
        COLUMN("fabric", "fabric"),
        COLUMN("domain", "domains"),
        COLUMN("memory of", NULL, .cell = cell_label),
        COLUMN("system", "system", .none = "-", .cell = cell_path),
        COLUMN("dmabuf", "dmabuf", .none = "-", .cell = cell_path),
        COLUMN("peermem", "peermem", .none = "-", .cell = cell_path),
        COLUMN("mapped", NULL, .cell = cell_mapped),
        {0}};
    json_t *rows = doc_array();
    const json_t *line;

    print_heading("Memory that each fabric can register, by path");
    doc_each(line, lines)
        add_memory(rows, line);
    print_rows(columns, rows);
    json_decref(rows);
}

void fabrics_print_text(const json_t *fabrics)
{
    json_t *lines = lines_of(fabrics);

    if (json_array_size(lines)) {
        print_fabrics(lines);
        print_memory(lines);
    }
    json_decref(lines);
}
