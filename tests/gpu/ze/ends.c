/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The ends of memory that the Level Zero vendor reports by its hooks: each way in which each
 * watched kind ends, which kinds are not watched, and what is said where functions cannot be
 * hooked. With one driver, and with two, whose handles the loader wraps.
 */
#include "core/base/error.h"
#include "core/patch/entry_hook.h"
#include "tests/gpu/ze/bench.h"

#define BYTES 100000

static struct app app;
static uint64_t expected_start, expected_end;
static unsigned reports; /* that contain the expected range */

static void listen(uint64_t start, uint64_t end)
{
    reports += start <= expected_start && end >= expected_end;
}

static int last_driver(void)
{
    return strchr(getenv("ZE_ENABLE_ALT_DRIVERS"), ',') ? 1 : 0;
}

/* An application of the last driver. */
static struct hmem *begin(void)
{
    if (entry_hooks_refusal())
        test_skip("%s", entry_hooks_refusal());
    hmem_listen(listen);
    app_open(&app, last_driver());
    return bench_open();
}

static bool watch(struct hmem *self, uint64_t addr, size_t len)
{
    struct hmem_range range;

    assert_ok(ze->resolve(self, addr, len, &range));
    expected_start = addr;
    expected_end = addr + len;
    reports = 0;
    return ze->watch(self, addr, len, &range, NULL);
}

/* Allocates, and watches the second half. */
static void *watched(struct hmem *self)
{
    uint64_t addr = app_alloc(&app, app.devices[0], BYTES);

    assert_true(watch(self, addr + BYTES / 2, BYTES / 2));
    return (void *)(uintptr_t)addr;
}

static const char *unreported(struct hmem *self)
{
    static struct hmem_runtime runtime;

    ze->runtime(self, &runtime);
    return runtime.unreported;
}

TEST(end__by_each_free__reported)
{
    ze_memory_free_ext_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_MEMORY_FREE_EXT_DESC};
    struct hmem *self = begin();

    for (int i = 0; i < 3; i++) {
        assert_int_equal(zeMemFree(app.context, watched(self)), 0);
        assert_int_not_equal(reports, 0);
        assert_int_equal(zeMemFreeExt(app.context, &desc, watched(self)), 0);
        assert_int_not_equal(reports, 0);
    }
}

/* The driver ends memory at once, when the device has finished with it, or at a later call. */
TEST(end__by_each_policy__reported)
{
    struct hmem *self = begin();

    for (int busy = 0; busy < 2; busy++)
        for (ze_driver_memory_free_policy_ext_flags_t policy = 0; policy < 4; policy++) {
            ze_memory_free_ext_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_MEMORY_FREE_EXT_DESC,
                                              .freePolicy = policy};
            void *addr = watched(self);

            bench_set("HMREG_FAKE_ZE_BUSY", busy);
            assert_int_equal(zeMemFreeExt(app.context, &desc, addr), 0);
            assert_int_not_equal(reports, 0);
            bench_unset_all();
        }
}

/* Intel's driver frees the allocation that the address lies in. */
TEST(end__by_an_inner_address__reported)
{
    ze_memory_free_ext_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_MEMORY_FREE_EXT_DESC};
    struct hmem *self = begin();

    assert_int_equal(zeMemFree(app.context, (char *)watched(self) + 4096), 0);
    assert_int_not_equal(reports, 0);
    assert_int_equal(zeMemFreeExt(app.context, &desc, (char *)watched(self) + BYTES - 1), 0);
    assert_int_not_equal(reports, 0);
}

/* Which allocation the address lies in. */
TEST(end__driver_does_not_say_of_what__all_reported)
{
    struct hmem *self = begin();
    uint64_t other = app_alloc(&app, app.devices[0], BYTES);
    void *addr = watched(self);

    bench_fail(bench_control(last_driver()), "zeMemGetAddressRange", ZE_RESULT_ERROR_DEVICE_LOST, 0,
               1);
    app_free(&app, other);
    assert_true(reports >= 2); /* before the call, and after it */
    app_free(&app, (uintptr_t)addr);
}

TEST(free__of_null__nothing_reported)
{
    struct hmem *self = begin();
    void *addr = watched(self);

    assert_int_not_equal(zeMemFree(app.context, NULL), 0);
    assert_int_equal(reports, 0);
    app_free(&app, (uintptr_t)addr);
}

/* ---- memory that zeMemFree does not free ------------------------------------------------- */

