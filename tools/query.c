/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg query: allocates memory of every kind on every device, queries the whole allocation and an
 * unaligned range inside it, and exports both. The right results are known beforehand, so each is
 * checked; wrong ones are listed and make the exit status 1.
 */
#include "tools/command.h"
#include "tools/document.h"
#include "tools/machine.h"
#include "tools/notes.h"
#include "tools/signals.h"
#include "tools/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEAST_SIZE 16 /* bytes; room for an unaligned range */
#define MOST_SIZE  (UINT64_C(1) << 40)
#define KINDS      (HMREG_MEM_MANAGED + 1)
#define ANY        (-1)

struct options {
    bool json;
    int iface, device, kind; /* or ANY */
    uint64_t size;
};

/* The report under construction. */
struct report {
    struct hmreg *lib;
    const struct options *options;
    json_t *memory, *left_out, *failures;
};

/* One allocation and its known properties. */
struct subject {
    enum hmreg_iface iface;
    int device;
    enum hmreg_mem_kind kind;
    char name[64]; /* "cuda 0, device" */
};

/* ---- what goes wrong, what is left out -------------------------------------------------- */

static void fail(struct report *report, const struct subject *subject, const char *format, ...)
{
    char why[896];
    va_list args;

    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    doc_add(report->failures, doc_format("%s: %s", subject->name, why));
}

static void omit(struct report *report, const struct subject *subject, const char *why)
{
    doc_add(report->left_out, doc_pack("{s:s, s:s, s:o}", "iface", hmreg_iface_name(subject->iface),
                                       "name", subject->name, "text", doc_text(why)));
}

/* ---- one range -------------------------------------------------------------------------- */

static json_t *found_document(const struct hmreg_mem_info *info)
{
    return doc_pack("{s:s, s:o, s:o, s:s, s:o, s:o, s:o, s:i, s:b, s:b, s:b}", "iface",
                    hmreg_iface_name(info->iface), "device", doc_device(info->device), "pci",
                    doc_pci(&info->pci), "kind", hmreg_mem_kind_name(info->kind), "alloc_base",
                    doc_hex(info->alloc_base), "alloc_len", doc_count(info->alloc_len, UINT64_MAX),
                    "identity", info->identity ? doc_hex(info->identity) : json_null(), "segments",
                    (int)info->segments, "cpu_access", !!(info->flags & HMREG_MEM_INFO_CPU_ACCESS),
                    "exportable", !!(info->flags & HMREG_MEM_INFO_EXPORTABLE), "simulated",
                    !!(info->flags & HMREG_MEM_INFO_SIMULATED));
}

static void check_found(struct report *report, const struct subject *subject, uint64_t addr,
                        uint64_t len, const struct hmreg_mem_info *info)
{
    bool device = subject->kind == HMREG_MEM_DEVICE;

    if (info->iface != subject->iface || info->kind != subject->kind)
        fail(report, subject, "it is found to be %s memory of %s", hmreg_mem_kind_name(info->kind),
             hmreg_iface_name(info->iface));
    if (device && info->device != subject->device)
        fail(report, subject, "it is found on device %d", info->device);
    if (addr < info->alloc_base || addr + len > info->alloc_base + info->alloc_len)
        fail(report, subject, "the range lies outside of the allocation it is found in");
}

static json_t *try_export(struct report *report, const struct subject *subject, void *addr,
                          uint64_t len, bool expected)
{
    struct hmreg_dmabuf dmabuf;

    if (hmreg_export_dmabuf(report->lib, addr, len, 0, &dmabuf)) {
        if (expected)
            fail(report, subject, "its export was expected to succeed: %s",
                 hmreg_last_error()->text);
        return doc_pack("{s:b, s:n, s:o}", "done", 0, "offset", "error",
                        doc_error(hmreg_last_error()));
    }
    close(dmabuf.fd);
    if (dmabuf.length != len)
        fail(report, subject, "its export names %" PRIu64 " bytes", dmabuf.length);
    return doc_pack("{s:b, s:o, s:n}", "done", 1, "offset", doc_count(dmabuf.offset, UINT64_MAX),
                    "error");
}

/* Describes one range of the memory; *identity: its identity, 0 if the query failed. */
static json_t *range(struct report *report, const struct subject *subject, const char *part,
                     char *addr, uint64_t len, uint64_t *identity)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};
    json_t *described = doc_pack("{s:s, s:o, s:o}", "part", part, "address",
                                 doc_hex((uint64_t)(uintptr_t)addr), "length", doc_count(len, 0));

    *identity = 0;
    if (hmreg_query(report->lib, addr, len, &info)) {
        doc_set(described, "found", json_null());
        doc_set(described, "error", doc_error(hmreg_last_error()));
        fail(report, subject, "%s", hmreg_last_error()->text);
        return described;
    }
    *identity = info.identity;
    check_found(report, subject, (uint64_t)(uintptr_t)addr, len, &info);
    doc_set(described, "found", found_document(&info));
    doc_set(described, "error", json_null());
    doc_set(described, "export",
            try_export(report, subject, addr, len, info.flags & HMREG_MEM_INFO_EXPORTABLE));
    return described;
}

