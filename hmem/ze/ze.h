/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the files of the Level Zero vendor share: the opened runtime, and of each file what the
 * others call. They stand here from the ground up; ze.c is above them all.
 */
#ifndef HMREG_HMEM_ZE_ZE_H
#define HMREG_HMEM_ZE_ZE_H

#include "core/base/error.h"
#include "hmem/hmem.h"

#include <level_zero/ze_api.h>
#include <stdatomic.h>

/* Younger than Debian 12's header (Level Zero 1.4). */
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
    bool counts_tiles;           /* it tells on how many handles memory lies */
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
    atomic_bool down; /* the runtime has shut down: it is not called any more */
};

/* What a driver says about the allocation at an address, or about mappings that follow each
 * other in one reservation. */
struct ze_found {
    struct ze_driver *driver;
    ze_memory_type_t type;
    uint64_t id;
    uint64_t page;             /* the pages it is made of, bytes */
    ze_device_handle_t device; /* NULL for host memory, possibly for shared */
    uint64_t base;
    size_t len;
    uint64_t identity;
    uint32_t pieces; /* allocations: 1, but for mappings of virtual memory */
};

static inline void *ze_address(uint64_t addr)
{
    return (void *)(uintptr_t)addr;
}

/* ---- the runtime, its drivers and devices (ze_runtime.c) ---------------------------------- */

/* Records what a driver answered; the sentence says to which call and what of. */
#define ze_fail(code, result, ...)                                                                 \
    hmreg_fail_vendor(code, "ze", (int64_t)(result), ze_result_name(result), __VA_ARGS__)

const char *ze_result_name(ze_result_t result); /* NULL for success and for unknown ones */

/* True if the answer means that the runtime has shut down, which is then remembered. */
bool ze_went_down(struct hmem *self, ze_result_t result);
/* -ENODEV, with the sentence for that. */
int ze_fail_down(void);

/* -ENODEV, -EIO, -ENOMEM. */
int ze_open(struct hmem **out);
void ze_close(struct hmem *self);
/* The index of a device of this driver, listed or not; -1: none of ours. */
int ze_device_index(struct hmem *self, const struct ze_driver *driver, ze_device_handle_t handle);

unsigned ze_driver_number(const struct hmem *self, const struct ze_driver *driver);

/* ---- what is at an address (ze_lookup.c) --------------------------------------------------- */

/* The allocation at addr, of whichever driver. -HMEM_NOT_MINE: of none. -EIO. */
int ze_lookup(struct hmem *self, uint64_t addr, struct ze_found *out);
/* The allocation or mappings under a range. -HMEM_NOT_MINE, -ERANGE, -EIO, as resolve. */
int ze_find_range(struct hmem *self, uint64_t addr, size_t len, struct ze_found *out);
/* Is all of [base, base+len) in one reservation of virtual memory? */
bool ze_is_reserved(struct hmem *self, const struct ze_driver *driver, uint64_t base, size_t len);

/* ---- operations of hmem.h (ze_export.c, ze_memory.c) ------------------------------------- */

int ze_export_dmabuf(struct hmem *self, uint64_t addr, size_t len, const struct hmem_range *range,
                     struct hmreg_dmabuf *out);

int ze_copy(struct hmem *self, uint64_t dst, uint64_t src, size_t len);
int ze_alloc(struct hmem *self, int index, enum hmreg_mem_kind kind, size_t len, void **out);
int ze_free(struct hmem *self, void *addr, enum hmreg_mem_kind kind);

#endif
