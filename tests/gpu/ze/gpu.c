/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Level Zero for the cases that all vendors have (tests/gpu/gpu.h).
 */
#include "core/patch/entry_hook.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/ze/bench.h"

#include <dlfcn.h>
#include <level_zero/ze_ddi.h>

static struct app app;

/* NULL: Intel's own driver. */
static const struct fake_control *fake(void)
{
    return getenv("HMREG_FAKE_XE") ? NULL : bench_control(0);
}

static struct hmem *begin(void)
{
    struct hmem *self = getenv("HMREG_FAKE_XE") ? bench_open_real() : bench_open();

    app_open(&app, 0);
    if (fake())
        assert_int_equal(fake()->allocations(), gpu_leaked);
    return self;
}

static void end(struct hmem *self)
{
    if (fake()) {
        assert_int_equal(fake()->allocations(), gpu_leaked);
        fake()->reset();
    }
    app_close();
    bench_close();
}

static int devices(void)
{
    return app.device_count > 1 ? 2 : 1;
}

static uint64_t alloc(int device, enum hmreg_mem_kind kind, size_t len)
{
    ze_device_mem_alloc_desc_t local = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    ze_host_mem_alloc_desc_t host = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    void *made = NULL;
    ze_result_t result;

    if (kind == HMREG_MEM_DEVICE)
        return app_alloc(&app, app.devices[device], len);
    if (kind == HMREG_MEM_HOST_PINNED)
        result = zeMemAllocHost(app.context, &host, len, 0, &made);
    else
        result = zeMemAllocShared(app.context, &local, &host, len, 0, app.devices[device], &made);
    assert_int_equal(result, ZE_RESULT_SUCCESS);
    return (uintptr_t)made;
}

static void free_it(uint64_t addr, enum hmreg_mem_kind kind)
{
    app_free(&app, addr);
}

/* The memory with which a description tries contexts leaks if the driver does not free it. */
static const struct gpu_survival survives[] = {
    {"open",
     "zeDriverGetApiVersion zeDriverGetProperties zeDriverGetExtensionProperties "
     "zeDeviceGetProperties zeDeviceGetMemoryProperties zeDeviceGetExternalMemoryProperties "
     "zeDevicePciGetPropertiesExt zeContextCreate:1 zeContextDestroy zeMemAllocHost zeMemFree "
     "zeMemGetAllocProperties",
     "zeMemFree"},
    {"resolve", "zeMemGetAllocProperties:1", NULL},
    {"resolve new memory", "zeMemGetAllocProperties:1", NULL},
    {0},
};

static const char *const calls[] = {
    "zeDriverGet",
    "zeDriverGetApiVersion",
    "zeDriverGetProperties",
    "zeDriverGetExtensionProperties",
    "zeDeviceGet",
    "zeDeviceGetProperties",
    "zeDeviceGetMemoryProperties",
    "zeDeviceGetExternalMemoryProperties",
    "zeDeviceGetCommandQueueGroupProperties",
    "zeDevicePciGetPropertiesExt",
    "zeContextCreate",
    "zeContextDestroy",
    "zeMemAllocDevice",
    "zeMemAllocHost",
    "zeMemAllocShared",
    "zeMemFree",
    "zeMemGetAllocProperties",
    "zeMemGetAddressRange",
    "zeCommandListCreateImmediate",
    "zeCommandListDestroy",
    "zeCommandListAppendMemoryCopy",
    NULL,
};

static bool reports(enum hmreg_mem_kind kind)
{
    return !entry_hooks_refusal();
}

static void *unused_end(const char **name)
{
    void *driver = dlopen(getenv("ZE_ENABLE_ALT_DRIVERS"), RTLD_NOW | RTLD_NOLOAD), *entry;
    ze_result_t (*get)(ze_api_version_t, ze_mem_dditable_t *) = NULL;
    ze_mem_dditable_t table = {0};

    assert_non_null(driver);
    entry = dlsym(driver, "zeGetMemProcAddrTable");
    assert_non_null(entry);
    memcpy(&get, &entry, sizeof(entry));
    assert_int_equal(get(ZE_API_VERSION_1_3, &table), ZE_RESULT_SUCCESS);
    memcpy(&entry, &table.pfnFreeExt, sizeof(entry));
    *name = "zeMemFreeExt";
    return entry;
}

const struct gpu gpu = {
    .reports = reports,
    .unused_end = unused_end,
    .ops = &hmem_ze_ops,
    .kinds = 3,
    .pinned_device = -1,
    .begin = begin,
    .end = end,
    .devices = devices,
    .alloc = alloc,
    .free = free_it,
    .fake = fake,
    .version = "1.4, driver 100",
    .library = "/libze_loader.so.1",
    .device_names = {"simulated Level Zero device 0", "simulated Level Zero device 1"},
    .pci = {"0000:60:00.0", "0000:61:00.0"},
    .no_device = "no Level Zero driver has a device",
    .copy_fails = "the copy of",
    .queries = "zeMemGetAllocProperties zeMemGetAddressRange zeVirtualMemGetAccessAttribute",
    .export_queries = 2,
    .calls = calls,
    .failure = ZE_RESULT_ERROR_DEVICE_LOST,
    .failure_name = "ZE_RESULT_ERROR_DEVICE_LOST",
    .shut_down = ZE_RESULT_ERROR_UNINITIALIZED,
    .learns = "zeMemGetAllocProperties zeMemAllocDevice zeMemAllocHost zeMemAllocShared",
    .survives = survives,
};
