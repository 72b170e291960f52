/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See topology.h. Places and distances come from libhmreg-affinity.
 */
#include "tools/topology.h"

#include "tools/document.h"
#include "tools/root.h"

#include <hmreg/affinity.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int topology_rank(const char *distance)
{
    int i = 0;

    while (i < HMREG_DISTANCE_COUNT - 1 &&
           strcmp(hmreg_distance_name((enum hmreg_distance)i), distance))
        i++;
    return i;
}

/* ---- distances -------------------------------------------------------------------------- */

/* valid is 0 if the text is no PCI address. */
static struct hmreg_pci pci_of(const char *text)
{
    struct hmreg_pci pci = {.valid = 0};

    pci.valid = sscanf(text, "%" SCNx32 ":%" SCNx8 ":%" SCNx8 ".%" SCNx8, &pci.domain, &pci.bus,
                       &pci.device, &pci.function) == 4;
    return pci;
}

static const char *distance_of(const struct hmreg_topology *topology, const json_t *one,
                               const json_t *other)
{
    const struct hmreg_place place = {
        .size = sizeof(place), .kind = HMREG_PLACE_PCI, .pci = pci_of(doc_words(one, "pci"))};
    struct hmreg_nic_affinity found = {.size = sizeof(found), .distance = HMREG_DISTANCE_UNKNOWN};
    const char *theirs = doc_words(other, "pci");
    size_t count = 1;

    hmreg_topology_order_nics(topology, &place, &theirs, 1, &found, &count);
    return hmreg_distance_name(found.distance);
}

static json_t *all_distances(const struct hmreg_topology *topology, const json_t *members)
{
    json_t *list = doc_array();

    for (size_t i = 0; i < json_array_size(members); i++)
        for (size_t j = i + 1; j < json_array_size(members); j++) {
            const json_t *one = json_array_get(members, i), *other = json_array_get(members, j);

            doc_add(list, doc_pack("{s:s, s:s, s:s}", "one", doc_words(one, "name"), "other",
                                   doc_words(other, "name"), "distance",
                                   distance_of(topology, one, other)));
        }
    return list;
}

/* ---- affinity --------------------------------------------------------------------------- */

static json_t *nearest_first(const struct hmreg_topology *topology, const struct hmreg_place *place,
                             const char *const *nics, size_t count)
{
    struct hmreg_nic_affinity *found = calloc(count + 1, sizeof(*found));
    json_t *list = doc_array();

    if (found)
        found[0].size = sizeof(*found);
    if (!found || !count || hmreg_topology_order_nics(topology, place, nics, count, found, &count))
        count = 0;
    for (size_t i = 0; i < count; i++)
        doc_add(list, doc_pack("{s:o, s:s, s:o, s:o}", "nic", doc_text(found[i].nic), "distance",
                               hmreg_distance_name(found[i].distance), "numa_distance",
                               doc_count(found[i].numa_distance, 0), "reason",
                               doc_text(found[i].reason)));
    free(found);
    return list;
}

/* The numbers of the NUMA nodes, in their order. */
static json_t *all_nodes(void)
{
    json_t *nodes = doc_array(), *names = root_list("/sys/devices/system/node"), *name;

    for (int index = 0; index < 1024 && json_array_size(nodes) < json_array_size(names); index++) {
        char wanted[32];

        snprintf(wanted, sizeof(wanted), "node%d", index);
        doc_each(name, names)
            if (!strcmp(json_string_value(name), wanted))
                doc_add(nodes, doc_made(json_integer(index)));
    }
    json_decref(names);
    return nodes;
}

static json_t *all_affinity(const struct hmreg_topology *topology, const json_t *members)
{
    const char **nics = calloc(json_array_size(members) + 1, sizeof(*nics));
    json_t *list = doc_array(), *nodes = all_nodes();
    const json_t *member, *node;
    size_t count = 0;

    doc_each(member, members)
        if (nics && doc_equals(member, "kind", "nic"))
            nics[count++] = doc_words(member, "name");
    doc_each(member, members) {
        struct hmreg_place place = {.size = sizeof(place),
                                    .kind = HMREG_PLACE_PCI,
                                    .pci = pci_of(doc_words(member, "pci"))};

        if (doc_equals(member, "kind", "device"))
            doc_add(list, doc_pack("{s:s, s:o}", "of", doc_words(member, "name"), "nics",
                                   nearest_first(topology, &place, nics, count)));
    }
    doc_each(node, nodes) {
        struct hmreg_place place = {.size = sizeof(place),
                                    .kind = HMREG_PLACE_NUMA_NODE,
                                    .numa_node = (int)json_integer_value(node)};

        doc_add(list, doc_pack("{s:o, s:o}", "of", doc_format("node %d", place.numa_node), "nics",
                               nearest_first(topology, &place, nics, count)));
    }
    json_decref(nodes);
    free(nics);
    return list;
}

/* ---- bridges ---------------------------------------------------------------------------- */

