/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Every kind of ROCm memory: docs/memory-kinds.md, row by row.
 */
#include "tests/gpu/kinds.h"
#include "tests/gpu/rocr/app.h"

#include <sys/mman.h>

#define BYTES 100000

static struct hmreg *begin(void)
{
    app_start();
    test_after(app_stop);
    return kind_open(HMREG_IFACE_ROCR);
}

static struct kind device_kind(void *addr, size_t len)
{
    return (struct kind){.addr = addr,
                         .len = len,
                         .iface = HMREG_IFACE_ROCR,
                         .kind = HMREG_MEM_DEVICE,
                         .segments = 1,
                         .exportable = true,
                         .path = HMREG_PATH_MAPPED};
}

static struct kind host_kind(void *host, void *addr)
{
    return (struct kind){.addr = addr,
                         .len = BYTES,
                         .iface = HMREG_IFACE_ROCR,
                         .kind = HMREG_MEM_HOST_PINNED,
                         .device = -1,
                         .segments = 1,
                         .export_code = -EOPNOTSUPP,
                         .export_says = "registered by its address",
                         .path = HMREG_PATH_SYSTEM,
                         .local_addr = at(host)};
}

/* ---- pools ------------------------------------------------------------------------------ */

struct pooled {
    hsa_amd_memory_pool_t pool;
    void *addr;
};

static void *renew_pooled(void *arg)
{
    struct pooled *pooled = arg;

    if (pooled->addr)
        app_free(pooled->addr);
    assert_int_equal(app.hsa_amd_memory_pool_allocate(pooled->pool, BYTES, 0, &pooled->addr), 0);
    return pooled->addr;
}

static void check_gpu_pool(uint32_t grain)
{
    struct hmreg *lib = begin();
    struct pooled pooled = {.pool = app_pool(app.gpus[0], grain)};
    struct kind kind = device_kind(renew_pooled(&pooled), BYTES);

    kind_reuse(lib, &kind, renew_pooled, &pooled);
    app_free(pooled.addr);
}

TEST(kind__coarse_grained_pool__dmabuf)
{
    check_gpu_pool(HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED);
}

TEST(kind__fine_grained_pool__dmabuf)
{
    check_gpu_pool(HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED);
}

/* The runtime makes small allocations from one block. */
TEST(kind__fragment_of_a_block__its_own_bytes)
{
    struct hmreg *lib = begin();
    char *first = app_alloc(0, 700), *second = app_alloc(0, 700);
    struct kind kind = device_kind(second, 700);
    struct hmreg_dmabuf dmabuf;
    char byte;

    assert_int_equal(at(first) >> 12, at(second) >> 12);
    app_fill(first, 700, 5);
    kind_check(lib, &kind);
    app_check(first, 700, 5);
    app_free(second); /* the block stays, the fragment is freed */
    assert_fails(hmreg_export_dmabuf(lib, second, 700, 0, &dmabuf), -EOPNOTSUPP, "");
    assert_int_equal(app.hsa_memory_copy(&byte, first, 1), 0);
    app_free(first);
}

TEST(kind__pool_of_the_cpu__by_its_address)
{
    struct hmreg *lib = begin();
    struct pooled pooled = {.pool =
                                app_pool(app.cpu, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED)};
    struct kind kind;

    renew_pooled(&pooled);
    kind = host_kind(pooled.addr, pooled.addr);
    kind_reuse(lib, &kind, renew_pooled, &pooled);
    app_free(pooled.addr);
}

TEST(kind__runtime_without_export__refused_with_the_reason)
{
    struct hmreg *lib;
    struct kind kind;
    void *addr;

    test_setenv("HMREG_FAKE_HSA_DMABUF", "0");
    lib = begin();
    addr = app_alloc(0, BYTES);
    kind = device_kind(addr, BYTES);
    kind.exportable = false;
    kind.export_code = -EOPNOTSUPP;
    kind.export_says = "AMD driver is too old";
    kind.path = HMREG_PATH_NONE;
    kind.refusal = "AMD driver is too old";
    kind_check(lib, &kind);
    app_free(addr);
}

