/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Orders NICs by their distance to a place. A place becomes a spot: a PCI device, or a NUMA node,
 * or neither, with the reason why not.
 */
#include "affinity/memory_node.h"
#include "affinity/topology.h"

#include "core/base/error.h"
#include "core/contract/provider.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct spot {
    struct hmreg_pci_place place; /* numa_node -1 and no host bridge: unknown */
    struct hmreg_pci pci;         /* valid 0: a NUMA node, or unknown */
    char words[96];               /* name of the place, or why it is unknown */
};

/* ---- the place -------------------------------------------------------------------------- */

static int set_pci(const struct hmreg_topology *topology, const struct hmreg_pci *pci,
                   const char *what, struct spot *out)
{
    const struct topology_device *device = topology_find_place(topology, pci);

    out->pci = *pci;
    if (device)
        out->place = device->place;
    if (!pci->valid)
        snprintf(out->words, sizeof(out->words), "the PCI address of %s is unknown", what);
    else if (!device)
        snprintf(out->words, sizeof(out->words), "the topology has no PCI device " PCI_FORMAT,
                 PCI_ARGS(pci));
    else
        snprintf(out->words, sizeof(out->words), "%s (" PCI_FORMAT ")", what, PCI_ARGS(pci));
    return 0;
}

static int need_library(const struct hmreg_topology *topology, const char *what)
{
    if (!topology->lib)
        return hmreg_fail(-EINVAL,
                          "%s needs the library: give it to hmreg_topology_open(), which got NULL",
                          what);
    return hmreg_lib_check(topology->lib);
}

static int set_device(const struct hmreg_topology *topology, enum hmreg_iface iface, int device,
                      struct spot *out)
{
    struct hmreg_device_info info = {.size = sizeof(info)};
    char what[32];
    int rc = need_library(topology, "HMREG_PLACE_DEVICE");

    rc = rc ? rc : hmreg_device_query(topology->lib, iface, device, &info);
    if (rc)
        return rc;
    snprintf(what, sizeof(what), "%s %d", hmreg_iface_name(iface), device);
    return set_pci(topology, &info.pci, what, out);
}

static int set_node(const struct hmreg_topology *topology, int node, struct spot *out)
{
    if (node < 0)
        return hmreg_fail(-EINVAL, "place->numa_node is %d; accepted are 0 and above", node);
    if (topology->node_count && topology_find_node(topology, node) < 0)
        return hmreg_fail(-ENODEV, "the topology has no NUMA node %d", node);
    out->place.numa_node = node;
    snprintf(out->words, sizeof(out->words), "NUMA node %d", node);
    return 0;
}

static int set_memory(const struct hmreg_topology *topology, const void *addr, size_t len,
                      struct spot *out)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};
    int rc = need_library(topology, "HMREG_PLACE_MEMORY");

    rc = rc ? rc : hmreg_query(topology->lib, addr, len, &info);
    if (rc)
        return rc;
    if (info.kind == HMREG_MEM_DEVICE || info.kind == HMREG_MEM_MANAGED)
        return set_pci(topology, &info.pci, "the memory's device", out);
    out->place.numa_node = memory_node(addr, len, out->words, sizeof(out->words));
    return 0;
}

static int find_spot(const struct hmreg_topology *topology, const struct hmreg_place *callers,
                     struct spot *out)
{
    struct hmreg_place place = {0};
    int rc;

    *out = (struct spot){.place = {.numa_node = -1}};
    if (!topology || !callers)
        return hmreg_fail(-EINVAL, "%s is NULL", topology ? "place" : "topology");
    rc = hmreg_config_copy(&place, sizeof(place), callers, "struct hmreg_place");
    if (rc)
        return rc;
    switch (place.kind) {
    case HMREG_PLACE_PCI:
        return set_pci(topology, &place.pci, "the device", out);
    case HMREG_PLACE_DEVICE:
        return set_device(topology, place.iface, place.device, out);
    case HMREG_PLACE_MEMORY:
        return set_memory(topology, place.addr, place.len, out);
    case HMREG_PLACE_NUMA_NODE:
        return set_node(topology, place.numa_node, out);
    }
    return hmreg_fail(-EINVAL,
                      "place->kind is %d; accepted are HMREG_PLACE_PCI, DEVICE, MEMORY, NUMA_NODE",
                      (int)place.kind);
}

/* ---- reasons ---------------------------------------------------------------------------- */

