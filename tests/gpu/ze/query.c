/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * What Level Zero says about a range: kind, allocation, identity, where it ends. */
#include "tests/gpu/ze/bench.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void query__device_memory__all_fields(void **state)
{
    struct hmem *self = bench_open();
    uint64_t addr = bench_alloc(self, 1, HMREG_MEM_DEVICE, 3 * MIB);
    struct hmem_range range = {0};

    assert_ok(ze->resolve(self, addr + 12345, 1000, &range));
    assert_int_equal(range.device, 1);
    assert_int_equal(range.kind, HMREG_MEM_DEVICE);
    assert_int_equal(range.alloc_base, addr);
    assert_int_equal(range.alloc_len, 3 * MIB);
    assert_int_not_equal(range.identity, 0);
    assert_int_equal(range.segments, 1);
    assert_int_equal(range.host_addr, 0);
    assert_true(range.exportable);
    bench_free(self, addr, HMREG_MEM_DEVICE);
    ze->close(self);
}

static void query__pinned_host_memory__at_its_address(void **state)
{
    struct hmem *self = bench_open();
    uint64_t addr = bench_alloc(self, 0, HMREG_MEM_HOST_PINNED, 8192);
    struct hmem_range range = {0};

    assert_ok(ze->resolve(self, addr + 100, 8000, &range));
    assert_int_equal(range.device, -1);
    assert_int_equal(range.kind, HMREG_MEM_HOST_PINNED);
    assert_int_equal(range.alloc_base, addr);
    assert_int_equal(range.host_addr, addr + 100);
    assert_false(range.exportable);
    memset((void *)(uintptr_t)addr, 1, 8192);
    bench_free(self, addr, HMREG_MEM_HOST_PINNED);
    ze->close(self);
}

static void query__shared_memory__is_managed(void **state)
{
    struct hmem *self = bench_open();
    uint64_t addr = bench_alloc(self, 1, HMREG_MEM_MANAGED, 8192);
    struct hmem_range range = {0};

    assert_ok(ze->resolve(self, addr, 8192, &range));
    assert_int_equal(range.device, 1);
    assert_int_equal(range.kind, HMREG_MEM_MANAGED);
    assert_int_not_equal(range.identity, 0);
    assert_int_equal(range.host_addr, addr);
    assert_false(range.exportable);
    bench_free(self, addr, HMREG_MEM_MANAGED);
    ze->close(self);
}

/* Shared memory may belong to no device at all. */
static void query__shared_memory_of_no_device__device_none(void **state)
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
    app_close(&app);
    ze->close(self);
}

static void query__foreign_memory__not_mine(void **state)
{
    static char data[64];
    struct hmem *self = bench_open();
    struct hmem_range range, before;
    uint64_t id = 77;
    char *heap = malloc(64);
    void *unmapped = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t foreign[] = {
        (uintptr_t)data, (uintptr_t)heap, (uintptr_t)unmapped, (uintptr_t)&range, 1,
        UINT64_MAX - 64};

    munmap(unmapped, 4096);
    memset(&range, 0x5a, sizeof(range));
    before = range;
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        assert_int_equal(ze->resolve(self, foreign[i], 64, &range), -HMEM_NOT_MINE);
        assert_int_equal(ze->identity(self, foreign[i], 64, &id), -HMEM_NOT_MINE);
    }
    assert_memory_equal(&range, &before, sizeof(range));
    assert_int_equal(id, 77);
    free(heap);
    ze->close(self);
}

/* The application has contexts of its own; hmreg asks in its own. */
static void query__memory_of_the_applications_context__found(void **state)
{
    struct hmem *self = bench_open();
    struct hmem_range range = {0};
    struct app app;
    uint64_t addr;

    app_open(&app, 0);
    addr = app_alloc(&app, app.devices[1], 4096);
    assert_ok(ze->resolve(self, addr, 4096, &range));
    assert_int_equal(range.device, 1);
    app_free(&app, addr);
    app_close(&app);
    ze->close(self);
}

static void query__range_leaves_allocation__erange_says_where(void **state)
{
    struct hmem *self = bench_open();
    uint64_t addr = bench_alloc(self, 0, HMREG_MEM_DEVICE, 8192);
    struct hmem_range range, before;
    uint64_t id = 77;
    char end[32];

    memset(&range, 0x5a, sizeof(range));
    before = range;
    snprintf(end, sizeof(end), "at %#lx, after 8092 bytes", addr + 8192);
    assert_fails(ze->resolve(self, addr + 100, 8093, &range), -ERANGE, end);
    assert_fails(ze->identity(self, addr + 100, 8093, &id), -ERANGE, end);
    assert_fails(ze->resolve(self, addr + 100, SIZE_MAX / 2, &range), -ERANGE, end);
    assert_memory_equal(&range, &before, sizeof(range));
    assert_int_equal(id, 77);
    assert_ok(ze->resolve(self, addr + 100, 8092, &range));
    bench_free(self, addr, HMREG_MEM_DEVICE);
    ze->close(self);
}

