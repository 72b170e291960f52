/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Registers device memory, says so with a byte on stdout, and waits to be killed. */
#include <hmreg/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES 100000

static int fail(const char *what)
{
    fprintf(stderr, "holder: %s: %s\n", what, hmreg_last_error()->text);
    return 1;
}

static enum hmreg_iface vendor(void)
{
    const char *name = getenv("VENDOR");

    for (int i = HMREG_IFACE_CUDA; name && i < HMREG_IFACE_COUNT; i++)
        if (!strcmp(name, hmreg_iface_name((enum hmreg_iface)i)))
            return (enum hmreg_iface)i;
    return HMREG_IFACE_SYSTEM;
}

static struct ibv_pd *first_device(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;

    return context ? ibv_alloc_pd(context) : NULL;
}

int main(void)
{
    struct ibv_pd *pd = first_device();
    struct hmreg_domain *domain;
    struct hmreg_mr *mr;
    struct hmreg *lib;
    void *memory;

    if (!pd)
        return fail("no RDMA device");
    if (hmreg_open(NULL, &lib) || hmreg_domain_open_verbs(lib, pd, NULL, &domain) ||
        hmreg_mem_alloc(lib, vendor(), 0, HMREG_MEM_DEVICE, BYTES, &memory) ||
        hmreg_mr_reg(domain, memory, BYTES, HMREG_REMOTE_WRITE, 0, 0, 0, &mr, NULL))
        return fail("registering");
    if (write(STDOUT_FILENO, "", 1) == 1)
        pause();
    return 1;
}
