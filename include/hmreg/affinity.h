/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Affinity: how near NICs are to a device, to memory or to a NUMA node (libhmreg-affinity). Near is
 * fast: use it to choose the rails of a transfer. Whether a NIC can reach a device's memory at all
 * is another question (hmreg_domain_explain()).
 *
 * A topology holds the places of a machine's PCI devices and NICs. It is read once, when it is
 * opened, from sysfs or from a file that lstopo exported; it does not change afterwards.
 * Where a platform reports too little (containers without /sys, virtual machines), distances are
 * HMREG_DISTANCE_UNKNOWN, with the reason in words; that is never an error.
 */
#ifndef HMREG_AFFINITY_H
#define HMREG_AFFINITY_H

#include <hmreg/hmreg.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The classes of distance, nearest first. nvidia-smi topo prints the same names. */
enum hmreg_distance {
    HMREG_DISTANCE_SELF = 0,        /* "X": the device itself */
    HMREG_DISTANCE_SWITCH = 1,      /* "PIX": below one PCI switch */
    HMREG_DISTANCE_ROOT_PORT = 2,   /* "PXB": below one root port, through several switches */
    HMREG_DISTANCE_HOST_BRIDGE = 3, /* "PHB": below one host bridge (root complex) of the CPU */
    HMREG_DISTANCE_NUMA_NODE = 4,   /* "NODE": on one NUMA node */
    HMREG_DISTANCE_SYSTEM = 5,      /* "SYS": on two NUMA nodes */
    HMREG_DISTANCE_UNKNOWN = 6,     /* "?": the place of the device or of the NIC is unknown */
};
#define HMREG_DISTANCE_COUNT 7

/* A class's name, such as "PIX"; "?" for an unknown value. */
const char *hmreg_distance_name(enum hmreg_distance distance);

/* ---- topologies ------------------------------------------------------------------------- */

struct hmreg_topology; /* the places of a machine's PCI devices and NICs */

struct hmreg_topology_config {
    size_t size;      /* sizeof(struct hmreg_topology_config) */
    const char *xml;  /* a file that lstopo(1) exported; read instead of this machine */
    const char *root; /* a folder whose sys folder is read instead of /sys, without hwloc: a host's
                         sysfs in a container, or a copy */
};

/*
 * Reads the topology of this machine, or the one that config names. Close it with
 * hmreg_topology_close().
 * lib: used for places that name an iface or memory (struct hmreg_place); borrowed, must outlive
 * *out; NULL: such places are refused. config: NULL for the defaults; read during the call only.
 * A machine that reports nothing is not an error: its topology is empty.
 * -EINVAL: out is NULL, config's size is not an accepted value, config has both xml and root, or
 *   hwloc cannot read the file xml. -ENOENT, -EACCES: the file xml cannot be opened.
 * -EOPNOTSUPP: config has xml, and the library was built without hwloc. -ENOMEM.
 */
int hmreg_topology_open(struct hmreg *lib, const struct hmreg_topology_config *config,
                        struct hmreg_topology **out);

/* NULL is accepted. No other thread may use the topology during this call. */
void hmreg_topology_close(struct hmreg_topology *topology);

#define HMREG_BRIDGES_MAX 16

/* Where a PCI device is attached. */
struct hmreg_pci_place {
    size_t size;           /* sizeof(struct hmreg_pci_place) */
    char host_bridge[16];  /* the kernel's name of the host bridge: "pci0000:40"; "": unknown */
    int numa_node;         /* -1: unknown */
    uint32_t bridge_count; /* PCI bridges between the host bridge and the device; only the first
                              HMREG_BRIDGES_MAX */
    struct hmreg_pci bridges[HMREG_BRIDGES_MAX]; /* from the host bridge down */
};

/* Finds a PCI device's place. A function that the topology lacks has function 0's place: AMD's
 * MI300 numbers its partitions in the function. -EINVAL: an argument is NULL, pci->valid is 0, or
 * out->size is too small. -ENODEV: the topology has no such device. */
int hmreg_topology_place(const struct hmreg_topology *topology, const struct hmreg_pci *pci,
                         struct hmreg_pci_place *out);

/* ---- affinity --------------------------------------------------------------------------- */

