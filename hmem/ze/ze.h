/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Internal header of the Level Zero vendor: the opened runtime, and the functions that its files
 * call in each other, lowest layer first; ze.c is the top layer.
 */
#ifndef HMREG_HMEM_ZE_ZE_H
#define HMREG_HMEM_ZE_ZE_H

#include "core/base/error.h"
#include "hmem/hmem.h"

#include <level_zero/ze_api.h>
#include <stdatomic.h>

/* Newer than Debian 12's header (Level Zero 1.4). */
#define ZE_ADDRESS_NOT_FOUND  0x78000021
#define ZE_TYPE_HOST_IMPORTED 4

struct ze_api {
    __typeof__(zeInit) *init;
    __typeof__(zeDriverGet) *driver_get;
    __typeof__(zeDriverGetApiVersion) *driver_version;
    __typeof__(zeDriverGetProperties) *driver_properties;
    __typeof__(zeDriverGetExtensionProperties) *driver_extensions;
    __typeof__(zeDeviceGet) *device_get;
    __typeof__(zeDeviceGetProperties) *device_properties;
    __typeof__(zeDeviceGetMemoryProperties) *device_memory;
    __typeof__(zeDeviceGetExternalMemoryProperties) *device_external;
    __typeof__(zeDeviceGetCommandQueueGroupProperties) *device_queue_groups;
    __typeof__(zeDevicePciGetPropertiesExt) *device_pci;
    __typeof__(zeContextCreate) *context_create;
    __typeof__(zeContextDestroy) *context_destroy;
    __typeof__(zeMemGetAllocProperties) *properties;
    __typeof__(zeMemGetAddressRange) *address_range;
    __typeof__(zeVirtualMemGetAccessAttribute) *virtual_access;
    __typeof__(zeMemAllocDevice) *alloc_device;
    __typeof__(zeMemAllocHost) *alloc_host;
    __typeof__(zeMemAllocShared) *alloc_shared;
    __typeof__(zeMemFree) *free;
    __typeof__(zeCommandListCreateImmediate) *list_create;
    __typeof__(zeCommandListDestroy) *list_destroy;
    __typeof__(zeCommandListAppendMemoryCopy) *list_copy;
};

struct ze_driver {
    ze_driver_handle_t handle;
    ze_context_handle_t context; /* ours */
    bool counts_tiles;           /* it reports how many handles memory is spread over */
};

struct ze_device {
    ze_device_handle_t handle;
    unsigned driver;
    ze_device_uuid_t uuid; /* all zero: unknown */
    struct hmem_device info;
};

struct hmem {
    struct ze_api api;
    void *library;
    struct ze_driver *drivers;
    unsigned driver_count;
    struct ze_device *devices;
    unsigned device_count;
    struct hmem_runtime runtime;
    atomic_bool shut_down; /* the runtime has shut down and must not be called again */
};

/* A driver's description of the allocation at an address, or of adjacent mappings in one
 * reservation. */
struct ze_lookup {
    struct ze_driver *driver;
    ze_memory_type_t type;
    uint64_t id;
    uint64_t page;             /* page size, bytes */
    ze_device_handle_t device; /* NULL for host memory, possibly for shared */
    uint64_t base;
    size_t len;
    uint64_t identity;
    uint32_t segments; /* mappings of virtual memory; 1 for an allocation */
};

static inline void *ze_address(uint64_t addr)
{
    return (void *)(uintptr_t)addr;
}

/* ---- failures (ze_error.c) ----------------------------------------------------------------- */

/* Records a driver's failure result with a formatted text that names the call and its object. */
#define ze_fail(code, result, ...)                                                                 \
    hmreg_fail_vendor(code, "ze", (int64_t)(result), ze_result_name(result), __VA_ARGS__)

const char *ze_result_name(ze_result_t result); /* NULL for success and for unknown ones */

/* True if the result means that the runtime has shut down; sets `shut_down` then. */
bool ze_has_shut_down(struct hmem *self, ze_result_t result);
/* Records that the runtime has shut down and returns -ENODEV. */
int ze_fail_shut_down(void);

/* ---- drivers and devices (ze_devices.c) --------------------------------------------------- */

/* -ENODEV, -EIO, -ENOMEM. */
int ze_list_devices(struct hmem *self);
/* The index of a device of this driver, also for a handle that is not in the list; -1: unknown. */
int ze_device_index(struct hmem *self, const struct ze_driver *driver, ze_device_handle_t handle);

unsigned ze_driver_number(const struct hmem *self, const struct ze_driver *driver);

/* ---- what is at an address (ze_lookup.c) --------------------------------------------------- */

/* The allocation at addr, from any driver. -HMEM_NOT_MINE: no driver knows it. -EIO. */
int ze_lookup(struct hmem *self, uint64_t addr, struct ze_lookup *out);
/* The allocation or mappings under a range. -HMEM_NOT_MINE, -ERANGE, -EIO, as resolve. */
int ze_lookup_range(struct hmem *self, uint64_t addr, size_t len, struct ze_lookup *out);
/* Is all of [base, base+len) in one reservation of virtual memory? */
bool ze_is_reserved(struct hmem *self, const struct ze_driver *driver, uint64_t base, size_t len);

/* ---- operations of hmem.h (ze_resolve.c, ze_export.c, ze_memory.c)
 * ------------------------------------- */

int ze_resolve(struct hmem *self, uint64_t addr, size_t len, struct hmem_range *out);
int ze_identity(struct hmem *self, uint64_t addr, size_t len, uint64_t *out);

int ze_export(struct hmem *self, uint64_t addr, size_t len, const struct hmem_range *range,
              struct hmreg_dmabuf *out);

int ze_copy(struct hmem *self, uint64_t dst, uint64_t src, size_t len);
int ze_alloc(struct hmem *self, int index, enum hmreg_mem_kind kind, size_t len, void **out);
int ze_free(struct hmem *self, void *addr, enum hmreg_mem_kind kind);

#endif
