/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See topology.h. The distances have the names of nvidia-smi topo, which users know.
 */
#include "tools/topology.h"

#include "tools/document.h"
#include "tools/root.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

const struct distance topology_distances[] = {
    {"X", "the device itself"},
    {"PIX", "below one PCI switch: the short way, without the CPU"},
    {"PXB", "below one root port, through several switches"},
    {"PHB", "through the CPU's PCI host bridge"},
    {"NODE", "through two host bridges of one NUMA node"},
    {"SYS", "across NUMA nodes, over the link between CPUs"},
    {"?", "unknown: not on the PCI bus, or the platform does not say"},
    {0},
};

int topology_rank(const char *distance)
{
    int i = 0;

    while (topology_distances[i].name && strcmp(topology_distances[i].name, distance))
        i++;
    return i;
}

/* ---- places ----------------------------------------------------------------------------- */

json_t *place_by_sysfs(const char *pci)
{
    json_t *place, *bridges;
    char path[PATH_MAX], *part, *rest, numa[16];

    if (!root_real(path, sizeof(path), "/sys/bus/pci/devices/%s", pci) ||
        !(part = strstr(path, "/pci")))
        return NULL;
    place = doc_object();
    bridges = doc_array();
    part = strtok_r(part, "/", &rest);
    doc_set(place, "root", doc_text(part));
    while ((part = strtok_r(NULL, "/", &rest)) && strcmp(part, pci))
        doc_add(bridges, doc_text(part));
    doc_set(place, "bridges", bridges);
    doc_set(place, "numa_node",
            root_read(numa, sizeof(numa), "/sys/bus/pci/devices/%s/numa_node", pci) &&
                    atoi(numa) >= 0
                ? doc_made(json_integer(atoi(numa)))
                : json_null());
    return place;
}

#ifndef HMREG_TOOL_HWLOC
json_t *place_by_hwloc(const char *pci)
{
    return NULL;
}
#endif

/* A simulated tree has only sysfs. */
static json_t *place_of(const char *pci)
{
    json_t *place = root_prefix()[0] || !pci[0] ? NULL : place_by_hwloc(pci);

    return place || !pci[0] ? place : place_by_sysfs(pci);
}

/* ---- distances -------------------------------------------------------------------------- */

static size_t common_bridges(const json_t *one, const json_t *other)
{
    size_t i = 0;

    while (i < json_array_size(one) && i < json_array_size(other) &&
           json_equal(json_array_get(one, i), json_array_get(other, i)))
        i++;
    return i;
}

static const char *below_one_root(const json_t *one, const json_t *other)
{
    const json_t *ours = json_object_get(one, "bridges"),
                 *theirs = json_object_get(other, "bridges");
    size_t common = common_bridges(ours, theirs);

    if (!common)
        return "PHB";
    /* At most one bridge, a switch port, below the last common bridge. */
    return json_array_size(ours) <= common + 1 && json_array_size(theirs) <= common + 1 ? "PIX"
                                                                                        : "PXB";
}

const char *topology_distance(const json_t *one, const json_t *other)
{
    const json_t *ours = json_object_get(one, "numa_node");
    const json_t *theirs = json_object_get(other, "numa_node");

    if (!doc_words(one, "root")[0] || !doc_words(other, "root")[0])
        return "?";
    if (doc_has(one, "pci") && doc_equals(one, "pci", doc_words(other, "pci")))
        return "X";
    if (doc_equals(one, "root", doc_words(other, "root")))
        return below_one_root(one, other);
    if (!json_is_integer(ours) || !json_is_integer(theirs))
        return "?";
    return json_equal(ours, theirs) ? "NODE" : "SYS";
}

static json_t *all_distances(const json_t *members)
{
    json_t *list = doc_array();

    for (size_t i = 0; i < json_array_size(members); i++)
        for (size_t j = i + 1; j < json_array_size(members); j++) {
            const json_t *one = json_array_get(members, i), *other = json_array_get(members, j);

            doc_add(list,
                    doc_pack("{s:s, s:s, s:s}", "one", doc_words(one, "name"), "other",
                             doc_words(other, "name"), "distance", topology_distance(one, other)));
        }
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

/* Does a bridge redirect peer-to-peer requests of its devices to the root? null: unknown. */
static json_t *acs_redirect(const char *pci)
{
    unsigned char config[CONFIG_BYTES + 4] = {0};
    size_t got = root_bytes(config, CONFIG_BYTES, "/sys/bus/pci/devices/%s/config", pci);
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

static json_t *all_bridges(const json_t *members)
{
    json_t *all = doc_object();
    const json_t *member, *bridge;

    doc_each(member, members) {
        doc_each(bridge, json_object_get(member, "bridges")) {
            const char *pci = json_string_value(bridge);

            if (!json_object_get(all, pci))
                doc_set(all, pci, doc_pack("{s:o}", "acs_redirect", acs_redirect(pci)));
        }
    }
    return all;
}

/* ---- facts ------------------------------------------------------------------------------ */

static json_t *member(const char *name, const char *kind, const char *pci)
{
    json_t *place = place_of(pci);

    if (!place)
        place = doc_pack("{s:n, s:[], s:n}", "root", "bridges", "numa_node");
    doc_set(place, "name", doc_text(name));
    doc_set(place, "kind", doc_text(kind));
    doc_set(place, "pci", pci[0] ? doc_text(pci) : json_null());
    doc_set(place, "iommu",
            pci[0] ? root_text_fact("/sys/bus/pci/devices/%s/iommu_group/type", pci) : json_null());
    return place;
}

json_t *topology_facts(const json_t *devices, const json_t *nics)
{
    json_t *members = doc_array(), *facts = doc_object();
    const json_t *one;
    size_t i;

    json_array_foreach(devices, i, one) {
        char name[32];

        doc_device_words(one, name);
        doc_add(members, member(name, "device", doc_words(one, "pci")));
        doc_set(json_array_get(members, i), "simulated", json_boolean(doc_is(one, "simulated")));
    }
    json_array_foreach(nics, i, one)
        doc_add(members, member(doc_words(one, "name"), "nic", doc_words(one, "pci")));
    doc_set(facts, "bridges", all_bridges(members));
    doc_set(facts, "distances", all_distances(members));
    doc_set(facts, "members", members);
    return facts;
}
