/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Every kind of CUDA memory: docs/memory-kinds.md, row by row.
 */
#include "core/patch/entry_hook.h"
#include "tests/gpu/cuda/driver.h"
#include "tests/gpu/kinds.h"

#include <sys/mman.h>

#define BYTES 100000

static struct bench begin(void)
{
    driver_load();
    kind_is_real = !cu.fake;
    return bench_begin();
}

/* For tests that control the simulated driver. */
static struct bench begin_with(const char *variable)
{
    driver_need_fake();
    test_setenv(variable, "1");
    return begin();
}

static struct kind device_kind(unsigned long long addr, size_t len)
{
    return (struct kind){.addr = as_pointer(addr),
                         .len = len,
                         .iface = HMREG_IFACE_CUDA,
                         .kind = HMREG_MEM_DEVICE,
                         .segments = 1,
                         .exportable = true,
                         .path = HMREG_PATH_MAPPED};
}

static void check(const struct kind *kind)
{
    kind_check(kind_open(HMREG_IFACE_CUDA), kind);
}

static void check_reuse(const struct kind *kind, void *(*renew)(void *), void *arg)
{
    kind_reuse(kind_open(HMREG_IFACE_CUDA), kind, renew, arg);
}

/* ---- allocations in one piece ----------------------------------------------------------- */

static void *renew_plain(void *arg)
{
    unsigned long long *addr = arg;

    CU(cu.free(*addr));
    *addr = cu_alloc(BYTES);
    return as_pointer(*addr);
}

TEST(kind__cumemalloc__dmabuf)
{
    struct bench bench = begin();
    unsigned long long addr = cu_alloc(BYTES);
    struct kind kind = device_kind(addr, BYTES);

    check_reuse(&kind, renew_plain, &addr);
    CU(cu.free(addr));
}

struct pitched {
    unsigned long long addr;
    size_t pitch;
};

static void alloc_pitched(struct pitched *out)
{
    CU(cu.alloc_pitch(&out->addr, &out->pitch, 1000, 40, 4));
}

static void *renew_pitched(void *arg)
{
    struct pitched *pitched = arg;

    CU(cu.free(pitched->addr));
    alloc_pitched(pitched);
    return as_pointer(pitched->addr);
}

/* Rows and the padding between them: one allocation. */
TEST(kind__pitch__dmabuf)
{
    struct bench bench = begin();
    struct pitched pitched;
    struct kind kind;

    alloc_pitched(&pitched);
    assert_true(pitched.pitch > 1000);
    kind = device_kind(pitched.addr, 39 * pitched.pitch + 1000);
    check_reuse(&kind, renew_pitched, &pitched);
    CU(cu.free(pitched.addr));
}

/* ---- pools ------------------------------------------------------------------------------ */

static struct kind pool_kind(unsigned long long addr)
{
    struct kind kind = device_kind(addr, BYTES);

    kind.exportable = false;
    kind.export_code = -EOPNOTSUPP;
    kind.export_says = "cuMemAllocAsync";
    kind.path = HMREG_PATH_NONE;
    kind.refusal = "allocate it with cuMemAlloc";
    return kind;
}

TEST(kind__pool__refused_with_the_remedy)
{
    struct bench bench = begin();
    unsigned long long addr = 0;
    struct kind kind;

    CU(cu.alloc_async(&addr, BYTES, NULL));
    CU(cu.stream_wait(NULL));
    kind = pool_kind(addr);
    check(&kind);
    CU(cu.free_async(addr, NULL));
    CU(cu.stream_wait(NULL));
}

/* The descriptor of such a pool is for other CUDA processes: no dmabuf. */
TEST(kind__shareable_pool__refused_with_the_remedy)
{
    struct cuda_pool_prop prop = {.type = CUDA_MEMORY_PINNED,
                                  .handle_types = CUDA_HANDLE_POSIX_FD,
                                  .location = {CUDA_LOCATION_DEVICE, 0}};
    struct bench bench = begin();
    unsigned long long addr;
    struct cuda_pool *pool = cu_pool(&prop, BYTES, &addr);
    struct kind kind;
    int fd = -1;

    CU(cu.pool_export(&fd, pool, CUDA_HANDLE_POSIX_FD, 0));
    kind = pool_kind(addr);
    check(&kind);
    close(fd);
    CU(cu.free_async(addr, NULL));
    CU(cu.stream_wait(NULL));
    CU(cu.pool_destroy(pool));
}