/* Two allocations side by side are two; a range over both leaves the first. */
static void query__range_crosses_into_the_next_allocation__erange(void **state)
{
    struct hmem *self = bench_open();
    size_t page = bench_page();
    uint64_t a = bench_alloc(self, 0, HMREG_MEM_DEVICE, 2 * page);
    uint64_t b = bench_alloc(self, 0, HMREG_MEM_DEVICE, 2 * page);
    uint64_t low = a < b ? a : b;
    struct hmem_range range = {0};
    char end[32];

    assert_int_equal(a < b ? b - a : a - b, 2 * page);
    snprintf(end, sizeof(end), "at %#lx", low + 2 * page);
    assert_fails(ze->resolve(self, low + page, 2 * page, &range), -ERANGE, end);
    bench_free(self, a, HMREG_MEM_DEVICE);
    bench_free(self, b, HMREG_MEM_DEVICE);
    ze->close(self);
}

/* Small allocations share a page; each is itself. */
static void query__sub_page_allocations__apart(void **state)
{
    struct hmem *self = bench_open();
    struct hmem_range ranges[3];
    uint64_t addrs[3];

    for (int i = 0; i < 3; i++) {
        addrs[i] = bench_alloc(self, 0, HMREG_MEM_DEVICE, 100);
        assert_ok(ze->resolve(self, addrs[i], 100, &ranges[i]));
        assert_int_equal(ranges[i].alloc_base, addrs[i]);
        assert_int_equal(ranges[i].alloc_len, 100);
    }
    assert_int_equal(addrs[0] / bench_page(), addrs[2] / bench_page());
    assert_int_not_equal(ranges[0].identity, ranges[1].identity);
    assert_int_not_equal(ranges[1].identity, ranges[2].identity);
    assert_fails(ze->resolve(self, addrs[0], 101, &ranges[0]), -ERANGE, "leaves");
    assert_int_equal(ze->resolve(self, addrs[0] + 100, 1, &ranges[0]), -HMEM_NOT_MINE);
    for (int i = 0; i < 3; i++)
        bench_free(self, addrs[i], HMREG_MEM_DEVICE);
    ze->close(self);
}

static void identity__freed_memory__not_mine(void **state)
{
    struct hmem *self = bench_open();
    uint64_t addr = bench_alloc(self, 0, HMREG_MEM_DEVICE, 4096);
    struct hmem_range range = {0};
    uint64_t id = 0;

    assert_ok(ze->resolve(self, addr, 4096, &range));
    assert_ok(ze->identity(self, addr, 4096, &id));
    assert_int_equal(id, range.identity);
    bench_free(self, addr, HMREG_MEM_DEVICE);
    assert_int_equal(ze->identity(self, addr, 4096, &id), -HMEM_NOT_MINE);
    assert_int_equal(ze->resolve(self, addr, 4096, &range), -HMEM_NOT_MINE);
    ze->close(self);
}

static void identity__address_reused__differs(void **state)
{
    struct hmem *self = bench_open();
    uint64_t last = 0, id = 0;
    uint64_t first = bench_alloc(self, 0, HMREG_MEM_DEVICE, 65536);

    for (int i = 0; i < 20; i++) {
        assert_ok(ze->identity(self, first, 65536, &id));
        assert_int_not_equal(id, last);
        last = id;
        bench_free(self, first, HMREG_MEM_DEVICE);
        assert_int_equal(bench_alloc(self, 0, HMREG_MEM_DEVICE, 65536), first);
    }
    bench_free(self, first, HMREG_MEM_DEVICE);
    ze->close(self);
}

/* Memory of a tile answers with the tile's handle, which zeDeviceGet does not list. */
static void query__memory_of_a_tile__is_the_cards(void **state)
{
    ze_device_handle_t tiles[4];
    struct hmem_range range = {0};
    struct hmem *self;
    struct app app;
    uint32_t count = 4;
    uint64_t addr;

    bench_set("HMREG_FAKE_ZE_TILES", 2);
    self = bench_open();
    app_open(&app, 0);
    assert_int_equal(zeDeviceGetSubDevices(app.devices[1], &count, tiles), 0);
    assert_int_equal(count, 2);
    addr = app_alloc(&app, tiles[1], 8192);
    assert_ok(ze->resolve(self, addr, 8192, &range));
    assert_int_equal(range.device, 1);
    assert_int_equal(range.segments, 1);
    assert_true(range.exportable);
    app_free(&app, addr);
    app_close(&app);
    ze->close(self);
    bench_unset("HMREG_FAKE_ZE_TILES");
}

