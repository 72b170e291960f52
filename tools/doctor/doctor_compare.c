/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Compares an earlier document of the doctor with this one. The facts of each become a flat table,
 * "nics/mlx5_0/ports/1/state": "ACTIVE". Each difference is broken, mended or neutral.
 */
#include "tools/doctor/doctor.h"
#include "tools/doctor/findings.h"
#include "tools/foreign.h"
#include "tools/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the flat table ----------------------------------------------------------------------- */

/* Keys that change although the machine did not, or that repeat other keys. */
static bool is_left_out(const char *key)
{
    static const char *const keys[] = {"text",       "why",       "error",    "errno", "errors",
                                       "huge_pages", "read_at",   "root",     "user",  "uid",
                                       "file",       "library",   "distance", "ways",  "lacks",
                                       "memory",     "unreported"};

    for (size_t i = 0; i < COUNT(keys); i++)
        if (!strcmp(key, keys[i]))
            return true;
    return false;
}

/* The name of a list's item, or its index if it has none. */
static void name_item(const json_t *item, size_t place, char *name, size_t size)
{
    static const char *const keys[] = {"name", "library", "pci", "port"};
    const json_t *device = json_object_get(item, "device"), *value;

    if (json_is_string(item)) {
        snprintf(name, size, "%.100s", json_string_value(item));
        return;
    }
    if (json_is_string(device)) {
        snprintf(name, size, "%.60s with %.60s", json_string_value(device), doc_words(item, "nic"));
        return;
    }
    if (doc_has(item, "iface")) {
        snprintf(name, size, "%.16s", doc_words(item, "iface"));
        if (json_is_integer(device))
            doc_device_words(item, name);
        return;
    }
    snprintf(name, size, "%zu", place);
    for (size_t i = COUNT(keys); i--;) {
        value = json_object_get(item, keys[i]);
        if (json_is_string(value))
            snprintf(name, size, "%.100s", json_string_value(value));
        else if (json_is_integer(value))
            snprintf(name, size, "%lld", (long long)json_integer_value(value));
    }
}

static void flatten(json_t *flat, const char *path, const json_t *value);

static void flatten_list(json_t *flat, const char *path, const json_t *list)
{
    const json_t *item;
    char name[128], below[512];

    doc_each(item, list) {
        name_item(item, item_i, name, sizeof(name));
        snprintf(below, sizeof(below), "%.360s/%.127s", path, name);
        doc_set(flat, below, doc_text("there"));
        if (!json_is_string(item))
            flatten(flat, below, item);
    }
}

static void flatten_object(json_t *flat, const char *path, const json_t *object)
{
    const char *key;
    char below[512];
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        snprintf(below, sizeof(below), "%.400s/%.100s", path, key);
        if (!is_left_out(key))
            flatten(flat, below, value);
    }
}

static void flatten(json_t *flat, const char *path, const json_t *value)
{
    char *words;

    if (json_is_array(value)) {
        flatten_list(flat, path, value);
    } else if (json_is_object(value)) {
        flatten_object(flat, path, value);
    } else if (json_is_string(value)) {
        doc_set(flat, path, doc_text(json_string_value(value)));
    } else {
        words = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
        doc_set(flat, path, doc_text(words ? words : "null"));
        free(words);
    }
}

static json_t *table_of(const json_t *document)
{
    static const char *const kept[] = {
        "kernel", "process",     "runtimes", "devices",         "gpus", "nvidia", "nics",
        "pairs",  "peer_memory", "cache",    "fabric_libraries"};
    json_t *flat = doc_object();
    const json_t *finding;
    char path[96];

    doc_set(flat, "verdict", doc_text(doc_words(document, "verdict")));
    doc_each(finding, json_object_get(document, "findings")) {
        snprintf(path, sizeof(path), "finding/%.64s", doc_words(finding, "code"));
        doc_set(flat, path, doc_text(doc_words(finding, "severity")));
    }
    for (size_t i = 0; i < COUNT(kept); i++)
        flatten(flat, kept[i], json_object_get(json_object_get(document, "facts"), kept[i]));
    return flat;
}

/* ---- what it means ------------------------------------------------------------------------ */

static bool ends_in(const char *path, const char *key)
{
    const char *last = strrchr(path, '/');

    return last && !strcmp(last + 1, key);
}

