/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Reads a topology that hwloc's lstopo(1) exported, on this machine or another.
 */
#include "affinity/topology.h"

#include "core/base/error.h"

#include <errno.h>
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct hmreg_pci pci_of(const struct hwloc_pcidev_attr_s *attr)
{
    return (struct hmreg_pci){.domain = attr->domain,
                              .bus = attr->bus,
                              .device = attr->dev,
                              .function = attr->func,
                              .valid = 1};
}

/* ---- PCI devices ------------------------------------------------------------------------ */

static int node_of(hwloc_topology_t tree, hwloc_obj_t device)
{
    hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(tree, device);

    if (!near || !near->nodeset || hwloc_bitmap_weight(near->nodeset) != 1)
        return -1;
    return hwloc_bitmap_first(near->nodeset);
}

/* Collects bridges from the device up to the host bridge, then reverses them. */
static void set_bridges(struct hmreg_pci_place *place, hwloc_obj_t device)
{
    struct hmreg_pci up[64];
    uint32_t count = 0;

    for (hwloc_obj_t at = device->parent; at && at->type == HWLOC_OBJ_BRIDGE; at = at->parent) {
        const struct hwloc_bridge_attr_s *attr = &at->attr->bridge;

        if (attr->upstream_type != HWLOC_OBJ_BRIDGE_PCI)
            snprintf(place->host_bridge, sizeof(place->host_bridge), "pci%04x:%02x",
                     attr->downstream.pci.domain & 0xffffff, attr->downstream.pci.secondary_bus);
        else if (count < sizeof(up) / sizeof(up[0]))
            up[count++] = pci_of(&attr->upstream.pci);
    }
    while (count-- > 0 && place->bridge_count < HMREG_BRIDGES_MAX)
        place->bridges[place->bridge_count++] = up[count];
}

static int add_devices(struct hmreg_topology *topology, hwloc_topology_t tree)
{
    hwloc_obj_t at = NULL;
    int rc = 0;

    while (!rc && (at = hwloc_get_next_pcidev(tree, at))) {
        struct topology_device device = {.pci = pci_of(&at->attr->pcidev),
                                         .place = {.size = sizeof(device.place)}};

        device.place.numa_node = node_of(tree, at);
        set_bridges(&device.place, at);
        rc = topology_add_device(topology, &device);
    }
    return rc;
}

/* ---- NICs ------------------------------------------------------------------------------- */

static int add_nics(struct hmreg_topology *topology, hwloc_topology_t tree,
                    hwloc_obj_osdev_type_t type)
{
    hwloc_obj_t at = NULL;
    int rc = 0;

    while (!rc && (at = hwloc_get_next_osdev(tree, at))) {
        struct topology_nic nic = {.rdma = type == HWLOC_OBJ_OSDEV_OPENFABRICS};
        hwloc_obj_t above = at->parent;

        if (at->attr->osdev.type != type || !at->name || strlen(at->name) >= sizeof(nic.name))
            continue;
        strcpy(nic.name, at->name);
        while (above && above->type != HWLOC_OBJ_PCI_DEVICE)
            above = above->parent;
        if (above)
            nic.pci = pci_of(&above->attr->pcidev);
        rc = topology_add_nic(topology, &nic);
    }
    return rc;
}

/* ---- NUMA nodes ------------------------------------------------------------------------- */

static int add_nodes(struct hmreg_topology *topology, hwloc_topology_t tree)
{
    hwloc_obj_t at = NULL;
    int rc = 0;

    while (!rc && (at = hwloc_get_next_obj_by_type(tree, HWLOC_OBJ_NUMANODE, at)))
        rc = topology_add_node(topology, (int)at->os_index);
    return rc;
}

static int add_row(struct hmreg_topology *topology, const struct hwloc_distances_s *matrix,
                   unsigned row)
{
    int from = topology_find_node(topology, (int)matrix->objs[row]->os_index);

    if (from < 0)
        return 0;
    if (topology_clear_distances(topology, &topology->nodes[from]))
        return -ENOMEM;
    for (unsigned i = 0; i < matrix->nbobjs; i++) {
        int to = topology_find_node(topology, (int)matrix->objs[i]->os_index);
        hwloc_uint64_t distance = matrix->values[row * matrix->nbobjs + i];

        if (to >= 0)
            topology->nodes[from].distances[to] = distance < 256 ? (uint32_t)distance : 0;
    }
    return 0;
}

static int add_distances(struct hmreg_topology *topology, hwloc_topology_t tree)
{
    struct hwloc_distances_s *matrix = NULL;
    unsigned count = 1;
    int rc = 0;

    if (hwloc_distances_get_by_name(tree, "NUMALatency", &count, &matrix, 0) || !count || !matrix)
        return 0;
    for (unsigned i = 0; i < matrix->nbobjs && !rc; i++)
        if (matrix->objs[i])
            rc = add_row(topology, matrix, i);
    hwloc_distances_release(tree, matrix);
    return rc;
}

/* ---- all -------------------------------------------------------------------------------- */

static int add_all(struct hmreg_topology *topology, hwloc_topology_t tree)
{
    int rc = add_nodes(topology, tree);

    rc = rc ? rc : add_devices(topology, tree);
    rc = rc ? rc : add_distances(topology, tree);
    rc = rc ? rc : add_nics(topology, tree, HWLOC_OBJ_OSDEV_OPENFABRICS);
    return rc ? rc : add_nics(topology, tree, HWLOC_OBJ_OSDEV_NETWORK);
}

static int load(hwloc_topology_t tree, const char *xml)
{
    errno = 0;
    if (hwloc_topology_set_xml(tree, xml) ||
        hwloc_topology_set_io_types_filter(tree, HWLOC_TYPE_FILTER_KEEP_ALL) ||
        hwloc_topology_load(tree))
        return errno ? errno : EINVAL;
    return 0;
}

static int unreadable(int errnum, const char *xml)
{
    if (errnum == ENOMEM)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for hwloc's topology");
    return hmreg_fail_vendor(-EINVAL, "hwloc", errnum, hmreg_strerror(errnum),
                             "hwloc cannot read config->xml, %s: it is not a topology that "
                             "lstopo(1) exported as XML",
                             xml);
}

int topology_read_hwloc(struct hmreg_topology *topology, const char *xml)
{
    hwloc_topology_t tree = NULL;
    int errnum, rc;

    if (access(xml, R_OK))
        return hmreg_fail_os(errno, "config->xml, %s, cannot be opened: %s", xml,
                             hmreg_strerror(errno));
    if (hwloc_topology_init(&tree))
        return unreadable(ENOMEM, xml);
    errnum = load(tree, xml);
    rc = errnum ? unreadable(errnum, xml) : add_all(topology, tree);
    hwloc_topology_destroy(tree);
    return rc;
}
