/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A simulated Level Zero driver, loaded by the real libze_loader.so.1:
 *     ZE_ENABLE_ALT_DRIVERS=libze_fake.so                   one driver
 *     ZE_ENABLE_ALT_DRIVERS=libze_fake.so,libze_fake2.so    two; the loader then wraps handles
 * It is as strict as the specification where Intel's driver is lenient (stype, live handles, the
 * context of zeMemFree, the call that frees imported memory), and otherwise does what Intel's does:
 * an address it does not know is answered with success and the type UNKNOWN, any context answers
 * for all memory of the driver, an exported descriptor is kept and handed out again, shared memory
 * has none.
 *
 * From the environment, read at each use:
 *   HMREG_FAKE_ZE_DEVICES=2         devices of a driver, else HMREG_FAKE_DEVICES
 *   HMREG_FAKE_ZE_BUS=0x60          PCI bus of the first device; the second driver's differs
 *   HMREG_FAKE_ZE_MISSING=a,b       entry points and extensions that an older driver lacks
 *   HMREG_FAKE_ZE_PRIVATE=1         a context answers only for memory allocated in it
 *   HMREG_FAKE_ZE_NO_EXPORT=1       devices that export nothing
 *   HMREG_FAKE_ZE_INSIST=1          export needs the export descriptor at allocation
 *   HMREG_FAKE_ZE_PAGE=bytes        what device memory is rounded up and aligned to
 *   HMREG_FAKE_ZE_POOL=bytes        device memory without export descriptor comes from a pool
 *   HMREG_FAKE_ZE_POOL_ID=1         ... and the whole pool answers with one id, free parts too
 *   HMREG_FAKE_ZE_BUSY=1            the device uses all memory: deferred frees wait
 *   HMREG_FAKE_ZE_KEEP=1            freed memory is known until it is freed without this
 *   HMREG_FAKE_ZE_FLAT=1            zeDeviceGet lists tiles, as ZE_FLAT_DEVICE_HIERARCHY=FLAT does
 *   HMREG_FAKE_ZE_TILES=1           tiles of a device: its memory then has as many handles
 */
#include "simulated/ze/ze.h"

#include <level_zero/ze_ddi.h>
#include <level_zero/zes_ddi.h>
#include <level_zero/zet_ddi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct _ze_driver_handle_t {
    int number;
};

static struct _ze_driver_handle_t the_driver = {FAKE_ZE_DRIVER};
static struct _ze_device_handle_t devices[FAKE_ZE_MAX_DEVICES];
static struct _ze_device_handle_t tiles[FAKE_ZE_MAX_DEVICES][FAKE_ZE_MAX_TILES];
static bool initialized;

static const char *const extensions[] = {
    "ZE_extension_pci_properties",
    "ZE_experimental_sub_allocations",
};
#define EXTENSIONS (sizeof(extensions) / sizeof(extensions[0]))

static uint32_t device_count(void)
{
    return (uint32_t)fake_devices("HMREG_FAKE_ZE_DEVICES", FAKE_ZE_MAX_DEVICES);
}

int fake_ze_tiles(void)
{
    long count = fake_env("HMREG_FAKE_ZE_TILES", 1);

    return count < FAKE_ZE_MAX_TILES ? (int)count : FAKE_ZE_MAX_TILES;
}

bool fake_ze_has(const char *name)
{
    const char *missing = getenv("HMREG_FAKE_ZE_MISSING");
    size_t len = strlen(name);

    while (missing && (missing = strstr(missing, name))) {
        if (missing[len] == ',' || missing[len] == '\0')
            return false;
        missing += len;
    }
    return true;
}

bool fake_ze_initialized(void)
{
    bool is;

    fake_lock();
    is = initialized;
    fake_unlock();
    return is;
}

bool fake_ze_driver_is_live(ze_driver_handle_t driver)
{
    return driver == &the_driver;
}

bool fake_ze_device_is_live(ze_device_handle_t device)
{
    for (uint32_t i = 0; i < device_count(); i++) {
        if (device == &devices[i])
            return true;
        for (int t = 0; t < fake_ze_tiles(); t++)
            if (device == &tiles[i][t])
                return true;
    }
    return false;
}

/* The number of entries that an array of *count receives, by the rule of all of Level Zero's lists:
 * 0 queries the number, a larger one is lowered to `available`. */
static uint32_t listed(uint32_t available, uint32_t *count)
{
    if (*count == 0 || *count > available)
        *count = available;
    return *count;
}

/* ---- driver ----------------------------------------------------------------------------- */

