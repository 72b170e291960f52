/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Intel's own Level Zero driver (Debian unstable's libze-intel-gpu1) over a stand-in for the
 * kernel's module xe (tests/support/fake/xe.c): the vendor interprets its answers correctly, and
 * its functions that end memory are hooked. With two GPUs, and with one, of which the driver takes
 * small allocations from pools. The GPUs execute nothing: the driver's copies here are by the CPU.
 */
#include "core/patch/entry_hook.h"
#include "tests/gpu/ze/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <hmreg/loopback.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN 65536u

static struct app app;

/* hmreg, and an application beside it. */
static struct hmem *begin(void)
{
    struct hmem *self = bench_open_real();

    app_open(&app, 0);
    return self;
}

static void *pointer(uint64_t addr)
{
    return (void *)(uintptr_t)addr;
}

static struct hmem_range resolve(struct hmem *self, uint64_t addr, size_t len)
{
    struct hmem_range range = {0};

    assert_ok(ze->resolve(self, addr, len, &range));
    return range;
}

static int kind_at(struct hmem *self, uint64_t addr)
{
    struct hmem_range range = {0};
    int rc = ze->resolve(self, addr, 1, &range);

    assert_true(!rc || rc == -HMEM_NOT_MINE);
    return rc ? -1 : (int)range.kind;
}

/* The driver has reserved the address, and mapped nothing there. */
static bool is_a_hole(struct hmem *self, uint64_t addr)
{
    struct hmem_range range = {0};

    return ze->resolve(self, addr, 1, &range) == -EFAULT;
}

TEST(open__intels_driver__devices_described_and_hooked)
{
    struct hmem *self = begin();
    struct hmem_runtime runtime;
    struct hmem_device device;
    struct hmem_range range;
    uint64_t addr = app_alloc(&app, app.devices[0], LEN);

    assert_int_equal(ze->device_count(self), app.device_count);
    for (int i = 0; i < (int)app.device_count; i++) {
        ze->device(self, i, &device);
        assert_non_null(strstr(device.name, "Intel(R)"));
        assert_true(device.pci.valid);
        assert_int_equal(device.pci.bus, 0x23 + i);
        assert_in_range(device.memory, 15ull << 30, 16ull << 30); /* it keeps a part */
        assert_int_equal(device.dmabuf, 1);
        assert_false(device.simulated);
    }
    range = resolve(self, addr, LEN);
    if (!entry_hooks_refusal())
        assert_true(ze->watch(self, addr, LEN, &range, NULL));
    ze->runtime(self, &runtime);
    assert_null(strstr(runtime.library, "/simulated/"));
    assert_string_equal(runtime.lacks, ""); /* contexts see each other's memory */
    if (!entry_hooks_refusal())
        assert_string_equal(runtime.unreported, "imported host memory (programs unmap it)");
    app_free(&app, addr);
}

/* Where the driver has one GPU, the memory of a free and of the next allocation are the same, and
 * so is their identity: a piece of a pool, or larger memory that it keeps for that, and goes on to
 * know.
 */
static void check_again(struct hmem *self, size_t device, size_t len, uint64_t addr, uint64_t id)
{
    uint64_t again;

    if (app.device_count > 1)
        assert_int_equal(kind_at(self, addr), -1);
    again = app_alloc(&app, app.devices[device], len);
    assert_int_equal(again, addr);
    if (app.device_count > 1)
        assert_int_not_equal(resolve(self, again, len).identity, id);
    else
        assert_int_equal(resolve(self, again, len).identity, id);
    app_free(&app, again);
}

/* Device memory is in the upper half of the addresses. */
TEST(resolve__device_memory__described)
{
    static const size_t lengths[] = {100, 5000, 70000, 4 * MIB};
    struct hmem *self = begin();
    struct hmem_range range;

    for (size_t i = 0; i < 4 * app.device_count; i++) {
        size_t len = lengths[i % 4], device = i / 4;
        uint64_t addr = app_alloc(&app, app.devices[device], len), id = 0;

        assert_int_equal(addr >> 48, 0xffff);
        range = resolve(self, addr + 5, len - 5);
        assert_int_equal(range.kind, HMREG_MEM_DEVICE);
        assert_int_equal(range.device, device);
        assert_int_equal(range.alloc_base, addr);
        assert_int_equal(range.alloc_len, len);
        assert_int_equal(range.host_addr, 0);
        assert_true(range.exportable);
        assert_int_not_equal(range.identity, 0);
        assert_ok(ze->identity(self, addr, len, &id));
        assert_int_equal(id, range.identity);
        assert_fails(ze->resolve(self, addr, len + 1, &range), -ERANGE,
                     "the allocation ends there");
        app_free(&app, addr);
        check_again(self, device, len, addr, id);
    }
}