static void *renew_pool(void *arg)
{
    unsigned long long *addr = arg;

    CU(cu.free_async(*addr, NULL));
    CU(cu.stream_wait(NULL));
    CU(cu.alloc_async(addr, BYTES, NULL));
    CU(cu.stream_wait(NULL));
    return as_pointer(*addr);
}

/* No driver promises it, so the library tries. */
TEST(kind__pool_of_a_driver_that_exports_it__dmabuf)
{
    struct bench bench = begin_with("HMREG_FAKE_CUDA_POOL_EXPORT");
    unsigned long long addr = 0;
    struct kind kind;

    CU(cu.alloc_async(&addr, BYTES, NULL));
    CU(cu.stream_wait(NULL));
    kind = device_kind(addr, BYTES);
    kind.exportable = false;
    check_reuse(&kind, renew_pool, &addr);
    CU(cu.free_async(addr, NULL));
    CU(cu.stream_wait(NULL));
    bench_end(&bench);
}

/* ---- virtual memory --------------------------------------------------------------------- */

#define RESERVED 4

/* Reserved addresses; each granule can have memory of its own. */
struct reserved {
    unsigned long long addr;
    size_t granule;
    struct cuda_memory_prop prop[RESERVED];
    unsigned mapped;
    bool cpu; /* the CPU may access the pieces on the host */
};

static struct reserved reserved_begin(void)
{
    struct reserved reserved = {.granule = cu_granule()};

    reserved.addr = cu_reserve(RESERVED * reserved.granule);
    for (int i = 0; i < RESERVED; i++)
        reserved.prop[i] = prop_on(0);
    return reserved;
}

static void map_one(const struct reserved *reserved, unsigned i)
{
    struct cuda_access access = {{CUDA_LOCATION_HOST_NUMA, 0}, CUDA_ACCESS_READWRITE};
    unsigned long long at = reserved->addr + i * reserved->granule;

    cu_map(at, reserved->granule, &reserved->prop[i]);
    if (reserved->cpu && reserved->prop[i].location.type == CUDA_LOCATION_HOST_NUMA)
        CU(cu.set_access(at, reserved->granule, &access, 1));
}

static void grow(struct reserved *reserved, unsigned count)
{
    while (reserved->mapped < count)
        map_one(reserved, reserved->mapped++);
}

static void reserved_end(struct reserved *reserved)
{
    CU(cu.unmap(reserved->addr, reserved->mapped * reserved->granule));
    CU(cu.unreserve(reserved->addr, RESERVED * reserved->granule));
}

/* The last piece is replaced, under the same addresses. */
static void *renew_last(void *arg)
{
    struct reserved *reserved = arg;

    CU(cu.unmap(reserved->addr + (reserved->mapped - 1) * reserved->granule, reserved->granule));
    map_one(reserved, reserved->mapped - 1);
    return as_pointer(reserved->addr + 5);
}

static struct kind reserved_kind(const struct reserved *reserved)
{
    struct kind kind = device_kind(reserved->addr + 5, reserved->mapped * reserved->granule - 9);

    kind.segments = reserved->mapped;
    kind.unnoticed = kind_is_real && entry_hooks_refusal(); /* by address, as far as is known */
    return kind;
}

TEST(kind__one_mapping__dmabuf)
{
    struct bench bench = begin();
    struct reserved reserved = reserved_begin();
    struct kind kind;

    grow(&reserved, 1);
    kind = reserved_kind(&reserved);
    check_reuse(&kind, renew_last, &reserved);
    reserved_end(&reserved);
}

