/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A driver whose functions cannot be hooked: its memory is not watched, and the runtime's
 * description says why. The process finds a driver's functions once, so each case has its own.
 */
#include "core/patch/entry_hook.h"
#include "tests/gpu/ze/bench.h"

static struct app app;

static void begin(void)
{
    if (entry_hooks_refusal())
        test_skip("%s", entry_hooks_refusal());
    app_open(&app, 0);
}

/* Closes the vendor too. described: what its description says, reason: what of the memory. */
static void check_refused(struct hmem *self, const char *described, const char *reason)
{
    uint64_t addr = app_alloc(&app, app.devices[0], 4096);
    struct hmem_runtime runtime;
    struct hmem_range range;
    const char *why = "";

    assert_ok(ze->resolve(self, addr, 4096, &range));
    for (int i = 0; i < 2; i++) {
        assert_false(ze->watch(self, addr, 4096, &range, &why));
        assert_non_null(strstr(why, reason));
        ze->runtime(self, &runtime);
        assert_non_null(strstr(runtime.unreported, described));
    }
    app_free(&app, addr);
}

TEST(table__driver_refuses_each_version__not_watched)
{
    struct hmem *self;

    begin();
    bench_fail(bench_control(0), "zeGetMemProcAddrTable", ZE_RESULT_ERROR_UNSUPPORTED_VERSION, 0,
               -1);
    self = bench_open();
    check_refused(self, "libze_fake.so: zeGetMemProcAddrTable",
                  "zeGetMemProcAddrTable: the driver refuses");
}

/* The application's memory is watched, the mapping not. */
TEST(virtual__its_table_is_refused__only_it_is_not_watched)
{
    ze_physical_mem_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC,
                                   .size = bench_page()};
    ze_physical_mem_handle_t physical = NULL;
    struct hmem_runtime runtime;
    struct hmem_range range;
    const char *why = "";
    struct hmem *self;
    void *at = NULL;
    uint64_t addr;

    begin();
    bench_fail(bench_control(0), "zeGetVirtualMemProcAddrTable",
               ZE_RESULT_ERROR_UNSUPPORTED_VERSION, 0, -1);
    self = bench_open();
    addr = app_alloc(&app, app.devices[0], 4096);
    assert_ok(ze->resolve(self, addr, 4096, &range));
    assert_true(ze->watch(self, addr, 4096, &range, NULL));
    assert_int_equal(zeVirtualMemReserve(app.context, NULL, desc.size, &at), 0);
    assert_int_equal(zePhysicalMemCreate(app.context, app.devices[0], &desc, &physical), 0);
    assert_int_equal(zeVirtualMemMap(app.context, at, desc.size, physical, 0,
                                     ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE),
                     0);
    assert_ok(ze->resolve(self, (uintptr_t)at, desc.size, &range));
    assert_false(ze->watch(self, (uintptr_t)at, desc.size, &range, &why));
    assert_string_equal(why, "zeGetVirtualMemProcAddrTable: the driver refuses");
    ze->runtime(self, &runtime);
    assert_non_null(strstr(runtime.unreported, "zeGetVirtualMemProcAddrTable"));
    assert_int_equal(zeVirtualMemFree(app.context, at, desc.size), 0);
    assert_int_equal(zePhysicalMemDestroy(app.context, physical), 0);
    app_free(&app, addr);
}

/* The context by which the vendor finds the library fails. */
TEST(library__of_the_driver_unknown__not_watched)
{
    struct hmem *self;

    begin();
    self = bench_open();
    bench_fail(bench_control(0), "zeContextCreate", ZE_RESULT_ERROR_DEVICE_LOST, 0, 1);
    check_refused(self, "driver 0, whose library is not found", "library of its driver");
}

TEST_MAIN()
