/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Ranges of Level Zero whose device or bounds the driver does not simply report. */
#include "tests/gpu/ze/bench.h"

TEST(query__shared_memory_of_no_device__device_none)
{
    ze_device_mem_alloc_desc_t local = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    ze_host_mem_alloc_desc_t host = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    struct hmem *self = bench_open();
    struct hmem_range range = {0};
    struct app app;
    void *made = NULL;

    app_open(&app, 0);
    assert_int_equal(zeMemAllocShared(app.context, &local, &host, 4096, 0, NULL, &made), 0);
    assert_ok(ze->resolve(self, (uintptr_t)made, 4096, &range));
    assert_int_equal(range.kind, HMREG_MEM_MANAGED);
    assert_int_equal(range.device, -1);
    app_free(&app, (uintptr_t)made);
}

/* A device that matches by neither UUID nor PCI address is unknown. */
TEST(query__memory_of_an_unlisted_device__eio)
{
    ze_device_handle_t tile;
    struct hmem_range range = {0};
    struct hmem *self;
    struct app app;
    uint32_t count = 1;
    uint64_t addr;

    bench_set("HMREG_FAKE_ZE_TILES", 2);
    self = bench_open();
    app_open(&app, 0);
    assert_int_equal(zeDeviceGetSubDevices(app.devices[1], &count, &tile), 0);
    addr = app_alloc(&app, tile, 8192);
    bench_fail(bench_control(0), "zeDevicePciGetPropertiesExt", ZE_RESULT_ERROR_UNKNOWN, 0, -1);
    assert_fails(ze->resolve(self, addr, 8192, &range), -EIO,
                 "a device that driver 0 does not list");
    bench_control(0)->reset();
    app_free(&app, addr);
}

/* The driver answers with success and leaves the outputs empty. */
TEST(query__nonsense_range__eio)
{
    struct hmem *self = bench_open();
    uint64_t addr = bench_alloc(self, 0, HMREG_MEM_DEVICE, 4096);
    struct hmem_range range;

    bench_fail(bench_control(0), "zeMemGetAddressRange", ZE_RESULT_SUCCESS, 0, 1);
    assert_fails(ze->resolve(self, addr, 64, &range), -EIO, "do not contain it");
    bench_free(self, addr, HMREG_MEM_DEVICE);
}

/* A pool has one type and id throughout; asked for the bytes that an allocation is rounded up by,
 * the driver names the allocation. */
TEST(query__behind_an_allocation_of_a_pool__leaves_it_and_is_not_mine)
{
    struct hmem_range range;
    struct hmem *self;
    struct app app;
    uint64_t addr;

    bench_set("HMREG_FAKE_ZE_POOL", 64 * 1024);
    bench_set("HMREG_FAKE_ZE_POOL_ID", 1);
    self = bench_open();
    app_open(&app, 0);
    addr = app_alloc(&app, app.devices[0], 1000);
    assert_fails(ze->resolve(self, addr + 990, 11, &range), -ERANGE, "the allocation ends there");
    for (uint64_t behind = 1000; behind <= 1024; behind += 8)
        assert_int_equal(ze->resolve(self, addr + behind, 1, &range), -HMEM_NOT_MINE);
    app_free(&app, addr);
}

TEST_MAIN()
