/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Every way to start CUDA's driver, which is simulated: a newer and an older one, and one that
 * finds no device. CTest sets LD_LIBRARY_PATH accordingly.
 */
#include "tests/gpu/entries.h"
#include "tests/support/test.h"

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
        .iface = HMREG_IFACE_CUDA, .devices = 2, .library = "/fakes/cuda",                         \
        .application = application, .fault = "HMREG_FAKE_FAIL", .fault_value = "cuInit:100:0:1",   \
        .fault_why = "CUDA_ERROR_NO_DEVICE"                                                        \
    }

static const struct entry deviceless = {
    .iface = HMREG_IFACE_CUDA, .why = "CUDA_ERROR_NO_DEVICE", .application = application};
static const struct entry fake = FAKE;
static const struct entry fake_11_6 = FAKE;

ENTRY_CASES(deviceless, &deviceless)
ENTRY_CASES(fake, &fake)
ENTRY_CASES(fake_11_6, &fake_11_6)

TEST_MAIN(TEST(deviceless__opened__answers), TEST(deviceless__opened_twice__both_answer),
          TEST(deviceless__opened_after_a_failure__answers),
          TEST(deviceless__opened_after_close__answers),
          TEST(deviceless__opened_in_a_child_of_a_user__refused),
          TEST(deviceless__forked_before_the_first_need__harmless),
          TEST(deviceless__opened_in_a_child_only__answers),
          TEST(deviceless__opened_on_threads_at_once__all_answer),
          TEST(deviceless__opened_beside_the_application__answers),
          TEST(deviceless__forked_while_threads_open__children_live), TEST(fake__opened__answers),
          TEST(fake__opened_twice__both_answer), TEST(fake__opened_after_a_failure__answers),
          TEST(fake__opened_after_close__answers), TEST(fake__opened_in_a_child_of_a_user__refused),
          TEST(fake__forked_before_the_first_need__harmless),
          TEST(fake__opened_in_a_child_only__answers),
          TEST(fake__opened_on_threads_at_once__all_answer),
          TEST(fake__opened_beside_the_application__answers),
          TEST(fake__forked_while_threads_open__children_live), TEST(fake_11_6__opened__answers),
          TEST(fake_11_6__opened_twice__both_answer),
          TEST(fake_11_6__opened_after_a_failure__answers),
          TEST(fake_11_6__opened_after_close__answers),
          TEST(fake_11_6__opened_in_a_child_of_a_user__refused),
          TEST(fake_11_6__forked_before_the_first_need__harmless),
          TEST(fake_11_6__opened_in_a_child_only__answers),
          TEST(fake_11_6__opened_on_threads_at_once__all_answer),
          TEST(fake_11_6__opened_beside_the_application__answers),
          TEST(fake_11_6__forked_while_threads_open__children_live))
