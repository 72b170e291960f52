/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg topo: the PCI distances between devices and NICs, and the NICs nearest to each.
 */
#include "tools/command.h"
#include "tools/doctor/doctor.h"
#include "tools/machine.h"
#include "tools/table.h"
#include "tools/topology.h"

#include <hmreg/affinity.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- document --------------------------------------------------------------------------- */

static json_t *legend(void)
{
    static const char *const texts[HMREG_DISTANCE_COUNT] = {
        [HMREG_DISTANCE_SELF] = "the device itself",
        [HMREG_DISTANCE_SWITCH] = "below one PCI switch: the short way, without the CPU",
        [HMREG_DISTANCE_ROOT_PORT] = "below one root port, through several switches",
        [HMREG_DISTANCE_HOST_BRIDGE] = "through the CPU's PCI host bridge",
        [HMREG_DISTANCE_NUMA_NODE] = "on one NUMA node, not below one host bridge",
        [HMREG_DISTANCE_SYSTEM] = "across NUMA nodes, over the link between CPUs",
        [HMREG_DISTANCE_UNKNOWN] = "unknown: not on the PCI bus, or the platform does not say",
    };
    json_t *words = doc_object();

    for (enum hmreg_distance i = 0; i < HMREG_DISTANCE_COUNT; i++)
        doc_set(words, hmreg_distance_name(i), doc_text(texts[i]));
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

static const char *cell_sort(const json_t *member, char buf[CELL], json_t *notes)
{
    snprintf(buf, CELL, "%s%s", doc_words(member, "kind"),
             doc_is(member, "simulated") ? ", simulated" : "");
    return buf;
}

static void print_members(const json_t *members)
{
    static const struct column columns[] = {COLUMN("name", "name"),
                                            COLUMN("PCI address", "pci", .none = "none"),
                                            COLUMN("host bridge", "root", .none = "unknown"),
                                            COLUMN("CPU affinity", "cpus", .none = "unknown"),
                                            COLUMN("NUMA affinity", "numa_node", .none = "unknown"),
                                            COLUMN("sort", NULL, .cell = cell_sort),
                                            {0}};

    print_rows(columns, members);
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

static const char *cell_distance(const void *context, size_t row, size_t column, char buf[CELL])
{
    const json_t *topology = context, *members = json_object_get(topology, "members");

    return row == column
               ? "X"
               : between(topology, json_array_get(members, row), json_array_get(members, column));
}

static void print_distances(const json_t *topology)
{
    json_t *names = doc_array();
    const json_t *member;

    doc_each(member, json_object_get(topology, "members"))
        doc_add(names, json_incref(json_object_get(member, "name")));
    print_matrix(&(struct matrix){"", names, names, cell_distance, topology});
    json_decref(names);
}

static const char *cell_nic(const json_t *nic, char buf[CELL], json_t *notes)
{
    snprintf(buf, CELL, "%s %s", doc_words(nic, "nic"), doc_words(nic, "distance"));
    return buf;
}

/* Each device and NUMA node with the names and distances of the NICs nearest to it. False: there is
 * none. */
static bool print_nearest(const json_t *affinity)
{
    static const struct column columns[] = {COLUMN("of", "of"),
                                            COLUMN("nearest", "nics/0", .cell = cell_nic),
                                            COLUMN("then", "nics/1", .cell = cell_nic),
                                            COLUMN("then", "nics/2", .cell = cell_nic),
                                            COLUMN("then", "nics/3", .cell = cell_nic),
                                            COLUMN("reason", "nics/0/reason"),
                                            {0}};
    json_t *rows = doc_array(), *place;
    bool any;

    doc_each(place, affinity)
        if (json_array_size(json_object_get(place, "nics")))
            doc_add(rows, json_incref(place));
    any = json_array_size(rows);
    if (any)
        print_line("The NICs nearest to each device and NUMA node, and why the first is");
    print_rows(columns, rows);
    json_decref(rows);
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
    print_heading("Distances (legend below)");
    print_distances(topology);
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
        "Lists the NICs nearest to each device and NUMA node; then where each device of\n"
        "a GPU runtime and each RDMA device is in the PCI tree; and a matrix of how far\n"
        "they are from each other, in the words of nvidia-smi topo. hmreg doctor proves\n"
        "whether a pair works at all.\n",
    .examples = "  hmreg topo\n"
                "  hmreg topo --json | jq '.topology.distances[]'\n",
    .failed = "the library could not be opened",
    .options = options,
    .run = command_run,
    .describe = describe,
    .print = print_text,
};