/* A piece of a pool: the import is all of the pool, and its pointer lies inside. */
TEST(end__of_an_import__reported)
{
    struct hmem *self = begin();

    bench_set("HMREG_FAKE_ZE_POOL", 2 * MIB);
    for (int i = 0; i < 4; i++) {
        uint64_t first = app_alloc(&app, app.devices[0], BYTES);
        uint64_t piece = app_alloc(&app, app.devices[0], BYTES);
        ze_ipc_mem_handle_t handle;
        char *import = NULL;

        assert_int_equal(
            zeMemGetIpcHandle(app.context, (char *)(uintptr_t)piece + i / 2 * 512, &handle), 0);
        assert_int_equal(
            zeMemOpenIpcHandle(app.context, app.devices[0], handle, 0, (void **)&import), 0);
        assert_true(watch(self, (uintptr_t)import, BYTES / 2));
        assert_int_equal(zeMemCloseIpcHandle(app.context, import + i % 2 * 4096), 0);
        assert_int_not_equal(reports, 0);
        app_free(&app, first);
        app_free(&app, piece);
    }
}

static char *open_module(ze_module_handle_t *module, const char *variable)
{
    static const char text[] = "first 100000\nsecond 100000\n";
    ze_module_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_MODULE_DESC,
                             .format = ZE_MODULE_FORMAT_NATIVE,
                             .inputSize = sizeof(text),
                             .pInputModule = (const uint8_t *)text};
    void *addr = NULL;
    size_t size = 0;

    assert_int_equal(zeModuleCreate(app.context, app.devices[0], &desc, module, NULL), 0);
    assert_int_equal(zeModuleGetGlobalPointer(*module, variable, &size, &addr), 0);
    assert_int_equal(size, BYTES);
    return addr;
}

/* Which is device memory like any other, until the module is destroyed. */
TEST(end__of_a_modules_variable__reported)
{
    static const char *const names[] = {"first", "second"};
    struct hmem *self = begin();

    for (int i = 0; i < 4; i++) {
        ze_module_handle_t module = NULL;
        char *addr = open_module(&module, names[i % 2]);

        assert_true(watch(self, (uintptr_t)addr, BYTES));
        assert_int_not_equal(zeMemFree(app.context, addr), 0);
        reports = 0;
        assert_int_equal(zeModuleDestroy(module), 0);
        assert_true(reports >= 2); /* before the call, and after it */
    }
}

TEST(end__of_host_and_shared_memory__reported)
{
    ze_device_mem_alloc_desc_t local = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    ze_host_mem_alloc_desc_t host = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    struct hmem *self = begin();
    void *made[2] = {NULL, NULL};

    assert_int_equal(zeMemAllocHost(app.context, &host, BYTES, 0, &made[0]), 0);
    assert_int_equal(
        zeMemAllocShared(app.context, &local, &host, BYTES, 0, app.devices[0], &made[1]), 0);
    for (int i = 0; i < 2; i++) {
        assert_true(watch(self, (uintptr_t)made[i], BYTES));
        assert_int_equal(zeMemFree(app.context, made[i]), 0);
        assert_int_not_equal(reports, 0);
    }
}

TEST(end__with_a_context__reported)
{
    ze_context_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    struct hmem *self = begin();
    ze_context_handle_t context = NULL;
    void *addr = watched(self);

    assert_int_equal(zeContextCreate(app.driver, &desc, &context), 0);
    assert_int_equal(zeContextDestroy(context), 0);
    assert_true(reports >= 2); /* before the call, and after it */
    app_free(&app, (uintptr_t)addr);
}

/* The contexts with which the vendor tries drivers have no memory. */
TEST(open__with_contexts_of_its_own__nothing_reported)
{
    struct hmem *self = begin(), *other = NULL;
    void *addr = watched(self);

    assert_ok(ze->open(&other));
    assert_true(watch(other, (uintptr_t)addr, BYTES));
    assert_int_equal(reports, 0);
    app_free(&app, (uintptr_t)addr);
    assert_int_not_equal(reports, 0);
    ze->close(other);
}

TEST(free__fails__reported_when_it_succeeds)
{
    struct hmem *self = begin();
    ze_context_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    ze_context_handle_t other = NULL;
    void *addr = watched(self);

    assert_int_equal(zeContextCreate(app.driver, &desc, &other), 0);
    assert_int_equal(zeMemFree(other, addr), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    reports = 0;
    assert_int_equal(zeMemFree(app.context, addr), 0);
    assert_int_not_equal(reports, 0);
    assert_int_equal(zeContextDestroy(other), 0);
}

/* ---- virtual memory --------------------------------------------------------------------- */

#define PIECES 2

/* Mappings side by side, watched together. */
struct mapped {
    uint64_t at;
    size_t size; /* of each */
    ze_physical_mem_handle_t pieces[PIECES];
};

static struct mapped map_watched(struct hmem *self)
{
    ze_physical_mem_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC,
                                   .size = bench_page()};
    struct mapped made = {.size = bench_page()};
    void *at = NULL;

    assert_int_equal(zeVirtualMemReserve(app.context, NULL, PIECES * desc.size, &at), 0);
    made.at = (uintptr_t)at;
    for (size_t i = 0; i < PIECES; i++) {
        assert_int_equal(zePhysicalMemCreate(app.context, app.devices[0], &desc, &made.pieces[i]),
                         0);
        assert_int_equal(zeVirtualMemMap(app.context, (char *)at + i * desc.size, desc.size,
                                         made.pieces[i], 0, ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE),
                         0);
    }
    assert_true(watch(self, made.at, PIECES * made.size));
    return made;
}

