/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The RDMA devices libibverbs lists here.
 */
#include "tools/fabrics.h"

#include <errno.h>
#include <hmreg/verbs.h>
#include <string.h>

static int open_domain(const struct fabric *self, struct hmreg *lib,
                       const struct hmreg_domain_config *config, struct hmreg_domain **out)
{
    return hmreg_domain_open_verbs(lib, self->native, config, out);
}

static void add_device(struct fabric_list *list, struct ibv_device *device)
{
    const char *name = ibv_get_device_name(device);
    struct fabric fabric = {.provider = "verbs", .name = name, .domain = "", .open = open_domain};
    struct ibv_context *context = ibv_open_device(device);
    struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
    int errnum = errno;

    if (pd) {
        fabric.native = pd;
        fabric_add(list, &fabric);
        ibv_dealloc_pd(pd);
    } else {
        fabric_add_failed(list, &fabric, -errnum, strerror(errnum));
    }
    if (context)
        ibv_close_device(context);
}

const char *verbs_list(struct fabric_list *list)
{
    int count = 0;
    struct ibv_device **devices = ibv_get_device_list(&count);

    if (!devices)
        return "the kernel has no RDMA subsystem loaded (ib_uverbs), or this process may not see "
               "it";
    for (int i = 0; i < count; i++)
        add_device(list, devices[i]);
    ibv_free_device_list(devices);
    return count ? NULL : "the kernel lists no RDMA device";
}
