/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Opening the driver: its devices as the driver reports them, and the error if it does not start.
 */
#include "tests/gpu/cuda/driver.h"

TEST(device__each__as_the_driver_says)
{
    struct bench bench = bench_begin();
    int count = 0;

    CU(cu.device_count(&count));
    assert_int_equal(hmem_cuda_ops.device_count(bench.hmem), count);
    for (int i = 0; i < count; i++) {
        struct hmem_device device;
        char expected[32] = "", got[32];
        size_t bytes = 0;

        hmem_cuda_ops.device(bench.hmem, i, &device);
        CU(cu.device_bus_id(expected, sizeof(expected), i));
        CU(cu.device_memory(&bytes, i));
        snprintf(got, sizeof(got), "%04X:%02X:%02X.%X", device.pci.domain, device.pci.bus,
                 device.pci.device, device.pci.function);
        assert_string_equal(got, expected);
        assert_true(device.pci.valid);
        assert_int_equal(device.memory, bytes);
        assert_true(device.name[0] != '\0');
        assert_int_equal(device.simulated, cu.fake != NULL);
    }
}

TEST(close__null__accepted)
{
    driver_load();
    hmem_cuda_ops.close(NULL);
}

/* Attributes of a device that cannot be read are left out; the device is listed. */
TEST(device__parts_that_cannot_be_read__left_zero)
{
    struct hmem_device device;
    struct hmem *hmem;

    driver_need_fake();
    cu_fail("cuDeviceGetName", CUDA_UNKNOWN_ERROR, 0, -1);
    cu_fail("cuDeviceTotalMem_v2", CUDA_UNKNOWN_ERROR, 0, -1);
    cu_fail("cuDeviceGetAttribute", CUDA_UNKNOWN_ERROR, 0, -1);
    cu_fail("cuDriverGetVersion", CUDA_UNKNOWN_ERROR, 0, -1);
    hmem = vendor_open();
    memset(&device, 0x5a, sizeof(device));
    hmem_cuda_ops.device(hmem, 1, &device);
    assert_string_equal(device.name, "");
    assert_false(device.pci.valid);
    assert_int_equal(device.memory, 0);
    assert_false(device.dmabuf);
    hmem_cuda_ops.close(hmem);
    cu.fake->reset();
}

/* ---- drivers that do not start ---------------------------------------------------------- */

TEST(open__cuinit_fails__code_name_and_remedy)
{
    static const struct {
        unsigned result;
        int code;
        const char *name, *words;
    } cases[] = {
        {CUDA_NO_DEVICE, -ENODEV, "CUDA_ERROR_NO_DEVICE", "CUDA_VISIBLE_DEVICES"},
        {CUDA_STUB_LIBRARY, -ENODEV, "CUDA_ERROR_STUB_LIBRARY", "stub"},
        {CUDA_SYSTEM_DRIVER_MISMATCH, -ENODEV, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "versions"},
        {CUDA_SYSTEM_NOT_READY, -ENODEV, "CUDA_ERROR_SYSTEM_NOT_READY", "fabric manager"},
        {CUDA_NOT_INITIALIZED, -ENODEV, "CUDA_ERROR_NOT_INITIALIZED", "child"},
        {CUDA_UNKNOWN_ERROR, -EIO, "CUDA_ERROR_UNKNOWN", "does not start"},
    };
    struct hmem *hmem = (struct hmem *)7;

    driver_need_fake();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cu_fail("cuInit", cases[i].result, 0, 1);
        assert_fails(hmem_cuda_ops.open(&hmem), cases[i].code, cases[i].words);
        assert_int_equal(hmreg_last_error()->vendor_code, cases[i].result);
        assert_string_equal(hmreg_last_error()->vendor_text, cases[i].name);
        assert_string_equal(hmreg_last_error()->source, "cuda");
        assert_ptr_equal(hmem, (struct hmem *)7);
    }
    cu.fake->reset();
}

/* CUDA does not survive fork(): a child that opens it gets an error and does not crash. */
TEST(open__in_a_child__enodev)
{
    struct bench bench = bench_begin();
    struct hmem *hmem;

    test_in_child(hmem_cuda_ops.open(&hmem) == -ENODEV &&
                          strstr(hmreg_last_error()->text, "is a forked child")
                      ? 0
                      : 1);
}

TEST_MAIN()