/* The last bridge above both. */
static const struct hmreg_pci *last_common(const struct hmreg_pci_place *one,
                                           const struct hmreg_pci_place *other)
{
    uint32_t i = 0;

    while (i < one->bridge_count && i < other->bridge_count &&
           topology_same_pci(&one->bridges[i], &other->bridges[i]))
        i++;
    return &one->bridges[i ? i - 1 : 0];
}

static void explain_unknown(const struct hmreg_topology *topology,
                            const struct hmreg_nic_affinity *nic,
                            const struct topology_device *device, const struct spot *spot,
                            char *text, size_t size)
{
    if (!device && nic->pci.valid)
        snprintf(text, size, "the topology has no PCI device " PCI_FORMAT, PCI_ARGS(&nic->pci));
    else if (!nic->nic[0])
        snprintf(text, size, "there is no NIC");
    else if (!device)
        snprintf(text, size,
                 topology_find_nic(topology, nic->nic) ? "%.63s is not on the PCI bus"
                                                       : "the topology has no NIC %.63s",
                 nic->nic);
    else if (!spot->place.host_bridge[0] && spot->place.numa_node < 0)
        snprintf(text, size, "%s", spot->words);
    else
        snprintf(text, size, "the platform does not report the NUMA node of %s",
                 device->place.numa_node < 0 ? nic->nic : spot->words);
}

static void explain(const struct hmreg_topology *topology, const struct hmreg_nic_affinity *nic,
                    const struct topology_device *device, const struct spot *spot, char *text,
                    size_t size)
{
    const struct hmreg_pci *bridge;

    switch (nic->distance) {
    case HMREG_DISTANCE_SELF:
        snprintf(text, size, "%.63s is the device itself", nic->nic);
        return;
    case HMREG_DISTANCE_SWITCH:
    case HMREG_DISTANCE_ROOT_PORT:
        bridge = last_common(&spot->place, &device->place);
        snprintf(text, size, "both are below the PCI bridge " PCI_FORMAT "%s", PCI_ARGS(bridge),
                 nic->distance == HMREG_DISTANCE_SWITCH ? "" : ", with further switches between");
        return;
    case HMREG_DISTANCE_HOST_BRIDGE:
        snprintf(text, size, "both are below the host bridge %s", device->place.host_bridge);
        return;
    case HMREG_DISTANCE_NUMA_NODE:
        snprintf(text, size, "both are on NUMA node %d", nic->numa_node);
        return;
    case HMREG_DISTANCE_SYSTEM:
        snprintf(text, size, "NUMA nodes %d and %d", spot->place.numa_node, nic->numa_node);
        return;
    case HMREG_DISTANCE_UNKNOWN:
        explain_unknown(topology, nic, device, spot, text, size);
    }
}

/* ---- one NIC ---------------------------------------------------------------------------- */

static uint32_t numa_distance(const struct hmreg_topology *topology, int one, int other)
{
    int from = topology_find_node(topology, one), to = topology_find_node(topology, other);

    if (from < 0 || to < 0 || (size_t)to >= topology->nodes[from].distance_count)
        return 0;
    return topology->nodes[from].distances[to];
}

/* Sets the distance of a NIC whose name, index and pci are set. */
static void measure(const struct hmreg_topology *topology, const struct spot *spot,
                    struct hmreg_nic_affinity *nic)
{
    const struct topology_device *device = topology_find_place(topology, &nic->pci);

    nic->size = sizeof(*nic);
    nic->numa_node = device ? device->place.numa_node : -1;
    if (topology_same_pci(&spot->pci, &nic->pci) ||
        (device && device == topology_find_place(topology, &spot->pci)))
        nic->distance = HMREG_DISTANCE_SELF;
    else
        nic->distance =
            device ? topology_between(&spot->place, &device->place) : HMREG_DISTANCE_UNKNOWN;
    nic->numa_distance = numa_distance(topology, spot->place.numa_node, nic->numa_node);
    explain(topology, nic, device, spot, nic->reason, sizeof(nic->reason));
}

static void name_nic(const struct hmreg_topology *topology, const char *name,
                     struct hmreg_nic_affinity *out)
{
    const struct topology_nic *nic = topology_find_nic(topology, name);

    snprintf(out->nic, sizeof(out->nic), "%s", name);
    if (nic)
        out->pci = nic->pci;
    else
        topology_parse_pci(name, true, &out->pci);
}

/* ---- the order -------------------------------------------------------------------------- */

