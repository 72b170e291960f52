/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The Level Zero vendor: Intel's GPUs, through libze_loader.so.1 and the drivers that it finds.
 * ze.h lists what the other files do.
 */
#include "hmem/ze/ze.h"

#include "hmem/loader.h"

#include <errno.h>
#include <stdlib.h>

static const struct loader_symbol symbols[] = {
    LOADER_NEED(struct ze_api, init, "zeInit"),
    LOADER_NEED(struct ze_api, driver_get, "zeDriverGet"),
    LOADER_NEED(struct ze_api, driver_version, "zeDriverGetApiVersion"),
    LOADER_NEED(struct ze_api, driver_properties, "zeDriverGetProperties"),
    LOADER_NEED(struct ze_api, driver_extensions, "zeDriverGetExtensionProperties"),
    LOADER_NEED(struct ze_api, device_get, "zeDeviceGet"),
    LOADER_NEED(struct ze_api, device_properties, "zeDeviceGetProperties"),
    LOADER_NEED(struct ze_api, device_memory, "zeDeviceGetMemoryProperties"),
    LOADER_NEED(struct ze_api, device_external, "zeDeviceGetExternalMemoryProperties"),
    LOADER_NEED(struct ze_api, device_queue_groups, "zeDeviceGetCommandQueueGroupProperties"),
    LOADER_WANT(struct ze_api, device_pci, "zeDevicePciGetPropertiesExt"), /* loader 1.4 */
    LOADER_NEED(struct ze_api, context_create, "zeContextCreate"),
    LOADER_NEED(struct ze_api, context_destroy, "zeContextDestroy"),
    LOADER_NEED(struct ze_api, properties, "zeMemGetAllocProperties"),
    LOADER_NEED(struct ze_api, address_range, "zeMemGetAddressRange"),
    LOADER_WANT(struct ze_api, virtual_access, "zeVirtualMemGetAccessAttribute"),
    LOADER_NEED(struct ze_api, alloc_device, "zeMemAllocDevice"),
    LOADER_NEED(struct ze_api, alloc_host, "zeMemAllocHost"),
    LOADER_NEED(struct ze_api, alloc_shared, "zeMemAllocShared"),
    LOADER_NEED(struct ze_api, free, "zeMemFree"),
    LOADER_NEED(struct ze_api, list_create, "zeCommandListCreateImmediate"),
    LOADER_NEED(struct ze_api, list_destroy, "zeCommandListDestroy"),
    LOADER_NEED(struct ze_api, list_copy, "zeCommandListAppendMemoryCopy"),
};

/* We call zeInit, never zeInitDrivers, although the specification prefers the latter since 1.10.
 * Every loader runs zeInit once per process and repeats its result: it may be called again, from
 * several threads, before or after an application's zeInitDrivers. Loaders before 1.28.3
 * dereference a null pointer in a second zeInitDrivers if the first, possibly the application's,
 * found no driver; and in zeDriverGet, which we therefore call only after a successful zeInit. */
static int init(struct hmem *self)
{
    ze_result_t result = self->api.init(ZE_INIT_FLAG_GPU_ONLY);

    if (result == ZE_RESULT_SUCCESS)
        return 0;
    if (result == ZE_RESULT_ERROR_UNINITIALIZED || result == ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE)
        return ze_fail(-ENODEV, result,
                       "%s finds no driver with a GPU (zeInit: %#x); Intel's is "
                       "libze_intel_gpu.so.1",
                       self->runtime.library, result);
    return ze_fail(-EIO, result, "zeInit failed");
}

static int start(struct hmem *self)
{
    int rc = init(self);

    return rc ? rc : ze_list_devices(self);
}

static void ze_close(struct hmem *self)
{
    for (unsigned i = 0; i < self->driver_count; i++)
        if (self->drivers[i].context && !atomic_load(&self->shut_down))
            self->api.context_destroy(self->drivers[i].context);
    free(self->drivers);
    free(self->devices);
    loader_close(self->library);
    free(self);
}

static int ze_open(struct hmem **out)
{
    struct hmem *self = calloc(1, sizeof(*self));
    int rc;

    if (!self)
        return hmreg_fail(-ENOMEM, "no memory to open Level Zero");
    rc = loader_open("ze", "libze_loader.so.1", symbols, sizeof(symbols) / sizeof(symbols[0]),
                     &self->api, &self->library, self->runtime.library,
                     sizeof(self->runtime.library));
    if (rc) {
        free(self);
        return rc;
    }
    rc = start(self);
    if (rc) {
        ze_close(self);
        return rc;
    }
    *out = self;
    return 0;
}

static void runtime(struct hmem *self, struct hmem_runtime *out)
{
    *out = self->runtime;
}

static int device_count(struct hmem *self)
{
    return (int)self->device_count;
}

static void device(struct hmem *self, int index, struct hmem_device *out)
{
    *out = self->devices[index].info;
}

const struct hmem_ops hmem_ze_ops = {
    .iface = HMREG_IFACE_ZE,
    .name = "ze",
    .open = ze_open,
    .close = ze_close,
    .runtime = runtime,
    .device_count = device_count,
    .device = device,
    .resolve = ze_resolve,
    .identity = ze_identity,
    .export_dmabuf = ze_export,
    .copy = ze_copy,
    .alloc = ze_alloc,
    .free = ze_free,
};
