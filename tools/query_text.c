/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See query.h.
 */
#include "tools/query.h"

#include "tools/document.h"
#include "tools/notes.h"
#include "tools/table.h"

#include <inttypes.h>
#include <stdio.h>

static void add_device(struct table *table, const json_t *memory)
{
    const char *simulated = doc_is(memory, "simulated") ? ", simulated" : "";

    if (doc_has(memory, "device"))
        table_add(table, "%s %" PRIu64 "%s", doc_words(memory, "iface"),
                  doc_number(memory, "device"), simulated);
    else
        table_add(table, "%s", doc_words(memory, "iface"));
}

static void add_found(struct table *table, const json_t *found)
{
    table_add(table, "%s", doc_words(found, "pci"));
    table_add(table, "%s", doc_words(found, "kind"));
    table_add(table, "%s+%" PRIu64, doc_words(found, "alloc_base"), doc_number(found, "alloc_len"));
    table_add(table, "%s", doc_has(found, "identity") ? doc_words(found, "identity") : "none");
    table_add(table, "%" PRIu64, doc_number(found, "segments"));
    table_add(table, "%s", doc_is(found, "cpu_access") ? "yes" : "no");
}

static size_t note_of(json_t *notes, const json_t *error)
{
    return note_number(notes, doc_words(error, "text"), doc_words(error, "text"));
}

static void add_export(struct table *table, const json_t *range, json_t *notes)
{
    const json_t *export = json_object_get(range, "export");

    if (doc_is(export, "done"))
        table_add(table, "yes, at offset %" PRIu64, doc_number(export, "offset"));
    else
        table_add(table, "no [%zu]", note_of(notes, json_object_get(export, "error")));
}

static void add_range(struct table *table, const json_t *memory, const json_t *range, json_t *notes)
{
    const json_t *found = json_object_get(range, "found");

    add_device(table, memory);
    table_add(table, "%s", doc_words(range, "part"));
    table_add(table, "%s+%" PRIu64, doc_words(range, "address"), doc_number(range, "length"));
    if (json_is_object(found)) {
        add_found(table, found);
        add_export(table, range, notes);
        return;
    }
    for (int i = 0; i < 6; i++)
        table_add(table, "%s", "");
    table_add(table, "not found [%zu]", note_of(notes, json_object_get(range, "error")));
}

static void print_memory(const json_t *document)
{
    static const char *const columns[] = {
        "device",     "part",     "range",     "PCI address", "kind",
        "allocation", "identity", ">segments", "CPU",         "export",
    };
    struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));
    json_t *notes = doc_made(json_array());
    const json_t *memory, *range;
    size_t i, j;

    if (json_array_size(json_object_get(document, "memory")))
        print_heading("Memory");
    json_array_foreach(json_object_get(document, "memory"), i, memory)
    {
        json_array_foreach(json_object_get(memory, "ranges"), j, range)
            add_range(table, memory, range, notes);
    }
    table_print(table);
    print_notes(notes);
    json_decref(notes);
}

static void print_left_out(const json_t *document)
{
    const json_t *list = json_object_get(document, "left_out"), *left;
    size_t i;

    if (json_array_size(list))
        print_heading("Left out");
    json_array_foreach(list, i, left)
    {
        char mark[80];

        snprintf(mark, sizeof(mark), "%s: ", doc_words(left, "name"));
        print_paragraph(mark, doc_words(left, "text"));
    }
}

static void print_failures(const json_t *document)
{
    const json_t *list = json_object_get(document, "failures"), *failure;
    size_t i;

    if (json_array_size(list))
        print_heading("Failed");
    json_array_foreach(list, i, failure) print_paragraph("", json_string_value(failure));
}

void query_print_text(const json_t *document)
{
    char size[32];

    printf("hmreg %s, %s of each kind of memory\n", doc_words(document, "hmreg"),
           doc_bytes_words(doc_number(document, "size"), size));
    print_memory(document);
    print_left_out(document);
    print_failures(document);
}