static ze_result_t init(ze_init_flags_t flags)
{
    long code = 0;

    if (fake_fails("zeInit", &code))
        return (ze_result_t)code;
    if (flags & ~(ze_init_flags_t)(ZE_INIT_FLAG_GPU_ONLY | ZE_INIT_FLAG_VPU_ONLY))
        return ZE_RESULT_ERROR_INVALID_ENUMERATION;
    if (flags && !(flags & ZE_INIT_FLAG_GPU_ONLY))
        return ZE_RESULT_ERROR_UNINITIALIZED;
    fake_lock();
    for (int i = 0; i < FAKE_ZE_MAX_DEVICES; i++) {
        devices[i] = (struct _ze_device_handle_t){i, -1};
        for (int t = 0; t < FAKE_ZE_MAX_TILES; t++)
            tiles[i][t] = (struct _ze_device_handle_t){i, t};
    }
    initialized = true;
    fake_unlock();
    return ZE_RESULT_SUCCESS;
}

static ze_result_t driver_get(uint32_t *count, ze_driver_handle_t *drivers)
{
    ENTRY("zeDriverGet");
    if (!count)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    if (listed(1, count) && drivers)
        drivers[0] = &the_driver;
    return ZE_RESULT_SUCCESS;
}

static ze_result_t driver_get_api_version(ze_driver_handle_t driver, ze_api_version_t *version)
{
    ENTRY("zeDriverGetApiVersion");
    if (!fake_ze_driver_is_live(driver))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    *version = ZE_API_VERSION_1_4;
    return ZE_RESULT_SUCCESS;
}

static ze_result_t driver_get_properties(ze_driver_handle_t driver, ze_driver_properties_t *out)
{
    ENTRY("zeDriverGetProperties");
    if (!fake_ze_driver_is_live(driver))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (out->stype != ZE_STRUCTURE_TYPE_DRIVER_PROPERTIES)
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    memset(&out->uuid, 0x11 + FAKE_ZE_DRIVER, sizeof(out->uuid));
    out->driverVersion = 100 + FAKE_ZE_DRIVER;
    return ZE_RESULT_SUCCESS;
}

static ze_result_t driver_get_extensions(ze_driver_handle_t driver, uint32_t *count,
                                         ze_driver_extension_properties_t *out)
{
    const char *has[EXTENSIONS];
    uint32_t available = 0;

    ENTRY("zeDriverGetExtensionProperties");
    if (!fake_ze_driver_is_live(driver))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    for (size_t i = 0; i < EXTENSIONS; i++)
        if (fake_ze_has(extensions[i]))
            has[available++] = extensions[i];
    listed(available, count);
    for (uint32_t i = 0; out && i < *count; i++) {
        snprintf(out[i].name, sizeof(out[i].name), "%s", has[i]);
        out[i].version = ZE_MAKE_VERSION(1, 0);
    }
    return ZE_RESULT_SUCCESS;
}

/* ---- devices ---------------------------------------------------------------------------- */

static bool is_flat(void)
{
    return fake_ze_tiles() > 1 && fake_env("HMREG_FAKE_ZE_FLAT", 0);
}

static ze_result_t device_get(ze_driver_handle_t driver, uint32_t *count, ze_device_handle_t *out)
{
    ENTRY("zeDeviceGet");
    if (!fake_ze_driver_is_live(driver))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (is_flat()) {
        listed(device_count() * (uint32_t)fake_ze_tiles(), count);
        for (uint32_t i = 0; out && i < *count; i++)
            out[i] = &tiles[i / (uint32_t)fake_ze_tiles()][i % (uint32_t)fake_ze_tiles()];
        return ZE_RESULT_SUCCESS;
    }
    listed(device_count(), count);
    for (uint32_t i = 0; out && i < *count; i++)
        out[i] = &devices[i];
    return ZE_RESULT_SUCCESS;
}

static ze_result_t device_get_sub_devices(ze_device_handle_t device, uint32_t *count,
                                          ze_device_handle_t *out)
{
    ENTRY("zeDeviceGetSubDevices");
    if (!fake_ze_device_is_live(device))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    listed(device->tile < 0 && fake_ze_tiles() > 1 ? (uint32_t)fake_ze_tiles() : 0, count);
    for (uint32_t i = 0; out && i < *count; i++)
        out[i] = &tiles[device->index][i];
    return ZE_RESULT_SUCCESS;
}

