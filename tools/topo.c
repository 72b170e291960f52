/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg topo: the PCI distances between devices and NICs, and the NICs nearest to each.
 */
#include "tools/command.h"
#include "tools/doctor/doctor.h"
#include "tools/machine.h"
#include "tools/notes.h"
#include "tools/table.h"
#include "tools/topology.h"

#include <hmreg/affinity.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NEAREST 4
#define GAP     2 /* spaces between the columns of a table */

/* ---- document --------------------------------------------------------------------------- */

static json_t *legend(void)
{
    json_t *words = doc_object();

    for (enum hmreg_distance i = 0; i < HMREG_DISTANCE_COUNT; i++)
        doc_set(words, hmreg_distance_name(i), doc_text(hmreg_distance_text(i)));
    return words;
}

static json_t *describe(struct hmreg *lib, const void *no_options)
{
    json_t *document = doc_new("topo"), *devices = machine_devices(lib), *nics = nics_facts();

    doc_set(document, "topology", topology_facts(devices, nics));
    doc_set(document, "legend", legend());
    json_decref(devices);
    json_decref(nics);
    return document;
}

/* ---- text ------------------------------------------------------------------------------- */

static void print_members(const json_t *members)
{
    struct table *table = table_new("name", "PCI address", "host bridge", "CPU affinity",
                                    "NUMA affinity", "sort", NULL);
    const json_t *member;

    doc_each(member, members) {
        table_add(table, "%s", doc_words(member, "name"));
        table_add(table, "%s", doc_has(member, "pci") ? doc_words(member, "pci") : "none");
        table_add(table, "%s", doc_has(member, "root") ? doc_words(member, "root") : "unknown");
        table_add(table, "%s", doc_has(member, "cpus") ? doc_words(member, "cpus") : "unknown");
        if (doc_has(member, "numa_node"))
            table_add(table, "%" PRIu64, doc_number(member, "numa_node"));
        else
            table_add(table, "unknown");
        table_add(table, "%s%s", doc_words(member, "kind"),
                  doc_is(member, "simulated") ? ", simulated" : "");
    }
    table_print(table);
}

static const char *between(const json_t *topology, const json_t *one, const json_t *other)
{
    const char *names[] = {doc_words(one, "name"), doc_words(other, "name")};
    const json_t *pair;

    doc_each(pair, json_object_get(topology, "distances"))
        if ((doc_equals(pair, "one", names[0]) && doc_equals(pair, "other", names[1])) ||
            (doc_equals(pair, "one", names[1]) && doc_equals(pair, "other", names[0])))
            return doc_words(pair, "distance");
    return "?";
}

/* The matrix of the columns from first up to, not including, end. */
static void print_part(const json_t *topology, const json_t *members, size_t first, size_t end)
{
    struct table *table = table_new("", NULL);

    for (size_t i = first; i < end; i++)
        table_add_column(table, doc_words(json_array_get(members, i), "name"));
    for (size_t row = 0; row < json_array_size(members); row++) {
        const json_t *one = json_array_get(members, row);

        table_add(table, "%s", doc_words(one, "name"));
        for (size_t i = first; i < end; i++)
            table_add(table, "%s",
                      i == row ? "X" : between(topology, one, json_array_get(members, i)));
    }
    table_print(table);
}

/* In parts of as many columns as fit, one below the other. */
static void print_matrix(const json_t *topology, const json_t *members)
{
    size_t count = json_array_size(members), width = print_columns(), longest = 1, fit;
    const json_t *member;

    doc_each(member, members) {
        size_t length = strlen(doc_words(member, "name"));

        longest = length > longest ? length : longest;
    }
    fit = width ? width / (longest + GAP) : count + 1;
    fit = fit > 2 ? fit - 1 : 1; /* less the names of the rows */
    for (size_t first = 0; first < count; first += fit) {
        if (first)
            putchar('\n');
        print_part(topology, members, first, first + fit < count ? first + fit : count);
    }
}

/* Each device and NUMA node with the names and distances of the NICs nearest to it. False: there is
 * none. */
static bool print_nearest(const json_t *affinity)
{
    struct table *table = table_new("of", "nearest", "then", "then", "then", "reason", NULL);
    const json_t *place;
    bool any;

    doc_each(place, affinity) {
        const json_t *nics = json_object_get(place, "nics");

        if (!json_array_size(nics))
            continue;
        table_add(table, "%s", doc_words(place, "of"));
        for (size_t i = 0; i < NEAREST; i++) {
            const json_t *nic = json_array_get(nics, i);

            table_add(table, "%s%s%s", doc_words(nic, "nic"), nic ? " " : "",
                      doc_words(nic, "distance"));
        }
        table_add(table, "%s", doc_words(json_array_get(nics, 0), "reason"));
    }
    any = table_has_rows(table);
    if (any)
        print_line("The NICs nearest to each device and NUMA node, and why the first is");
    table_print(table);
    return any;
}

static void print_text(const json_t *document)
{
    const json_t *topology = json_object_get(document, "topology");
    const json_t *members = json_object_get(topology, "members");

    print_width(PAGE_WIDTH);
    if (!json_array_size(members)) {
        print_line("There is no device of a GPU runtime and no RDMA device.");
        return;
    }
    if (print_nearest(json_object_get(topology, "affinity")))
        putchar('\n');
    print_line("Devices of GPU runtimes, and RDMA devices");
    print_members(members);
    print_heading("Distances; the last list says what each word means");
    print_matrix(topology, members);
    putchar('\n');
    print_object("distance", "means", json_object_get(document, "legend"));
}

/* ---- the command ------------------------------------------------------------------------ */

static const struct option_def options[] = {
    OPTION_JSON("JSON instead of tables; its keys are in hmreg-topo(1)"),
    {0},
};

const struct command command_topo = {
    .name = "topo",
    .summary = "show the NICs nearest to each GPU, and all distances",
    .description =
        "Lists the NICs nearest to each device and NUMA node; then where each device of a\n"
        "GPU runtime and each RDMA device is in the PCI tree; and a matrix of how far\n"
        "they are from each other, in the words of nvidia-smi topo. Near is fast;\n"
        "whether a pair works at all, hmreg doctor proves.\n",
    .examples = "  hmreg topo\n"
                "  hmreg topo --json | jq '.topology.distances[]'\n",
    .failed = "the library could not be opened",
    .options = options,
    .run = command_run,
    .describe = describe,
    .print = print_text,
};
