/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The places of devices and NICs in the PCI tree, and the distances between them. The source is
 * hwloc if built with it, otherwise sysfs, also below a prefix (root.h); both yield the same place.
 */
#ifndef HMREG_TOOLS_TOPOLOGY_H
#define HMREG_TOOLS_TOPOLOGY_H

#include <jansson.h>

/* A place: {"root": "pci0000:00", "bridges": ["0000:00:01.0", ...], "numa_node": 0}, the bridges
 * from the root down. NULL: not on the PCI bus. */
json_t *place_by_sysfs(const char *pci);
json_t *place_by_hwloc(const char *pci); /* NULL also if built without hwloc */

/* "X" (the same), "PIX", "PXB", "PHB", "NODE", "SYS", or "?" if a place is unknown. */
const char *topology_distance(const json_t *one, const json_t *other);

/* A distance and its explanation. */
struct distance {
    const char *name, *meaning;
};
extern const struct distance topology_distances[]; /* nearest first, ended by a NULL name */
/* Its index in that list: smaller is nearer. */
int topology_rank(const char *distance);

/* Members (the runtimes' devices and RDMA devices), the bridges above them, and all distances. */
json_t *topology_facts(const json_t *devices, const json_t *nics);

#endif
