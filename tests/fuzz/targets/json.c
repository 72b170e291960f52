/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The command's output of texts that come from elsewhere: names of devices, errors and reasons of
 * drivers, any bytes. The document is JSON and reads back as it was; tables are printed.
 */
#include "tests/fuzz/targets/read_back.h"
#include "tests/fuzz/targets/target.h"
#include "tools/doctor/doctor.h"
#include "tools/doctor/findings.h"
#include "tools/document.h"
#include "tools/table.h"

#include <stdio.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    return !freopen("/dev/null", "w", stdout);
}

static json_t *describe_error(struct input *input)
{
    struct hmreg_error error = {.code = (int)input_number(input, 2) - 1000, .source = "cuda"};

    error.vendor_code = (int64_t)input_number(input, 8);
    input_text(input, error.vendor_text, sizeof(error.vendor_text));
    input_text(input, error.text, sizeof(error.text));
    return doc_error(&error);
}

static json_t *describe_reason(struct input *input)
{
    struct hmreg_reason reason = {.path = (enum hmreg_path)(input_byte(input) % HMREG_PATH_COUNT)};

    reason.code = -(int)input_byte(input);
    reason.vendor_code = (int64_t)input_number(input, 8);
    input_text(input, reason.slug, sizeof(reason.slug));
    input_text(input, reason.text, sizeof(reason.text));
    return doc_reason(&reason);
}

static json_t *describe_numbers(struct input *input)
{
    uint64_t number = input_number(input, 8);
    struct hmreg_pci pci = {.valid = input_byte(input) & 1,
                            .domain = (uint32_t)input_number(input, 4),
                            .bus = input_byte(input),
                            .device = input_byte(input),
                            .function = input_byte(input)};
    json_t *object = doc_object();
    char words[32];

    doc_set(object, "hex", doc_hex(number));
    doc_set(object, "count", doc_count(number, UINT64_MAX));
    doc_set(object, "device", doc_device((int)number));
    doc_set(object, "pci", doc_pci(&pci));
    doc_set(object, "bytes", doc_text(doc_bytes_words(number, words)));
    return object;
}

static const char *cell_size(const json_t *value, char buf[CELL], json_t *notes)
{
    snprintf(buf, CELL, "%zu [%zu]", json_object_size(value),
             note_number(notes, "", json_is_string(value) ? json_string_value(value) : ""));
    return buf;
}

static void print_as_table(const json_t *document)
{
    static const struct column columns[] = {COLUMN("key", "key"),
                                            COLUMN(">size", "value", .cell = cell_size),
                                            COLUMN("words", "value", .none = "none"),
                                            {0}};
    json_t *rows = doc_array(), *value;
    const char *key;

    json_object_foreach((json_t *)(uintptr_t)document, key, value)
        doc_add(rows, doc_pack("{s:s, s:O}", "key", key, "value", value));
    print_width(json_array_size(rows) % 2 ? 60 : 100);
    print_rows(columns, rows);
    json_decref(rows);
    print_paragraph("-> ", "%s", doc_words(document, "text"));
}

static void check_document(const json_t *document)
{
    must_read_back(document);
    doc_print_json(document);
    print_as_table(document);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    json_t *document = doc_new("fuzz"), *list = doc_array();
    char text[2048], more[512];
    struct names names = {.count = 0};

    input_text(&input, text, sizeof(text));
    doc_set(document, "text", doc_text(text));
    doc_set(document, "format", doc_format("[%s]", text));
    doc_set(document, "error", describe_error(&input));
    doc_set(document, "reason", describe_reason(&input));
    doc_set(document, "numbers", describe_numbers(&input));
    while (input.left) {
        input_text(&input, more, sizeof(more));
        finding_add(list, "page-size", text, "%s", more);
        names_add(&names, more);
    }
    doc_set(document, "findings", causes_arrange(list, document));
    json_decref(list);
    doc_set(document, "names", doc_text(names_text(&names)));
    check_document(document);
    json_decref(document);
    return 0;
}