/* ---- one allocation --------------------------------------------------------------------- */

static json_t *both_ranges(struct report *report, const struct subject *subject, char *memory)
{
    uint64_t size = report->options->size, third = size / 3;
    uint64_t whole_identity, odd_identity;
    json_t *ranges = doc_array();

    doc_add(ranges, range(report, subject, "whole", memory, size, &whole_identity));
    doc_add(ranges, range(report, subject, "odd", memory + (third | 1), third | 1, &odd_identity));
    if (whole_identity != odd_identity)
        fail(report, subject, "the odd range has another identity than the whole");
    return ranges;
}

static void query_allocated(struct report *report, const struct subject *subject, void *memory)
{
    struct hmreg_device_info info = {.size = sizeof(info)};

    if (subject->iface != HMREG_IFACE_SYSTEM)
        hmreg_device_query(report->lib, subject->iface, subject->device, &info);
    doc_add(report->memory,
            doc_pack("{s:s, s:o, s:s, s:b, s:o}", "iface", hmreg_iface_name(subject->iface),
                     "device", doc_device(subject->device), "kind",
                     hmreg_mem_kind_name(subject->kind), "simulated",
                     !!(info.flags & HMREG_DEVICE_SIMULATED), "ranges",
                     both_ranges(report, subject, memory)));
    if (hmreg_mem_free(report->lib, memory))
        fail(report, subject, "%s", hmreg_last_error()->text);
}

/* Omits the obvious: pageable host memory is the system's only kind, and no other iface has it. */
static void query_kind(struct report *report, enum hmreg_iface iface, int device,
                       enum hmreg_mem_kind kind)
{
    struct subject subject = {.iface = iface, .device = device, .kind = kind};
    void *memory;
    int rc = signals_after(
        hmreg_mem_alloc(report->lib, iface, device, kind, report->options->size, &memory));

    if (iface == HMREG_IFACE_SYSTEM)
        snprintf(subject.name, sizeof(subject.name), "system, %s", hmreg_mem_kind_name(kind));
    else
        snprintf(subject.name, sizeof(subject.name), "%s %d, %s", hmreg_iface_name(iface), device,
                 hmreg_mem_kind_name(kind));
    if (rc == 0)
        query_allocated(report, &subject, memory);
    else if (rc != -EOPNOTSUPP)
        fail(report, &subject, "%s", hmreg_last_error()->text);
    else if ((iface != HMREG_IFACE_SYSTEM && kind != HMREG_MEM_HOST) ||
             report->options->kind != ANY)
        omit(report, &subject, hmreg_last_error()->text);
}

/* ---- everything ------------------------------------------------------------------------- */

static void query_device(struct report *report, enum hmreg_iface iface, int device)
{
    int wanted = report->options->kind;

    for (int kind = HMREG_MEM_HOST; kind < KINDS; kind++)
        if (wanted == ANY || wanted == kind)
            query_kind(report, iface, device, kind);
}

static void query_iface(struct report *report, enum hmreg_iface iface)
{
    struct hmreg_runtime_info info = {.size = sizeof(info)};
    struct subject subject = {.iface = iface};
    int wanted = report->options->device;

    hmreg_runtime_query(report->lib, iface, &info);
    snprintf(subject.name, sizeof(subject.name), "%s", hmreg_iface_name(iface));
    if (!info.present && report->options->iface == ANY)
        omit(report, &subject, info.why);
    else if (!info.present)
        fail(report, &subject, "%s", info.why);
    if (iface == HMREG_IFACE_SYSTEM && wanted <= 0)
        query_device(report, iface, -1);
    for (int device = 0; device < info.devices; device++)
        if (wanted == ANY || wanted == device)
            query_device(report, iface, device);
}

static json_t *describe(struct hmreg *lib, const void *command_options)
{
    const struct options *options = command_options;
    struct report report = {
        .lib = lib,
        .options = options,
        .memory = doc_array(),
        .left_out = doc_array(),
        .failures = doc_array(),
    };
    struct subject all = {.name = "query"};
    json_t *document = doc_new("query");

    for (int iface = 0; iface < HMREG_IFACE_COUNT; iface++)
        if (options->iface == ANY || options->iface == iface)
            query_iface(&report, iface);
    if (!json_array_size(report.memory) && !json_array_size(report.failures))
        fail(&report, &all, "there is no memory of this iface, device and kind here");
    doc_set(document, "size", doc_count(options->size, 0));
    doc_set(document, "memory", report.memory);
    doc_set(document, "left_out", report.left_out);
    doc_set(document, "failures", report.failures);
    return document;
}

