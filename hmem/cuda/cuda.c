/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The CUDA vendor: loads libcuda.so.1, the driver's library, never the runtime API above it (which
 * creates contexts on its own). It queries devices once, at open, and pointer attributes on every
 * call. cuda.h lists what the other files do.
 */
#include "hmem/cuda/cuda.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static int init_errno(unsigned result)
{
    switch (result) {
    case CUDA_NOT_INITIALIZED:
    case CUDA_STUB_LIBRARY:
    case CUDA_DEVICE_UNAVAILABLE:
    case CUDA_NO_DEVICE:
    case CUDA_INVALID_DEVICE:
    case CUDA_NOT_PERMITTED:
    case CUDA_NOT_SUPPORTED:
    case CUDA_SYSTEM_NOT_READY:
    case CUDA_SYSTEM_DRIVER_MISMATCH:
    case CUDA_COMPAT_NOT_SUPPORTED:
        return -ENODEV;
    default:
        return -EIO;
    }
}

static int attribute(struct hmem *self, unsigned which, int handle)
{
    int value = 0;

    /* A driver older than the attribute refuses it, and so lacks the feature. */
    return self->api.device_attribute(&value, which, handle) ? 0 : value;
}

static void read_pci(struct hmem *self, int handle, struct hmreg_pci *out)
{
    int bus = -1, device = -1, domain = -1;

    if (self->api.device_attribute(&bus, CUDA_DEV_PCI_BUS, handle) ||
        self->api.device_attribute(&device, CUDA_DEV_PCI_DEVICE, handle) ||
        self->api.device_attribute(&domain, CUDA_DEV_PCI_DOMAIN, handle))
        return;
    *out = (struct hmreg_pci){
        .domain = (uint32_t)domain, .bus = (uint8_t)bus, .device = (uint8_t)device, .valid = 1};
}

static int read_device(struct hmem *self, int ordinal, struct cuda_device *out)
{
    struct hmem_device *info = &out->info;
    size_t memory = 0;
    unsigned result = self->api.device_get(&out->handle, ordinal);

    if (result)
        return cuda_fail(self, -EIO, result, "CUDA device %d cannot be had", ordinal);
    if (self->api.device_name(info->name, sizeof(info->name), out->handle))
        info->name[0] = '\0';
    if (!self->api.device_memory(&memory, out->handle))
        info->memory = memory;
    read_pci(self, out->handle, &info->pci);
    info->simulated = strstr(info->name, "simulated") != NULL;
    info->dmabuf = attribute(self, CUDA_DEV_DMABUF, out->handle);
    out->integrated = attribute(self, CUDA_DEV_INTEGRATED, out->handle);
    return 0;
}

static int list_devices(struct hmem *self)
{
    unsigned result = self->api.device_count(&self->count);
    int rc = 0;

    if (result)
        return cuda_fail(self, init_errno(result), result, "CUDA cannot count its devices");
    if (self->count < 1)
        return hmreg_fail(-ENODEV, "the CUDA driver runs, but has no device");
    self->devices = calloc((size_t)self->count, sizeof(*self->devices));
    if (!self->devices)
        return hmreg_fail(-EIO, "no memory for %d CUDA devices", self->count);
    for (int i = 0; i < self->count && !rc; i++)
        rc = read_device(self, i, &self->devices[i]);
    return rc;
}

static int start(struct hmem *self)
{
    unsigned result = self->api.init(0);

    if (result)
        return cuda_fail(self, init_errno(result), result, "cuInit of %s failed, %s", self->path,
                         remedy(result));
    if (self->api.driver_version(&self->version))
        self->version = 0;
    return list_devices(self);
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