#define CONFIG_PLAIN   256 /* unprivileged reads of configuration space end before this offset */
#define CONFIG_BYTES   4096
#define FIRST_EXTENDED 0x100
#define ACS_CAPABILITY 0x0d
#define ACS_CONTROL    6
#define ACS_REDIRECT   0x04 /* P2P request redirect */

static uint32_t word_at(const unsigned char *config, size_t at)
{
    return config[at] | (uint32_t)config[at + 1] << 8 | (uint32_t)config[at + 2] << 16 |
           (uint32_t)config[at + 3] << 24;
}

/* Does a bridge redirect peer-to-peer requests of its devices to the root? null: unknown. config:
 * its configuration space, of which `got` bytes could be read. */
static json_t *acs_redirect(const unsigned char *config, size_t got)
{
    size_t at = FIRST_EXTENDED;

    if (got <= CONFIG_PLAIN)
        return json_null();
    for (int i = 0; i < 64 && at >= FIRST_EXTENDED && at + 8 <= got; i++) {
        uint32_t header = word_at(config, at);

        if ((header & 0xffff) == ACS_CAPABILITY)
            return json_boolean(config[at + ACS_CONTROL] & ACS_REDIRECT);
        at = header >> 20;
    }
    return json_false();
}

static json_t *bridge_facts(const char *pci)
{
    unsigned char config[CONFIG_BYTES + 4] = {0};
    size_t got = root_bytes(config, CONFIG_BYTES, "/sys/bus/pci/devices/%s/config", pci);

    return doc_pack("{s:o, s:i}", "acs_redirect", acs_redirect(config, got), "config_bytes",
                    (int)got);
}

static json_t *all_bridges(const json_t *members)
{
    json_t *all = doc_object();
    const json_t *member, *bridge;

    doc_each(member, members) {
        doc_each(bridge, json_object_get(member, "bridges")) {
            const char *pci = json_string_value(bridge);

            if (!json_object_get(all, pci))
                doc_set(all, pci, bridge_facts(pci));
        }
    }
    return all;
}

/* ---- facts ------------------------------------------------------------------------------ */

/* Unknown values: null, empty and null. */
static json_t *place_of(const struct hmreg_topology *topology, const char *text)
{
    struct hmreg_pci_place place = {.size = sizeof(place), .numa_node = -1};
    struct hmreg_pci pci = pci_of(text);
    json_t *bridges = doc_array();

    if (pci.valid && topology)
        hmreg_topology_place(topology, &pci, &place);
    for (uint32_t i = 0; i < place.bridge_count; i++)
        doc_add(bridges, doc_pci(&place.bridges[i]));
    return doc_pack("{s:o, s:o, s:o}", "root",
                    place.host_bridge[0] ? doc_text(place.host_bridge) : json_null(), "bridges",
                    bridges, "numa_node",
                    place.numa_node < 0 ? json_null() : doc_made(json_integer(place.numa_node)));
}

/* The CPUs near a PCI function, as a list; null: the function has no place, or the platform reports
 * none.
 */
static json_t *cpus_of(const char *pci, const json_t *place)
{
    json_t *cpus =
        pci[0] ? root_text_fact("/sys/bus/pci/devices/%s/local_cpulist", pci) : json_null();

    if (!json_is_null(cpus) || !doc_has(place, "numa_node"))
        return cpus;
    return root_text_fact("/sys/devices/system/node/node%d/cpulist",
                          (int)doc_number(place, "numa_node"));
}

static json_t *member(const struct hmreg_topology *topology, const char *name, const char *kind,
                      const char *pci)
{
    json_t *place = place_of(topology, pci);

    doc_set(place, "name", doc_text(name));
    doc_set(place, "kind", doc_text(kind));
    doc_set(place, "pci", pci[0] ? doc_text(pci) : json_null());
    doc_set(place, "cpus", cpus_of(pci, place));
    doc_set(place, "iommu",
            pci[0] ? root_text_fact("/sys/bus/pci/devices/%s/iommu_group/type", pci) : json_null());
    return place;
}

json_t *topology_facts(const json_t *devices, const json_t *nics)
{
    struct hmreg_topology_config config = {.size = sizeof(config),
                                           .root = root_prefix()[0] ? root_prefix() : NULL};
    json_t *members = doc_array(), *facts = doc_object();
    struct hmreg_topology *topology = NULL; /* left so without memory: all is unknown */
    const json_t *one;
    size_t i;

    hmreg_topology_open(NULL, &config, &topology);
    json_array_foreach(devices, i, one) {
        char name[32];

        doc_device_words(one, name);
        doc_add(members, member(topology, name, "device", doc_words(one, "pci")));
        doc_set(json_array_get(members, i), "simulated", json_boolean(doc_is(one, "simulated")));
    }
    json_array_foreach(nics, i, one)
        doc_add(members, member(topology, doc_words(one, "name"), "nic", doc_words(one, "pci")));
    doc_set(facts, "bridges", all_bridges(members));
    doc_set(facts, "distances", all_distances(topology, members));
    doc_set(facts, "affinity", all_affinity(topology, members));
    doc_set(facts, "members", members);
    hmreg_topology_close(topology);
    return facts;
}