/* ---- memory of the process -------------------------------------------------------------- */

static void *renew_locked(void *host)
{
    void *agents = NULL;

    assert_int_equal(app.hsa_amd_memory_unlock(host), 0);
    assert_int_equal(app.hsa_amd_memory_lock(host, BYTES, NULL, 0, &agents), 0);
    return host;
}

/* At either of its two addresses. The monitor watches it, as memory of the process. */
TEST(kind__locked__by_its_host_address)
{
    char *memory = test_map(2 * BYTES);
    struct hmreg *lib = begin();
    void *agents = NULL;
    struct kind kind;

    assert_int_equal(app.hsa_amd_memory_lock(memory + 8, BYTES, NULL, 0, &agents), 0);
    assert_ptr_not_equal(agents, memory + 8);
    kind = host_kind(memory + 8, agents);
    kind.uncached = true;
    kind_check(lib, &kind);
    kind = host_kind(memory + 8, memory + 8);
    kind.uncached = true;
    kind_check(lib, &kind);
    renew_locked(memory + 8);
    kind_check(lib, &kind);
    assert_int_equal(app.hsa_amd_memory_unlock(memory + 8), 0);
    munmap(memory, 2 * BYTES);
}

static void lock_halves(char *memory)
{
    void *agents = NULL;

    assert_int_equal(app.hsa_amd_memory_lock(memory, BYTES / 2, NULL, 0, &agents), 0);
    assert_int_equal(
        app.hsa_amd_memory_lock(memory + BYTES / 2, BYTES - BYTES / 2, NULL, 0, &agents), 0);
}

static void unlock_halves(char *memory)
{
    assert_int_equal(app.hsa_amd_memory_unlock(memory), 0);
    assert_int_equal(app.hsa_amd_memory_unlock(memory + BYTES / 2), 0);
}

static void *renew_halves(void *memory)
{
    unlock_halves(memory);
    assert_ptr_equal(
        mmap(memory, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
        memory);
    lock_halves(memory);
    return memory;
}

TEST(kind__locked_in_halves__the_systems)
{
    char *memory = test_map(BYTES);
    struct hmreg *lib = begin();
    struct kind kind = host_kind(memory, memory);

    kind.iface = HMREG_IFACE_SYSTEM;
    kind.kind = HMREG_MEM_HOST;
    kind.device = -1;
    kind.export_says = "host memory";
    lock_halves(memory);
    kind_reuse(lib, &kind, renew_halves, memory);
    unlock_halves(memory);
    munmap(memory, BYTES);
}

/* HIP's managed memory is memory of the process with a policy: pinning moves it. */
TEST(kind__managed_by_hip__the_systems)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};
    struct hmreg *lib = begin();
    char *memory = malloc(BYTES);

    assert_ok(hmreg_query(lib, memory, BYTES, &info));
    assert_int_equal(info.iface, HMREG_IFACE_SYSTEM);
    assert_int_equal(info.kind, HMREG_MEM_HOST);
    free(memory);
}

/* ---- imported --------------------------------------------------------------------------- */

static void check_imported(struct hmreg *lib, void *addr, size_t len, const char *says)
{
    struct kind kind = device_kind(addr, len);

    kind.exportable = false;
    kind.export_code = -EOPNOTSUPP;
    kind.export_says = says;
    kind.path = HMREG_PATH_NONE;
    kind.refusal = "export it in the process that allocated it";
    kind.uncached = true;
    kind_check(lib, &kind);
}

TEST(kind__imported_by_ipc__exported_by_its_owner_only)
{
    struct hmreg *lib = begin();
    char *original = app_alloc(0, BYTES);
    hsa_amd_ipc_memory_t handle;
    void *imported = NULL;

    assert_int_equal(app.hsa_amd_ipc_memory_create(original, BYTES, &handle), 0);
    assert_int_equal(app.hsa_amd_ipc_memory_attach(&handle, BYTES, 0, NULL, &imported), 0);
    check_imported(lib, imported, BYTES, "by IPC");
    assert_int_equal(app.hsa_amd_ipc_memory_detach(imported), 0);
    app_free(original);
}