enum hmreg_place_kind {
    HMREG_PLACE_PCI = 1,       /* the device at a PCI address */
    HMREG_PLACE_DEVICE = 2,    /* a device of an iface */
    HMREG_PLACE_MEMORY = 3,    /* the memory of an address range: device memory is at its device;
                                  host memory at the NUMA node that most of its pages are on */
    HMREG_PLACE_NUMA_NODE = 4, /* a NUMA node */
};

struct hmreg_place {
    size_t size; /* sizeof(struct hmreg_place) */
    enum hmreg_place_kind kind;
    struct hmreg_pci pci;   /* for PCI; valid 0: the address is unknown, and so is the place */
    enum hmreg_iface iface; /* for DEVICE: as for hmreg_device_query() */
    int device;
    const void *addr; /* for MEMORY */
    size_t len;
    int numa_node; /* for NUMA_NODE: the system's number, from 0 */
};

/* The distance between a NIC and a place. */
struct hmreg_nic_affinity {
    size_t size;          /* the library's sizeof(struct hmreg_nic_affinity) */
    char nic[64];         /* the NIC's name, spelled as in the caller's list */
    size_t index;         /* index in the caller's list, else in the topology's */
    struct hmreg_pci pci; /* of the NIC */
    int numa_node;        /* of the NIC; -1: unknown */
    enum hmreg_distance distance;
    uint32_t numa_distance; /* between the NUMA nodes of both, as the firmware states it: 10 on one
                               node; 0: unknown */
    char reason[192]; /* a sentence: what the NIC and the place share, or why their distance is
                         unknown */
};

/*
 * Orders NICs by their distance to a place, the nearest first: by class, within a class by
 * numa_distance, and else as listed.
 *
 * nics: nic_count names, each of an RDMA device ("mlx5_0"), a network interface ("eth0"), a
 * libfabric domain on one of these ("efa_0-rdm"), or a PCI address ("0000:3b:00.0"). A name that
 * the topology does not know is not an error: its distance is UNKNOWN. nics NULL and nic_count 0:
 * all RDMA devices of the topology.
 *
 * out: *count elements; for the nearest four, 4. out[0].size must be sizeof(struct
 * hmreg_nic_affinity), and the elements are that far apart. *count: in, how many elements out has;
 * out, how many the call wrote. out may be NULL: then *count becomes the number of NICs.
 * -EINVAL: topology, place or count is NULL, nics is NULL and nic_count is not 0, a name is NULL, a
 *   size is not an accepted value, *count is 0 and out is not NULL, place->kind is unknown,
 *   place->numa_node is negative, or place needs the library and the topology was opened without.
 * -ENODEV: the topology has no such NUMA node, or the iface no such device.
 * -ENOMEM.
 *
 * For memory also: the errors of hmreg_query().
 */
int hmreg_topology_order_nics(const struct hmreg_topology *topology,
                              const struct hmreg_place *place, const char *const *nics,
                              size_t nic_count, struct hmreg_nic_affinity *out, size_t *count);

/* ---- groups that register near ---------------------------------------------------------- */

#define HMREG_NEAREST_LOCAL 0u /* all members of the nearest's class of distance */

/*
 * Has a group (<hmreg/group.h>) register each buffer on its nearest members alone, not on all.
 *
 * nearest: on how many, up to HMREG_GROUP_MAX, or HMREG_NEAREST_LOCAL. The distance counts to the
 * buffer's device, or to the NUMA node that has most of its pages (see
 * hmreg_topology_order_nics()). It is computed once for each device and node.
 *
 * If the registration fails on a member, the next nearest member replaces it. As with
 * HMREG_GROUP_PARTIAL the registration succeeds if one rail does; a shortage makes it fail.
 *
 * Memory at an unknown place is registered on all members: no page of it is present yet, or it is a
 * dmabuf of an unknown device. If attributes name rails, the region is registered on exactly these.
 *
 * hmreg_mr_explain() says in rail_why why a rail was chosen; the last error after hmreg_mr_rail()
 * says why another was not.
 *
 * Call it before the first registration: existing regions stay as they are. topology: opened with
 * the group's lib; borrowed, must outlive the group.
 * -EINVAL: an argument is NULL, group is no group, topology is of no or another lib, or nearest is
 *   too large.
 * -EBUSY: it was called for this group before.
 * -ENOMEM.
 */
int hmreg_group_nearest(struct hmreg_domain *group, const struct hmreg_topology *topology,
                        unsigned nearest);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
