/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The CUDA vendor: loads libcuda.so.1, the driver's library, never the runtime API above it (which
 * creates contexts on its own). cuda.h lists what the other files do.
 */
#include "hmem/cuda/cuda.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- opening ---------------------------------------------------------------------------- */

/* What the user can do about a driver that does not start; the default is for results whose names
 * explain themselves. */
static const char *remedy(unsigned result)
{
    switch (result) {
    case CUDA_STUB_LIBRARY:
        return "this is the stub for linking, not the driver: take its folder out of the "
               "library path";
    case CUDA_NO_DEVICE:
        return "no device is visible: is there one, and does CUDA_VISIBLE_DEVICES show it?";
    case CUDA_NOT_INITIALIZED:
        return "CUDA cannot be used in a child of a process that used it";
    case CUDA_SYSTEM_DRIVER_MISMATCH:
        return "the kernel's driver and this library are of different versions";
    case CUDA_SYSTEM_NOT_READY:
        return "the system is not ready: is the fabric manager running?";
    default:
        return "the driver does not start";
    }
}

static int start(struct hmem *self)
{
    unsigned result = self->api.init(0);

    if (result)
        return cuda_fail(self, cuda_init_errno(result), result, "cuInit of %s failed, %s",
                         self->path, remedy(result));
    if (self->api.driver_version(&self->version))
        self->version = 0;
    return cuda_list_devices(self);
}

static void cuda_close(struct hmem *self)
{
    if (!self)
        return;
    free(self->devices);
    loader_close(self->library);
    free(self);
}

static int cuda_open(struct hmem **out)
{
    static const struct loader_symbol symbols[] = {CUDA_SYMBOLS};
    struct hmem *self = calloc(1, sizeof(*self));
    int rc;

    if (!self)
        return hmreg_fail(-EIO, "no memory to open CUDA");
    self->page = (size_t)sysconf(_SC_PAGESIZE);
    rc = loader_open("cuda", "libcuda.so.1", symbols, sizeof(symbols) / sizeof(symbols[0]),
                     &self->api, &self->library, self->path, sizeof(self->path));
    if (!rc)
        rc = start(self);
    if (rc) {
        cuda_close(self);
        return rc == -ESHUTDOWN ? hmreg_fail(-ENODEV, "CUDA has shut down") : rc;
    }
    *out = self;
    return 0;
}

/* ---- what is loaded --------------------------------------------------------------------- */

static void runtime(struct hmem *self, struct hmem_runtime *out)
{
    const struct cuda_api *api = &self->api;
    bool virtual_memory = api->handle_retain && api->handle_prop && api->handle_release;

    *out = (struct hmem_runtime){0};
    if (self->version)
        snprintf(out->version, sizeof(out->version), "%d.%d", self->version / 1000,
                 self->version % 1000 / 10);
    snprintf(out->library, sizeof(out->library), "%s", self->path);
    snprintf(out->lacks, sizeof(out->lacks), "%s%s%s",
             api->range_handle ? ""
                               : "no cuMemGetHandleForAddressRange (CUDA 11.7): device memory "
                                 "cannot be exported as a dmabuf",
             api->range_handle || virtual_memory ? "" : "; ",
             virtual_memory ? ""
                            : "no cuMemRetainAllocationHandle and its kin (CUDA 11.0): the "
                              "properties of virtual memory cannot be read");
}

static int device_count(struct hmem *self)
{
    return self->count;
}

static void device(struct hmem *self, int index, struct hmem_device *out)
{
    *out = self->devices[index].info;
}

const struct hmem_ops hmem_cuda_ops = {
    .iface = HMREG_IFACE_CUDA,
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .runtime = runtime,
    .device_count = device_count,
    .device = device,
    .resolve = cuda_resolve,
    .identity = cuda_identity,
    .export_dmabuf = cuda_export,
    .copy = cuda_copy,
    .alloc = cuda_alloc,
    .free = cuda_free,
};