TEST(kind__imported_from_graphics__exported_by_its_owner_only)
{
    struct hmreg *lib = begin();
    char *original = app_alloc(0, BYTES);
    void *imported = NULL;
    uint64_t offset;
    size_t size = 0;
    int fd = -1;

    assert_int_equal(app.hsa_amd_portable_export_dmabuf(original, BYTES, &fd, &offset), 0);
    assert_int_equal(
        app.hsa_amd_interop_map_buffer(1, &app.gpus[0], fd, 0, &size, &imported, NULL, NULL), 0);
    check_imported(lib, imported, size, "from a descriptor");
    assert_int_equal(app.hsa_amd_interop_unmap_buffer(imported), 0);
    close(fd);
    app_free(original);
}

/* ---- virtual memory --------------------------------------------------------------------- */

#define MIB      (1ul << 20)
#define RESERVED (4 * MIB)

/* A reservation, into which pieces are mapped; it ends with the case. */
static struct reserved {
    char *addr;
    size_t len;
    hsa_agent_t owner;
    struct {
        size_t offset, len;
    } pieces[16]; /* len 0: none */
} reserved;

static void map_piece(size_t offset, size_t len, size_t physical)
{
    bool host = reserved.owner.handle == app.cpu.handle;
    hsa_amd_memory_access_desc_t access = {HSA_ACCESS_PERMISSION_RW, reserved.owner};
    hsa_amd_vmem_alloc_handle_t handle;
    uint32_t grain = host ? HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED
                          : HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED;
    size_t i = 0;

    while (reserved.pieces[i].len)
        i++;
    reserved.pieces[i].offset = offset;
    reserved.pieces[i].len = len;
    assert_int_equal(app.hsa_amd_vmem_handle_create(app_pool(reserved.owner, grain), physical,
                                                    MEMORY_TYPE_NONE, 0, &handle),
                     0);
    assert_int_equal(app.hsa_amd_vmem_map(reserved.addr + offset, len, 0, handle, 0), 0);
    assert_int_equal(app.hsa_amd_vmem_handle_release(handle), 0);
    assert_int_equal(app.hsa_amd_vmem_set_access(reserved.addr + offset, len, &access, 1), 0);
}

static void unmap_all(void)
{
    for (size_t i = 0; reserved.pieces[i].len; i++)
        assert_int_equal(app.hsa_amd_vmem_unmap(reserved.addr + reserved.pieces[i].offset,
                                                reserved.pieces[i].len),
                         0);
    memset(reserved.pieces, 0, sizeof(reserved.pieces));
}

static void unreserve(void)
{
    if (!reserved.addr)
        return;
    unmap_all();
    assert_int_equal(app.hsa_amd_vmem_address_free(reserved.addr, reserved.len), 0);
    reserved.addr = NULL;
}

static void reserve(size_t len)
{
    unreserve();
    assert_int_equal(app.hsa_amd_vmem_address_reserve((void **)&reserved.addr, len, 0, 0), 0);
    reserved.len = len;
    reserved.owner = app.gpus[0];
    test_after(unreserve);
}

static struct kind vmem_kind(void *addr, size_t len)
{
    struct kind kind = device_kind(addr, len);

    kind.uncached = true; /* mappings have no identity */
    return kind;
}

static void *renew_mapping(void *arg)
{
    unmap_all();
    map_piece(MIB, MIB, MIB);
    return reserved.addr + MIB + 12345;
}

/* From its start, and from anywhere in it: the library searches where it begins, and proves it. */
TEST(kind__one_mapping__dmabuf)
{
    struct hmreg *lib = begin();
    struct kind kind;

    reserve(RESERVED);
    map_piece(MIB, MIB, MIB);
    kind = vmem_kind(reserved.addr + MIB, MIB);
    kind_check(lib, &kind);
    kind = vmem_kind(reserved.addr + MIB + 12345, 100000);
    kind_reuse(lib, &kind, renew_mapping, NULL);
}

