/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Level Zero if it cannot be used. The loader keeps the outcome of its first zeInit until the
 * process ends, so CTest runs this once for each case: argv names the case by its test.
 */
#include "tests/gpu/ze/bench.h"

#include <dlfcn.h>

static void expect_no_driver(void)
{
    struct hmem *self = NULL;

    for (int i = 0; i < 2; i++) {
        assert_fails(ze->open(&self), -ENODEV, "finds no driver with a GPU (zeInit: 0x78000001)");
        assert_null(self);
        assert_string_equal(hmreg_last_error()->source, "ze");
        assert_int_equal(hmreg_last_error()->vendor_code, ZE_RESULT_ERROR_UNINITIALIZED);
        assert_string_equal(hmreg_last_error()->vendor_text, "ZE_RESULT_ERROR_UNINITIALIZED");
    }
}

/* The plain loader, as on any machine without an Intel GPU. */
TEST(plain_loader__enodev)
{
    void *driver = dlopen("libze_intel_gpu.so.1", RTLD_LAZY);

    assert_null(getenv("ZE_ENABLE_ALT_DRIVERS"));
    if (driver) {
        dlclose(driver);
        test_skip("this machine has Intel's driver, libze_intel_gpu.so.1");
    }
    expect_no_driver();
}

TEST(missing_driver__enodev)
{
    expect_no_driver();
}

/* A driver finds no GPU (HMREG_FAKE_FAIL). */
TEST(driver_without_gpu__enodev)
{
    expect_no_driver();
}

TEST(lost_device__eio)
{
    struct hmem *self = NULL;

    assert_fails(ze->open(&self), -EIO, "zeInit failed");
    assert_int_equal(hmreg_last_error()->vendor_code, ZE_RESULT_ERROR_DEVICE_LOST);
    assert_string_equal(hmreg_last_error()->vendor_text, "ZE_RESULT_ERROR_DEVICE_LOST");
    assert_null(self);
}

/* A driver older than the interfaces that the library can do without (HMREG_FAKE_ZE_MISSING). */
TEST(older_driver__works_and_says_what_lacks)
{
    struct hmem *self = bench_open();
    uint64_t addr = bench_alloc(self, 0, HMREG_MEM_DEVICE, 8192);
    struct hmem_runtime runtime;
    struct hmem_range range = {0};
    struct hmem_device device = {0};

    ze->runtime(self, &runtime);
    assert_non_null(strstr(runtime.lacks, "2 of 2 devices report no PCI address"));
    ze->device(self, 0, &device);
    assert_string_equal(device.name, "simulated Level Zero device 0");
    assert_ok(ze->resolve(self, addr, 8192, &range));
    assert_int_equal(range.segments, 1);
    assert_true(range.exportable);
    bench_free(self, addr, HMREG_MEM_DEVICE);
}

TEST_MAIN()
