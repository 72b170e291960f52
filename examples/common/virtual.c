/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See virtual.h. The driver is loaded at run time, and its structs are as cuda.h has them.
 */
#include "virtual.h"

#include <dlfcn.h>
#include <errno.h>

struct location {
    int type, id;
};
struct properties {
    int type, handles;
    struct location location;
    void *unused;
    unsigned char compression, gpudirect, more[6];
};
struct access {
    struct location location;
    int flags;
};

static void *cuda, *context;

/* Calls a function of the driver: its name, its parameters' types, its arguments. */
#define CU(name, parameters, ...)                                                                  \
    (((unsigned(*) parameters)dlsym(cuda, name))(__VA_ARGS__) ? -EIO : 0)

int virtual_reserve(size_t bytes, uint64_t *addr)
{
    int rc;

    cuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (!cuda || CU("cuInit", (unsigned), 0))
        return -ENODEV;
    rc = CU("cuDevicePrimaryCtxRetain", (void **, int), &context, 0);
    rc = rc ? rc : CU("cuCtxSetCurrent", (void *), context);
    return rc ? rc
              : CU("cuMemAddressReserve", (uint64_t *, size_t, size_t, uint64_t, uint64_t), addr,
                   bytes, 0, 0, 0);
}

int virtual_map(uint64_t addr, size_t bytes)
{
    struct properties fresh = {.type = 1, .location = {1, 0}, .gpudirect = 1};
    struct access access = {{1, 0}, 3};
    uint64_t handle;
    int rc = CU("cuMemCreate", (uint64_t *, size_t, const struct properties *, uint64_t), &handle,
                bytes, &fresh, 0);

    if (rc)
        return rc;
    rc = CU("cuMemMap", (uint64_t, size_t, size_t, uint64_t, uint64_t), addr, bytes, 0, handle, 0);
    (void)CU("cuMemRelease", (uint64_t), handle); /* the mapping keeps the memory */
    return rc ? rc
              : CU("cuMemSetAccess", (uint64_t, size_t, const struct access *, size_t), addr, bytes,
                   &access, 1);
}

int virtual_unmap(uint64_t addr, size_t bytes)
{
    return CU("cuMemUnmap", (uint64_t, size_t), addr, bytes);
}
