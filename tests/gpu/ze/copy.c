/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Command lists of copies, and possible driver responses to an allocation and a free. */
#include "tests/gpu/ze/bench.h"

/* Host memory on both sides needs no engine. */
TEST(copy__host_memory__without_the_driver)
{
    struct hmem *self = bench_open();
    uint64_t pinned = bench_alloc(self, 0, HMREG_MEM_HOST_PINNED, 100);
    char out[100] = "to pinned memory";

    bench_control(0)->reset();
    assert_ok(ze->copy(self, pinned, (uintptr_t)out, sizeof(out)));
    assert_string_equal((char *)(uintptr_t)pinned, "to pinned memory");
    assert_int_equal(bench_control(0)->calls("zeCommandListCreateImmediate"), 0);
    bench_free(self, pinned, HMREG_MEM_HOST_PINNED);
}

TEST(copy__lists__all_destroyed)
{
    struct hmem *self = bench_open();
    const struct fake_control *fake = bench_control(0);
    uint64_t device = bench_alloc(self, 0, HMREG_MEM_DEVICE, 4096);
    char host[64] = "";

    fake->reset();
    assert_ok(ze->copy(self, device, (uintptr_t)host, 64));
    assert_fails(ze->copy(self, device, 4096, 64), -EIO, "copy");
    assert_int_equal(fake->calls("zeCommandListCreateImmediate"), 2);
    assert_int_equal(fake->calls("zeCommandListDestroy"), 2);
    bench_free(self, device, HMREG_MEM_DEVICE);
}

TEST(alloc__driver_refuses__code_and_sentence)
{
    static const struct {
        ze_result_t result;
        int code;
        const char *words;
    } cases[] = {
        {ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY, -ENOMEM, "has no 5000 bytes of managed memory"},
        {ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, -ENOMEM, "has no 5000 bytes of managed memory"},
        {ZE_RESULT_ERROR_UNSUPPORTED_SIZE, -ENOMEM, "has no 5000 bytes of managed memory"},
        {ZE_RESULT_ERROR_UNSUPPORTED_FEATURE, -EOPNOTSUPP, "device 0 has no managed memory"},
        {ZE_RESULT_ERROR_DEVICE_LOST, -EIO, "allocation of 5000 bytes"},
        {(ze_result_t)0x12345678, -EIO, "allocation of 5000 bytes"},
    };
    struct hmem *self = bench_open();
    void *made = (void *)7;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bench_fail(bench_control(0), "zeMemAllocShared", cases[i].result, 0, 1);
        assert_fails(ze->alloc(self, 0, HMREG_MEM_MANAGED, 5000, &made), cases[i].code,
                     cases[i].words);
        assert_int_equal(hmreg_last_error()->vendor_code, cases[i].result);
        assert_ptr_equal(made, (void *)7);
    }
    assert_string_equal(hmreg_last_error()->vendor_text, ""); /* a code without a name */
}

TEST_MAIN()