static ze_result_t device_get_properties(ze_device_handle_t device, ze_device_properties_t *out)
{
    char driver[32] = "";

    ENTRY("zeDeviceGetProperties");
    if (!fake_ze_device_is_live(device))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (out->stype != ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES)
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    *out = (ze_device_properties_t){.stype = out->stype, .pNext = out->pNext};
    out->type = ZE_DEVICE_TYPE_GPU;
    out->vendorId = 0x8086;
    out->maxMemAllocSize = fake_device_memory();
    out->uuid.id[0] = 0x80 + FAKE_ZE_DRIVER;
    out->uuid.id[1] = (uint8_t)device->index;
    out->uuid.id[2] = (uint8_t)(device->tile + 1);
    if (device->tile >= 0) {
        out->flags = ZE_DEVICE_PROPERTY_FLAG_SUBDEVICE;
        out->subdeviceId = (uint32_t)device->tile;
    }
    if (FAKE_ZE_DRIVER)
        snprintf(driver, sizeof(driver), " of driver %d", FAKE_ZE_DRIVER);
    snprintf(out->name, sizeof(out->name), "simulated Level Zero device %d%s", device->index,
             driver);
    return ZE_RESULT_SUCCESS;
}

static ze_result_t device_get_memory(ze_device_handle_t device, uint32_t *count,
                                     ze_device_memory_properties_t *out)
{
    ENTRY("zeDeviceGetMemoryProperties");
    if (!fake_ze_device_is_live(device))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    listed(1, count);
    if (!out)
        return ZE_RESULT_SUCCESS;
    if (out->stype != ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES)
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    out->totalSize = fake_device_memory();
    snprintf(out->name, sizeof(out->name), "simulated");
    return ZE_RESULT_SUCCESS;
}

static ze_result_t device_get_external(ze_device_handle_t device,
                                       ze_device_external_memory_properties_t *out)
{
    ENTRY("zeDeviceGetExternalMemoryProperties");
    if (!fake_ze_device_is_live(device))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (out->stype != ZE_STRUCTURE_TYPE_DEVICE_EXTERNAL_MEMORY_PROPERTIES)
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    out->memoryAllocationExportTypes =
        fake_env("HMREG_FAKE_ZE_NO_EXPORT", 0) ? 0 : ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF;
    return ZE_RESULT_SUCCESS;
}

/* The first group of queues cannot copy: a command list of ordinal 0 is refused. */
static ze_result_t device_get_queue_groups(ze_device_handle_t device, uint32_t *count,
                                           ze_command_queue_group_properties_t *out)
{
    ENTRY("zeDeviceGetCommandQueueGroupProperties");
    if (!fake_ze_device_is_live(device))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    listed(2, count);
    for (uint32_t i = 0; out && i < *count; i++) {
        if (out[i].stype != ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES)
            return ZE_RESULT_ERROR_INVALID_ARGUMENT;
        out[i].flags = i == 0 ? ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_METRICS
                              : ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY;
        out[i].numQueues = 1;
    }
    return ZE_RESULT_SUCCESS;
}

static ze_result_t device_get_pci(ze_device_handle_t device, ze_pci_ext_properties_t *out)
{
    ENTRY("zeDevicePciGetPropertiesExt");
    if (!fake_ze_device_is_live(device))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (out->stype != ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES)
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    out->address.domain = 0;
    out->address.bus =
        (uint32_t)(fake_env("HMREG_FAKE_ZE_BUS", 0x60 + 0x10 * FAKE_ZE_DRIVER) + device->index);
    out->address.device = 0;
    out->address.function = 0;
    return ZE_RESULT_SUCCESS;
}

/* ---- the tables that the loader requests ------------------------------------------------- */

