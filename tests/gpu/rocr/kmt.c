/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * AMD's real runtime, with two GPUs by a stand-in below it, for libhsakmt (rocr_kmt) or for the
 * kernel's /dev/kfd (rocr_kfd): the vendor interprets the responses of Debian's runtimes (5.2 on
 * 12, 6.1 on 13, 6.4 on unstable, which has libhsakmt inside) correctly. The GPUs move no bytes, so
 * nothing is copied here.
 */
#include "hmem/rocr/rocr_abi.h"
#include "tests/gpu/rocr/report.h"

#include <dlfcn.h>
#include <fcntl.h>

#define LEN  65536u
#define ROOM (4u << 20)

static const struct hmem_ops *ops = &hmem_rocr_ops;

/* The runtime's entry point of this name; NULL: it is too old. */
#define ENTRY(name) ((__typeof__(name) *)entry(#name))

static void *entry(const char *name)
{
    static void *runtime;

    if (!runtime)
        runtime = dlopen("libhsa-runtime64.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!runtime)
        test_skip("no libhsa-runtime64.so.1 on this machine");
    if (!getenv("HMREG_FAKE_KFD") == !dlopen("libhsakmt.so.1", RTLD_NOW | RTLD_NOLOAD))
        test_skip("this machine's runtime has libhsakmt %s",
                  getenv("HMREG_FAKE_KFD") ? "in a library: rocr_kmt is for it"
                                           : "inside: rocr_kfd is for it");
    return dlsym(runtime, name);
}

static struct hmem *open_real(void)
{
    struct hmem *rocr = NULL;

    ENTRY(hsa_init);
    if (getenv("HMREG_FAKE_KFD")) /* the runtime stays started */
        test_count_dmabufs_only();
    assert_ok(ops->open(&rocr));
    return rocr;
}

/* Skips if the runtime does not export. */
static void need_export(void)
{
    if (!ENTRY(hsa_amd_portable_export_dmabuf))
        test_skip("this machine's runtime has no hsa_amd_portable_export_dmabuf (5.2)");
}

static void *alloc(struct hmem *rocr, enum hmreg_mem_kind kind, size_t len)
{
    void *memory = NULL;

    assert_ok(ops->alloc(rocr, 0, kind, len, &memory));
    return memory;
}

TEST(open__real_runtime__devices_and_version)
{
    struct hmem *rocr = open_real();
    bool exports = ENTRY(hsa_amd_portable_export_dmabuf);
    struct hmem_runtime runtime;
    struct hmem_device device;

    ops->runtime(rocr, &runtime);
    assert_int_equal(strncmp(runtime.version, "HSA 1.", 6), 0);
    assert_null(strstr(runtime.library, "/simulated/"));
    if (exports)
        assert_string_equal(runtime.lacks, "");
    else
        assert_non_null(strstr(runtime.lacks, "no hsa_amd_portable_export_dmabuf"));
    assert_int_equal(ops->device_count(rocr), 2);
    for (int i = 0; i < 2; i++) {
        ops->device(rocr, i, &device);
        assert_string_equal(device.name, "simulated AMD GPU");
        assert_true(device.simulated);
        assert_true(device.pci.valid);
        assert_int_equal(device.pci.bus, 0x23 + i);
        assert_int_equal(device.memory, 16ull << 30);
        assert_int_equal(device.dmabuf, exports);
    }
    ops->close(rocr);
}

/* Runtime 6.1 does not know freed memory. 5.2 reports the block that contained it, as if all of the
 * block were allocated: it has no identity then, so it is never cached. */
static void expect_freed(struct hmem *rocr, const void *memory)
{
    struct hmem_range range;
    int rc = ops->resolve(rocr, at(memory), LEN, &range);

    if (ENTRY(hsa_amd_portable_export_dmabuf)) {
        assert_int_equal(rc, -HMEM_NOT_MINE);
        return;
    }
    assert_ok(rc);
    assert_int_equal(range.alloc_len, 2 << 20);
    assert_int_equal(range.identity, 0);
}

/* From the application's allocation to other memory at the same address. */
TEST(resolve__device_memory__known_until_it_is_freed)
{
    struct hmem *rocr = open_real();
    void *neighbour = alloc(rocr, HMREG_MEM_DEVICE, LEN);
    char *memory = alloc(rocr, HMREG_MEM_DEVICE, LEN), *again;
    uint64_t first, second = 0;
    struct hmem_range range;

    assert_ok(ops->resolve(rocr, at(memory + 5), 100, &range));
    assert_int_equal(range.kind, HMREG_MEM_DEVICE);
    assert_int_equal(range.device, 0);
    assert_int_equal(range.alloc_base, at(memory));
    assert_int_equal(range.alloc_len, LEN);
    /* What kfd_tree.sh made is memory behind a large BAR. */
    assert_int_equal(range.host_addr, getenv("HMREG_FAKE_KFD") ? at(memory + 5) : 0);
    first = range.identity;
    assert_int_not_equal(first, 0);
    assert_ok(ops->identity(rocr, at(memory), LEN, &second));
    assert_int_equal(second, first);
    assert_fails(ops->resolve(rocr, at(memory), LEN + 1, &range), -ERANGE,
                 "extends beyond its allocation at");
    assert_ok(ops->free(rocr, memory, HMREG_MEM_DEVICE));
    expect_freed(rocr, memory);
    again = alloc(rocr, HMREG_MEM_DEVICE, LEN);
    assert_ptr_equal(again, memory);
    assert_ok(ops->identity(rocr, at(again), LEN, &second));
    assert_int_not_equal(second, first);
    assert_ok(ops->free(rocr, again, HMREG_MEM_DEVICE));
    assert_ok(ops->free(rocr, neighbour, HMREG_MEM_DEVICE));
    ops->close(rocr);
}

TEST(resolve__host_memory__by_its_address)
{
    struct hmem *rocr = open_real();
    char *memory = alloc(rocr, HMREG_MEM_HOST_PINNED, LEN), mine = 0;
    struct hmem_range range;

    memset(memory, 7, LEN);
    assert_ok(ops->resolve(rocr, at(memory + 5), 100, &range));
    assert_int_equal(range.kind, HMREG_MEM_HOST_PINNED);
    assert_int_equal(range.host_addr, at(memory + 5));
    assert_int_equal(range.alloc_base, at(memory));
    assert_int_equal(ops->resolve(rocr, at(&mine), 1, &range), -HMEM_NOT_MINE);
    assert_ok(ops->free(rocr, memory, HMREG_MEM_HOST_PINNED));
    ops->close(rocr);
}

/* Small allocations share one buffer object: each descriptor covers all of it, and the offset
 * distinguishes them. */
TEST(export__two_allocations_of_one_block__each_its_offset)
{
    struct hmreg_dmabuf dmabufs[2] = {{.fd = -1}, {.fd = -1}};
    struct hmem_range range;
    struct hmem *rocr;
    char *memory[2];

    need_export();
    rocr = open_real();
    for (int i = 0; i < 2; i++) {
        memory[i] = alloc(rocr, HMREG_MEM_DEVICE, LEN);
        assert_ok(ops->resolve(rocr, at(memory[i] + 5), 100, &range));
        assert_true(range.exportable);
        assert_ok(ops->export_dmabuf(rocr, at(memory[i] + 5), 100, &range, 0, &dmabufs[i]));
        assert_int_equal(dmabufs[i].length, 100);
        assert_true(lseek(dmabufs[i].fd, 0, SEEK_END) >= (off_t)(dmabufs[i].offset + 100));
        assert_true(fcntl(dmabufs[i].fd, F_GETFD) & FD_CLOEXEC);
    }
    assert_int_equal(lseek(dmabufs[0].fd, 0, SEEK_END), 2 << 20);
    assert_int_equal(dmabufs[1].offset - dmabufs[0].offset, memory[1] - memory[0]);
    for (int i = 0; i < 2; i++) {
        close(dmabufs[i].fd);
        assert_ok(ops->free(rocr, memory[i], HMREG_MEM_DEVICE));
    }
    ops->close(rocr);
}

TEST(export__runtime_without_it__refused_in_words)
{
    struct hmreg_dmabuf dmabuf = {.fd = -7};
    struct hmem *rocr = open_real();
    struct hmem_range range;
    void *memory;

    if (ENTRY(hsa_amd_portable_export_dmabuf)) {
        ops->close(rocr);
        test_skip("this machine's runtime exports dmabufs (5.2 does not)");
    }
    memory = alloc(rocr, HMREG_MEM_DEVICE, LEN);
    assert_ok(ops->resolve(rocr, at(memory), LEN, &range));
    assert_false(range.exportable);
    assert_fails(ops->export_dmabuf(rocr, at(memory), LEN, &range, 0, &dmabuf), -EOPNOTSUPP,
                 "hsa_amd_portable_export_dmabuf");
    assert_int_equal(dmabuf.fd, -7);
    assert_ok(ops->free(rocr, memory, HMREG_MEM_DEVICE));
    ops->close(rocr);
}

/* ---- virtual memory ------------------------------------------------------------------------ */

struct search {
    hsa_device_type_t type;
    hsa_agent_t agent;
    hsa_amd_memory_pool_t pool;
};

static hsa_status_t find_agent(hsa_agent_t agent, void *data)
{
    struct search *search = data;
    hsa_device_type_t type;

    ENTRY(hsa_agent_get_info)(agent, HSA_AGENT_INFO_DEVICE, &type);
    if (type == search->type && !search->agent.handle)
        search->agent = agent;
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t find_pool(hsa_amd_memory_pool_t pool, void *data)
{
    struct search *search = data;
    uint32_t flags = 0;

    ENTRY(hsa_amd_memory_pool_get_info)(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags);
    if (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED)
        search->pool = pool;
    return HSA_STATUS_SUCCESS;
}

/* Runtime 6.1 calls a mapping a reservation, like unmapped addresses, and does not set
 * `registered`, which it does not have. The vendor must still report memory of a GPU, not the
 * system's. */
TEST(resolve__mapped_virtual_memory__never_the_systems)
{
    struct search gpu = {.type = HSA_DEVICE_TYPE_GPU};
    hsa_amd_memory_access_desc_t access = {.permissions = HSA_ACCESS_PERMISSION_RW};
    hsa_amd_vmem_alloc_handle_t handle;
    struct hmem_range range;
    struct hmem *rocr;
    void *room = NULL;
    uint64_t id;

    if (!ENTRY(hsa_amd_vmem_map))
        test_skip("this machine's runtime has no hsa_amd_vmem_map (5.2)");
    rocr = open_real();
    assert_int_equal(ENTRY(hsa_iterate_agents)(find_agent, &gpu), 0);
    ENTRY(hsa_amd_agent_iterate_memory_pools)(gpu.agent, find_pool, &gpu);
    assert_int_equal(ENTRY(hsa_amd_vmem_address_reserve)(&room, ROOM, 0, 0), 0);
    assert_int_equal(
        ENTRY(hsa_amd_vmem_handle_create)(gpu.pool, ROOM / 2, MEMORY_TYPE_NONE, 0, &handle), 0);
    assert_int_equal(ENTRY(hsa_amd_vmem_map)(room, ROOM / 2, 0, handle, 0), 0);
    access.agent_handle = gpu.agent;
    assert_int_equal(ENTRY(hsa_amd_vmem_set_access)(room, ROOM / 2, &access, 1), 0);

    assert_fails(ops->resolve(rocr, at(room) + 5, 100, &range), -EOPNOTSUPP,
                 "virtual memory API, whose mapping this runtime does not describe");
    assert_fails(ops->identity(rocr, at(room) + 5, 100, &id), -EOPNOTSUPP, "virtual memory API");

    assert_int_equal(ENTRY(hsa_amd_vmem_unmap)(room, ROOM / 2), 0);
    assert_int_equal(ENTRY(hsa_amd_vmem_handle_release)(handle), 0);
    assert_int_equal(ENTRY(hsa_amd_vmem_address_free)(room, ROOM), 0);
    ops->close(rocr);
}

/* ---- the end of memory ---------------------------------------------------------------------- */

static void check_watched(struct hmem *rocr, enum hmreg_mem_kind kind)
{
    for (int i = 0; i < 3; i++) {
        char *memory = alloc(rocr, kind, LEN);
        struct hmem_range range;

        assert_ok(ops->resolve(rocr, at(memory), LEN, &range));
        assert_int_not_equal(range.identity, 0);
        assert_true(ops->watch(rocr, at(memory) + 5, LEN - 5, &range, NULL));
        assert_true(ops->watch(rocr, at(memory), LEN, &range, NULL));
        listen(rocr);
        assert_int_equal(ENTRY(hsa_amd_memory_pool_free)(memory), HSA_STATUS_SUCCESS);
        assert_reported(memory, LEN, 1);
    }
}

/* The runtime calls back before it frees the address; the identity has ended then. */
TEST(watch__memory_of_pools__its_end_is_reported_once)
{
    struct hmem *rocr = open_real();

    hmem_listen(note);
    check_watched(rocr, HMREG_MEM_DEVICE);
    check_watched(rocr, HMREG_MEM_HOST_PINNED);
    hmem_listen(NULL);
    ops->close(rocr);
}

/* A fragment of a block: its neighbour's end is not its own. */
TEST(watch__neighbour_is_freed__not_reported)
{
    struct hmem *rocr = open_real();
    char *memory = alloc(rocr, HMREG_MEM_DEVICE, 4096);
    char *neighbour = alloc(rocr, HMREG_MEM_DEVICE, 4096);
    struct hmem_range range;

    assert_ok(ops->resolve(rocr, at(memory), 4096, &range));
    assert_true(ops->watch(rocr, at(memory), 4096, &range, NULL));
    report = (struct report){.rocr = rocr};
    hmem_listen(note);
    assert_ok(ops->free(rocr, neighbour, HMREG_MEM_DEVICE));
    assert_int_equal(report.count, 0);
    assert_ok(ops->free(rocr, memory, HMREG_MEM_DEVICE));
    assert_int_equal(report.count, 1);
    assert_int_equal(report.start, at(memory));
    hmem_listen(NULL);
    ops->close(rocr);
}

/* ---- shutdown ----------------------------------------------------------------------------- */

/* Runtime 6.4 starts once in a process: a user after the last has shut it down gets
 * OUT_OF_RESOURCES. */
TEST(close__only_user__the_application_can_start_it)
{
    struct hmem *rocr = open_real();

    ops->close(rocr);
    assert_int_equal(ENTRY(hsa_init)(), HSA_STATUS_SUCCESS);
    rocr = open_real();
    assert_int_equal(ops->device_count(rocr), 2);
    ops->close(rocr);
    assert_int_equal(ENTRY(hsa_shut_down)(), HSA_STATUS_SUCCESS);
}

/* The application shuts the runtime down once more than it started it. */
TEST(any_call__shut_down_by_the_application__reported_and_not_called_again)
{
    struct hmem *rocr = open_real(), *next;
    struct hmem_range range;
    void *memory;

    if (getenv("HMREG_FAKE_KFD")) {
        ops->close(rocr);
        test_skip("hmreg keeps runtime 6.4 started, which starts once in a process");
    }
    memory = alloc(rocr, HMREG_MEM_HOST_PINNED, LEN);

    assert_ok(ops->resolve(rocr, at(memory), LEN, &range));
    assert_int_equal(ENTRY(hsa_shut_down)(), HSA_STATUS_SUCCESS);
    assert_int_equal(ops->resolve(rocr, at(memory), LEN, &range), -HMEM_NOT_MINE);
    assert_fails(ops->free(rocr, memory, HMREG_MEM_HOST_PINNED), -ENODEV, "shut down");
    next = open_real();
    ops->close(rocr);
    assert_int_equal(ops->device_count(next), 2);
    memory = alloc(next, HMREG_MEM_DEVICE, LEN);
    assert_ok(ops->resolve(next, at(memory), LEN, &range));
    assert_ok(ops->free(next, memory, HMREG_MEM_DEVICE));
    ops->close(next);
}

TEST_MAIN()