/* ---- text ------------------------------------------------------------------------------- */

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
    struct table *table = table_new("device", "part", "range", "PCI address", "kind", "allocation",
                                    "identity", ">segments", "CPU", "export", NULL);
    json_t *notes = doc_array();
    const json_t *memory, *range;

    if (json_array_size(json_object_get(document, "memory")))
        print_heading("Memory");
    doc_each(memory, json_object_get(document, "memory"))
        doc_each(range, json_object_get(memory, "ranges"))
            add_range(table, memory, range, notes);
    table_print(table);
    print_notes(notes);
    json_decref(notes);
}

static void print_left_out(const json_t *document)
{
    const json_t *list = json_object_get(document, "left_out"), *left;

    if (json_array_size(list))
        print_heading("Left out");
    doc_each(left, list) {
        char mark[80];

        snprintf(mark, sizeof(mark), "%s: ", doc_words(left, "name"));
        print_paragraph(mark, "%s", doc_words(left, "text"));
    }
}

static void print_failures(const json_t *document)
{
    const json_t *list = json_object_get(document, "failures"), *failure;

    if (json_array_size(list))
        print_heading("Failed");
    doc_each(failure, list)
        print_paragraph("", "%s", json_string_value(failure));
}

static void print_text(const json_t *document)
{
    char size[32];

    printf("hmreg %s, %s of each kind of memory\n", doc_words(document, "hmreg"),
           doc_bytes_words(doc_number(document, "size"), size));
    print_memory(document);
    print_left_out(document);
    print_failures(document);
}

/* ---- the command ------------------------------------------------------------------------ */

static int run(const struct command *self, int argc, char **argv)
{
    struct options options = {.iface = ANY, .device = ANY, .kind = ANY, .size = 1 << 20};
    int status = options_parse(self, argc, argv, &options);

    return status == EXIT_CONTINUE ? command_show(self, &options) : status;
}

/* ---- options ---------------------------------------------------------------------------- */

static const char *take_iface(const char *value, void *options)
{
    return options_iface(value, &((struct options *)options)->iface) ? NULL : OPTIONS_IFACES;
}

static const char *take_kind(const char *value, void *options)
{
    static const char *const names[KINDS] = {"host", "pinned", "device", "managed"};

    for (int kind = 0; kind < KINDS; kind++) {
        if (strcmp(value, names[kind]))
            continue;
        ((struct options *)options)->kind = kind;
        return NULL;
    }
    return "accepted are host, pinned, device, managed";
}

static const char *take_size(const char *value, void *options)
{
    return options_size(value, LEAST_SIZE, MOST_SIZE, &((struct options *)options)->size)
               ? NULL
               : "bytes are accepted, from 16 to 1T, with K, M, G or T for powers of 1024";
}

static const struct option_def options[] = {
    OPTION("iface", "NAME", "only this iface: system, cuda, rocr, ze", take_iface),
    OPTION_NUMBER("device", "INDEX", "only the device with this index of each iface",
                  offsetof(struct options, device), 0, 4096, OPTIONS_DEVICES),
    OPTION("kind", "KIND", "only this kind: host, pinned, device, managed", take_kind),
    OPTION("size", "BYTES", "bytes to allocate, with K, M, G or T; 1M unless said", take_size),
    OPTION_JSON("JSON instead of tables; its keys are in hmreg(1)"),
    {0},
};

const struct command command_query = {
    .name = "query",
    .summary = "allocate memory on every device and show what is found out about it",
    .description =
        "Allocates memory of every kind on every device, asks the library what it is, as\n"
        "a whole and at an odd range inside, and tries to export both as dmabufs. Then it\n"
        "frees all of it. What is found is compared with what was allocated.\n"
        "\n"
        "  identity  names the allocation; memory freed and allocated anew has another\n"
        "  segments  physical allocations under the range\n"
        "  CPU       whether the CPU can load and store there\n"
        "  export    whether a dmabuf was made, and where the range begins in it\n",
    .examples = "  hmreg query\n"
                "  hmreg query --iface cuda --device 1 --kind device --size 64M\n"
                "  hmreg query --json | jq -r '.failures[]'\n",
    .failed = "an answer was wrong, or nothing was there to ask about",
    .options = options,
    .run = run,
    .describe = describe,
    .print = print_text,
    .status = command_failures,
};