/* Memory imported by a handle of cuMemExportToShareableHandle, as between processes. */
TEST(kind__mapping_imported_by_a_handle__dmabuf)
{
    struct cuda_access access = {{CUDA_LOCATION_DEVICE, 0}, CUDA_ACCESS_READWRITE};
    struct bench bench = begin();
    struct reserved reserved = reserved_begin();
    unsigned long long made = 0, imported = 0;
    struct kind kind;
    int fd = -1;

    reserved.prop[0].handle_types = CUDA_HANDLE_POSIX_FD;
    CU(cu.create(&made, reserved.granule, &reserved.prop[0], 0));
    CU(cu.handle_export(&fd, made, CUDA_HANDLE_POSIX_FD, 0));
    CU(cu.handle_import(&imported, as_pointer((uint64_t)fd), CUDA_HANDLE_POSIX_FD));
    close(fd);
    CU(cu.map(reserved.addr, reserved.granule, 0, imported, 0));
    CU(cu.handle_release(imported));
    CU(cu.handle_release(made));
    CU(cu.set_access(reserved.addr, reserved.granule, &access, 1));
    reserved.mapped = 1;
    kind = reserved_kind(&reserved);
    check(&kind);
    reserved_end(&reserved);
}

/* One descriptor if all pieces have the same properties. */
TEST(kind__several_mappings__one_dmabuf)
{
    struct bench bench = begin();
    struct reserved reserved = reserved_begin();
    struct kind kind;

    grow(&reserved, 3);
    kind = reserved_kind(&reserved);
    check_reuse(&kind, renew_last, &reserved);
    reserved_end(&reserved);
}

/* Without a single descriptor: one piece per allocation, exactly. */
static struct kind composite_kind(const struct reserved *reserved, const char *why)
{
    struct kind kind = reserved_kind(reserved);

    kind.export_code = -EXDEV;
    kind.export_says = why;
    kind.pieces = reserved->mapped;
    return kind;
}

TEST(kind__several_mappings_exported_one_by_one__composite)
{
    struct bench bench = begin_with("HMREG_FAKE_CUDA_EXPORT_ONE");
    struct reserved reserved = reserved_begin();
    struct kind kind;

    grow(&reserved, 3);
    kind = composite_kind(&reserved, "3 segments");
    check_reuse(&kind, renew_last, &reserved);
    reserved_end(&reserved);
    bench_end(&bench);
}

TEST(kind__mappings_of_two_devices__composite)
{
    struct cuda_context *second = NULL;
    struct bench bench;
    struct reserved reserved;
    struct kind kind;

    driver_need_devices(2);
    bench = begin();
    CU(cu.primary_retain(&second, 1)); /* the export wants a context of each device */
    reserved = reserved_begin();
    reserved.prop[1] = prop_on(1);
    grow(&reserved, 3);
    kind = composite_kind(&reserved, "differ in device or properties");
    kind.exportable = false;
    check_reuse(&kind, renew_last, &reserved);
    reserved_end(&reserved);
    CU(cu.primary_release(1));
}

TEST(kind__mappings_of_two_makes__composite)
{
    struct bench bench = begin();
    struct reserved reserved = reserved_begin();
    struct kind kind;

    reserved.prop[1].handle_types = 1;
    grow(&reserved, 2);
    kind = composite_kind(&reserved, "differ in device or properties");
    kind.exportable = false;
    check_reuse(&kind, renew_last, &reserved);
    reserved_end(&reserved);
}

TEST(kind__a_mapping_without_gpudirect_among_others__refused)
{
    struct bench bench = begin();
    struct reserved reserved = reserved_begin();
    struct kind kind;

    reserved.prop[1].gpudirect = 0;
    grow(&reserved, 3);
    kind = composite_kind(&reserved, "differ in device or properties");
    kind.exportable = false;
    kind.path = HMREG_PATH_NONE;
    kind.refusal = "gpuDirectRDMACapable";
    check(&kind);
    reserved_end(&reserved);
}

