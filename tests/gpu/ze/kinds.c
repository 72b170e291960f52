/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Every kind of Level Zero memory: docs/memory-kinds.md, row by row.
 */
#include "tests/gpu/kinds.h"
#include "tests/gpu/ze/bench.h"

#define BYTES 100000

/* The library, and an application with a context of its own. */
struct fixture {
    struct hmreg *lib;
    struct app app;
};

static struct fixture begin(void)
{
    struct fixture fixture = {.lib = kind_open(HMREG_IFACE_ZE)};

    app_open(&fixture.app, 0);
    return fixture;
}

static struct kind device_kind(uint64_t addr, size_t len)
{
    return (struct kind){.addr = (void *)(uintptr_t)addr,
                         .len = len,
                         .iface = HMREG_IFACE_ZE,
                         .kind = HMREG_MEM_DEVICE,
                         .segments = 1,
                         .exportable = true,
                         .path = HMREG_PATH_MAPPED};
}

static void refuse(struct kind *kind, int code, const char *words)
{
    kind->export_code = code;
    kind->export_says = words;
    kind->path = HMREG_PATH_NONE;
    kind->refusal = words;
}

/* ---- device memory ---------------------------------------------------------------------- */

struct allocated {
    struct app *app;
    uint64_t addr;
    bool for_export;
};

static void *renew_device(void *arg)
{
    ze_external_memory_export_desc_t export = {.stype =
                                                   ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_DESC,
                                               .flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF};
    ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    struct allocated *allocated = arg;
    void *made = NULL;

    if (allocated->addr)
        app_free(allocated->app, allocated->addr);
    if (allocated->for_export)
        desc.pNext = &export;
    assert_int_equal(zeMemAllocDevice(allocated->app->context, &desc, BYTES, 0,
                                      allocated->app->devices[0], &made),
                     ZE_RESULT_SUCCESS);
    allocated->addr = (uintptr_t)made;
    return made;
}

static void check_device(bool for_export)
{
    struct fixture fixture = begin();
    struct allocated allocated = {.app = &fixture.app, .for_export = for_export};
    struct kind kind = device_kind((uintptr_t)renew_device(&allocated), BYTES);

    kind_reuse(fixture.lib, &kind, renew_device, &allocated);
    app_free(&fixture.app, allocated.addr);
}

TEST(kind__device_allocated_for_export__dmabuf)
{
    check_device(true);
}

/* The specification requires the export descriptor at the allocation; lenient drivers export all
 * memory. */
TEST(kind__device_not_allocated_for_export__dmabuf)
{
    check_device(false);
}

TEST(kind__device_of_a_driver_that_insists__refused_with_the_remedy)
{
    struct allocated allocated = {0};
    struct fixture fixture;
    struct kind kind;

    bench_set("HMREG_FAKE_ZE_INSIST", 1);
    fixture = begin();
    allocated.app = &fixture.app;
    kind = device_kind((uintptr_t)renew_device(&allocated), BYTES);
    refuse(&kind, -EOPNOTSUPP, "allocate it with ze_external_memory_export_desc_t");
    kind_check(fixture.lib, &kind);
    app_free(&fixture.app, allocated.addr);
}

/* A piece of a driver's pool: the descriptor is the pool's. Intel's has one id throughout. */
TEST(kind__piece_of_a_pool__refused_with_the_remedy)
{
    for (int one_id = 0; one_id < 2; one_id++) {
        struct kind kind;
        struct fixture fixture;
        uint64_t addr;

        bench_set("HMREG_FAKE_ZE_POOL", 2 * MIB);
        bench_set("HMREG_FAKE_ZE_POOL_ID", one_id);
        fixture = begin();
        addr = app_alloc(&fixture.app, fixture.app.devices[0], 1000);
        kind = device_kind(addr, 1000);
        refuse(&kind, -EPROTO, "does not report its offset there");
        kind_check(fixture.lib, &kind);
        app_free(&fixture.app, addr);
        test_finish();
    }
}

/* The runtime gives one descriptor for memory on two tiles, which covers half of it at most. */
TEST(kind__memory_over_tiles__refused_with_the_remedy)
{
    struct allocated allocated = {0};
    struct kind kind;
    struct fixture fixture;

    bench_set("HMREG_FAKE_ZE_TILES", 2);
    fixture = begin();
    allocated.app = &fixture.app;
    kind = device_kind((uintptr_t)renew_device(&allocated), BYTES);
    kind.exportable = false;
    kind.segments = 2;
    refuse(&kind, -EXDEV, "allocate it on one tile");
    kind_check(fixture.lib, &kind);
    app_free(&fixture.app, allocated.addr);
}

