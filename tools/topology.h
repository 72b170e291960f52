/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Where devices and NICs hang in the PCI tree, and how far they are from each other. Asked of
 * hwloc where this was built with it, of sysfs otherwise and below a prefix (root.h): a place is
 * the same from both.
 */
#ifndef HMREG_TOOLS_TOPOLOGY_H
#define HMREG_TOOLS_TOPOLOGY_H

#include <jansson.h>

/* A place: {"root": "pci0000:00", "bridges": ["0000:00:01.0", ...], "numa_node": 0}, the bridges
 * from the root down. NULL: not on the PCI bus. */
json_t *place_by_sysfs(const char *pci);
json_t *place_by_hwloc(const char *pci); /* NULL as well where it was built without */

/* "X" (the same), "PIX", "PXB", "PHB", "NODE", "SYS", or "?" where a place is missing. */
const char *topology_distance(const json_t *one, const json_t *other);

/* Words for a distance. */
struct distance {
    const char *name, *meaning;
};
extern const struct distance topology_distances[]; /* nearest first; a NULL name ends it */
/* Its place in that list: smaller is nearer. */
int topology_rank(const char *distance);

/* Members (devices of runtimes, RDMA devices), the bridges above them, all distances. */
json_t *topology_facts(const json_t *devices, const json_t *nics);

#endif
