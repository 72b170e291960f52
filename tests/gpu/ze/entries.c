/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Every way to open the real Level Zero loader of this machine (1.8 on Debian 12, 1.20 on Debian
 * 13): without a driver, with one that finds no GPU, with one that has two. The driver is
 * simulated; CTest names it in ZE_ENABLE_ALT_DRIVERS.
 */
#include "tests/gpu/entries.h"

#include <dlfcn.h>

#define NO_DRIVER "finds no driver with a GPU (zeInit: 0x78000001)"

/* Of loaders since 1.18. */
struct type {
    uint32_t stype;
    const void *next;
    uint32_t flags;
};
typedef int init_drivers(uint32_t *count, void **drivers, struct type *type);
typedef int init(uint32_t flags);

/* An application prefers the newer entry and falls back to the older. It calls the newer once: a
 * second call after a first that found nothing crashes loader 1.20. */
static const char *application(void)
{
    struct type gpus = {.stype = 0x20021, .flags = 1};
    void *loader = dlopen("libze_loader.so.1", RTLD_NOW | RTLD_LOCAL);
    static bool called;
    init_drivers *newer;
    uint32_t count = 0;

    if (!loader)
        return dlerror();
    newer = (init_drivers *)dlsym(loader, "zeInitDrivers");
    if (newer && !called)
        newer(&count, NULL, &gpus);
    called = true;
    if (!count)
        ((init *)dlsym(loader, "zeInit"))(1);
    return NULL;
}

static void need_no_driver(void)
{
    void *driver = dlopen("libze_intel_gpu.so.1", RTLD_LAZY);

    if (!driver)
        return;
    dlclose(driver);
    test_skip("this machine has Intel's driver, libze_intel_gpu.so.1");
}

static const struct entry driverless = {
    .iface = HMREG_IFACE_ZE, .why = NO_DRIVER, .application = application, .need = need_no_driver};
static const struct entry gpuless = {
    .iface = HMREG_IFACE_ZE, .why = NO_DRIVER, .application = application};
/* The loader starts a driver once per process, and keeps the result. */
static const struct entry driver = {.iface = HMREG_IFACE_ZE,
                                    .devices = 2,
                                    .library = "libze_loader.so.1",
                                    .application = application,
                                    .fault = "HMREG_FAKE_FAIL",
                                    .fault_value = "zeInit:0x78000001",
                                    .fault_why = NO_DRIVER,
                                    .fault_stays = 1};

ENTRY_CASES(driverless, &driverless)
ENTRY_CASES(gpuless, &gpuless)
ENTRY_CASES(driver, &driver)

TEST_MAIN()