/* A table with the entry points that exist here; the loader answers for the others. */
#define TABLE(function, type, ...)                                                                 \
    ZE_DLLEXPORT ze_result_t ZE_APICALL function(ze_api_version_t version, type *table)            \
    {                                                                                              \
        long code = 0;                                                                             \
                                                                                                   \
        if (fake_fails(#function, &code))                                                          \
            return (ze_result_t)code;                                                              \
        if (!table)                                                                                \
            return ZE_RESULT_ERROR_INVALID_NULL_POINTER;                                           \
        if (ZE_MAJOR_VERSION(version) != 1)                                                        \
            return ZE_RESULT_ERROR_UNSUPPORTED_VERSION;                                            \
        __VA_ARGS__                                                                                \
        return ZE_RESULT_SUCCESS;                                                                  \
    }
#define SET(member, name, function) table->member = fake_ze_has(name) ? function : NULL;

TABLE(zeGetGlobalProcAddrTable, ze_global_dditable_t, SET(pfnInit, "zeInit", init))
TABLE(zeGetDriverProcAddrTable, ze_driver_dditable_t,
      SET(pfnGet, "zeDriverGet", driver_get)
          SET(pfnGetApiVersion, "zeDriverGetApiVersion", driver_get_api_version)
              SET(pfnGetProperties, "zeDriverGetProperties", driver_get_properties)
                  SET(pfnGetExtensionProperties, "zeDriverGetExtensionProperties",
                      driver_get_extensions))
TABLE(zeGetDeviceProcAddrTable, ze_device_dditable_t,
      SET(pfnGet, "zeDeviceGet", device_get) SET(pfnGetSubDevices, "zeDeviceGetSubDevices",
                                                 device_get_sub_devices)
          SET(pfnGetProperties, "zeDeviceGetProperties", device_get_properties)
              SET(pfnGetMemoryProperties, "zeDeviceGetMemoryProperties", device_get_memory)
                  SET(pfnGetExternalMemoryProperties, "zeDeviceGetExternalMemoryProperties",
                      device_get_external) SET(pfnGetCommandQueueGroupProperties,
                                               "zeDeviceGetCommandQueueGroupProperties",
                                               device_get_queue_groups)
                      SET(pfnPciGetPropertiesExt, "zeDevicePciGetPropertiesExt", device_get_pci))
TABLE(zeGetContextProcAddrTable, ze_context_dditable_t,
      SET(pfnCreate, "zeContextCreate", fake_zeContextCreate)
          SET(pfnDestroy, "zeContextDestroy", fake_zeContextDestroy))
TABLE(zeGetMemProcAddrTable, ze_mem_dditable_t,
      SET(pfnAllocDevice, "zeMemAllocDevice",
          fake_zeMemAllocDevice) SET(pfnAllocHost, "zeMemAllocHost", fake_zeMemAllocHost)
          SET(pfnAllocShared, "zeMemAllocShared", fake_zeMemAllocShared)
              SET(pfnFree, "zeMemFree", fake_zeMemFree) SET(pfnFreeExt, "zeMemFreeExt",
                                                            fake_zeMemFreeExt)
                  SET(pfnGetAllocProperties, "zeMemGetAllocProperties",
                      fake_zeMemGetAllocProperties)
                      SET(pfnGetAddressRange, "zeMemGetAddressRange", fake_zeMemGetAddressRange)
                          SET(pfnGetIpcHandle, "zeMemGetIpcHandle", fake_zeMemGetIpcHandle)
                              SET(pfnOpenIpcHandle, "zeMemOpenIpcHandle", fake_zeMemOpenIpcHandle)
                                  SET(pfnCloseIpcHandle, "zeMemCloseIpcHandle",
                                      fake_zeMemCloseIpcHandle))
TABLE(zeGetModuleProcAddrTable, ze_module_dditable_t,
      SET(pfnCreate, "zeModuleCreate", fake_zeModuleCreate)
          SET(pfnDestroy, "zeModuleDestroy", fake_zeModuleDestroy)
              SET(pfnGetGlobalPointer, "zeModuleGetGlobalPointer", fake_zeModuleGetGlobalPointer))
TABLE(zeGetCommandListProcAddrTable, ze_command_list_dditable_t,
      SET(pfnCreateImmediate, "zeCommandListCreateImmediate", fake_zeCommandListCreateImmediate)
          SET(pfnDestroy, "zeCommandListDestroy", fake_zeCommandListDestroy)
              SET(pfnAppendMemoryCopy, "zeCommandListAppendMemoryCopy",
                  fake_zeCommandListAppendMemoryCopy))

TABLE(zeGetPhysicalMemProcAddrTable, ze_physical_mem_dditable_t,
      SET(pfnCreate, "zePhysicalMemCreate", fake_zePhysicalMemCreate)
          SET(pfnDestroy, "zePhysicalMemDestroy", fake_zePhysicalMemDestroy))
TABLE(zeGetVirtualMemProcAddrTable, ze_virtual_mem_dditable_t,
      SET(pfnReserve, "zeVirtualMemReserve", fake_zeVirtualMemReserve)
          SET(pfnFree, "zeVirtualMemFree", fake_zeVirtualMemFree)
              SET(pfnQueryPageSize, "zeVirtualMemQueryPageSize", fake_zeVirtualMemQueryPageSize)
                  SET(pfnMap, "zeVirtualMemMap", fake_zeVirtualMemMap)
                      SET(pfnUnmap, "zeVirtualMemUnmap", fake_zeVirtualMemUnmap)
                          SET(pfnSetAccessAttribute, "zeVirtualMemSetAccessAttribute",
                              fake_zeVirtualMemSetAccessAttribute)
                              SET(pfnGetAccessAttribute, "zeVirtualMemGetAccessAttribute",
                                  fake_zeVirtualMemGetAccessAttribute))

/* The loader refuses a driver that lacks one of the 53, so the others exist and are empty. */
TABLE(zeGetCommandQueueProcAddrTable, ze_command_queue_dditable_t)
TABLE(zeGetDeviceExpProcAddrTable, ze_device_exp_dditable_t)
TABLE(zeGetEventExpProcAddrTable, ze_event_exp_dditable_t)
TABLE(zeGetEventPoolProcAddrTable, ze_event_pool_dditable_t)
TABLE(zeGetEventProcAddrTable, ze_event_dditable_t)
TABLE(zeGetFabricEdgeExpProcAddrTable, ze_fabric_edge_exp_dditable_t)
TABLE(zeGetFabricVertexExpProcAddrTable, ze_fabric_vertex_exp_dditable_t)
TABLE(zeGetFenceProcAddrTable, ze_fence_dditable_t)
TABLE(zeGetImageExpProcAddrTable, ze_image_exp_dditable_t)
TABLE(zeGetImageProcAddrTable, ze_image_dditable_t)
TABLE(zeGetKernelExpProcAddrTable, ze_kernel_exp_dditable_t)
TABLE(zeGetKernelProcAddrTable, ze_kernel_dditable_t)
TABLE(zeGetModuleBuildLogProcAddrTable, ze_module_build_log_dditable_t)
TABLE(zeGetSamplerProcAddrTable, ze_sampler_dditable_t)
TABLE(zetGetCommandListProcAddrTable, zet_command_list_dditable_t)
TABLE(zetGetContextProcAddrTable, zet_context_dditable_t)
TABLE(zetGetDebugProcAddrTable, zet_debug_dditable_t)
TABLE(zetGetDeviceProcAddrTable, zet_device_dditable_t)
TABLE(zetGetKernelProcAddrTable, zet_kernel_dditable_t)
TABLE(zetGetMetricGroupExpProcAddrTable, zet_metric_group_exp_dditable_t)
TABLE(zetGetMetricGroupProcAddrTable, zet_metric_group_dditable_t)
TABLE(zetGetMetricProcAddrTable, zet_metric_dditable_t)
TABLE(zetGetMetricQueryPoolProcAddrTable, zet_metric_query_pool_dditable_t)
TABLE(zetGetMetricQueryProcAddrTable, zet_metric_query_dditable_t)
TABLE(zetGetMetricStreamerProcAddrTable, zet_metric_streamer_dditable_t)
TABLE(zetGetModuleProcAddrTable, zet_module_dditable_t)
TABLE(zetGetTracerExpProcAddrTable, zet_tracer_exp_dditable_t)
TABLE(zesGetDeviceProcAddrTable, zes_device_dditable_t)
TABLE(zesGetDiagnosticsProcAddrTable, zes_diagnostics_dditable_t)
TABLE(zesGetDriverProcAddrTable, zes_driver_dditable_t)
TABLE(zesGetEngineProcAddrTable, zes_engine_dditable_t)
TABLE(zesGetFabricPortProcAddrTable, zes_fabric_port_dditable_t)
TABLE(zesGetFanProcAddrTable, zes_fan_dditable_t)
TABLE(zesGetFirmwareProcAddrTable, zes_firmware_dditable_t)
TABLE(zesGetFrequencyProcAddrTable, zes_frequency_dditable_t)
TABLE(zesGetLedProcAddrTable, zes_led_dditable_t)
TABLE(zesGetMemoryProcAddrTable, zes_memory_dditable_t)
TABLE(zesGetPerformanceFactorProcAddrTable, zes_performance_factor_dditable_t)
TABLE(zesGetPowerProcAddrTable, zes_power_dditable_t)
TABLE(zesGetPsuProcAddrTable, zes_psu_dditable_t)
TABLE(zesGetRasProcAddrTable, zes_ras_dditable_t)
TABLE(zesGetSchedulerProcAddrTable, zes_scheduler_dditable_t)
TABLE(zesGetStandbyProcAddrTable, zes_standby_dditable_t)
TABLE(zesGetTemperatureProcAddrTable, zes_temperature_dditable_t)