static void expect(uint64_t start, uint64_t end)
{
    expected_start = start;
    expected_end = end;
    reports = 0;
}

static void *piece_at(const struct mapped *mapped, size_t i)
{
    return (void *)(uintptr_t)(mapped->at + i * mapped->size);
}

static void unmapped_end(const struct mapped *mapped)
{
    assert_int_equal(zeVirtualMemFree(app.context, piece_at(mapped, 0), PIECES * mapped->size), 0);
    for (size_t i = 0; i < PIECES; i++)
        assert_int_equal(zePhysicalMemDestroy(app.context, mapped->pieces[i]), 0);
}

TEST(end__of_a_mapping__reported)
{
    struct hmem *self = begin();
    struct mapped mapped = map_watched(self);

    assert_null(strstr(unreported(self), "virtual"));
    for (size_t i = PIECES; i--;) {
        expect(mapped.at + i * mapped.size, mapped.at + (i + 1) * mapped.size);
        assert_int_equal(zeVirtualMemUnmap(app.context, piece_at(&mapped, i), mapped.size), 0);
        assert_true(reports >= 2); /* before the call, and after it */
        assert_int_equal(zePhysicalMemDestroy(app.context, mapped.pieces[i]), 0);
    }
    assert_int_equal(zeVirtualMemFree(app.context, piece_at(&mapped, 0), PIECES * mapped.size), 0);
}

/* Of all mappings that lie whole in the range. */
TEST(end__of_several_mappings_at_once__each_reported)
{
    for (size_t i = 0; i < PIECES; i++) {
        struct hmem *self = begin();
        struct mapped mapped = map_watched(self);

        expect(mapped.at + i * mapped.size, mapped.at + (i + 1) * mapped.size);
        assert_int_equal(zeVirtualMemUnmap(app.context, piece_at(&mapped, 0), PIECES * mapped.size),
                         0);
        assert_true(reports >= 2);
        unmapped_end(&mapped);
        test_finish();
    }
}

/* Intel's driver unmaps all mappings in the range, and maps the first one's memory anew. */
TEST(end__by_another_access__each_reported)
{
    for (size_t i = 0; i < PIECES; i++) {
        struct hmem *self = begin();
        struct mapped mapped = map_watched(self);
        struct hmem_range range;

        expect(mapped.at + i * mapped.size, mapped.at + (i + 1) * mapped.size);
        assert_int_equal(zeVirtualMemSetAccessAttribute(app.context, piece_at(&mapped, 0),
                                                        PIECES * mapped.size,
                                                        ZE_MEMORY_ACCESS_ATTRIBUTE_READONLY),
                         0);
        assert_true(reports >= 2);
        assert_int_not_equal(ze->resolve(self, mapped.at + mapped.size, 1, &range), 0);
        unmapped_end(&mapped);
        test_finish();
    }
}

TEST(end__of_a_reservation__reported)
{
    struct hmem *self = begin();
    struct mapped mapped = map_watched(self);

    unmapped_end(&mapped);
    assert_true(reports >= 2);
}

/* It names no mapping. */
TEST(end__of_physical_memory__all_virtual_memory_reported)
{
    struct hmem *self = begin();
    struct mapped mapped = map_watched(self);

    for (size_t i = 0; i < PIECES; i++) {
        reports = 0;
        assert_int_equal(zePhysicalMemDestroy(app.context, mapped.pieces[i]), 0);
        assert_true(reports >= 2);
    }
    assert_int_equal(zeVirtualMemFree(app.context, piece_at(&mapped, 0), PIECES * mapped.size), 0);
}

/* Virtual or not? A driver that does not say; and one that the vendor cannot ask. */
TEST(watch__a_query_fails__refused_without_an_error)
{
    static const char *const calls[] = {"zeVirtualMemGetAccessAttribute",
                                        "zeMemGetAllocProperties"};
    struct hmem *self = begin();
    uint64_t addr = app_alloc(&app, app.devices[0], BYTES);
    struct hmem_range range;

    assert_ok(ze->resolve(self, addr, BYTES, &range));
    hmreg_fail(-EXDEV, "before");
    for (int i = 0; i < 2; i++)
        bench_fail(bench_control(last_driver()), calls[i], ZE_RESULT_ERROR_DEVICE_LOST, 0, 1);
    assert_false(ze->watch(self, addr, BYTES, &range, NULL));
    assert_false(ze->watch(self, addr, BYTES, &range, NULL));
    assert_int_equal(hmreg_last_error()->code, -EXDEV);
    assert_true(ze->watch(self, addr, BYTES, &range, NULL));
    app_free(&app, addr);
}

TEST_MAIN()
