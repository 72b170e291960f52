/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg info: what this machine offers, what is missing and why.
 */
#include "tools/command.h"
#include "tools/fabrics.h"
#include "tools/machine.h"
#include "tools/table.h"

#include <inttypes.h>
#include <string.h>

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
    snprintf(text, sizeof(text),
             "%s: some of its memory may be freed unreported; hits on such memory ask the runtime, "
             "or it is not cached: %s.",
             doc_words(runtime, "iface"), unreported);
    print_paragraph("", "%s", text);
}

static const char *cell_notes(const json_t *runtime, char buf[CELL], json_t *notes)
{
    const char *library = doc_words(runtime, "library"), *why = doc_words(runtime, "why");

    snprintf(buf, CELL, "%s%s%s", library, library[0] && why[0] ? ": " : "", why);
    return buf;
}

static void print_runtimes(const json_t *document)
{
    static const struct column columns[] = {COLUMN("iface", "iface"),
                                            COLUMN("usable", "usable"),
                                            COLUMN(">devices", "devices"),
                                            COLUMN("version", "version"),
                                            COLUMN("library and notes", NULL, .cell = cell_notes),
                                            {0}};
    const json_t *runtimes = json_object_get(document, "runtimes"), *runtime;

    print_heading("Runtimes");
    print_rows(columns, runtimes);
    doc_each(runtime, runtimes)
        print_unreported(runtime);
}

static const char *cell_sort(const json_t *simulated, char buf[CELL], json_t *notes)
{
    return json_is_true(simulated) ? "simulated" : "hardware";
}

static void print_devices(const json_t *document)
{
    static const struct column columns[] = {
        COLUMN("device", NULL, .cell = cell_device),
        COLUMN("PCI address", "pci", .none = "unknown"),
        COLUMN(">memory", "memory", .none = "unknown", .cell = cell_bytes),
        COLUMN("dmabuf", "dmabuf"),
        COLUMN("sort", "simulated", .cell = cell_sort),
        COLUMN("name", "name"),
        {0}};
    const json_t *devices = json_object_get(document, "devices");

    print_heading("Devices");
    if (!json_array_size(devices))
        print_paragraph("", "none");
    print_rows(columns, devices);
}

static void print_libraries(const json_t *document)
{
    static const struct column columns[] = {COLUMN("library", "library"),
                                            COLUMN("version", "version"),
                                            COLUMN(">fabrics", "fabrics"),
                                            COLUMN("note", "why"),
                                            {0}};

    print_heading("Fabric libraries");
    print_rows(columns, json_object_get(document, "fabric_libraries"));
}

/* ---- limits and environment ------------------------------------------------------------- */

static const char *cell_userfaultfd(const json_t *userfaultfd, char buf[CELL], json_t *notes)
{
    if (doc_is(userfaultfd, "available"))
        return "available: it detects changes of host memory";
    snprintf(buf, CELL, "no: %s", doc_words(json_object_get(userfaultfd, "error"), "text"));
    return buf;
}

/* The active monitor, with the reason if a better one is not available. */
static const char *cell_monitor(const json_t *monitor, char buf[CELL], json_t *notes)
{
    const char *why = doc_words(monitor, "why");

    snprintf(buf, CELL, "%s%s%s%s", doc_words(monitor, "active"), *why ? " (" : "", why,
             *why ? ")" : "");
    return buf;
}

static void print_limits(const json_t *document)
{
    static const struct column limits[] = {
        COLUMN("locked memory (ulimit -l)", "memlock/soft", .none = "no limit", .cell = cell_bytes),
        COLUMN("open files (ulimit -n)", "open_files/soft", .none = "no limit"),
        COLUMN("cached regions, each cache", "cache/regions", .none = "no limit"),
        COLUMN("cached bytes, each cache", "cache/bytes", .none = "no limit", .cell = cell_bytes),
        COLUMN("monitor of host memory", "monitor", .cell = cell_monitor),
        COLUMN("userfaultfd", "userfaultfd", .cell = cell_userfaultfd),
        {0}};

    print_heading("Limits");
    print_fields("limit", "value", limits, json_object_get(document, "limits"));
}

static void print_environment(const json_t *document)
{
    const json_t *environment = json_object_get(document, "environment");

    if (json_object_size(environment))
        print_heading("Environment variables that hmreg reads");
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
