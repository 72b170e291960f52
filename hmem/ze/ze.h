/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Internal header of the Level Zero vendor: the opened runtime, and the functions that its files
 * call in each other, lowest layer first; ze.c is the top layer.
 */
#ifndef HMREG_HMEM_ZE_ZE_H
#define HMREG_HMEM_ZE_ZE_H

#include "hmem/vendor.h"

#include <level_zero/ze_api.h>

/* Newer than Debian 12's header (Level Zero 1.4). */
#define ZE_ADDRESS_NOT_FOUND  0x78000021
#define ZE_TYPE_HOST_IMPORTED 4

#define ZE_ENTRIES(NEED, WANT)                                                                     \
    NEED(init, zeInit)                                                                             \
    NEED(driver_get, zeDriverGet)                                                                  \
    NEED(driver_version, zeDriverGetApiVersion)                                                    \
    NEED(driver_properties, zeDriverGetProperties)                                                 \
    NEED(driver_extensions, zeDriverGetExtensionProperties)                                        \
    NEED(device_get, zeDeviceGet)                                                                  \
    NEED(device_properties, zeDeviceGetProperties)                                                 \
    NEED(device_memory, zeDeviceGetMemoryProperties)                                               \
    NEED(device_external, zeDeviceGetExternalMemoryProperties)                                     \
    NEED(device_queue_groups, zeDeviceGetCommandQueueGroupProperties)                              \
    WANT(device_pci, zeDevicePciGetPropertiesExt) /* loader 1.4 */                                 \
    NEED(context_create, zeContextCreate)                                                          \
    NEED(context_destroy, zeContextDestroy)                                                        \
    NEED(properties, zeMemGetAllocProperties)                                                      \
    NEED(address_range, zeMemGetAddressRange)                                                      \
    WANT(virtual_access, zeVirtualMemGetAccessAttribute)                                           \
    NEED(alloc_device, zeMemAllocDevice)                                                           \
    NEED(alloc_host, zeMemAllocHost)                                                               \
    NEED(alloc_shared, zeMemAllocShared)                                                           \
    NEED(free, zeMemFree)                                                                          \
    NEED(list_create, zeCommandListCreateImmediate)                                                \
    NEED(list_destroy, zeCommandListDestroy)                                                       \
    NEED(list_copy, zeCommandListAppendMemoryCopy)

struct ze_api {
    ZE_ENTRIES(LOADER_MEMBER, LOADER_MEMBER)
};

struct ze_driver {
    ze_driver_handle_t handle;
    ze_context_handle_t context; /* ours */
    bool counts_tiles;           /* the driver reports over how many handles memory is spread */
    atomic_int library;          /* ze_hooks.c's number of it, or one of these: */
};
#define ZE_LIBRARY_UNASKED 0
#define ZE_LIBRARY_UNKNOWN (-1)

struct ze_device {
    ze_device_handle_t handle;
    unsigned driver;
    ze_device_uuid_t uuid; /* all zero: unknown */
    struct hmem_device info;
};

struct ze_hmem {
    struct hmem base;
    struct ze_api api;
    struct ze_driver *drivers;
    unsigned driver_count;
    struct ze_device *devices;
    atomic_bool contexts_asked; /* whether contexts see each other's memory */
    atomic_bool hooks_found, hooks_placed;
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

#define ze_fail(self, ...) vendor_fail(&(self)->base, __VA_ARGS__)

const char *ze_result_name(struct hmem *self, int64_t result); /* NULL: success, unknown */

/* ---- our contexts (ze_context.c) ----------------------------------------------------------- */

/* Destroys a context of ours without memory, so no memory ends. Returns what the hook of
 * zeContextDestroy passed to ze_destroys_ours(); NULL: no hook ran. */
void *ze_destroy_context(struct ze_hmem *self, ze_context_handle_t context);
/* Is this thread inside ze_destroy_context()? */
bool ze_destroys_ours(void *by);

/* ---- drivers and devices (ze_devices.c) --------------------------------------------------- */

/* -ENODEV, -EIO, -ENOMEM. */
int ze_list_devices(struct ze_hmem *self);
/* Completes the runtime's description with facts that need an allocation. */
void ze_complete(struct hmem *self);
/* The index of a device of this driver, also for a handle that is not in the list; -1: unknown. */
int ze_device_index(struct ze_hmem *self, const struct ze_driver *driver,
                    ze_device_handle_t handle);

unsigned ze_driver_number(const struct ze_hmem *self, const struct ze_driver *driver);

/* ---- what is at an address (ze_lookup.c) --------------------------------------------------- */

/* The allocation at addr, from any driver. -HMEM_NOT_MINE: no driver knows it. -EIO. */
int ze_lookup(struct ze_hmem *self, uint64_t addr, struct ze_lookup *out);
/* The allocation or mappings under a range. -HMEM_NOT_MINE, -EFAULT, -ERANGE, -EIO, as resolve. */
int ze_lookup_range(struct ze_hmem *self, uint64_t addr, size_t len, struct ze_lookup *out);
/* Is all of [base, base+len) in one reservation of virtual memory? */
bool ze_is_reserved(struct ze_hmem *self, const struct ze_driver *driver, uint64_t base,
                    size_t len);

/* ---- the end of memory (ze_hooks.c) -------------------------------------------------------- */

/* Finds the drivers' functions that end memory, and tests whether they can be hooked, without
 * hooking them. Adds to the runtime's description the memory whose end is not reported. */
void ze_hooks_find(struct ze_hmem *self);
/* The operations of hmem.h. The first call of either places the hooks, which serve the process and
 * stay. */
void ze_prepare_watch(struct hmem *self);
bool ze_watch(struct hmem *self, uint64_t addr, size_t len, const struct hmem_range *range,
              const char **why);

/* ---- operations of hmem.h (ze_resolve.c, ze_export.c, ze_memory.c) ----------------------- */

VENDOR_OPERATIONS(ze);

#endif
