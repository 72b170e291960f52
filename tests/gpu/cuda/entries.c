/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Every way to start CUDA's driver: simulated ones, a newer and an older, and one that finds no
 * device; and NVIDIA's own, which finds none. CTest sets LD_LIBRARY_PATH accordingly.
 */
#include "tests/gpu/cuda/library.h"
#include "tests/gpu/entries.h"

#include <dlfcn.h>

static const char *application(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    unsigned (*init)(unsigned flags);
    unsigned (*count_devices)(int *count);
    int count = 0;

    if (!driver)
        return dlerror();
    init = (__typeof__(init))dlsym(driver, "cuInit");
    count_devices = (__typeof__(count_devices))dlsym(driver, "cuDeviceGetCount");
    if (!init(0) && (count_devices(&count) || count != 2))
        return "the driver does not count two devices";
    return NULL;
}

#define FAKE                                                                                       \
    {                                                                                              \
        .iface = HMREG_IFACE_CUDA, .devices = 2, .library = "/simulated/cuda",                         \
        .application = application, .fault = "HMREG_FAKE_FAIL", .fault_value = "cuInit:100:0:1",   \
        .fault_why = "CUDA_ERROR_NO_DEVICE"                                                        \
    }

static const struct entry deviceless = {
    .iface = HMREG_IFACE_CUDA, .why = "CUDA_ERROR_NO_DEVICE", .application = application};
/* NVIDIA's, without a GPU. The case's own process does not start it. */
static const struct entry library = {.iface = HMREG_IFACE_CUDA,
                                     .why = "CUDA_ERROR_NO_DEVICE",
                                     .library = "libcuda.so",
                                     .application = application,
                                     .need = library_need_fetched};
static const struct entry fake = FAKE;
static const struct entry fake_11_6 = FAKE;

ENTRY_CASES(deviceless, &deviceless)
ENTRY_CASES(library, &library)
ENTRY_CASES(fake, &fake)
ENTRY_CASES(fake_11_6, &fake_11_6)

TEST_MAIN()