TEST(resolve__other_memory__by_its_address_or_not_mine)
{
    static const enum hmreg_mem_kind kinds[] = {HMREG_MEM_HOST_PINNED, HMREG_MEM_MANAGED};
    struct hmem *self = begin();
    struct hmem_range range;

    for (int i = 0; i < 2; i++) {
        uint64_t addr = bench_alloc(self, 0, kinds[i], LEN);

        memset(pointer(addr), 7, LEN);
        range = resolve(self, addr + 5, 100);
        assert_int_equal(range.kind, kinds[i]);
        assert_int_equal(range.host_addr, addr + 5);
        assert_false(range.exportable);
        bench_free(self, addr, kinds[i]);
        assert_int_equal(kind_at(self, addr), -1);
    }
    assert_int_equal(kind_at(self, (uintptr_t)&range), -1);
}

/* ---- dmabufs ------------------------------------------------------------------------------ */

/* What the driver wrote to memory is at the descriptor's offset. */
static void check_bytes(uint64_t addr, const struct hmreg_dmabuf *dmabuf, unsigned char first)
{
    off_t size = lseek(dmabuf->fd, 0, SEEK_END);
    unsigned char *bytes;

    assert_true(size >= (off_t)(dmabuf->offset + dmabuf->length));
    bytes = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, dmabuf->fd, 0);
    assert_ptr_not_equal(bytes, MAP_FAILED);
    for (size_t i = 0; i < dmabuf->length; i++)
        assert_int_equal(bytes[dmabuf->offset + i], (unsigned char)(first + i));
    munmap(bytes, (size_t)size);
}

TEST(export__of_allocations_side_by_side__each_has_its_bytes)
{
    static const size_t lengths[] = {100, 5000, 70000, 4 * MIB};
    struct hmem *self = begin();

    for (int i = 0; i < 4; i++) {
        struct hmreg_dmabuf dmabufs[3] = {{.fd = -1}, {.fd = -1}, {.fd = -1}};
        unsigned char data[100];
        uint64_t addrs[3];

        for (int k = 0; k < 3; k++) {
            struct hmem_range range;

            addrs[k] = bench_alloc(self, 0, HMREG_MEM_DEVICE, lengths[i]); /* for export */
            for (size_t b = 0; b < sizeof(data); b++)
                data[b] = (unsigned char)(50 * k + 1 + (int)b);
            assert_ok(ze->copy(self, addrs[k], (uintptr_t)data, sizeof(data)));
            range = resolve(self, addrs[k] + 3, 90);
            assert_ok(ze->export_dmabuf(self, addrs[k] + 3, 90, &range, 0, &dmabufs[k]));
            assert_true(fcntl(dmabufs[k].fd, F_GETFD) & FD_CLOEXEC);
        }
        for (int k = 0; k < 3; k++)
            check_bytes(addrs[k], &dmabufs[k], (unsigned char)(50 * k + 1 + 3));
        for (int k = 0; k < 3; k++)
            bench_free(self, addrs[k], HMREG_MEM_DEVICE);
        for (int k = 0; k < 3; k++) /* the driver has closed its own */
            assert_int_equal(close(dmabufs[k].fd), 0);
    }
}

/* Memory that was not allocated for export: with one GPU, a piece of a pool. */
TEST(export__small_memory_of_the_application__not_from_a_pool)
{
    struct hmem *self = begin();
    uint64_t addr = app_alloc(&app, app.devices[0], 5000);
    struct hmem_range range = resolve(self, addr, 5000);
    struct hmreg_dmabuf dmabuf = {.fd = -7};
    int rc = ze->export_dmabuf(self, addr, 5000, &range, 0, &dmabuf);

    if (app.device_count > 1) {
        assert_ok(rc);
        assert_int_equal(lseek(dmabuf.fd, 0, SEEK_END), 65536);
        close(dmabuf.fd);
    } else {
        assert_fails(rc, -EPROTO, "has 2097152 bytes for an allocation of 5000");
        assert_int_equal(dmabuf.fd, -7);
    }
    app_free(&app, addr);
}

