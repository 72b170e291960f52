/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See notes.h.
 */
#include "tools/notes.h"

#include "tools/document.h"
#include "tools/table.h"

#include <stdio.h>
#include <string.h>

size_t note_number(json_t *notes, const char *key, const char *words)
{
    const json_t *note;
    size_t i;

    json_array_foreach(notes, i, note)
        if (doc_equals(note, "key", key))
            return i + 1;
    doc_add(notes, doc_pack("{s:s, s:o}", "key", key, "words", doc_text(words)));
    return json_array_size(notes);
}

void print_notes(const json_t *notes)
{
    const json_t *note;
    size_t i;

    if (json_array_size(notes))
        putchar('\n');
    json_array_foreach(notes, i, note) {
        char mark[24];

        snprintf(mark, sizeof(mark), "[%zu] ", i + 1);
        print_paragraph(mark, "%s", doc_words(note, "words"));
    }
}

void print_object(const char *key, const char *value, const json_t *object)
{
    struct table *table = table_new(key, value, NULL);
    const json_t *words;
    const char *name;

    json_object_foreach((json_t *)(uintptr_t)object, name, words) {
        table_add(table, "%s", name);
        table_add(table, "%s", json_string_value(words));
    }
    table_print(table);
}