/* An unknown numa_distance, 0, comes last. */
static int compare(const void *one, const void *other)
{
    const struct hmreg_nic_affinity *a = one, *b = other;

    if (a->distance != b->distance)
        return a->distance < b->distance ? -1 : 1;
    if (a->numa_distance != b->numa_distance)
        return a->numa_distance - 1 < b->numa_distance - 1 ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static size_t count_rdma(const struct hmreg_topology *topology)
{
    size_t count = 0;

    for (size_t i = 0; i < topology->nic_count; i++)
        count += topology->nics[i].rdma;
    return count;
}

static struct hmreg_nic_affinity *new_list(size_t count)
{
    struct hmreg_nic_affinity *list = calloc(count ? count : 1, sizeof(*list));

    if (!list)
        hmreg_fail(-ENOMEM, "hmreg has no memory for the affinity of %zu NICs", count);
    return list;
}

static void sort(const struct hmreg_topology *topology, const struct spot *spot,
                 struct hmreg_nic_affinity *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        list[i].index = i;
        measure(topology, spot, &list[i]);
    }
    qsort(list, count, sizeof(*list), compare);
}

static int check_list(const char *const *nics, size_t nic_count,
                      const struct hmreg_nic_affinity *out, const size_t *count)
{
    if (!count)
        return hmreg_fail(-EINVAL, "count is NULL");
    if (!nics && nic_count)
        return hmreg_fail(-EINVAL, "nics is NULL and nic_count is %zu", nic_count);
    for (size_t i = 0; i < nic_count; i++)
        if (!nics[i])
            return hmreg_fail(-EINVAL, "nics[%zu] is NULL", i);
    if (!out)
        return 0;
    if (!*count)
        return hmreg_fail(-EINVAL, "*count is 0 and out is not NULL");
    if (out->size < sizeof(*out))
        return hmreg_fail(-EINVAL,
                          "size of struct hmreg_nic_affinity is %zu; it must be sizeof, %zu",
                          out->size, sizeof(*out));
    return 0;
}

int hmreg_topology_order_nics(const struct hmreg_topology *topology,
                              const struct hmreg_place *place, const char *const *nics,
                              size_t nic_count, struct hmreg_nic_affinity *out, size_t *count)
{
    struct hmreg_nic_affinity *list;
    struct spot spot;
    size_t all = 0, stride;
    int rc = check_list(nics, nic_count, out, count);

    rc = rc ? rc : find_spot(topology, place, &spot);
    if (rc)
        return rc;
    if (!out) {
        *count = nics ? nic_count : count_rdma(topology);
        return 0;
    }
    list = new_list(nics ? nic_count : topology->nic_count);
    if (!list)
        return -ENOMEM;
    for (size_t i = 0; nics && i < nic_count; i++)
        name_nic(topology, nics[i], &list[all++]);
    for (size_t i = 0; !nics && i < topology->nic_count; i++)
        if (topology->nics[i].rdma)
            name_nic(topology, topology->nics[i].name, &list[all++]);
    sort(topology, &spot, list, all);
    *count = *count < all ? *count : all;
    stride = out->size;
    for (size_t i = 0; i < *count; i++)
        memcpy((char *)out + i * stride, &list[i], sizeof(*list));
    free(list);
    return 0;
}

/* ---- domains ---------------------------------------------------------------------------- */

static int name_domain(const struct hmreg_topology *topology, struct hmreg_domain *domain,
                       struct hmreg_nic_affinity *out)
{
    struct hmreg_domain_info info = {.size = sizeof(info)};
    int rc = hmreg_domain_query(domain, &info);

    if (rc)
        return rc;
    name_nic(topology, info.nic, out);
    if (info.pci.valid)
        out->pci = info.pci;
    return 0;
}

int topology_order_domains(const struct hmreg_topology *topology, const struct hmreg_place *place,
                           struct hmreg_domain *const *domains, size_t count, size_t *order,
                           enum hmreg_distance *distances)
{
    struct hmreg_nic_affinity *list;
    struct spot spot;
    int rc;

    rc = find_spot(topology, place, &spot);
    list = rc ? NULL : new_list(count);
    if (!list)
        return rc ? rc : -ENOMEM;
    for (size_t i = 0; i < count && !rc; i++)
        rc = name_domain(topology, domains[i], &list[i]);
    if (!rc)
        sort(topology, &spot, list, count);
    for (size_t i = 0; i < count && !rc; i++) {
        order[i] = list[i].index;
        distances[i] = list[i].distance;
    }
    free(list);
    return rc;
}