TEST(export__shared_memory__refused_in_words)
{
    struct hmem *self = begin();
    uint64_t addr = bench_alloc(self, 0, HMREG_MEM_MANAGED, LEN);
    struct hmreg_dmabuf dmabuf = {.fd = -7};
    struct hmem_range range = resolve(self, addr, LEN);

    assert_fails(ze->export_dmabuf(self, addr, LEN, &range, 0, &dmabuf), -EOPNOTSUPP,
                 "migrates between host and device");
    assert_int_equal(dmabuf.fd, -7);
    bench_free(self, addr, HMREG_MEM_MANAGED);
}

/* ---- the end of memory -------------------------------------------------------------------- */

static uint64_t expected;
static unsigned reports; /* that contain the expected address */

static void listen(uint64_t start, uint64_t end)
{
    reports += start <= expected && end > expected;
}

static uint64_t watched(struct hmem *self, uint64_t addr)
{
    struct hmem_range range = resolve(self, addr, 100);
    const char *why = NULL;

    if (!ze->watch(self, addr, 100, &range, &why))
        fail_msg("not watched: %s", why);
    expected = addr;
    reports = 0;
    return addr;
}

static struct hmem *begin_watching(void)
{
    struct hmem *self = begin();

    if (entry_hooks_refusal())
        test_skip("%s", entry_hooks_refusal());
    hmem_listen(listen);
    return self;
}

TEST(end__of_an_allocation__reported_by_each_function)
{
    ze_memory_free_ext_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_MEMORY_FREE_EXT_DESC};
    struct hmem *self = begin_watching();
    ze_ipc_mem_handle_t handle;
    uint64_t addr;
    void *opened;

    for (int i = 0; i < 3; i++) {
        addr = watched(self, app_alloc(&app, app.devices[0], LEN));
        app_free(&app, addr);
        assert_int_equal(reports, 1);
        for (int policy = 0; policy <= 2; policy++) {
            static const ze_driver_memory_free_policy_ext_flags_t policies[] = {
                0, ZE_DRIVER_MEMORY_FREE_POLICY_EXT_FLAG_BLOCKING_FREE,
                ZE_DRIVER_MEMORY_FREE_POLICY_EXT_FLAG_DEFER_FREE};

            desc.freePolicy = policies[policy];
            addr = watched(self, app_alloc(&app, app.devices[0], LEN));
            assert_int_equal(zeMemFreeExt(app.context, &desc, pointer(addr)), 0);
            assert_int_equal(reports, 1);
            assert_int_equal(kind_at(self, addr), -1);
        }
        addr = app_alloc(&app, app.devices[0], LEN);
        assert_int_equal(zeMemGetIpcHandle(app.context, pointer(addr), &handle), 0);
        assert_int_equal(zeMemOpenIpcHandle(app.context, app.devices[0], handle, 0, &opened), 0);
        watched(self, (uintptr_t)opened);
        assert_int_equal(zeMemCloseIpcHandle(app.context, opened), 0);
        assert_int_equal(reports, 1);
        assert_int_equal(kind_at(self, (uintptr_t)opened), -1);
        assert_int_equal(kind_at(self, addr), HMREG_MEM_DEVICE);
        app_free(&app, addr);
    }
    hmem_listen(NULL);
}

/* By an address in it, the driver frees all of the allocation. */
TEST(end__by_an_inner_address__reported)
{
    struct hmem *self = begin_watching();

    for (int i = 0; i < 3; i++) {
        uint64_t addr = watched(self, app_alloc(&app, app.devices[0], LEN));

        assert_int_equal(zeMemFree(app.context, pointer(addr + 4096)), 0);
        assert_int_equal(reports, 1);
    }
    hmem_listen(NULL);
}

/* Small memory, which may lie in a pool: the import is all of that, and begins before its pointer.
 */
TEST(end__of_an_import__reported)
{
    struct hmem *self = begin_watching();
    ze_ipc_mem_handle_t handle;
    uint64_t small[4];
    void *opened;

    for (int i = 0; i < 4; i++) {
        small[i] = app_alloc(&app, app.devices[0], 1000);
        assert_int_equal(zeMemGetIpcHandle(app.context, pointer(small[i]), &handle), 0);
        assert_int_equal(zeMemOpenIpcHandle(app.context, app.devices[0], handle, 0, &opened), 0);
        watched(self, (uintptr_t)opened);
        assert_int_equal(zeMemCloseIpcHandle(app.context, opened), 0);
        assert_int_equal(reports, 1);
        assert_int_equal(kind_at(self, (uintptr_t)opened), -1);
    }
    for (int i = 0; i < 4; i++)
        app_free(&app, small[i]);
    hmem_listen(NULL);
}

