/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The places of devices and NICs in the PCI tree and their distances, from libhmreg-affinity, as
 * facts; also of a simulated tree (root.h).
 */
#ifndef HMREG_TOOLS_TOPOLOGY_H
#define HMREG_TOOLS_TOPOLOGY_H

#include <jansson.h>

/* Smaller is nearer. distance: one of hmreg_distance_name(). */
int topology_rank(const char *distance);

/* Members (the runtimes' devices and RDMA devices), the bridges above them, all distances, and the
 * NICs nearest to each device and NUMA node. */
json_t *topology_facts(const json_t *devices, const json_t *nics);

#endif