TEST(kind__mapping_without_gpudirect__refused_with_the_remedy)
{
    struct bench bench = begin();
    struct reserved reserved = reserved_begin();
    struct kind kind;

    reserved.prop[0].gpudirect = 0;
    grow(&reserved, 1);
    kind = reserved_kind(&reserved);
    kind.exportable = false;
    kind.export_code = -EOPNOTSUPP;
    kind.export_says = "gpuDirectRDMACapable";
    kind.path = HMREG_PATH_NONE;
    kind.refusal = "set it in the properties for cuMemCreate";
    check(&kind);
    reserved_end(&reserved);
}

TEST(kind__mapping_without_gpudirect_that_the_driver_exports__dmabuf)
{
    struct bench bench = begin_with("HMREG_FAKE_CUDA_ANY_EXPORT");
    struct reserved reserved = reserved_begin();
    struct kind kind;

    reserved.prop[0].gpudirect = 0;
    grow(&reserved, 1);
    kind = reserved_kind(&reserved);
    kind.exportable = false; /* only the export shows */
    check(&kind);
    reserved_end(&reserved);
    bench_end(&bench);
}

/* A region stays valid while the reservation grows behind it; the larger range is another region.
 */
TEST(kind__growing_mappings__each_length_its_region)
{
    struct bench bench = begin_with("HMREG_FAKE_CUDA_EXPORT_ONE");
    struct reserved reserved = reserved_begin();
    struct hmreg *lib = kind_open(HMREG_IFACE_CUDA);

    grow(&reserved, 1);
    for (unsigned count = 2; count <= RESERVED; count++) {
        struct kind kind;

        grow(&reserved, count);
        kind = composite_kind(&reserved, "segments");
        kind_check(lib, &kind);
    }
    reserved_end(&reserved);
    bench_end(&bench);
}

TEST(kind__mappings_with_a_hole__erange)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};
    struct bench bench = begin();
    struct reserved reserved = reserved_begin();
    struct hmreg *lib = kind_open(HMREG_IFACE_CUDA);
    unsigned long long hole = reserved.addr + reserved.granule;
    struct kind kind;

    grow(&reserved, 3);
    kind = reserved_kind(&reserved);
    CU(cu.unmap(hole, reserved.granule));
    assert_fails(hmreg_query(lib, kind.addr, kind.len, &info), -ERANGE, "nothing is mapped there");
    assert_fails(hmreg_query(lib, as_pointer(hole), 10, &info), -EFAULT, "reserved");
    map_one(&reserved, 1); /* mapped completely again */
    kind_check(lib, &kind);
    reserved_end(&reserved);
}

/* ---- virtual memory on the host --------------------------------------------------------- */

/* Real drivers support it on some devices only. */
static struct bench begin_on_the_host(void)
{
    driver_need_fake();
    return begin();
}

static struct kind host_reserved(struct reserved *reserved, unsigned count, bool cpu)
{
    struct kind kind;

    for (unsigned i = 0; i < count; i++)
        reserved->prop[i].location = (struct cuda_location){CUDA_LOCATION_HOST_NUMA, 0};
    reserved->cpu = cpu;
    grow(reserved, count);
    kind = reserved_kind(reserved);
    kind.kind = HMREG_MEM_HOST_PINNED;
    kind.device = -1;
    kind.exportable = false;
    kind.export_code = -EOPNOTSUPP;
    kind.export_says = "on the host";
    kind.path = HMREG_PATH_SYSTEM;
    kind.unnoticed = entry_hooks_refusal();
    return kind;
}

TEST(kind__mapping_on_the_host__by_its_address)
{
    struct bench bench = begin_on_the_host();
    struct reserved reserved = reserved_begin();
    struct kind kind = host_reserved(&reserved, 2, true);

    kind.local_addr = reserved.addr + 5;
    check_reuse(&kind, renew_last, &reserved);
    reserved_end(&reserved);
}

