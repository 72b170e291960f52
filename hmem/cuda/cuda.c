/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The CUDA vendor: loads libcuda.so.1, the driver's library, never the runtime API above it (which
 * creates contexts on its own). cuda.h lists what the other files do.
 */
#include "hmem/cuda/cuda.h"

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

static void describe(struct cuda_hmem *self)
{
    const struct cuda_api *api = &self->api;
    struct hmem_runtime *out = &self->base.runtime;
    bool virtual_memory = api->handle_retain && api->handle_prop && api->handle_release;

    if (!api->driver_version(&self->version))
        snprintf(out->version, sizeof(out->version), "%d.%d", self->version / 1000,
                 self->version % 1000 / 10);
    snprintf(out->lacks, sizeof(out->lacks), "%s%s%s",
             api->range_handle ? ""
                               : "no cuMemGetHandleForAddressRange (CUDA 11.7): device memory "
                                 "cannot be exported as a dmabuf",
             api->range_handle || virtual_memory ? "" : "; ",
             virtual_memory ? ""
                            : "no cuMemRetainAllocationHandle and its kin (CUDA 11.0): the "
                              "properties of virtual memory cannot be read");
}

static int start(struct hmem *hmem)
{
    struct cuda_hmem *self = (struct cuda_hmem *)hmem;
    unsigned result = self->api.init(0);

    if (result)
        return cuda_fail(self, cuda_init_errno(result), result, "cuInit of %s failed, %s",
                         hmem->runtime.library, remedy(result));
    self->page = (size_t)sysconf(_SC_PAGESIZE);
    describe(self);
    return cuda_list_devices(self);
}

static void stop(struct hmem *self)
{
    free(((struct cuda_hmem *)self)->devices);
}

static int cuda_open(struct hmem **out)
{
    static const struct loader_symbol symbols[] = {CUDA_ENTRIES(LOADER_NEED, LOADER_WANT)};
    static const struct vendor vendor = {
        .source = "cuda",
        .name = "CUDA",
        .soname = "libcuda.so.1",
        .shut_down = CUDA_DEINITIALIZED,
        .size = sizeof(struct cuda_hmem),
        .api = offsetof(struct cuda_hmem, api),
        .symbols = symbols,
        .symbol_count = sizeof(symbols) / sizeof(symbols[0]),
        .start = start,
        .stop = stop,
        .result_name = cuda_result_name,
    };

    return vendor_load(&vendor, out);
}

static void cuda_device(struct hmem *self, int index, struct hmem_device *out)
{
    *out = ((struct cuda_hmem *)self)->devices[index].info;
}

VENDOR_OPS(CUDA, cuda);
