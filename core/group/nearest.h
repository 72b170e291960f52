/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The nearest members of a group to each device and NUMA node, found once for each. An order stays
 * as long as its group.
 */
#ifndef HMREG_CORE_GROUP_NEAREST_H
#define HMREG_CORE_GROUP_NEAREST_H

#include "core/context/resolve.h"
#include "core/group/group.h"

struct nearest_order {
    struct nearest_order *next;
    const struct group *group;
    enum hmreg_iface iface; /* SYSTEM: place is a NUMA node, else a device */
    int place;
    size_t wanted; /* members that a region is registered on */
    struct {
        size_t rail;
        const char *class; /* name of the distance */
    } member[];            /* all members of the group, the nearest first */
};

/* The order for memory of so many bytes. *out NULL: the group has no orders, or the memory's place
 * is unknown. Errors of order_ops. */
int nearest_find(const struct group *group, const struct resolved *memory, size_t len,
                 const struct nearest_order **out);

/* The nearest members to register on, bit i: member i. */
uint64_t nearest_rails(const struct nearest_order *order);
/* The nearest member whose bit is not set in `rails`; -1: none. */
int nearest_unused(const struct nearest_order *order, uint64_t rails);

/* Writes why a region is, or is not, registered on this rail. */
void nearest_explain(const struct nearest_order *order, size_t rail, bool taken, char *text,
                     size_t size);

/* The members' NICs have changed: finds orders anew. Regions may keep the old ones until
 * nearest_free(). */
void nearest_renew(struct nearest *nearest);
void nearest_free(struct nearest *nearest);

#endif
