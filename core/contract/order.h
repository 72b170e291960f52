/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * How near a group's members are to memory. libhmreg-affinity implements this, since it links
 * hwloc, and the core does not. Both operations may be called by any thread, with no lock held.
 */
#ifndef HMREG_CORE_CONTRACT_ORDER_H
#define HMREG_CORE_CONTRACT_ORDER_H

#include <hmreg/hmreg.h>

struct order_ops {
    /* The NUMA node of host memory; -1: unknown. */
    int (*node)(const void *addr, size_t len);
    /* Orders domains by their distance to a device, or (HMREG_IFACE_SYSTEM) to a NUMA node, the
     * nearest first. order: count indices of domains; classes: the name of each one's distance, in
     * that order; one string for each class, valid as long as the process. -ENOMEM and other
     * errors.
     */
    int (*order)(const void *self, enum hmreg_iface iface, int place,
                 struct hmreg_domain *const *domains, size_t count, size_t *order,
                 const char **classes);
};

#pragma GCC visibility push(default)

/* Errors of hmreg_group_nearest(). lib: self's library. */
int hmreg_group_order(struct hmreg_domain *group, const struct order_ops *ops, const void *self,
                      const struct hmreg *lib, unsigned nearest);

#pragma GCC visibility pop

#endif