TEST(kind__mapping_of_imported_memory__exported_by_its_owner_only)
{
    struct hmreg *lib = begin();
    struct hmreg_dmabuf dmabuf = {.fd = -7};

    reserve(RESERVED);
    map_piece(MIB, MIB, MIB);
    app_fail("hsa_amd_vmem_export_shareable_handle", HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS, 0, 1);
    assert_fails(hmreg_export_dmabuf(lib, reserved.addr + MIB, MIB, 0, &dmabuf), -EOPNOTSUPP,
                 "export it in the process that allocated it");
    assert_int_equal(dmabuf.fd, -7);
}

/* Physical memory may be longer than its mapped part: a descriptor names the whole, but the range
 * must end with the mapping. */
TEST(kind__mapping_of_a_part_of_the_memory__ends_with_the_mapping)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};
    struct hmreg *lib = begin();
    struct kind kind;

    reserve(RESERVED);
    map_piece(0, MIB, 2 * MIB);
    kind = vmem_kind(reserved.addr + 5, MIB - 5);
    kind_check(lib, &kind);
    assert_fails(hmreg_query(lib, reserved.addr, MIB + 1, &info), -ERANGE, "beyond its allocation");
}

static struct kind several(size_t from, size_t to, unsigned count)
{
    struct kind kind = vmem_kind(reserved.addr + from, to - from);

    kind.segments = count;
    kind.pieces = count;
    kind.exportable = false;
    kind.export_code = -EXDEV;
    kind.export_says = "several mappings";
    return kind;
}

TEST(kind__several_mappings__composite)
{
    struct hmreg *lib = begin();
    struct kind kind;

    reserve(RESERVED);
    map_piece(0, MIB, MIB);
    map_piece(MIB, MIB / 2, MIB);
    map_piece(3 * MIB / 2, MIB, MIB);
    kind = several(99, 2 * MIB + 99, 3);
    kind_check(lib, &kind);
    kind = several(MIB + 5, 2 * MIB, 2);
    kind_check(lib, &kind);
}

TEST(kind__mappings_with_a_hole__erange)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};
    struct hmreg *lib = begin();

    reserve(RESERVED);
    map_piece(0, MIB, MIB);
    map_piece(2 * MIB, MIB, MIB);
    assert_fails(hmreg_query(lib, reserved.addr, 3 * MIB, &info), -ERANGE, "beyond its allocation");
    assert_fails(hmreg_query(lib, reserved.addr + MIB, 10, &info), -EFAULT, "only reserved");
}

TEST(kind__mappings_of_two_devices__composite)
{
    struct hmreg *lib = begin();
    struct kind kind;

    reserve(RESERVED);
    map_piece(0, MIB, MIB);
    reserved.owner = app.gpus[1];
    map_piece(MIB, MIB, MIB);
    kind = several(7, 2 * MIB - 7, 2);
    kind_check(lib, &kind);
}

TEST(kind__mapping_on_the_host__by_its_address)
{
    hsa_amd_memory_access_desc_t access = {ROCR_ACCESS_NONE, app.cpu};
    struct hmreg *lib = begin();
    struct kind kind;

    reserve(RESERVED);
    reserved.owner = access.agent_handle = app.cpu;
    map_piece(0, MIB, MIB);
    kind = host_kind(reserved.addr + 5, reserved.addr + 5);
    kind.uncached = true;
    kind_check(lib, &kind);
    assert_int_equal(app.hsa_amd_vmem_set_access(reserved.addr, MIB, &access, 1), 0);
    kind.path = HMREG_PATH_NONE;
    kind.refusal = "host memory only for devices";
    kind_check(lib, &kind);
}

TEST(kind__mappings_half_on_the_host__composite)
{
    struct hmreg *lib = begin();

    for (unsigned host = 0; host < 2; host++) {
        struct kind kind;

        reserve(RESERVED);
        for (unsigned i = 0; i < 2; i++) {
            reserved.owner = i == host ? app.cpu : app.gpus[0];
            map_piece(i * MIB, MIB, MIB);
        }
        kind = several(7, 2 * MIB - 7, 2);
        kind.path = host ? HMREG_PATH_MAPPED : HMREG_PATH_SYSTEM;
        kind_check(lib, &kind);
    }
}