/* The remedy: memory of one tile, under either hierarchy the card's in the list of devices. */
TEST(kind__memory_of_one_tile__dmabuf)
{
    ze_device_handle_t tiles[4];
    uint32_t count = 4;
    struct kind kind;
    struct fixture fixture;
    uint64_t addr;

    bench_set("HMREG_FAKE_ZE_TILES", 2);
    fixture = begin();
    assert_int_equal(zeDeviceGetSubDevices(fixture.app.devices[1], &count, tiles),
                     ZE_RESULT_SUCCESS);
    assert_int_equal(count, 2);
    addr = app_alloc(&fixture.app, tiles[1], BYTES);
    kind = device_kind(addr, BYTES);
    kind.device = 1;
    kind_check(fixture.lib, &kind);
    app_free(&fixture.app, addr);
}

/* There the tiles are the devices, and memory of one is exported as usual. */
TEST(kind__flat_hierarchy__each_tile_a_device)
{
    struct fixture fixture;

    bench_set("HMREG_FAKE_ZE_TILES", 2);
    bench_set("HMREG_FAKE_ZE_FLAT", 1);
    fixture = begin();
    assert_int_equal(fixture.app.device_count, 4);
    for (int i = 0; i < 4; i++) {
        uint64_t addr = app_alloc(&fixture.app, fixture.app.devices[i], BYTES);
        struct kind kind = device_kind(addr, BYTES);

        kind.device = i;
        kind_check(fixture.lib, &kind);
        app_free(&fixture.app, addr);
    }
}

/* ---- memory that zeMemFree does not free -------------------------------------------------- */

static void *renew_import(void *arg)
{
    struct allocated *allocated = arg;
    struct app *app = allocated->app;
    uint64_t exported = app_alloc(app, app->devices[0], BYTES);
    ze_ipc_mem_handle_t handle;
    void *made = NULL;

    assert_int_equal(zeMemGetIpcHandle(app->context, (void *)(uintptr_t)exported, &handle), 0);
    if (allocated->addr)
        assert_int_equal(
            zeMemCloseIpcHandle(app->context, (void *)(uintptr_t)(allocated->addr + 777)), 0);
    assert_int_equal(zeMemOpenIpcHandle(app->context, app->devices[0], handle, 0, &made), 0);
    app_free(app, exported);
    allocated->addr = (uintptr_t)made;
    return made;
}

/* The import is longer than the exported memory where that lies in a pool: here it is the pool. */
static void check_import(size_t pool)
{
    struct allocated allocated = {0};
    struct fixture fixture;
    struct kind kind;

    bench_set("HMREG_FAKE_ZE_POOL", (long)pool);
    fixture = begin();
    allocated.app = &fixture.app;
    kind = device_kind((uintptr_t)renew_import(&allocated), BYTES);
    kind_reuse(fixture.lib, &kind, renew_import, &allocated);
    assert_int_equal(zeMemCloseIpcHandle(fixture.app.context, (void *)(uintptr_t)allocated.addr),
                     0);
    test_finish();
}

TEST(kind__imported_by_ipc__dmabuf)
{
    check_import(0);
    check_import(MIB);
}

struct loaded {
    struct app *app;
    ze_module_handle_t module;
};

static void *renew_variable(void *arg)
{
    static const char text[] = "before 1000\nvariable 100000\n";
    ze_module_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_MODULE_DESC,
                             .format = ZE_MODULE_FORMAT_NATIVE,
                             .inputSize = sizeof(text),
                             .pInputModule = (const uint8_t *)text};
    struct loaded *loaded = arg;
    struct app *app = loaded->app;
    void *made = NULL;
    size_t len = 0;

    if (loaded->module)
        assert_int_equal(zeModuleDestroy(loaded->module), 0);
    assert_int_equal(zeModuleCreate(app->context, app->devices[0], &desc, &loaded->module, NULL),
                     0);
    assert_int_equal(zeModuleGetGlobalPointer(loaded->module, "variable", &len, &made), 0);
    assert_int_equal(len, BYTES);
    return made;
}

TEST(kind__variable_of_a_module__dmabuf)
{
    struct fixture fixture = begin();
    struct loaded loaded = {.app = &fixture.app};
    struct kind kind = device_kind((uintptr_t)renew_variable(&loaded), BYTES);

    kind_reuse(fixture.lib, &kind, renew_variable, &loaded);
    assert_int_equal(zeModuleDestroy(loaded.module), 0);
}

/* ---- host and shared memory ------------------------------------------------------------- */