/* Devices that tell no UUID are not all the same one. */
static void query__no_uuids__pci_address_decides(void **state)
{
    struct hmem_range range = {0};
    ze_device_handle_t tile;
    struct hmem *self;
    struct app app;
    uint32_t count = 1;
    uint64_t addr;

    bench_set("HMREG_FAKE_ZE_TILES", 2);
    app_open(&app, 0);
    bench_fail(bench_control(0), "zeDeviceGetProperties", ZE_RESULT_ERROR_UNKNOWN, 0, -1);
    self = bench_open();
    assert_int_equal(zeDeviceGetSubDevices(app.devices[1], &count, &tile), 0);
    addr = app_alloc(&app, tile, 8192);
    assert_ok(ze->resolve(self, addr, 8192, &range));
    assert_int_equal(range.device, 1);
    bench_control(0)->reset();
    app_free(&app, addr);
    app_close(&app);
    ze->close(self);
    bench_unset("HMREG_FAKE_ZE_TILES");
}

/* A device that neither its UUID nor its PCI address makes known is no device of ours. */
static void query__memory_of_an_unlisted_device__eio(void **state)
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
    app_close(&app);
    ze->close(self);
    bench_unset("HMREG_FAKE_ZE_TILES");
}

static void query__memory_over_tiles__several_segments(void **state)
{
    struct hmem_range range = {0};
    struct hmem *self;
    uint64_t addr;

    bench_set("HMREG_FAKE_ZE_TILES", 3);
    self = bench_open();
    addr = bench_alloc(self, 0, HMREG_MEM_DEVICE, 9 * bench_page());
    assert_ok(ze->resolve(self, addr, 9 * bench_page(), &range));
    assert_int_equal(range.segments, 3);
    assert_false(range.exportable);
    bench_free(self, addr, HMREG_MEM_DEVICE);
    ze->close(self);
    bench_unset("HMREG_FAKE_ZE_TILES");
}

/* The driver says yes and nothing more. */
static void query__nonsense_range__eio(void **state)
{
    struct hmem *self = bench_open();
    uint64_t addr = bench_alloc(self, 0, HMREG_MEM_DEVICE, 4096);
    struct hmem_range range;

    bench_fail(bench_control(0), "zeMemGetAddressRange", ZE_RESULT_SUCCESS, 0, 1);
    assert_fails(ze->resolve(self, addr, 64, &range), -EIO, "not where the address is");
    bench_free(self, addr, HMREG_MEM_DEVICE);
    ze->close(self);
}

/* A pool that answers for all its addresses still has no allocation where one was freed. */
static void query__freed_piece_of_a_pool__not_mine(void **state)
{
    struct hmem *self = bench_open();
    struct hmem_range range = {0};
    struct app app;
    uint64_t kept, freed, id = 0;

    bench_set("HMREG_FAKE_ZE_POOL", 16 * (long)bench_page());
    bench_set("HMREG_FAKE_ZE_POOL_ID", 1);
    app_open(&app, 0);
    kept = app_alloc(&app, app.devices[0], 1000);
    freed = app_alloc(&app, app.devices[0], 1000);
    assert_ok(ze->resolve(self, freed, 1000, &range));
    assert_int_equal(range.alloc_base, freed);
    assert_int_equal(range.alloc_len, 1000);
    app_free(&app, freed);
    assert_int_equal(ze->resolve(self, freed, 1000, &range), -HMEM_NOT_MINE);
    assert_int_equal(ze->identity(self, freed, 1000, &id), -HMEM_NOT_MINE);
    assert_ok(ze->resolve(self, kept, 1000, &range));
    app_free(&app, kept);
    bench_unset("HMREG_FAKE_ZE_POOL");
    bench_unset("HMREG_FAKE_ZE_POOL_ID");
    app_close(&app);
    ze->close(self);
}

/* What makes a simulated device worth testing with. */
static void device_memory__touched_by_the_cpu__faults(void **state)
{
    struct hmem *self = bench_open();
    uint64_t addr = bench_alloc(self, 0, HMREG_MEM_DEVICE, 4096);
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile char *)(uintptr_t)addr = 1;
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
    bench_free(self, addr, HMREG_MEM_DEVICE);
    ze->close(self);
}