/* Each call that queries a mapping fails once: the export yields the range's descriptor, or none.
 */
TEST(mapping__each_call_failing__its_descriptor_or_none)
{
    static const char *const calls[] = {"hsa_amd_vmem_retain_alloc_handle", "hsa_amd_pointer_info",
                                        "hsa_amd_vmem_export_shareable_handle"};
    struct hmreg *lib = begin();
    unsigned refused = 0;

    reserve(RESERVED);
    map_piece(MIB, MIB, MIB);
    app_fill(reserved.addr + MIB, MIB, 3);
    for (unsigned i = 0; i < 3; i++)
        for (int skip = 0; skip < 8; skip++) {
            struct hmreg_dmabuf dmabuf = {.fd = -1};
            int rc;

            app.fake->reset();
            app_fail(calls[i], HSA_STATUS_ERROR_INVALID_ALLOCATION, skip, 1);
            rc = hmreg_export_dmabuf(lib, reserved.addr + MIB + 77, 1000, 0, &dmabuf);
            assert_int_equal(rc == 0, dmabuf.fd >= 0);
            refused += rc != 0;
            if (!rc) {
                assert_int_equal(dmabuf.offset, 77);
                close(dmabuf.fd);
            }
        }
    assert_true(refused >= 5);
    app.fake->reset();
}

/* Some runtimes retain handles without a lock: the start of a mapping is found by few guesses,
 * wherever it is. */
static void assert_found_by_few(struct hmreg *lib, char *addr, char *start, size_t len)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};

    app.fake->reset();
    assert_ok(hmreg_query(lib, addr, 1, &info));
    assert_int_equal(info.alloc_base, at(start));
    assert_int_equal(info.alloc_len, len);
    assert_in_range(app.fake->calls("hsa_amd_vmem_retain_alloc_handle"), 1, 66);
}

TEST(mapping__far_from_its_start__found_by_few_guesses)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), gib = 1024 * MIB;
    struct hmreg *lib = begin();

    reserve(2 * gib);
    map_piece(page, gib, gib);
    assert_found_by_few(lib, reserved.addr + gib, reserved.addr + page, gib);
    unmap_all();
    for (size_t i = 0; i < 8; i++)
        map_piece(page + 10 * i * MIB, 10 * MIB, 10 * MIB);
    map_piece(page + 80 * MIB, 9 * MIB, 10 * MIB);
    for (size_t i = 0; i < 8; i++)
        assert_found_by_few(lib, reserved.addr + 10 * i * MIB + 9 * MIB,
                            reserved.addr + page + 10 * i * MIB, 10 * MIB);
    assert_found_by_few(lib, reserved.addr + 88 * MIB, reserved.addr + page + 80 * MIB, 9 * MIB);
}

/* Runtimes that call mapped memory reserved: the library detects that it is mapped, without bounds.
 * It cannot distinguish their mere reservations from addresses set aside for managed memory: those
 * are the system's, which finds nothing there to pin. */
TEST(kind__mapping_of_an_older_runtime__refused_in_words)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};
    struct hmreg *lib = begin();

    reserve(RESERVED);
    map_piece(0, MIB, MIB);
    setenv("HMREG_FAKE_HSA_VMEM_RESERVED", "1", 1);
    assert_fails(hmreg_query(lib, reserved.addr, MIB, &info), -EOPNOTSUPP, "use a newer runtime");
    assert_fails(hmreg_query(lib, reserved.addr + MIB, 10, &info), -EFAULT, "no runtime knows");
    unsetenv("HMREG_FAKE_HSA_VMEM_RESERVED");
    assert_fails(hmreg_query(lib, reserved.addr + MIB, 10, &info), -EFAULT, "only reserved");
}

TEST_MAIN()