TEST(kind__mapping_on_the_host_for_devices_only__refused)
{
    struct bench bench = begin_on_the_host();
    struct reserved reserved = reserved_begin();
    struct kind kind = host_reserved(&reserved, 1, false);

    kind.path = HMREG_PATH_NONE;
    kind.refusal = "host memory only for devices";
    check(&kind);
    reserved_end(&reserved);
}

/* Whatever the order of the pieces, the range is the device's, and each piece has its own path. */
TEST(kind__mappings_half_on_the_host__composite)
{
    struct bench bench = begin_on_the_host();

    for (unsigned host = 0; host < 2; host++) {
        struct reserved reserved = reserved_begin();
        struct kind kind;

        reserved.prop[host].location = (struct cuda_location){CUDA_LOCATION_HOST_NUMA, 0};
        reserved.cpu = true;
        grow(&reserved, 2);
        kind = composite_kind(&reserved, "differ in device or properties");
        kind.exportable = false;
        kind.path = host ? HMREG_PATH_MAPPED : HMREG_PATH_SYSTEM;
        kind.unnoticed = entry_hooks_refusal();
        check_reuse(&kind, renew_last, &reserved);
        reserved_end(&reserved);
    }
}

/* ---- host and managed memory ------------------------------------------------------------ */

static struct kind host_kind(void *host, void *addr)
{
    return (struct kind){.addr = addr,
                         .len = BYTES,
                         .iface = HMREG_IFACE_CUDA,
                         .kind = HMREG_MEM_HOST_PINNED,
                         .segments = 1,
                         .export_code = -EOPNOTSUPP,
                         .export_says = "registered by its address",
                         .path = HMREG_PATH_SYSTEM,
                         .local_addr = (uintptr_t)host};
}

struct host {
    void *addr;
    unsigned flags;
};

static void *renew_host(void *arg)
{
    struct host *host = arg;

    CU(cu.free_host(host->addr));
    CU(cu.alloc_host(&host->addr, BYTES, host->flags));
    return host->addr;
}

TEST(kind__host_portable__by_its_address)
{
    struct bench bench = begin();
    struct host host = {.flags = CUDA_HOSTALLOC_PORTABLE};
    struct kind kind;

    CU(cu.alloc_host(&host.addr, BYTES, host.flags));
    kind = host_kind(host.addr, host.addr);
    check_reuse(&kind, renew_host, &host);
    CU(cu.free_host(host.addr));
}

/* By the CPU's address, with either iface in the claim. */
TEST(kind__host_write_combined__by_its_host_address)
{
    struct bench bench = begin();
    struct host host = {.flags = CUDA_HOSTALLOC_WRITECOMBINED};
    unsigned long long device = 0;
    struct kind kind;

    CU(cu.alloc_host(&host.addr, BYTES, host.flags));
    CU(cu.host_device_pointer(&device, host.addr, 0));
    assert_true(!cu.fake || device != (uintptr_t)host.addr);
    kind = host_kind(host.addr, as_pointer(device));
    check(&kind);
    kind = host_kind(host.addr, host.addr);
    check_reuse(&kind, renew_host, &host);
    CU(cu.free_host(host.addr));
}

static void *renew_registered(void *host)
{
    CU(cu.host_unregister(host));
    CU(cu.host_register(host, BYTES, 0));
    return host;
}

TEST(kind__host_registered__by_its_host_address)
{
    struct bench bench = begin();
    char *memory = test_map(2 * BYTES);
    unsigned long long device = 0;
    struct kind kind;

    CU(cu.host_register(memory + 8, BYTES, 0));
    CU(cu.host_device_pointer(&device, memory + 8, 0));
    kind = host_kind(memory + 8, as_pointer(device));
    check(&kind);
    kind = host_kind(memory + 8, memory + 8);
    check_reuse(&kind, renew_registered, memory + 8);
    CU(cu.host_unregister(memory + 8));
    munmap(memory, 2 * BYTES);
}

/* Both halves have a page in common, which the driver pins twice. */
static void register_halves(char *memory)
{
    CU(cu.host_register(memory, BYTES / 2, 0));
    CU(cu.host_register(memory + BYTES / 2, BYTES - BYTES / 2, 0));
}