/* Of two mappings, of which the driver maps the first one's memory anew. */
TEST(end__by_another_access__reported)
{
    ze_physical_mem_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC};
    struct hmem *self = begin_watching();
    ze_physical_mem_handle_t pieces[2];
    void *made = NULL;
    uint64_t room;

    assert_int_equal(zeVirtualMemQueryPageSize(app.context, app.devices[0], LEN, &desc.size), 0);
    assert_int_equal(zeVirtualMemReserve(app.context, NULL, 2 * desc.size, &made), 0);
    room = (uintptr_t)made;
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(zePhysicalMemCreate(app.context, app.devices[0], &desc, &pieces[i]), 0);
        assert_int_equal(zeVirtualMemMap(app.context, pointer(room + i * desc.size), desc.size,
                                         pieces[i], 0, ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE),
                         0);
    }
    watched(self, room + desc.size);
    assert_int_equal(zeVirtualMemSetAccessAttribute(app.context, made, 2 * desc.size,
                                                    ZE_MEMORY_ACCESS_ATTRIBUTE_READONLY),
                     0);
    assert_int_not_equal(reports, 0);
    assert_int_equal(zeVirtualMemUnmap(app.context, made, 2 * desc.size), 0);
    assert_true(is_a_hole(self, room + desc.size));
    assert_int_equal(zeVirtualMemFree(app.context, made, 2 * desc.size), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(zePhysicalMemDestroy(app.context, pieces[i]), 0);
    hmem_listen(NULL);
}

/* The driver frees no memory of the context: it counts as ended all the same. */
TEST(end__of_a_context__reported)
{
    ze_device_mem_alloc_desc_t local = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    ze_context_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    struct hmem *self = begin_watching();
    ze_context_handle_t context;
    void *made;

    assert_int_equal(zeContextCreate(app.driver, &desc, &context), 0);
    assert_int_equal(zeMemAllocDevice(context, &local, LEN, 0, app.devices[0], &made), 0);
    watched(self, (uintptr_t)made);
    assert_int_equal(zeContextDestroy(context), 0);
    assert_int_not_equal(reports, 0);
    assert_int_equal(kind_at(self, (uintptr_t)made), HMREG_MEM_DEVICE);
    assert_int_equal(zeMemFree(app.context, made), 0);
    hmem_listen(NULL);
}

/* Two mappings in one reservation, which the driver takes from the process's addresses. */
TEST(end__of_virtual_memory__reported_by_each_function)
{
    ze_physical_mem_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC};
    struct hmem *self = begin_watching();
    ze_physical_mem_handle_t pieces[2];
    struct hmem_range range;
    void *made = NULL;
    uint64_t room;
    size_t page;

    assert_int_equal(zeVirtualMemQueryPageSize(app.context, app.devices[0], LEN, &page), 0);
    assert_int_equal(zeVirtualMemReserve(app.context, NULL, 2 * page, &made), 0);
    room = (uintptr_t)made;
    assert_true(is_a_hole(self, room));
    desc.size = page;
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(zePhysicalMemCreate(app.context, app.devices[0], &desc, &pieces[i]), 0);
        assert_int_equal(zeVirtualMemMap(app.context, pointer(room + i * page), page, pieces[i], 0,
                                         ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE),
                         0);
    }
    range = resolve(self, room + 5, page);
    assert_int_equal(range.kind, HMREG_MEM_DEVICE);
    assert_int_equal(range.alloc_base, room);
    assert_int_equal(range.alloc_len, 2 * page);
    assert_int_equal(range.segments, 2);
    watched(self, room + page);
    assert_int_equal(zeVirtualMemUnmap(app.context, pointer(room + page), page), 0);
    assert_int_not_equal(reports, 0);
    assert_true(is_a_hole(self, room + page));
    watched(self, room);
    assert_int_equal(zePhysicalMemDestroy(app.context, pieces[1]), 0);
    assert_int_not_equal(reports, 0);
    watched(self, room);
    assert_int_equal(zeVirtualMemUnmap(app.context, pointer(room), page), 0);
    assert_int_equal(zePhysicalMemDestroy(app.context, pieces[0]), 0);
    assert_int_equal(zeVirtualMemFree(app.context, made, 2 * page), 0);
    hmem_listen(NULL);
}

