/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Two drivers side by side: one list of devices; each address is queried from both drivers, each in
 * a context of its own. With more than one driver the loader wraps every handle.
 */
#include "tests/gpu/kinds.h"
#include "tests/gpu/ze/bench.h"

TEST(query__memory_of_each_device__its_device)
{
    static const enum hmreg_mem_kind kinds[] = {HMREG_MEM_DEVICE, HMREG_MEM_MANAGED};
    struct hmem *self = bench_open();

    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 2; k++) {
            uint64_t addr = bench_alloc(self, i, kinds[k], 8192);
            struct hmem_range range = {0};

            assert_int_equal(bench_control(i / 2)->allocations(), 1);
            assert_ok(ze->resolve(self, addr + 1, 100, &range));
            assert_int_equal(range.device, i);
            assert_int_equal(range.kind, kinds[k]);
            assert_int_equal(range.alloc_base, addr);
            bench_free(self, addr, kinds[k]);
            assert_int_equal(ze->resolve(self, addr + 1, 100, &range), -HMEM_NOT_MINE);
        }
    }
}

/* A card that both drivers list has one PCI address; memory is on its driver's device. */
TEST(query__tile_of_a_card_both_drivers_know__its_drivers_device)
{
    struct hmem_range range = {0};
    ze_device_handle_t tile;
    struct hmem *self;
    struct app app;
    uint32_t count = 1;
    uint64_t addr;

    bench_set("HMREG_FAKE_ZE_BUS", 0x90);
    bench_set("HMREG_FAKE_ZE_TILES", 2);
    self = bench_open();
    app_open(&app, 1);
    assert_int_equal(zeDeviceGetSubDevices(app.devices[1], &count, &tile), 0);
    addr = app_alloc(&app, tile, 8192);
    assert_ok(ze->resolve(self, addr, 8192, &range));
    assert_int_equal(range.device, 3);
    app_free(&app, addr);
}

/* Both drivers' ids begin with the same number; the identities differ nevertheless. */
TEST(identity__of_two_drivers__differ)
{
    struct hmem *self = bench_open();
    uint64_t ids[2][20];
    uint64_t addrs[2][20];

    for (int i = 0; i < 20; i++) {
        for (int d = 0; d < 2; d++) {
            addrs[d][i] = bench_alloc(self, 2 * d, HMREG_MEM_DEVICE, 4096);
            assert_ok(ze->identity(self, addrs[d][i], 4096, &ids[d][i]));
        }
    }
    for (int i = 0; i < 20; i++)
        for (int j = 0; j < 20; j++)
            assert_int_not_equal(ids[0][i], ids[1][j]);
    for (int i = 0; i < 20; i++)
        for (int d = 0; d < 2; d++)
            bench_free(self, addrs[d][i], HMREG_MEM_DEVICE);
}

/* No engine can copy the memory of another driver. */
TEST(copy__between_drivers__by_way_of_the_host)
{
    struct hmem *self = bench_open();
    uint64_t a = bench_alloc(self, 0, HMREG_MEM_DEVICE, 5000);
    uint64_t b = bench_alloc(self, 2, HMREG_MEM_DEVICE, 5000);

    memset(bench_control(0)->peek(a), 0x33, 5000);
    assert_ok(ze->copy(self, b + 1, a, 4998));
    assert_int_equal(bench_control(1)->peek(b)[0], 0);
    assert_int_equal(bench_control(1)->peek(b)[1], 0x33);
    assert_int_equal(bench_control(1)->peek(b)[4998], 0x33);
    assert_int_equal(bench_control(1)->peek(b)[4999], 0);
    bench_free(self, a, HMREG_MEM_DEVICE);
    bench_free(self, b, HMREG_MEM_DEVICE);
}

/* That of an NPU, for example. Its number stays the loader's. */
TEST(open__one_driver_fails__the_others_devices)
{
    static const struct {
        const char *call;
        ze_result_t result;
        int driver;
    } cases[] = {{"zeContextCreate", ZE_RESULT_ERROR_UNSUPPORTED_FEATURE, 0},
                 {"zeContextCreate", ZE_RESULT_ERROR_UNINITIALIZED, 1},
                 {"zeDeviceGet", ZE_RESULT_ERROR_UNINITIALIZED, 0},
                 {"zeDeviceGet", ZE_RESULT_ERROR_DEVICE_LOST, 1}};

    for (size_t i = 0; i < 4; i++) {
        const struct fake_control *control = bench_control(cases[i].driver);
        struct hmem_runtime runtime;
        struct hmem_device device;
        struct hmem_range range;
        struct hmem *self;
        char says[64];
        uint64_t addr;

        snprintf(says, sizeof(says), "driver %d is left out: %s of driver %d failed",
                 cases[i].driver, cases[i].call, cases[i].driver);
        bench_fail(control, cases[i].call, cases[i].result, 0, 1);
        self = bench_open();
        ze->runtime(self, &runtime);
        assert_non_null(strstr(runtime.lacks, says));
        assert_non_null(strstr(runtime.version, ", driver "));
        assert_int_equal(ze->device_count(self), 2);
        ze->device(self, 1, &device);
        assert_int_equal(device.driver, !cases[i].driver);
        addr = bench_alloc(self, 1, HMREG_MEM_DEVICE, 8192);
        assert_ok(ze->resolve(self, addr, 8192, &range));
        assert_int_equal(range.device, 1);
        bench_free(self, addr, HMREG_MEM_DEVICE);
        assert_int_equal(ze->resolve(self, (uintptr_t)says, 1, &range), -HMEM_NOT_MINE);
        control->reset();
    }
}

TEST(open__each_driver_fails__eio)
{
    struct hmem *self = NULL;

    for (int i = 0; i < 2; i++)
        bench_fail(bench_control(i), "zeDeviceGet", ZE_RESULT_ERROR_DEVICE_LOST, 0, 1);
    assert_fails(ze->open(&self), -EIO, "zeDeviceGet of driver 1");
    assert_null(self);
    for (int i = 0; i < 2; i++)
        bench_control(i)->reset();
}

/* Memory may be the driver's, and there may be enough at the next open. */
TEST(open__second_driver_without_memory__enomem_and_nothing_left)
{
    struct hmem *self = bench_open();

    bench_close();
    bench_control(0)->reset();
    bench_control(1)->reset();
    self = NULL;
    bench_fail(bench_control(1), "zeContextCreate", ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, 0, 1);
    assert_fails(ze->open(&self), -ENOMEM, "zeContextCreate of driver 1");
    assert_null(self);
    assert_int_equal(bench_control(0)->calls("zeContextCreate"),
                     bench_control(0)->calls("zeContextDestroy"));
    bench_control(1)->reset();
}

/* From query to registration; both drivers have a device 0. */
TEST(kind__memory_of_the_second_driver__dmabuf)
{
    struct hmreg *lib = kind_open(HMREG_IFACE_ZE);
    struct app app;
    struct kind kind = {.len = MIB,
                        .iface = HMREG_IFACE_ZE,
                        .kind = HMREG_MEM_DEVICE,
                        .device = 2,
                        .segments = 1,
                        .exportable = true,
                        .path = HMREG_PATH_MAPPED};

    app_open(&app, 1);
    kind.addr = (void *)(uintptr_t)app_alloc(&app, app.devices[0], MIB);
    kind_check(lib, &kind);
    app_free(&app, (uintptr_t)kind.addr);
}

TEST_MAIN()
