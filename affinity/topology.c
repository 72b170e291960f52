/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See topology.h. Arrays are searched one by one: machines have some hundred PCI devices.
 */
#include "affinity/topology.h"

#include "core/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- PCI addresses ---------------------------------------------------------------------- */

bool topology_same_pci(const struct hmreg_pci *one, const struct hmreg_pci *other)
{
    return one->valid && other->valid && one->domain == other->domain && one->bus == other->bus &&
           one->device == other->device && one->function == other->function;
}

bool topology_parse_pci(const char *text, bool whole, struct hmreg_pci *out)
{
    unsigned domain = 0, bus, device, function;
    int used = 0;

    if (sscanf(text, "%8x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &used) != 4) {
        domain = 0;
        if (sscanf(text, "%2x:%2x.%1x%n", &bus, &device, &function, &used) != 3)
            return false;
    }
    if (device > 31 || function > 7 || (whole && text[used]))
        return false;
    *out = (struct hmreg_pci){.domain = domain,
                              .bus = (uint8_t)bus,
                              .device = (uint8_t)device,
                              .function = (uint8_t)function,
                              .valid = 1};
    return true;
}

/* ---- what is known ---------------------------------------------------------------------- */

const struct topology_device *topology_find(const struct hmreg_topology *topology,
                                            const struct hmreg_pci *pci)
{
    for (size_t i = 0; i < topology->device_count; i++)
        if (topology_same_pci(&topology->devices[i].pci, pci))
            return &topology->devices[i];
    return NULL;
}

const struct topology_device *topology_find_place(const struct hmreg_topology *topology,
                                                  const struct hmreg_pci *pci)
{
    const struct topology_device *found = topology_find(topology, pci);
    struct hmreg_pci whole = *pci;

    whole.function = 0;
    return found ? found : topology_find(topology, &whole);
}

static const struct topology_nic *nic_named(const struct hmreg_topology *topology, const char *name,
                                            size_t len)
{
    for (size_t i = 0; i < topology->nic_count; i++)
        if (!strncmp(topology->nics[i].name, name, len) && !topology->nics[i].name[len])
            return &topology->nics[i];
    return NULL;
}

/* libfabric's names of domains are a device's, often with a suffix: "efa_0-rdm", "mlx5_0-dgram". */
const struct topology_nic *topology_find_nic(const struct hmreg_topology *topology,
                                             const char *name)
{
    size_t len = strlen(name);
    const struct topology_nic *found = NULL;

    if (len < sizeof(found->name))
        found = nic_named(topology, name, len);
    while (!found && len-- > 0)
        if (name[len] == '-' && len < sizeof(found->name))
            found = nic_named(topology, name, len);
    return found;
}

int topology_find_node(const struct hmreg_topology *topology, int index)
{
    for (size_t i = 0; i < topology->node_count; i++)
        if (topology->nodes[i].index == index)
            return (int)i;
    return -1;
}

/* ---- adding ----------------------------------------------------------------------------- */

/* Makes room for one more element; arrays grow at powers of two. */
static void *room(void *array, size_t count, size_t element)
{
    if (count & (count - 1))
        return array;
    return realloc(array, (count ? 2 * count : 1) * element);
}

static int no_memory(void)
{
    return hmreg_fail(-ENOMEM, "hmreg has no memory for a topology");
}

int topology_add_device(struct hmreg_topology *topology, const struct topology_device *device)
{
    struct topology_device *known =
        (struct topology_device *)(uintptr_t)topology_find(topology, &device->pci);

    if (!known) {
        known = room(topology->devices, topology->device_count, sizeof(*known));
        if (!known)
            return no_memory();
        topology->devices = known;
        known += topology->device_count++;
    }
    *known = *device;
    return 0;
}

int topology_add_nic(struct hmreg_topology *topology, const struct topology_nic *nic)
{
    struct topology_nic *known =
        (struct topology_nic *)(uintptr_t)nic_named(topology, nic->name, strlen(nic->name));

    if (!known) {
        known = room(topology->nics, topology->nic_count, sizeof(*known));
        if (!known)
            return no_memory();
        topology->nics = known;
        known += topology->nic_count++;
    }
    *known = *nic;
    return 0;
}

int topology_add_node(struct hmreg_topology *topology, int index)
{
    struct topology_node *nodes;

    if (topology_find_node(topology, index) >= 0)
        return 0;
    nodes = room(topology->nodes, topology->node_count, sizeof(*nodes));
    if (!nodes)
        return no_memory();
    topology->nodes = nodes;
    nodes[topology->node_count++] = (struct topology_node){.index = index};
    return 0;
}

int topology_clear_distances(struct hmreg_topology *topology, struct topology_node *node)
{
    uint32_t *distances = calloc(topology->node_count, sizeof(*distances));

    if (!distances)
        return no_memory();
    free(node->distances);
    node->distances = distances;
    node->distance_count = topology->node_count;
    return 0;
}

void topology_clear(struct hmreg_topology *topology)
{
    for (size_t i = 0; i < topology->node_count; i++)
        free(topology->nodes[i].distances);
    free(topology->nodes);
    free(topology->nics);
    free(topology->devices);
}

/* ---- distances -------------------------------------------------------------------------- */

static enum hmreg_distance below_one_host_bridge(const struct hmreg_pci_place *one,
                                                 const struct hmreg_pci_place *other)
{
    uint32_t common = 0;

    while (common < one->bridge_count && common < other->bridge_count &&
           topology_same_pci(&one->bridges[common], &other->bridges[common]))
        common++;
    if (!common)
        return HMREG_DISTANCE_HOST_BRIDGE;
    /* At most one bridge, a switch port, below the last common bridge. */
    return one->bridge_count <= common + 1 && other->bridge_count <= common + 1
               ? HMREG_DISTANCE_SWITCH
               : HMREG_DISTANCE_ROOT_PORT;
}

enum hmreg_distance topology_between(const struct hmreg_pci_place *one,
                                     const struct hmreg_pci_place *other)
{
    if (one->host_bridge[0] && !strcmp(one->host_bridge, other->host_bridge))
        return below_one_host_bridge(one, other);
    if (one->numa_node < 0 || other->numa_node < 0)
        return HMREG_DISTANCE_UNKNOWN;
    return one->numa_node == other->numa_node ? HMREG_DISTANCE_NUMA_NODE : HMREG_DISTANCE_SYSTEM;
}