/* ---- the whole library -------------------------------------------------------------------- */

/* Registered once, until the memory ends, of which the driver's function tells. */
TEST(get__device_memory__cached_until_it_is_freed)
{
    struct hmreg_config config = {.size = sizeof(config),
                                  .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_ZE)};
    struct hmreg_domain *domain = NULL;
    struct hmreg_mr *first = NULL, *again = NULL;
    struct hmreg_stats stats = {.size = sizeof(stats)};
    struct hmreg *lib = NULL;
    uint64_t addr;

    begin();
    assert_ok(hmreg_open(&config, &lib));
    assert_ok(hmreg_domain_open_loopback(lib, NULL, NULL, &domain));
    for (int i = 0; i < 10; i++) {
        addr = app_alloc(&app, app.devices[0], LEN);
        assert_ok(hmreg_mr_get(domain, pointer(addr + 5), 1000, HMREG_REMOTE_WRITE, &first));
        assert_ok(hmreg_mr_get(domain, pointer(addr + 5), 1000, HMREG_REMOTE_WRITE, &again));
        assert_ptr_equal(first, again);
        hmreg_mr_put(first);
        hmreg_mr_put(again);
        app_free(&app, addr);
    }
    assert_ok(hmreg_domain_stats(domain, &stats));
    assert_int_equal(stats.hits, 10);
    assert_int_equal(stats.misses, 10);
    assert_int_equal(stats.invalidations, entry_hooks_refusal() ? 0 : 10);
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_close(lib));
}

/* Newer than Debian 13's header. */
#define STYPE_MEMMAP_SYSMEM ((ze_structure_type_t)0x00020037)
struct memmap_sysmem {
    ze_structure_type_t stype;
    const void *next;
    void *memory;
    uint64_t size;
};

/* Gets it, unmaps it, maps other memory there and gets that; which stays: the driver, if it has one
 * GPU, keeps what is freed for a next allocation, and crashes at the exit if it is not mapped. */
static void check_imported(enum hmreg_monitor monitor)
{
    struct hmreg_config config = {
        .size = sizeof(config), .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_ZE), .monitor = monitor};
    struct memmap_sysmem import = {.stype = STYPE_MEMMAP_SYSMEM, .size = LEN};
    ze_host_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC,
                                     .pNext = &import};
    struct hmreg_stats stats = {.size = sizeof(stats)};
    struct hmreg_domain *domain = NULL;
    struct hmreg *lib = NULL;
    struct hmreg_mr *mr;
    void *made;

    import.memory = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(zeMemAllocHost(app.context, &desc, LEN, 4096, &made), 0);
    assert_ptr_equal(made, import.memory);
    assert_ok(hmreg_open(&config, &lib));
    assert_ok(hmreg_domain_open_loopback(lib, NULL, NULL, &domain));
    for (int i = 0; i < 2; i++) {
        assert_ok(hmreg_mr_get(domain, made, 1000, HMREG_REMOTE_WRITE, &mr));
        hmreg_mr_put(mr);
        assert_int_equal(munmap(made, LEN), 0);
        assert_ptr_equal(
            mmap(made, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            made);
    }
    assert_ok(hmreg_domain_stats(domain, &stats));
    assert_int_equal(stats.hits, 0);
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_close(lib));
    assert_int_equal(zeMemFree(app.context, made), 0);
}

/* The driver describes it as memory of its own, and unmapped as before. */
TEST(get__imported_host_memory_that_is_unmapped__never_stale)
{
    begin();
    check_imported(HMREG_MONITOR_DEFAULT);
    check_imported(HMREG_MONITOR_DISABLED);
}

/* The driver is usable in a child here, whose kernel does not mind; what a child closes is its own.
 */
TEST(fork__child_closes_its_copy__parent_goes_on)
{
    struct hmem *self = begin();
    uint64_t addr = app_alloc(&app, app.devices[0], LEN);
    int status;
    pid_t child;

    child = test_fork();
    if (!child) {
        bench_close();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(kind_at(self, addr), HMREG_MEM_DEVICE);
    app_free(&app, addr);
}

TEST_MAIN()
