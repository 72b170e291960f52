/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * How near a group's members are to memory: what the core asks of libhmreg-affinity, which links
 * hwloc and the core does not. Both operations may be called by any thread, with no lock held.
 */
#ifndef HMREG_CORE_CONTRACT_ORDER_H
#define HMREG_CORE_CONTRACT_ORDER_H

#include <hmreg/hmreg.h>

struct order_ops {
    /* The NUMA node of host memory; -1: unknown. */
    int (*node)(const void *addr, size_t len);
    /* Orders domains by their distance to a device, or (HMREG_IFACE_SYSTEM) to a NUMA node, the
     * nearest first. order: count indices of domains; classes: the name of the distance of each, in
     * that order, one string for each class and as long as the process. -ENOMEM and other errors.
     */
    int (*order)(const void *self, enum hmreg_iface iface, int place,
                 struct hmreg_domain *const *domains, size_t count, size_t *order,
                 const char **classes);
};

#pragma GCC visibility push(default)

/* See hmreg_group_nearest(), whose errors these are. lib: the one that self belongs to. */
int hmreg_group_order(struct hmreg_domain *group, const struct order_ops *ops, const void *self,
                      const struct hmreg *lib, unsigned nearest);

#pragma GCC visibility pop

#endif