/* The runtime has shut down: it is asked once more, and then not called again. */
static void query__runtime_shut_down__not_mine_and_not_called(void **state)
{
    struct hmem *self = bench_open();
    const struct fake_control *fake = bench_control(0);
    struct hmreg_dmabuf dmabuf = {.fd = -7};
    struct hmem_range range = {0};
    struct app app;
    uint64_t addr, id = 0;
    void *made = NULL;

    app_open(&app, 0);
    addr = app_alloc(&app, app.devices[0], 4096);
    assert_ok(ze->resolve(self, addr, 4096, &range));
    fake->reset();
    bench_fail(fake, "zeMemGetAllocProperties", ZE_RESULT_ERROR_UNINITIALIZED, 0, 1);
    assert_int_equal(ze->identity(self, addr, 4096, &id), -HMEM_NOT_MINE);
    assert_int_equal(ze->resolve(self, addr, 4096, &range), -HMEM_NOT_MINE);
    assert_fails(ze->export_dmabuf(self, addr, 4096, &range, &dmabuf), -ENODEV, "shut down");
    assert_fails(ze->copy(self, addr, addr + 64, 64), -ENODEV, "shut down");
    assert_fails(ze->alloc(self, 0, HMREG_MEM_DEVICE, 64, &made), -ENODEV, "shut down");
    assert_fails(ze->free(self, (void *)(uintptr_t)addr, HMREG_MEM_DEVICE), -ENODEV, "shut down");
    assert_int_equal(fake->calls("zeMemGetAllocProperties"), 1);
    assert_int_equal(fake->calls("zeMemAllocDevice"), 0);
    assert_int_equal(dmabuf.fd, -7);
    assert_null(made);
    ze->close(self);
    assert_int_equal(fake->calls("zeContextDestroy"), 0);
    fake->reset();
    app_free(&app, addr);
    app_close(&app);
}

#define THREADS 4

struct asker {
    struct hmem *self;
    uint64_t addrs[3];
    int wrong;
};

/* Asks about memory that stays while it allocates, asks about and frees memory of its own. */
static void *ask_and_allocate(void *arg)
{
    struct asker *asker = arg;
    static const enum hmreg_mem_kind kinds[] = {HMREG_MEM_DEVICE, HMREG_MEM_HOST_PINNED,
                                                HMREG_MEM_MANAGED};

    for (int i = 0; i < 300; i++) {
        struct hmem_range range = {0};
        void *own = NULL;
        uint64_t id = 0;
        int which = i % 3;

        if (ze->resolve(asker->self, asker->addrs[which] + 64, 64, &range) ||
            range.kind != kinds[which] || range.alloc_base != asker->addrs[which])
            asker->wrong++;
        if (ze->alloc(asker->self, i % 2, kinds[which], 4096, &own) ||
            ze->identity(asker->self, (uintptr_t)own, 4096, &id) || id == range.identity ||
            ze->free(asker->self, own, kinds[which]))
            asker->wrong++;
        if (ze->resolve(asker->self, (uintptr_t)&range, sizeof(range), &range) != -HMEM_NOT_MINE)
            asker->wrong++;
    }
    return NULL;
}

static void query__many_threads__all_right(void **state)
{
    struct asker asker = {.self = bench_open()};
    struct asker askers[THREADS];
    pthread_t threads[THREADS];

    asker.addrs[0] = bench_alloc(asker.self, 0, HMREG_MEM_DEVICE, 8192);
    asker.addrs[1] = bench_alloc(asker.self, 0, HMREG_MEM_HOST_PINNED, 8192);
    asker.addrs[2] = bench_alloc(asker.self, 1, HMREG_MEM_MANAGED, 8192);
    for (int i = 0; i < THREADS; i++) {
        askers[i] = asker;
        assert_int_equal(pthread_create(&threads[i], NULL, ask_and_allocate, &askers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(askers[i].wrong, 0);
    }
    bench_free(asker.self, asker.addrs[0], HMREG_MEM_DEVICE);
    bench_free(asker.self, asker.addrs[1], HMREG_MEM_HOST_PINNED);
    bench_free(asker.self, asker.addrs[2], HMREG_MEM_MANAGED);
    ze->close(asker.self);
}

TEST_MAIN(
    TEST(query__device_memory__all_fields), TEST(query__pinned_host_memory__at_its_address),
    TEST(query__shared_memory__is_managed), TEST(query__shared_memory_of_no_device__device_none),
    TEST(query__foreign_memory__not_mine), TEST(query__memory_of_the_applications_context__found),
    TEST(query__range_leaves_allocation__erange_says_where),
    TEST(query__range_crosses_into_the_next_allocation__erange),
    TEST(query__sub_page_allocations__apart), TEST(identity__freed_memory__not_mine),
    TEST(identity__address_reused__differs), TEST(query__memory_of_a_tile__is_the_cards),
    TEST(query__memory_of_an_unlisted_device__eio), TEST(query__no_uuids__pci_address_decides),
    TEST(query__memory_over_tiles__several_segments), TEST(query__freed_piece_of_a_pool__not_mine),
    TEST(query__nonsense_range__eio), TEST(device_memory__touched_by_the_cpu__faults),
    TEST(query__runtime_shut_down__not_mine_and_not_called), TEST(query__many_threads__all_right))
