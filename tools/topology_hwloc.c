/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Places from hwloc, which knows platforms whose sysfs does not show a host bridge's NUMA node.
 */
#include "tools/document.h"
#include "tools/topology.h"

#include <hwloc.h>

/* This machine's tree, read once and kept for the command's lifetime. */
static hwloc_topology_t tree(void)
{
    static hwloc_topology_t loaded;
    hwloc_topology_t topology;

    if (loaded || hwloc_topology_init(&topology))
        return loaded;
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (hwloc_topology_load(topology))
        hwloc_topology_destroy(topology);
    else
        loaded = topology;
    return loaded;
}

static json_t *numa_node_of(hwloc_obj_t device)
{
    hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(tree(), device);

    if (!near || !near->nodeset || hwloc_bitmap_weight(near->nodeset) != 1)
        return json_null();
    return doc_made(json_integer(hwloc_bitmap_first(near->nodeset)));
}

static json_t *place_of(hwloc_obj_t device)
{
    json_t *bridges = doc_array(), *root = json_null();

    for (hwloc_obj_t at = device->parent; at && at->type == HWLOC_OBJ_BRIDGE; at = at->parent) {
        const union hwloc_obj_attr_u *attr = at->attr;

        if (attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI) {
            const struct hwloc_pcidev_attr_s *pci = &attr->bridge.upstream.pci;

            json_array_insert_new(bridges, 0,
                                  doc_made(json_sprintf("%04x:%02x:%02x.%x", pci->domain, pci->bus,
                                                        pci->dev, pci->func)));
            continue;
        }
        json_decref(root);
        root = doc_made(json_sprintf("pci%04x:%02x", attr->bridge.downstream.pci.domain,
                                     attr->bridge.downstream.pci.secondary_bus));
    }
    return doc_pack("{s:o, s:o, s:o}", "root", root, "bridges", bridges, "numa_node",
                    numa_node_of(device));
}

json_t *place_by_hwloc(const char *pci)
{
    hwloc_obj_t device = tree() ? hwloc_get_pcidev_by_busidstring(tree(), pci) : NULL;

    return device ? place_of(device) : NULL;
}
