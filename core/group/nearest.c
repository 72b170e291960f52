/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See nearest.h. The distances come from libhmreg-affinity (core/contract/order.h).
 */
#include "core/group/nearest.h"

#include "core/base/error.h"
#include "core/base/validate.h"
#include "core/contract/order.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct nearest {
    const struct order_ops *ops;
    const void *self;
    unsigned wanted;                        /* 0: all of the nearest's class */
    _Atomic(struct nearest_order *) orders; /* grows at its head */
    struct nearest_order *outdated;         /* by nearest_renew() */
};

/* ---- orders ----------------------------------------------------------------------------- */

static size_t count_wanted(const struct nearest *nearest, const struct nearest_order *order)
{
    size_t count = 0, all = order->group->count;

    if (nearest->wanted)
        return nearest->wanted < all ? nearest->wanted : all;
    while (count < all && order->member[count].class == order->member[0].class)
        count++;
    return count;
}

static int make(const struct group *group, enum hmreg_iface iface, int place,
                struct nearest_order **out)
{
    const struct nearest *nearest = group->nearest;
    const char *classes[HMREG_GROUP_MAX];
    struct hmreg_domain *members[HMREG_GROUP_MAX];
    size_t rails[HMREG_GROUP_MAX];
    struct nearest_order *order = malloc(sizeof(*order) + group->count * sizeof(order->member[0]));
    int rc;

    if (!order)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for the order of %zu members",
                          group->count);
    for (size_t i = 0; i < group->count; i++)
        members[i] = group->members[i];
    rc = nearest->ops->order(nearest->self, iface, place, members, group->count, rails, classes);
    if (rc) {
        free(order);
        return rc;
    }
    *order = (struct nearest_order){.group = group, .iface = iface, .place = place};
    for (size_t i = 0; i < group->count; i++) {
        order->member[i].rail = rails[i];
        order->member[i].class = classes[i];
    }
    order->wanted = count_wanted(nearest, order);
    *out = order;
    return 0;
}

static const struct nearest_order *find(const struct nearest_order *order, enum hmreg_iface iface,
                                        int place)
{
    while (order && (order->iface != iface || order->place != place))
        order = order->next;
    return order;
}

int nearest_find(const struct group *group, const struct resolved *memory, size_t len,
                 const struct nearest_order **out)
{
    struct nearest *nearest = group->nearest;
    bool host = resolved_is_host(memory);
    enum hmreg_iface iface = host ? HMREG_IFACE_SYSTEM : memory->iface;
    struct nearest_order *made = NULL;
    int place, rc;

    *out = NULL;
    if (!nearest || (!host && iface == HMREG_IFACE_SYSTEM) || iface >= HMREG_IFACE_COUNT)
        return 0;
    if (host && group->lib->settings.plain_calls) /* no move_pages(2) */
        return 0;
    place = host ? nearest->ops->node((const void *)(uintptr_t)memory->range.host_addr, len)
                 : memory->range.device;
    if (place < 0)
        return 0;
    *out = find(atomic_load(&nearest->orders), iface, place);
    if (*out)
        return 0;
    rc = make(group, iface, place, &made);
    if (rc)
        return rc;
    /* Another thread may have added an equal order: both stay. */
    made->next = atomic_load(&nearest->orders);
    while (!atomic_compare_exchange_weak(&nearest->orders, &made->next, made)) {
    }
    *out = made;
    return 0;
}

uint64_t nearest_rails(const struct nearest_order *order)
{
    uint64_t rails = 0;

    for (size_t i = 0; i < order->wanted; i++)
        rails |= UINT64_C(1) << order->member[i].rail;
    return rails;
}

int nearest_unused(const struct nearest_order *order, uint64_t rails)
{
    for (size_t i = 0; i < order->group->count; i++)
        if (!(rails & UINT64_C(1) << order->member[i].rail))
            return (int)order->member[i].rail;
    return -1;
}

void nearest_explain(const struct nearest_order *order, size_t rail, bool taken, char *text,
                     size_t size)
{
    size_t at = 0;

    while (order->member[at].rail != rail)
        at++;
    snprintf(text, size, "rail %zu (%.64s) is number %zu of %zu by its distance to %s %d (%s): %s",
             rail, order->group->members[rail]->caps.fabric, at + 1, order->group->count,
             order->iface == HMREG_IFACE_SYSTEM ? "NUMA node" : hmreg_iface_name(order->iface),
             order->place, order->member[at].class,
             !taken               ? "left out"
             : at < order->wanted ? "among the nearest"
                                  : "replaces a nearer rail, which failed");
}

/* ---- setting ---------------------------------------------------------------------------- */

int hmreg_group_order(struct hmreg_domain *domain, const struct order_ops *ops, const void *self,
                      const struct hmreg *lib, unsigned wanted)
{
    struct nearest *nearest;
    int rc = domain_check(domain);

    if (!rc && !domain->group)
        rc = hmreg_fail(-EINVAL, "group is no group");
    if (!rc && domain->lib != lib)
        rc = hmreg_fail(-EINVAL, "topology was opened without the group's lib");
    if (!rc && wanted > HMREG_GROUP_MAX)
        rc = hmreg_fail(-EINVAL, "nearest is %u; accepted are 0 to %d", wanted, HMREG_GROUP_MAX);
    if (rc)
        return rc;
    nearest = calloc(1, sizeof(*nearest));
    if (!nearest)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for the nearest members");
    *nearest = (struct nearest){.ops = ops, .self = self, .wanted = wanted};
    if (atomic_compare_exchange_strong(&domain->group->nearest, &(struct nearest *){NULL}, nearest))
        return 0;
    free(nearest);
    return hmreg_fail(-EBUSY, "hmreg_group_nearest() was called for this group before");
}

void nearest_renew(struct nearest *nearest)
{
    struct nearest_order *order = nearest ? atomic_exchange(&nearest->orders, NULL) : NULL, *next;

    for (; order; order = next) {
        next = order->next;
        order->next = nearest->outdated;
        nearest->outdated = order;
    }
}

static void free_orders(struct nearest_order *order)
{
    while (order) {
        struct nearest_order *gone = order;

        order = order->next;
        free(gone);
    }
}

void nearest_free(struct nearest *nearest)
{
    if (!nearest)
        return;
    free_orders(atomic_load(&nearest->orders));
    free_orders(nearest->outdated);
    free(nearest);
}
