/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Orders a group's members by distance, for groups that register on their nearest members.
 */
#include "affinity/memory_node.h"
#include "affinity/topology.h"

#include "core/base/error.h"
#include "core/contract/order.h"

#include <errno.h>
#include <hmreg/affinity.h>
#include <hmreg/group.h>

static int node(const void *addr, size_t len)
{
    char words[192];

    return memory_node(addr, len, words, sizeof(words));
}

static int order(const void *self, enum hmreg_iface iface, int place,
                 struct hmreg_domain *const *domains, size_t count, size_t *out,
                 const char **classes)
{
    const struct hmreg_place at = {
        .size = sizeof(at),
        .kind = iface == HMREG_IFACE_SYSTEM ? HMREG_PLACE_NUMA_NODE : HMREG_PLACE_DEVICE,
        .iface = iface,
        .device = place,
        .numa_node = place,
    };
    enum hmreg_distance distances[HMREG_GROUP_MAX];
    int rc = topology_order_domains(self, &at, domains, count, out, distances);

    for (size_t i = 0; i < count && !rc; i++)
        classes[i] = hmreg_distance_name(distances[i]);
    return rc;
}

int hmreg_group_nearest(struct hmreg_domain *group, const struct hmreg_topology *topology,
                        unsigned nearest)
{
    static const struct order_ops ops = {node, order};

    if (!topology)
        return hmreg_fail(-EINVAL, "topology is NULL");
    return hmreg_group_order(group, &ops, topology, topology->lib, nearest);
}
