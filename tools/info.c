/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg info: what this machine offers, what is missing and why.
 */
#include "tools/command.h"
#include "tools/fabrics.h"
#include "tools/machine.h"
#include "tools/notes.h"
#include "tools/table.h"

#include <inttypes.h>
#include <string.h>

static const char *yes(bool is)
{
    return is ? "yes" : "no";
}

/* ---- lists of one table each ------------------------------------------------------------ */

static void print_system(const json_t *document)
{
    const json_t *system = json_object_get(document, "system");
    char page[32], memory[32];

    print_line("hmreg %s on Linux %s %s, %s of memory in pages of %s", doc_words(document, "hmreg"),
               doc_words(system, "kernel"), doc_words(system, "machine"),
               doc_bytes_words(doc_number(system, "memory"), memory),
               doc_bytes_words(doc_number(system, "page_size"), page));
}

static void print_unreported(const json_t *runtime)
{
    const char *unreported = doc_words(runtime, "unreported");
    char text[512];

    if (!*unreported)
        return;
    snprintf(
        text, sizeof(text),
        "%s: each cache hit asks the runtime, or nothing is cached, of memory that may be freed "
        "unreported: %s.",
        doc_words(runtime, "iface"), unreported);
    print_paragraph("", "%s", text);
}

static void print_runtimes(const json_t *document)
{
    struct table *table =
        table_new("iface", "usable", ">devices", "version", "library and notes", NULL);
    const json_t *runtime;

    print_heading("Runtimes");
    doc_each(runtime, json_object_get(document, "runtimes")) {
        const char *library = doc_words(runtime, "library"), *why = doc_words(runtime, "why");

        table_add(table, "%s", doc_words(runtime, "iface"));
        table_add(table, "%s", yes(doc_is(runtime, "usable")));
        table_add(table, "%" PRIu64, doc_number(runtime, "devices"));
        table_add(table, "%s", doc_words(runtime, "version"));
        table_add(table, "%s%s%s", library, library[0] && why[0] ? ": " : "", why);
    }
    table_print(table);
    doc_each(runtime, json_object_get(document, "runtimes"))
        print_unreported(runtime);
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
    const json_t *devices = json_object_get(document, "devices"), *device;
    struct table *table =
        table_new("device", "PCI address", ">memory", "dmabuf", "sort", "name", NULL);

    print_heading("Devices");
    if (!json_array_size(devices))
        print_paragraph("", "none");
    doc_each(device, devices)
        add_device(table, device);
    table_print(table);
}

static void print_libraries(const json_t *document)
{
    struct table *table = table_new("library", "version", ">fabrics", "note", NULL);
    const json_t *library;

    print_heading("Fabric libraries");
    doc_each(library, json_object_get(document, "fabric_libraries")) {
        table_add(table, "%s", doc_words(library, "library"));
        table_add(table, "%s", doc_words(library, "version"));
        table_add(table, "%" PRIu64, doc_number(library, "fabrics"));
        table_add(table, "%s", doc_words(library, "why"));
    }
    table_print(table);
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

/* Adds the active monitor, with the reason if a better one is not available. */
static void add_active(struct table *table, const json_t *monitor)
{
    const char *why = doc_words(monitor, "why");

    table_add(table, "%s%s%s%s", doc_words(monitor, "active"), *why ? " (" : "", why,
              *why ? ")" : "");
}

static void print_limits(const json_t *document)
{
    const json_t *limits = json_object_get(document, "limits");
    struct table *table = table_new("limit", "value", NULL);

    print_heading("Limits");
    table_add(table, "locked memory (ulimit -l)");
    add_bytes(table, json_object_get(limits, "memlock"), "soft");
    table_add(table, "open files (ulimit -n)");
    add_count(table, json_object_get(limits, "open_files"), "soft");
    table_add(table, "cached regions, each cache");
    add_count(table, json_object_get(limits, "cache"), "regions");
    table_add(table, "cached bytes, each cache");
    add_bytes(table, json_object_get(limits, "cache"), "bytes");
    table_add(table, "monitor of host memory");
    add_active(table, json_object_get(limits, "monitor"));
    table_add(table, "userfaultfd");
    add_monitor(table, json_object_get(limits, "userfaultfd"));
    table_print(table);
}

static void print_environment(const json_t *document)
{
    const json_t *environment = json_object_get(document, "environment");

    if (json_object_size(environment))
        print_heading("Environment that is honoured");
    print_object("variable", "value", environment);
}

static void print_text(const json_t *document)
{
    const json_t *failure;

    print_system(document);
    print_runtimes(document);
    print_devices(document);
    print_libraries(document);
    fabrics_print_text(json_object_get(document, "fabrics"));
    print_limits(document);
    print_environment(document);
    doc_each(failure, json_object_get(document, "failures"))
        print_paragraph("", "%s", json_string_value(failure));
}

/* ---- the command ------------------------------------------------------------------------ */

static json_t *describe(struct hmreg *lib, const void *given)
{
    const struct fabric_options *options = given;
    json_t *document = doc_new("info");

    doc_set(document, "system", machine_system());
    doc_set(document, "runtimes", machine_runtimes(lib));
    doc_set(document, "devices", machine_devices(lib));
    fabrics_visit(&(struct fabric_list){.lib = lib, .only = options->fabric}, document);
    fabrics_order(document);
    doc_set(document, "limits", machine_limits(lib));
    doc_set(document, "environment", machine_environment());
    doc_set(document, "failures", doc_array());
    fabrics_fail_if_none(document, options, json_object_get(document, "fabrics"));
    return document;
}

static int run(const struct command *self, int argc, char **argv)
{
    struct fabric_options options = {0};
    int status = options_parse(self, argc, argv, &options);

    return status == EXIT_CONTINUE ? command_show(self, &options) : status;
}

static const struct option_def options[] = {
    FABRICS_OPTION,
    OPTION_JSON("JSON instead of tables; its keys are in hmreg(1)"),
    {0},
};

const struct command command_info = {
    .name = "info",
    .summary = "show runtimes, devices, fabrics and limits, and why others are missing",
    .description =
        "Shows what the library finds on this machine:\n"
        "  runtimes  the vendors' libraries, and why one is not usable\n"
        "  devices   with PCI address; a test's fake is marked \"simulated\"\n"
        "  fabrics   of libfabric and libibverbs, each opened, and what each demands\n"
        "  memory    which path each fabric has to the memory of each device:\n"
        "              system   host memory by its address; a page of it is registered\n"
        "              dmabuf   the fabric imports a descriptor of device memory\n"
        "              peermem  the fabric reaches device memory by its address\n"
        "              mapped   the CPU reaches it through a mapping of the dmabuf\n"
        "            For devices \"yes\" means that nothing known speaks against it: no\n"
        "            device memory is registered here. A \"no\" has its reason below.\n"
        "  limits    of this process and of the cache of registrations\n",
    .examples = "  hmreg info\n"
                "  hmreg info --json | jq '.devices[] | {iface, device, pci, simulated}'\n"
                "  hmreg info -p mlx5_0                            this RDMA device only\n"
                "  HMREG_IFACES=cuda FI_PROVIDER=tcp hmreg info    look at less\n",
    .failed = "the library could not be opened, or no fabric has this name",
    .options = options,
    .run = run,
    .describe = describe,
    .print = print_text,
    .status = command_failures,
};