/* How bad a value is, 0: good; -1: it is neither good nor bad. NULL: the item is not there. */
static int badness(const char *path, const char *value)
{
    static const struct {
        const char *key, *good;
    } facts[] = {{"state", "ACTIVE"}, {"result", "proven"}, {"file_state", "good"},
                 {"usable", "true"},  {"dmabuf", "true"},   {"available", "true"},
                 {"verdict", "good"}};
    static const char *const severities[] = {"note", "degraded", "broken"};

    for (int i = 0; i < SEVERITIES && !strncmp(path, "finding/", 8); i++)
        if (value && !strcmp(value, severities[i]))
            return i;
    if (!value)
        return strncmp(path, "finding/", 8) ? 2 : 0;
    if (!strcmp(value, "there"))
        return 0;
    if (ends_in(path, "path"))
        return !strcmp(value, "none") ? 2 : -1;
    for (size_t i = 0; i < COUNT(facts); i++)
        if (ends_in(path, facts[i].key))
            return strcmp(value, facts[i].good) != 0;
    return -1;
}

static const char *change_of(const char *path, const char *before, const char *now)
{
    int was = badness(path, before), is = badness(path, now);

    if (was < 0 || is < 0 || was == is)
        return "changed";
    return is > was ? "broke" : "mended";
}

/* A key in only one of the documents comes from another version of this command, unless it is an
 * item of a list that was added or removed. */
static bool is_item_alone(const json_t *with, const json_t *without, const char *path)
{
    const char *value = json_string_value(json_object_get(with, path));
    char above[512];
    char *slash;

    if (strcmp(value, "there") != 0 && strncmp(path, "finding/", 8) != 0)
        return false;
    snprintf(above, sizeof(above), "%s", path);
    while ((slash = strrchr(above, '/'))) {
        *slash = '\0';
        if (json_object_get(with, above) && !json_object_get(without, above))
            return false;
    }
    return true;
}

static void add_change(json_t *compared, const char *path, const char *before, const char *now)
{
    doc_add(json_object_get(compared, change_of(path, before, now)),
            doc_pack("{s:o, s:s?, s:s?}", "what", doc_text(path), "before", before, "now", now));
}

static void add_changes(json_t *compared, const json_t *before, const json_t *now)
{
    const char *path;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)before, path, value) {
        const char *was = json_string_value(value);
        const char *is = json_string_value(json_object_get(now, path));

        if (is ? strcmp(was, is) != 0 : is_item_alone(before, now, path))
            add_change(compared, path, was, is);
    }
    json_object_foreach((json_t *)(uintptr_t)now, path, value)
        if (!json_object_get(before, path) && is_item_alone(now, before, path))
            add_change(compared, path, NULL, json_string_value(value));
}

json_t *doctor_compare(const json_t *earlier, const json_t *document)
{
    json_t *before = table_of(earlier), *now = table_of(document);
    json_t *compared =
        doc_pack("{s:o, s:o, s:[], s:[], s:[]}", "time", doc_text(doc_words(earlier, "time")),
                 "host", doc_text(doc_words(earlier, "host")), "broke", "mended", "changed");

    add_changes(compared, before, now);
    json_decref(before);
    json_decref(now);
    return compared;
}

json_t *doctor_read_earlier(const char *file)
{
    json_error_t error;
    json_t *earlier = json_load_file(file, JSON_REJECT_DUPLICATES, &error);

    if (earlier && doc_equals(earlier, "command", "doctor") &&
        json_is_object(json_object_get(earlier, "facts")))
        return earlier;
    if (earlier)
        print_error("hmreg doctor: --compare %s: the output of hmreg doctor --json is accepted",
                    file);
    else
        print_error("hmreg doctor: --compare %s: %s", file, error.text);
    json_decref(earlier);
    return NULL;
}

/* ---- text --------------------------------------------------------------------------------- */

void doctor_print_compared(const json_t *document)
{
    static const char *const kinds[][2] = {{"broke", "What broke since"},
                                           {"mended", "What is mended since"},
                                           {"changed", "What else differs since"}};
    static const struct column columns[] = {COLUMN("what", "what"),
                                            COLUMN("before", "before", .none = "not there"),
                                            COLUMN("now", "now", .none = "not there"),
                                            {0}};
    const json_t *compared = json_object_get(document, "compared");
    const char *host = doc_words(compared, "host");
    bool same = doc_equals(document, "host", host);
    size_t printed = 0;

    for (size_t i = 0; compared && i < COUNT(kinds); i++) {
        const json_t *changes = json_object_get(compared, kinds[i][0]);

        if (!json_array_size(changes))
            continue;
        print_heading("%s %s%s%s", kinds[i][1], doc_words(compared, "time"), same ? "" : " on ",
                      same ? "" : host);
        print_rows(columns, changes);
        printed++;
    }
    if (compared && !printed)
        print_heading("Nothing differs since %s", doc_words(compared, "time"));
}
