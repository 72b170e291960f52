/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The RDMA devices that libibverbs lists on this machine.
 */
#include "tools/fabric.h"
#include "tools/loop.h"
#include "tools/signals.h"

#include <dlfcn.h>
#include <errno.h>
#include <hmreg/verbs.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* rdma-core has no call that returns its version, so we parse the file's name:
 * libibverbs.so.1.14.44.0 belongs to rdma-core 44.0. "" if the name has another form. */
void verbs_version(char *buf, size_t size)
{
    static const char name[] = "libibverbs.so.1.";
    char path[PATH_MAX] = "";
    const char *at;
    Dl_info info;

    if (dladdr((void *)ibv_get_device_list, &info) && !realpath(info.dli_fname, path))
        path[0] = '\0';
    at = strstr(path, name);
    at = at ? strchr(at + sizeof(name) - 1, '.') : NULL;
    snprintf(buf, size, "%s", at ? at + 1 : "");
}

void verbs_lacks(json_t *names)
{
    static const char *const calls[][2] = {
        {"ibv_reg_dmabuf_mr", "ibv_reg_dmabuf_mr() (rdma-core 34)"},
        {"ibv_reg_mr_ex", "ibv_reg_mr_ex() (rdma-core 59)"},
    };

    for (size_t i = 0; i < COUNT(calls); i++)
        if (!dlsym(RTLD_DEFAULT, calls[i][0]))
            doc_add(names, doc_text(calls[i][1]));
}

static uint64_t max_mr(struct ibv_context *context)
{
    struct ibv_device_attr limits = {.max_mr = 0};

    return ibv_query_device(context, &limits) || limits.max_mr < 0 ? 0 : (uint64_t)limits.max_mr;
}

static int open_domain(const struct fabric *self, struct hmreg *lib,
                       const struct hmreg_domain_config *config, struct hmreg_domain **out)
{
    return hmreg_domain_open_verbs(lib, self->native, config, out);
}

static void add_device(struct fabric_list *list, struct ibv_device *device)
{
    const char *name = ibv_get_device_name(device);
    struct fabric fabric = {.provider = "verbs",
                            .name = name,
                            .domain = "",
                            .nic = name,
                            .loop = &loop_verbs_ops,
                            .open = open_domain};
    const char *refusal = NULL;
    struct ibv_context *context;
    struct ibv_pd *pd;
    int errnum;

    if (!fabric_wanted(list, &fabric))
        return;
    if (list->refuses)
        refusal = list->refuses(list, &fabric);
    if (refusal) {
        fabric_add_failed(list, &fabric, -EIO, refusal);
        return;
    }
    context = ibv_open_device(device);
    pd = context ? ibv_alloc_pd(context) : NULL;
    errnum = errno;
    signals_restore();
    if (pd) {
        fabric.native = pd;
        fabric.max_mr = max_mr(context);
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

    signals_restore();
    if (!devices)
        return "the kernel has no RDMA subsystem loaded (ib_uverbs), or this process may not see "
               "it";
    for (int i = 0; i < count; i++)
        add_device(list, devices[i]);
    ibv_free_device_list(devices);
    return count ? NULL : "the kernel lists no RDMA device";
}