static void *renew_host(void *arg)
{
    ze_host_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    struct allocated *allocated = arg;
    void *made = NULL;

    if (allocated->addr)
        app_free(allocated->app, allocated->addr);
    assert_int_equal(zeMemAllocHost(allocated->app->context, &desc, BYTES, 0, &made),
                     ZE_RESULT_SUCCESS);
    allocated->addr = (uintptr_t)made;
    return made;
}

static void *renew_shared(void *arg)
{
    ze_device_mem_alloc_desc_t device = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    ze_host_mem_alloc_desc_t host = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    struct allocated *allocated = arg;
    void *made = NULL;

    if (allocated->addr)
        app_free(allocated->app, allocated->addr);
    assert_int_equal(zeMemAllocShared(allocated->app->context, &device, &host, BYTES, 0,
                                      allocated->app->devices[0], &made),
                     ZE_RESULT_SUCCESS);
    allocated->addr = (uintptr_t)made;
    return made;
}

static void check_touchable(enum hmreg_mem_kind sort, int device, const char *says,
                            void *(*renew)(void *))
{
    struct fixture fixture = begin();
    struct allocated allocated = {.app = &fixture.app};
    struct kind kind = device_kind((uintptr_t)renew(&allocated), BYTES);

    kind.kind = sort;
    kind.device = device;
    kind.exportable = false;
    kind.export_code = -EOPNOTSUPP;
    kind.export_says = says;
    kind.path = HMREG_PATH_SYSTEM;
    kind.local_addr = allocated.addr;
    kind_reuse(fixture.lib, &kind, renew, &allocated);
    app_free(&fixture.app, allocated.addr);
}

TEST(kind__host__by_its_address)
{
    check_touchable(HMREG_MEM_HOST_PINNED, -1, "registered by its address", renew_host);
}

/* It migrates; only a fabric that reads with the CPU can register it. */
TEST(kind__shared__by_its_address_where_the_cpu_moves_the_bytes)
{
    check_touchable(HMREG_MEM_MANAGED, 0, "migrates", renew_shared);
}

/* ---- virtual memory --------------------------------------------------------------------- */

#define RESERVED (4 * MIB)

struct reserved {
    struct fixture *fixture;
    uint64_t addr;
    int device;
    ze_physical_mem_handle_t physical[4];
};

static struct reserved reserved_begin(struct fixture *fixture)
{
    struct reserved reserved = {.fixture = fixture};
    const void *wish = (const void *)(uintptr_t)(64 * RESERVED);
    void *addr = NULL;

    /* NULL would do, but the specification forbids it elsewhere, and loader 1.8's validation. */
    assert_int_equal(zeVirtualMemReserve(fixture->app.context, wish, RESERVED, &addr),
                     ZE_RESULT_SUCCESS);
    reserved.addr = (uintptr_t)addr;
    return reserved;
}

/* One of four places; the physical memory may be longer than its mapped part. */
static void map_part(struct reserved *reserved, unsigned i, size_t physical, size_t offset)
{
    ze_physical_mem_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC, .size = physical};
    struct app *app = &reserved->fixture->app;

    assert_int_equal(zePhysicalMemCreate(app->context, app->devices[reserved->device], &desc,
                                         &reserved->physical[i]),
                     ZE_RESULT_SUCCESS);
    assert_int_equal(zeVirtualMemMap(app->context, (void *)(uintptr_t)(reserved->addr + i * MIB),
                                     MIB, reserved->physical[i], offset,
                                     ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE),
                     ZE_RESULT_SUCCESS);
}

static void map_one(struct reserved *reserved, unsigned i)
{
    map_part(reserved, i, MIB, 0);
}

static void unmap_one(struct reserved *reserved, unsigned i)
{
    struct app *app = &reserved->fixture->app;

    assert_int_equal(
        zeVirtualMemUnmap(app->context, (void *)(uintptr_t)(reserved->addr + i * MIB), MIB),
        ZE_RESULT_SUCCESS);
    assert_int_equal(zePhysicalMemDestroy(app->context, reserved->physical[i]), ZE_RESULT_SUCCESS);
    reserved->physical[i] = NULL;
}

static void reserved_end(struct reserved *reserved)
{
    for (unsigned i = 0; i < 4; i++)
        if (reserved->physical[i])
            unmap_one(reserved, i);
    assert_int_equal(zeVirtualMemFree(reserved->fixture->app.context,
                                      (void *)(uintptr_t)reserved->addr, RESERVED),
                     ZE_RESULT_SUCCESS);
}

static void *renew_second(void *arg)
{
    struct reserved *reserved = arg;

    unmap_one(reserved, 1);
    map_one(reserved, 1);
    return (void *)(uintptr_t)(reserved->addr + MIB + 777);
}

