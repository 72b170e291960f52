/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * holder PATH: registers device memory by this path ("dmabuf"), reports that with a byte on stdout,
 * and waits to be killed. */
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

static enum hmreg_path path_named(const char *name)
{
    for (int i = HMREG_PATH_NONE + 1; name && i < HMREG_PATH_COUNT; i++)
        if (!strcmp(name, hmreg_path_name((enum hmreg_path)i)))
            return (enum hmreg_path)i;
    return HMREG_PATH_NONE;
}

static struct ibv_pd *first_device(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;

    return context ? ibv_alloc_pd(context) : NULL;
}

int main(int argc, char **argv)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .order = {path_named(argv[1])}};
    struct ibv_pd *pd = first_device();
    struct hmreg_domain *domain;
    struct hmreg_mr *mr;
    struct hmreg *lib;
    void *memory;

    if (!pd)
        return fail("no RDMA device");
    if (hmreg_open(NULL, &lib) || hmreg_domain_open_verbs(lib, pd, &config, &domain) ||
        hmreg_mem_alloc(lib, vendor(), 0, HMREG_MEM_DEVICE, BYTES, &memory) ||
        hmreg_mr_reg(domain, memory, BYTES, HMREG_REMOTE_WRITE, 0, 0, 0, &mr, NULL))
        return fail("registering");
    if (write(STDOUT_FILENO, "", 1) == 1)
        pause();
    return 1;
}