static void unregister_halves(char *memory)
{
    CU(cu.host_unregister(memory));
    CU(cu.host_unregister(memory + BYTES / 2));
}

static void *renew_halves(void *memory)
{
    unregister_halves(memory);
    assert_ptr_equal(
        mmap(memory, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
        memory);
    register_halves(memory);
    return memory;
}

/* Of a file, whose pages other processes may change: not cached. */
TEST(kind__host_registered_file__by_its_host_address)
{
    struct bench bench = begin();
    int fd = memfd_create("registered", MFD_CLOEXEC);
    struct kind kind;
    char *memory;

    assert_int_equal(ftruncate(fd, 2 * BYTES), 0);
    memory = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    CU(cu.host_register(memory + 8, BYTES, 0));
    kind = host_kind(memory + 8, memory + 8);
    kind.unnoticed = access("/dev/hmreg", F_OK); /* the counter counts them */
    check_reuse(&kind, renew_registered, memory + 8);
    CU(cu.host_unregister(memory + 8));
    munmap(memory, 2 * BYTES);
    close(fd);
}

TEST(kind__host_registered_in_halves__the_systems)
{
    struct bench bench = begin();
    char *memory = test_map(BYTES);
    struct kind kind = host_kind(memory, memory);

    kind.iface = HMREG_IFACE_SYSTEM;
    kind.kind = HMREG_MEM_HOST;
    kind.device = -1;
    kind.export_says = "host memory";
    register_halves(memory);
    check_reuse(&kind, renew_halves, memory);
    CU(cu.host_unregister(memory + BYTES / 2)); /* the first half, and more */
    check(&kind);
    CU(cu.host_unregister(memory));
    munmap(memory, BYTES);
}

static void *renew_managed(void *arg)
{
    unsigned long long *addr = arg;

    CU(cu.free(*addr));
    CU(cu.alloc_managed(addr, BYTES, CUDA_ATTACH_GLOBAL));
    return as_pointer(*addr);
}

/* The CPU follows it wherever it moves; only such fabrics register it (unit_paths has the others).
 */
TEST(kind__managed__by_its_address_where_the_cpu_moves_the_bytes)
{
    struct bench bench = begin();
    unsigned long long addr = 0;
    struct kind kind;

    CU(cu.alloc_managed(&addr, BYTES, CUDA_ATTACH_GLOBAL));
    kind = host_kind(as_pointer(addr), as_pointer(addr));
    kind.kind = HMREG_MEM_MANAGED;
    kind.export_says = "moves between host and device";
    check_reuse(&kind, renew_managed, &addr);
    CU(cu.free(addr));
}

/* ---- devices ---------------------------------------------------------------------------- */

static void check_refused_device(const char *variable, const char *export_says, const char *remedy)
{
    struct bench bench = begin_with(variable);
    unsigned long long addr = cu_alloc(BYTES);
    struct kind kind = device_kind(addr, BYTES);

    kind.exportable = false;
    kind.export_code = -EOPNOTSUPP;
    kind.export_says = export_says;
    kind.path = HMREG_PATH_NONE;
    kind.refusal = remedy;
    check(&kind);
    CU(cu.free(addr));
    bench_end(&bench);
}

TEST(kind__device_without_gpudirect__refused_with_the_reason)
{
    check_refused_device("HMREG_FAKE_CUDA_NO_DMABUF", "attribute 124 is 0", "open kernel modules");
}

TEST(kind__integrated_device__refused_with_the_remedy)
{
    check_refused_device("HMREG_FAKE_CUDA_INTEGRATED", "shares the host's memory",
                         "cuMemHostAlloc");
}

/* The remedy works there. */
TEST(kind__host_memory_of_an_integrated_device__by_its_address)
{
    driver_need_fake();
    test_setenv("HMREG_FAKE_CUDA_INTEGRATED", "1");
    kind__host_portable__by_its_address(NULL);
}

TEST_MAIN()
