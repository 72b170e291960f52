/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The Level Zero drivers and their devices.
 *
 * The devices of all drivers form one list, in the loader's order. That order and the handles
 * depend on ZE_FLAT_DEVICE_HIERARCHY, so we match a handle that is not in the list (a tile's) by
 * its UUID or PCI address.
 *
 * We create one context per driver at open. A context is a name space without state on a device,
 * so this costs the devices nothing.
 */
#include "hmem/ze/ze.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Newer than Debian 12's header (Level Zero 1.4). */
#define SUB_ALLOCATIONS_NAME "ZE_experimental_sub_allocations"

unsigned ze_driver_number(const struct ze_hmem *self, const struct ze_driver *driver)
{
    return (unsigned)(driver - self->drivers);
}

static int list_errno(ze_result_t result)
{
    return result == ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY ? -ENOMEM : -EIO;
}

static int find_drivers(struct ze_hmem *self)
{
    ze_driver_handle_t *handles = NULL;
    uint32_t count = 0;
    ze_result_t result = self->api.driver_get(&count, NULL);

    if (!result && count == 0)
        return ze_fail(self, -ENODEV, result, "%s lists no driver", self->base.runtime.library);
    if (!result) {
        handles = calloc(count, sizeof(*handles));
        self->drivers = calloc(count, sizeof(*self->drivers));
        result = handles && self->drivers ? self->api.driver_get(&count, handles)
                                          : ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    for (uint32_t i = 0; !result && i < count; i++)
        self->drivers[self->driver_count++].handle = handles[i];
    free(handles);
    if (result)
        return ze_fail(self, list_errno(result), result, "the list of drivers could not be read");
    return 0;
}

/* Reads the device's properties; those that it does not report stay zero. */
static void read_device(struct ze_hmem *self, struct ze_device *device)
{
    struct hmem_device *info = &device->info;
    ze_device_properties_t properties = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES};
    ze_device_external_memory_properties_t external = {
        .stype = ZE_STRUCTURE_TYPE_DEVICE_EXTERNAL_MEMORY_PROPERTIES};
    ze_device_memory_properties_t memory[8] = {{0}};
    uint32_t count = 8;

    for (uint32_t i = 0; i < count; i++)
        memory[i].stype = ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES;
    if (!self->api.device_properties(device->handle, &properties)) {
        snprintf(info->name, sizeof(info->name), "%.*s", (int)sizeof(info->name) - 1,
                 properties.name);
        info->simulated = strstr(properties.name, "simulated");
        device->uuid = properties.uuid;
    }
    if (!self->api.device_external(device->handle, &external))
        info->dmabuf = external.memoryAllocationExportTypes & ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF;
    if (!self->api.device_memory(device->handle, &count, memory))
        for (uint32_t i = 0; i < count && i < 8; i++)
            info->memory += memory[i].totalSize;
}

static void read_pci(struct ze_hmem *self, ze_device_handle_t device, struct hmreg_pci *out)
{
    ze_pci_ext_properties_t pci = {.stype = ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES};

    if (!self->api.device_pci || self->api.device_pci(device, &pci))
        return;
    out->domain = pci.address.domain;
    out->bus = (uint8_t)pci.address.bus;
    out->device = (uint8_t)pci.address.device;
    out->function = (uint8_t)pci.address.function;
    out->valid = 1;
}

/* Never -ESHUTDOWN: drivers of other devices than GPUs return the result of a runtime that has shut
 * down. */
static int fail_driver(struct ze_hmem *self, ze_result_t result, const char *call, unsigned driver)
{
    return hmreg_fail_vendor(list_errno(result), "ze", result, ze_result_name(&self->base, result),
                             "%s of driver %u failed", call, driver);
}

/* Appends a driver's devices to the list. */
static int find_devices(struct ze_hmem *self, unsigned driver)
{
    ze_device_handle_t *handles = NULL;
    struct ze_device *more;
    unsigned first = (unsigned)self->base.device_count;
    uint32_t count = 0;
    ze_result_t result = self->api.device_get(self->drivers[driver].handle, &count, NULL);

    if (!result && count > 0) {
        handles = calloc(count, sizeof(*handles));
        more = realloc(self->devices, ((size_t)self->base.device_count + count) * sizeof(*more));
        self->devices = more ? more : self->devices;
        result = handles && more
                     ? self->api.device_get(self->drivers[driver].handle, &count, handles)
                     : ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    for (uint32_t i = 0; !result && i < count; i++) {
        struct ze_device *device = &self->devices[self->base.device_count++];

        *device = (struct ze_device){.handle = handles[i],
                                     .driver = driver,
                                     .info = {.driver = driver, .driver_first = first}};
        read_device(self, device);
        read_pci(self, device->handle, &device->info.pci);
    }
    free(handles);
    if (result)
        return fail_driver(self, result, "zeDeviceGet", driver);
    return 0;
}

static bool same_pci(const struct hmreg_pci *a, const struct hmreg_pci *b)
{
    return a->valid && b->valid && a->domain == b->domain && a->bus == b->bus &&
           a->device == b->device && a->function == b->function;
}

/* Matches a handle that zeDeviceGet did not list: a tile has the card's PCI address but a separate
 * UUID, and is listed under another device hierarchy. */
static int index_by_name(struct ze_hmem *self, unsigned driver, ze_device_handle_t handle)
{
    static const ze_device_uuid_t unknown;
    struct ze_device asked = {.handle = handle};

    read_device(self, &asked);
    read_pci(self, handle, &asked.info.pci);
    for (int i = 0; i < self->base.device_count; i++)
        if (self->devices[i].driver == driver &&
            memcmp(&asked.uuid, &unknown, sizeof(unknown)) != 0 &&
            !memcmp(&asked.uuid, &self->devices[i].uuid, sizeof(unknown)))
            return i;
    for (int i = 0; i < self->base.device_count; i++)
        if (self->devices[i].driver == driver &&
            same_pci(&asked.info.pci, &self->devices[i].info.pci))
            return i;
    return -1;
}

int ze_device_index(struct ze_hmem *self, const struct ze_driver *driver, ze_device_handle_t handle)
{
    for (int i = 0; i < self->base.device_count; i++)
        if (self->devices[i].handle == handle)
            return i;
    return index_by_name(self, ze_driver_number(self, driver), handle);
}

static bool has_extension(struct ze_hmem *self, ze_driver_handle_t driver, const char *name)
{
    ze_driver_extension_properties_t *list = NULL;
    uint32_t count = 0;
    bool has = false;

    if (self->api.driver_extensions(driver, &count, NULL) || count == 0)
        return false;
    list = calloc(count, sizeof(*list));
    if (list && !self->api.driver_extensions(driver, &count, list))
        for (uint32_t i = 0; i < count && !has; i++)
            has = !strcmp(list[i].name, name);
    free(list);
    return has;
}

static ze_result_t create_context(struct ze_hmem *self, const struct ze_driver *driver,
                                  ze_context_handle_t *out)
{
    ze_context_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};

    return self->api.context_create(driver->handle, &desc, out);
}

static int open_driver(struct ze_hmem *self, unsigned number)
{
    struct ze_driver *driver = &self->drivers[number];
    ze_result_t result = create_context(self, driver, &driver->context);

    if (result) {
        driver->context = NULL;
        return fail_driver(self, result, "zeContextCreate", number);
    }
    driver->counts_tiles = has_extension(self, driver->handle, SUB_ALLOCATIONS_NAME);
    return find_devices(self, number);
}

static void describe(struct ze_hmem *self)
{
    ze_driver_properties_t properties = {.stype = ZE_STRUCTURE_TYPE_DRIVER_PROPERTIES};
    ze_api_version_t version = 0;
    ze_driver_handle_t first = self->drivers[self->devices[0].driver].handle;
    unsigned without_pci = 0, without_export = 0;

    if (!self->api.driver_version(first, &version) &&
        !self->api.driver_properties(first, &properties))
        snprintf(self->base.runtime.version, sizeof(self->base.runtime.version), "%d.%d, driver %u",
                 ZE_MAJOR_VERSION(version), ZE_MINOR_VERSION(version), properties.driverVersion);
    for (int i = 0; i < self->base.device_count; i++) {
        without_pci += !self->devices[i].info.pci.valid;
        without_export += !self->devices[i].info.dmabuf;
    }
    if (without_pci)
        vendor_lacks(&self->base,
                     "%u of %u devices report no PCI address (zeDevicePciGetPropertiesExt)",
                     without_pci, self->base.device_count);
    if (without_export)
        vendor_lacks(&self->base, "%u of %u devices export no dmabuf", without_export,
                     self->base.device_count);
}

/* Leaves the driver out; other drivers' devices are used. The error stays recorded. */
static void leave_out(struct ze_hmem *self, unsigned number)
{
    struct ze_driver *driver = &self->drivers[number];

    vendor_lacks(&self->base, "driver %u is left out: %s", number, hmreg_last_error()->text);
    if (driver->context)
        ze_destroy_context(self, driver->context);
    driver->context = NULL;
}

/* Returns how many drivers were left out, or an error. */
static int open_drivers(struct ze_hmem *self)
{
    int out = 0;

    for (unsigned i = 0; i < self->driver_count; i++) {
        int rc = open_driver(self, i);

        if (rc && rc != -EIO)
            return rc;
        if (rc)
            leave_out(self, i);
        out += rc != 0;
    }
    return out;
}

int ze_list_devices(struct ze_hmem *self)
{
    struct hmreg_error before;
    int rc = find_drivers(self);

    hmreg_error_save(&before);
    rc = rc ? rc : open_drivers(self);
    if (rc < 0)
        return rc;
    if (self->base.device_count == 0)
        return rc ? -EIO
                  : ze_fail(self, -ENODEV, ZE_RESULT_SUCCESS, "no Level Zero driver has a device");
    hmreg_error_restore(&before);
    describe(self);
    return 0;
}

/* ---- what takes memory to know ------------------------------------------------------------ */

/* Does our context know memory of another context? The test allocates host memory, for which a
 * driver may start a pool, so it runs only when the description is requested. */
static bool sees_other_contexts(struct ze_hmem *self, const struct ze_driver *driver)
{
    ze_host_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    ze_memory_allocation_properties_t properties = {
        .stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES};
    ze_context_handle_t other = NULL;
    void *probe = NULL;
    bool sees = true;

    if (create_context(self, driver, &other))
        return true; /* the test could not run */
    if (!self->api.alloc_host(other, &desc, 64, 0, &probe)) {
        if (!self->api.properties(driver->context, probe, &properties, NULL))
            sees = properties.type != ZE_MEMORY_TYPE_UNKNOWN;
        self->api.free(other, probe);
    }
    ze_destroy_context(self, other);
    return sees;
}

/* Runs once, on the first thread that asks; others that ask meanwhile may miss the result. */
void ze_complete(struct hmem *hmem)
{
    struct ze_hmem *self = (struct ze_hmem *)hmem;

    if (atomic_load(&hmem->shut_down) || atomic_exchange(&self->contexts_asked, true))
        return;
    for (unsigned i = 0; i < self->driver_count; i++)
        if (self->drivers[i].context && !sees_other_contexts(self, &self->drivers[i]))
            vendor_lacks(hmem,
                         "driver %u answers only for memory of the context that the query names, "
                         "so hmreg does not recognise memory of the application's own contexts",
                         i);
}
