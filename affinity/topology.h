/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A topology: plain data that its readers, topology_hwloc.c and topology_sysfs.c, fill, and that
 * stays constant once it is open.
 */
#ifndef HMREG_AFFINITY_TOPOLOGY_H
#define HMREG_AFFINITY_TOPOLOGY_H

#include <hmreg/affinity.h>
#include <stdbool.h>

struct topology_device {
    struct hmreg_pci pci;
    struct hmreg_pci_place place;
};

/* An RDMA device or network interface. */
struct topology_nic {
    char name[64];
    bool rdma;
    struct hmreg_pci pci; /* valid 0: it is not on the PCI bus */
};

struct topology_node {
    int index;           /* the system's number */
    uint32_t *distances; /* to the first distance_count nodes, in their order */
    size_t distance_count;
};

struct hmreg_topology {
    struct hmreg *lib; /* borrowed; may be NULL */
    struct topology_device *devices;
    struct topology_nic *nics;
    struct topology_node *nodes;
    size_t device_count, nic_count, node_count;
};

/* Adds a copy, or replaces the data of that device, NIC or node. -ENOMEM. */
int topology_add_device(struct hmreg_topology *topology, const struct topology_device *device);
int topology_add_nic(struct hmreg_topology *topology, const struct topology_nic *nic);
int topology_add_node(struct hmreg_topology *topology, int index);

/* Frees what was added. */
void topology_clear(struct hmreg_topology *topology);

/* Where a device is. A partition of a GPU (AMD's MI300) has its number in the function of its
 * address, and the system knows function 0 only. NULL: unknown. */
const struct topology_device *topology_find_place(const struct hmreg_topology *topology,
                                                  const struct hmreg_pci *pci);
/* NULL: unknown. */
const struct topology_device *topology_find(const struct hmreg_topology *topology,
                                            const struct hmreg_pci *pci);
const struct topology_nic *topology_find_nic(const struct hmreg_topology *topology,
                                             const char *name);
/* The index in topology->nodes; -1: no such node. */
int topology_find_node(const struct hmreg_topology *topology, int index);

/* Reads "0000:3b:00.0" or "3b:00.0"; all of text if whole, else its beginning. */
bool topology_parse_pci(const char *text, bool whole, struct hmreg_pci *out);
bool topology_same_pci(const struct hmreg_pci *one, const struct hmreg_pci *other);
/* "0000:3b:00.0" */
#define PCI_FORMAT    "%04x:%02x:%02x.%x"
#define PCI_ARGS(pci) (pci)->domain, (pci)->bus, (pci)->device, (pci)->function

/* Makes room for the node's distances to all nodes known now, 0 each. -ENOMEM. */
int topology_clear_distances(struct hmreg_topology *topology, struct topology_node *node);

enum hmreg_distance topology_between(const struct hmreg_pci_place *one,
                                     const struct hmreg_pci_place *other);

/* Orders domains by the distance of their NICs to a place, the nearest first. order: the indices of
 * count domains, at least one; distances: theirs, in that order. A domain without a NIC is at an
 * UNKNOWN distance. Errors of hmreg_topology_order_nics() and hmreg_domain_query(). */
int topology_order_domains(const struct hmreg_topology *topology, const struct hmreg_place *place,
                           struct hmreg_domain *const *domains, size_t count, size_t *order,
                           enum hmreg_distance *distances);

/* Adds the devices, NICs and nodes of ROOT/sys. Leaves out unreadable ones. -ENOMEM. */
int topology_read_sysfs(struct hmreg_topology *topology, const char *root);
/* Adds the content of a file that lstopo(1) exported. Errors as hmreg_topology_open() with
 * config->xml. */
int topology_read_hwloc(struct hmreg_topology *topology, const char *xml);

#endif