TEST(kind__one_mapping__dmabuf)
{
    struct fixture fixture = begin();
    struct reserved reserved = reserved_begin(&fixture);
    struct kind kind;

    map_one(&reserved, 1);
    kind = device_kind(reserved.addr + MIB + 777, BYTES);
    kind_reuse(fixture.lib, &kind, renew_second, &reserved);
    reserved_end(&reserved);
}

/* From the first, past the last but for a few bytes. */
static struct kind several(const struct reserved *reserved, unsigned first, unsigned count)
{
    struct kind kind = device_kind(reserved->addr + first * MIB + 777, count * MIB - 1000);

    kind.segments = count;
    kind.pieces = count;
    kind.exportable = false;
    kind.export_code = -EXDEV;
    kind.export_says = "mappings of virtual memory";
    return kind;
}

static void *renew_behind(void *arg)
{
    struct reserved *reserved = arg;

    unmap_one(reserved, 1);
    map_one(reserved, 1);
    return (void *)(uintptr_t)(reserved->addr + 777);
}

TEST(kind__several_mappings__composite)
{
    struct fixture fixture = begin();
    struct reserved reserved = reserved_begin(&fixture);
    struct kind kind;

    for (unsigned i = 0; i < 3; i++)
        map_one(&reserved, i);
    kind = several(&reserved, 0, 3);
    kind_reuse(fixture.lib, &kind, renew_behind, &reserved);
    reserved_end(&reserved);
}

TEST(kind__mappings_of_two_devices__composite)
{
    struct fixture fixture = begin();
    struct reserved reserved = reserved_begin(&fixture);
    struct kind kind;

    map_one(&reserved, 0);
    reserved.device = 1;
    map_one(&reserved, 1);
    reserved.device = 0;
    kind = several(&reserved, 0, 2);
    kind_check(fixture.lib, &kind);
    reserved_end(&reserved);
}

TEST(kind__mappings_with_a_hole__erange)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};
    struct fixture fixture = begin();
    struct reserved reserved = reserved_begin(&fixture);
    void *addr = (void *)(uintptr_t)reserved.addr;

    map_one(&reserved, 0);
    map_one(&reserved, 2);
    assert_fails(hmreg_query(fixture.lib, addr, 3 * MIB, &info), -ERANGE, "beyond its allocation");
    map_one(&reserved, 1);
    assert_ok(hmreg_query(fixture.lib, addr, 3 * MIB, &info));
    assert_int_equal(info.segments, 3);
    reserved_end(&reserved);
}

/* It is not the system's: the addresses are Level Zero's. */
TEST(kind__range_that_begins_in_a_hole__efault)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};
    struct fixture fixture = begin();
    struct reserved reserved = reserved_begin(&fixture);

    map_one(&reserved, 1);
    for (unsigned i = 0; i < 4; i += 2) {
        void *addr = (void *)(uintptr_t)(reserved.addr + i * MIB + 777);

        assert_fails(hmreg_query(fixture.lib, addr, MIB, &info), -EFAULT, "only reserved");
        assert_fails(hmreg_query(fixture.lib, addr, 1, &info), -EFAULT, "only reserved");
        bench_fail(bench_control(0), "zeVirtualMemGetAccessAttribute", ZE_RESULT_ERROR_DEVICE_LOST,
                   0, 1);
        assert_fails(hmreg_query(fixture.lib, addr, 1, &info), -EIO, "failed");
    }
    reserved_end(&reserved);
}

/* Adjacent by chance: two allocations, as two of zeMemAllocDevice are. */
TEST(kind__mappings_of_two_reservations__erange)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};
    struct fixture fixture = begin();
    struct reserved first = reserved_begin(&fixture), second = reserved_begin(&fixture);

    assert_int_equal(second.addr, first.addr + RESERVED);
    map_one(&first, 3);
    map_one(&second, 0);
    assert_fails(hmreg_query(fixture.lib, (void *)(uintptr_t)(second.addr - 1), 2, &info), -ERANGE,
                 "beyond its allocation");
    reserved_end(&first);
    reserved_end(&second);
}

/* The descriptor covers all the physical memory, and no call reports which part is mapped. */
TEST(kind__mapping_of_a_part_of_the_memory__refused)
{
    struct fixture fixture = begin();
    struct reserved reserved = reserved_begin(&fixture);

    for (unsigned i = 0; i < 2; i++) {
        struct kind kind;

        map_part(&reserved, i, 2 * MIB, i * MIB);
        kind = device_kind(reserved.addr + i * MIB, MIB);
        refuse(&kind, -EPROTO, "does not report its offset there");
        kind_check(fixture.lib, &kind);
    }
    reserved_end(&reserved);
}

TEST_MAIN()
