/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Shared by the parts of the simulated Level Zero driver: ze.c has the driver, its devices and the
 * tables that the loader requests; ze_memory.c contexts, memory and command lists; ze_share.c
 * memory of other processes and of modules; ze_virtual.c virtual memory. Everything is under
 * fake_lock().
 */
#ifndef SIMULATED_ZE_H
#define SIMULATED_ZE_H

#include "simulated/engine/fake.h"

#include <level_zero/ze_api.h>

/* Two copies of this source can be loaded side by side, as two drivers. */
#ifndef FAKE_ZE_DRIVER
#define FAKE_ZE_DRIVER 0
#endif

#define FAKE_ZE_MAX_DEVICES 8
#define FAKE_ZE_MAX_TILES   4

/* Handles are opaque to the loader and to applications; ours point at these. */
struct _ze_device_handle_t {
    int index;
    int tile; /* -1: the whole device */
};

/* First line of every entry point: counts the call, fails on request, refuses before zeInit. */
#define ENTRY(name)                                                                                \
    do {                                                                                           \
        long code_ = 0;                                                                            \
                                                                                                   \
        if (fake_fails(name, &code_))                                                              \
            return (ze_result_t)code_;                                                             \
        if (!fake_ze_initialized())                                                                \
            return ZE_RESULT_ERROR_UNINITIALIZED;                                                  \
    } while (0)

bool fake_ze_initialized(void);
bool fake_ze_driver_is_live(ze_driver_handle_t driver);
bool fake_ze_device_is_live(ze_device_handle_t device);
bool fake_ze_has(const char *name); /* an entry point or extension not named as missing */
int fake_ze_tiles(void);

/* The object that contains memory, as a buffer object of the kernel. */
struct object {
    struct object *next;
    struct fake_block *blocks[FAKE_ZE_MAX_TILES]; /* one per handle; the first is exported */
    uint64_t addr;
    size_t len;
    uint64_t id;
    ze_device_handle_t device;
    unsigned users;
    unsigned handles;
    bool pool;
    bool reserved; /* addresses of its own, without memory when it is gone */
    int fd;        /* the exported descriptor, kept; -1 before the first export */
};

/* What frees memory. */
enum origin {
    ALLOCATED, /* zeMemFree */
    IMPORTED,  /* zeMemCloseIpcHandle */
    OF_MODULE, /* zeModuleDestroy */
    MAPPED,    /* zeVirtualMemUnmap */
};

struct memory {
    struct memory *next;
    uint64_t addr;
    size_t len;
    uint64_t id;
    ze_memory_type_t type;
    ze_device_handle_t device;
    ze_context_handle_t context;
    enum origin origin;
    bool exportable;
    bool deferred; /* freed, when the device does not use it any more */
    struct object *object;
};

bool fake_ze_context_is_live(ze_context_handle_t context);
/* Adds an object, and memory in it. The object is freed with its last memory. */
struct object *fake_ze_object(const struct object *object);
void fake_ze_object_put(struct object *object);
struct memory *fake_ze_memory(struct object *object, uint64_t addr, size_t len,
                              ze_memory_type_t type, ze_context_handle_t context);
struct memory *fake_ze_memory_at(uint64_t addr);
/* Memory of a device that is read from the block, whole, at addresses of its own; NULL: none left.
 */
struct memory *fake_ze_memory_of_block(ze_device_handle_t device, struct fake_block *block,
                                       ze_context_handle_t context, enum origin origin);
/* Memory of this origin that an address lies in, if it is the context's. */
struct memory *fake_ze_owned_at(const void *ptr, ze_context_handle_t context, enum origin origin);
void fake_ze_forget(struct memory *gone);

ze_result_t fake_zeContextCreate(ze_driver_handle_t, const ze_context_desc_t *,
                                 ze_context_handle_t *);
ze_result_t fake_zeContextDestroy(ze_context_handle_t);
ze_result_t fake_zeMemAllocDevice(ze_context_handle_t, const ze_device_mem_alloc_desc_t *, size_t,
                                  size_t, ze_device_handle_t, void **);
ze_result_t fake_zeMemAllocHost(ze_context_handle_t, const ze_host_mem_alloc_desc_t *, size_t,
                                size_t, void **);
ze_result_t fake_zeMemAllocShared(ze_context_handle_t, const ze_device_mem_alloc_desc_t *,
                                  const ze_host_mem_alloc_desc_t *, size_t, size_t,
                                  ze_device_handle_t, void **);
ze_result_t fake_zeMemFree(ze_context_handle_t, void *);
ze_result_t fake_zeMemFreeExt(ze_context_handle_t, const ze_memory_free_ext_desc_t *, void *);
ze_result_t fake_zeMemGetAllocProperties(ze_context_handle_t, const void *,
                                         ze_memory_allocation_properties_t *, ze_device_handle_t *);
ze_result_t fake_zeMemGetAddressRange(ze_context_handle_t, const void *, void **, size_t *);
ze_result_t fake_zeMemGetIpcHandle(ze_context_handle_t, const void *, ze_ipc_mem_handle_t *);
ze_result_t fake_zeMemOpenIpcHandle(ze_context_handle_t, ze_device_handle_t, ze_ipc_mem_handle_t,
                                    ze_ipc_memory_flags_t, void **);
ze_result_t fake_zeMemCloseIpcHandle(ze_context_handle_t, const void *);
ze_result_t fake_zeModuleCreate(ze_context_handle_t, ze_device_handle_t, const ze_module_desc_t *,
                                ze_module_handle_t *, ze_module_build_log_handle_t *);
ze_result_t fake_zeModuleDestroy(ze_module_handle_t);
ze_result_t fake_zeModuleGetGlobalPointer(ze_module_handle_t, const char *, size_t *, void **);
ze_result_t fake_zeVirtualMemReserve(ze_context_handle_t, const void *, size_t, void **);
ze_result_t fake_zeVirtualMemFree(ze_context_handle_t, const void *, size_t);
ze_result_t fake_zeVirtualMemQueryPageSize(ze_context_handle_t, ze_device_handle_t, size_t,
                                           size_t *);
ze_result_t fake_zeVirtualMemMap(ze_context_handle_t, const void *, size_t,
                                 ze_physical_mem_handle_t, size_t, ze_memory_access_attribute_t);
ze_result_t fake_zeVirtualMemUnmap(ze_context_handle_t, const void *, size_t);
ze_result_t fake_zeVirtualMemSetAccessAttribute(ze_context_handle_t, const void *, size_t,
                                                ze_memory_access_attribute_t);
ze_result_t fake_zeVirtualMemGetAccessAttribute(ze_context_handle_t, const void *, size_t,
                                                ze_memory_access_attribute_t *, size_t *);
ze_result_t fake_zePhysicalMemCreate(ze_context_handle_t, ze_device_handle_t,
                                     ze_physical_mem_desc_t *, ze_physical_mem_handle_t *);
ze_result_t fake_zePhysicalMemDestroy(ze_context_handle_t, ze_physical_mem_handle_t);
ze_result_t fake_zeCommandListCreateImmediate(ze_context_handle_t, ze_device_handle_t,
                                              const ze_command_queue_desc_t *,
                                              ze_command_list_handle_t *);
ze_result_t fake_zeCommandListDestroy(ze_command_list_handle_t);
ze_result_t fake_zeCommandListAppendMemoryCopy(ze_command_list_handle_t, void *, const void *,
                                               size_t, ze_event_handle_t, uint32_t,
                                               ze_event_handle_t *);

#endif
