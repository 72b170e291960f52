/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What ROCm memory is: every type of pointer the runtime knows, ranges that leave their
 * allocation, and addresses that are nobody's.
 */
#include "tests/gpu/rocr/app.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1u << 20)

static const struct hmem_ops *ops = &hmem_rocr_ops;

/* A sentence has this address in it. */
static void assert_names_address(const void *addr)
{
    char text[32];

    snprintf(text, sizeof(text), "%#" PRIx64, at(addr));
    if (!strstr(hmreg_last_error()->text, text))
        fail_msg("\"%s\" does not name %s", hmreg_last_error()->text, text);
}

static void assert_not_mine(struct hmem *rocr, const void *addr, size_t len)
{
    struct hmem_range range;

    memset(&range, 0x5a, sizeof(range));
    hmreg_fail(-EPERM, "the error of before");
    assert_int_equal(ops->resolve(rocr, at(addr), len, &range), -HMEM_NOT_MINE);
    assert_string_equal(hmreg_last_error()->text, "the error of before");
    assert_int_equal(range.device, 0x5a5a5a5a);
}

/* Dies of the access, or lives. */
static bool cpu_can_touch(volatile char *addr)
{
    int status = -1;
    pid_t child = fork();

    if (!child) {
        signal(SIGSEGV, SIG_DFL);
        *addr = 1;
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status))
        assert_int_equal(WTERMSIG(status), SIGSEGV);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- device memory ---------------------------------------------------------------------- */

static void resolve__device_memory__all_fields(void **state)
{
    struct hmem *rocr = app_open();

    for (unsigned gpu = 0; gpu < 2; gpu++) {
        char *memory = app_alloc(gpu, MIB);
        struct hmem_range range = app_resolve(rocr, memory, MIB);

        assert_int_equal(range.device, gpu);
        assert_int_equal(range.kind, HMREG_MEM_DEVICE);
        assert_int_equal(range.alloc_base, at(memory));
        assert_int_equal(range.alloc_len, MIB);
        assert_int_not_equal(range.identity, 0);
        assert_int_equal(range.segments, 1);
        assert_int_equal(range.host_addr, 0);
        assert_true(range.exportable);
        app_free(memory);
    }
    app_close(rocr);
}

static void resolve__inside__its_allocation(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(1, MIB);
    struct hmem_range whole = app_resolve(rocr, memory, MIB);
    struct hmem_range part = app_resolve(rocr, memory + 12345, 1);
    struct hmem_range last = app_resolve(rocr, memory + MIB - 1, 1);

    assert_memory_equal(&whole, &part, sizeof(whole));
    assert_memory_equal(&whole, &last, sizeof(whole));
    app_free(memory);
    app_close(rocr);
}

static void resolve__small_ones_in_one_block__each_its_own(void **state)
{
    struct hmem *rocr = app_open();
    char *first = app_alloc(0, 600);
    char *second = app_alloc(0, 600);
    struct hmem_range a = app_resolve(rocr, first, 600);
    struct hmem_range b = app_resolve(rocr, second, 600);

    assert_int_equal(at(first) / 4096, at(second) / 4096);
    assert_int_equal(a.alloc_base, at(first));
    assert_int_equal(b.alloc_base, at(second));
    assert_int_equal(b.alloc_len, 600);
    assert_int_not_equal(a.identity, b.identity);
    app_free(first);
    app_free(second);
    app_close(rocr);
}

/* The runtime says UNKNOWN there, though a block of 4096 bytes is below. */
static void resolve__rounded_up_tail__not_mine(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, 600);

    assert_not_mine(rocr, memory + 600, 1);
    app_free(memory);
    app_close(rocr);
}

static void device_memory__cpu_touches_it__faults(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);

    assert_false(cpu_can_touch(memory));
    app_free(memory);
    app_close(rocr);
}

static void resolve__large_bar__cpu_address(void **state)
{
    struct hmem *rocr;
    char *memory;

    setenv("HMREG_FAKE_HSA_LARGE_BAR", "1", 1);
    rocr = app_open();
    memory = app_alloc(0, MIB);
    assert_int_equal(app_resolve(rocr, memory + 5, 9).host_addr, at(memory + 5));
    assert_true(cpu_can_touch(memory));
    app_free(memory);
    app_close(rocr);
    unsetenv("HMREG_FAKE_HSA_LARGE_BAR");
}

/* ---- bounds ----------------------------------------------------------------------------- */

static void assert_leaves(struct hmem *rocr, const char *addr, size_t len, const char *end)
{
    struct hmem_range range;

    memset(&range, 0x5a, sizeof(range));
    assert_fails(ops->resolve(rocr, at(addr), len, &range), -ERANGE, "leaves its allocation");
    assert_names_address(end);
    assert_int_equal(range.device, 0x5a5a5a5a);
}

static void resolve__beyond_the_end__range_with_address(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);

    assert_leaves(rocr, memory, MIB + 1, memory + MIB);
    assert_leaves(rocr, memory + MIB - 1, 2, memory + MIB);
    assert_leaves(rocr, memory, SIZE_MAX - at(memory), memory + MIB);
    app_free(memory);
    app_close(rocr);
}

static void resolve__over_two_allocations__range_with_address(void **state)
{
    struct hmem *rocr = app_open();
    char *first = app_alloc(0, MIB);
    char *second = app_alloc(0, MIB);

    assert_ptr_equal(second, first + MIB);
    assert_leaves(rocr, first + MIB - 4, 8, second);
    app_free(first);
    app_free(second);
    app_close(rocr);
}

static void resolve__pinned_beyond_the_end__range(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc_host(MIB);

    assert_leaves(rocr, memory + 1, MIB, memory + MIB);
    app_free(memory);
    app_close(rocr);
}

/* ---- host memory ------------------------------------------------------------------------ */

static void resolve__memory_of_the_process__not_mine(void **state)
{
    struct hmem *rocr = app_open();
    static char global[64];
    char *heap = malloc(64);
    char local[64];

    assert_not_mine(rocr, global, 64);
    assert_not_mine(rocr, heap, 64);
    assert_not_mine(rocr, local, 64);
    assert_not_mine(rocr, (void *)8, 1);
    free(heap);
    app_close(rocr);
}

static void resolve__freed__not_mine(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);

    app_resolve(rocr, memory, MIB);
    app_free(memory);
    assert_not_mine(rocr, memory, MIB);
    app_close(rocr);
}

static void resolve__pool_of_the_cpu__pinned(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc_host(MIB);
    struct hmem_range range = app_resolve(rocr, memory + 7, 100);

    assert_int_equal(range.device, -1);
    assert_int_equal(range.kind, HMREG_MEM_HOST_PINNED);
    assert_int_equal(range.alloc_base, at(memory));
    assert_int_equal(range.alloc_len, MIB);
    assert_int_not_equal(range.identity, 0);
    assert_int_equal(range.host_addr, at(memory + 7));
    assert_false(range.exportable);
    app_free(memory);
    app_close(rocr);
}

static void resolve__locked__pinned_at_both_addresses(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *alias = NULL;
    struct hmem_range by_host, by_alias;

    assert_int_equal(app.hsa_amd_memory_lock(memory + 100, 5000, NULL, 0, (void **)&alias), 0);
    assert_ptr_not_equal(alias, memory + 100);
    by_host = app_resolve(rocr, memory + 107, 10);
    assert_int_equal(by_host.kind, HMREG_MEM_HOST_PINNED);
    assert_int_equal(by_host.device, -1);
    assert_int_equal(by_host.alloc_base, at(memory + 100));
    assert_int_equal(by_host.alloc_len, 5000);
    assert_int_equal(by_host.host_addr, at(memory + 107));
    assert_int_equal(by_host.identity, 0);
    by_alias = app_resolve(rocr, alias + 7, 10);
    assert_int_equal(by_alias.kind, HMREG_MEM_HOST_PINNED);
    assert_int_equal(by_alias.alloc_base, at(alias));
    assert_int_equal(by_alias.host_addr, at(memory + 107));
    assert_false(by_alias.exportable);
    assert_leaves(rocr, memory + 100, 5001, memory + 5100);
    assert_leaves(rocr, alias, 5001, alias + 5000);
    assert_int_equal(app.hsa_amd_memory_unlock(memory + 100), 0);
    assert_not_mine(rocr, memory + 100, 1);
    munmap(memory, 8192);
    app_close(rocr);
}

/* ---- imported memory -------------------------------------------------------------------- */

static char *attach(char *memory, size_t len)
{
    hsa_amd_ipc_memory_t handle;
    void *mapped = NULL;

    assert_int_equal(app.hsa_amd_ipc_memory_create(memory, len, &handle), 0);
    assert_int_equal(app.hsa_amd_ipc_memory_attach(&handle, len, 0, NULL, &mapped), 0);
    return mapped;
}

static void resolve__ipc__device_memory_without_identity(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(1, MIB);
    char *mapped = attach(memory, MIB);
    struct hmem_range range = app_resolve(rocr, mapped + 3, 5);

    assert_int_equal(range.kind, HMREG_MEM_DEVICE);
    assert_int_equal(range.device, 1);
    assert_int_equal(range.alloc_base, at(mapped));
    assert_int_equal(range.alloc_len, MIB);
    assert_int_equal(range.identity, 0);
    assert_int_equal(range.host_addr, 0);
    assert_false(range.exportable);
    assert_int_equal(app.hsa_amd_ipc_memory_detach(mapped), 0);
    app_free(memory);
    app_close(rocr);
}

static char *map_graphics(char *memory, size_t *len)
{
    uint64_t offset;
    void *mapped = NULL;
    int fd = -1;

    assert_int_equal(app.hsa_amd_portable_export_dmabuf(memory, 1, &fd, &offset), 0);
    assert_int_equal(app.hsa_amd_interop_map_buffer(1, app.gpus, fd, 0, len, &mapped, NULL, NULL),
                     0);
    assert_int_equal(app.hsa_amd_portable_close_dmabuf(fd), 0);
    return mapped;
}

static void resolve__graphics__device_memory_without_identity(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    size_t len = 0;
    char *mapped = map_graphics(memory, &len);
    struct hmem_range range = app_resolve(rocr, mapped, len);

    assert_int_equal(len, MIB);
    assert_int_equal(range.kind, HMREG_MEM_DEVICE);
    assert_int_equal(range.device, 0);
    assert_int_equal(range.alloc_base, at(mapped));
    assert_int_equal(range.identity, 0);
    assert_false(range.exportable);
    assert_int_equal(app.hsa_amd_interop_unmap_buffer(mapped), 0);
    app_free(memory);
    app_close(rocr);
}

static void resolve__owner_hidden__the_gpu_it_is_mapped_on(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(1, MIB);
    char *mapped = attach(memory, MIB);

    setenv("HMREG_FAKE_HSA_HIDDEN", "1", 1);
    assert_int_equal(app_resolve(rocr, mapped, MIB).device, 1);
    unsetenv("HMREG_FAKE_HSA_HIDDEN");
    assert_int_equal(app.hsa_amd_ipc_memory_detach(mapped), 0);
    app_free(memory);
    app_close(rocr);
}

static void resolve__owner_hidden_and_nobody_reaches_it__io(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(1, MIB);
    char *mapped = attach(memory, MIB);
    struct hmem_range range;

    setenv("HMREG_FAKE_HSA_HIDDEN", "2", 1);
    assert_fails(ops->resolve(rocr, at(mapped), MIB, &range), -EIO, "does not see");
    assert_names_address(mapped);
    unsetenv("HMREG_FAKE_HSA_HIDDEN");
    assert_int_equal(app.hsa_amd_ipc_memory_detach(mapped), 0);
    app_free(memory);
    app_close(rocr);
}

/* ---- virtual memory --------------------------------------------------------------------- */

static void resolve__only_reserved__fault(void **state)
{
    struct hmem *rocr = app_open();
    struct hmem_range range;
    char *va = NULL;

    assert_int_equal(app.hsa_amd_vmem_address_reserve((void **)&va, MIB, 0, 0), 0);
    assert_fails(ops->resolve(rocr, at(va + 10), 1, &range), -EFAULT, "only reserved");
    assert_names_address(va + 10);
    assert_int_equal(app.hsa_amd_vmem_address_free(va, MIB), 0);
    app_close(rocr);
}

/* HIP sets such addresses aside for managed memory: the process's own pages. */
static void resolve__reserved_on_the_host__not_mine(void **state)
{
    struct hmem *rocr = app_open();
    char *va = NULL;

    assert_int_equal(app.hsa_amd_vmem_address_reserve((void **)&va, MIB, 0, ROCR_VMEM_NO_REGISTER),
                     0);
    assert_not_mine(rocr, va + 10, 1);
    assert_int_equal(app.hsa_amd_vmem_address_free(va, MIB), 0);
    app_close(rocr);
}

static void resolve__mapped_virtual_memory__bounds_of_the_mapping(void **state)
{
    struct hmem *rocr = app_open();
    hsa_amd_vmem_alloc_handle_t handle;
    struct hmem_range range;
    char *va = NULL;

    assert_int_equal(app.hsa_amd_vmem_address_reserve((void **)&va, 2 * MIB, 0, 0), 0);
    assert_int_equal(app.hsa_amd_vmem_handle_create(app_pool(0), MIB, MEMORY_TYPE_NONE, 0, &handle),
                     0);
    assert_int_equal(app.hsa_amd_vmem_map(va, MIB, 0, handle, 0), 0);
    assert_ok(ops->resolve(rocr, at(va + 10), 1, &range));
    assert_int_equal(range.kind, HMREG_MEM_DEVICE);
    assert_int_equal(range.alloc_base, at(va));
    assert_int_equal(range.alloc_len, MIB);
    assert_int_equal(range.identity, 0);
    assert_int_equal(range.segments, 1);
    assert_true(range.exportable);
    assert_fails(ops->resolve(rocr, at(va + MIB), 1, &range), -EFAULT, "only reserved");
    assert_int_equal(app.hsa_amd_vmem_unmap(va, MIB), 0);
    assert_int_equal(app.hsa_amd_vmem_handle_release(handle), 0);
    assert_int_equal(app.hsa_amd_vmem_address_free(va, 2 * MIB), 0);
    app_close(rocr);
}

TEST_MAIN(TEST(resolve__device_memory__all_fields), TEST(resolve__inside__its_allocation),
          TEST(resolve__small_ones_in_one_block__each_its_own),
          TEST(resolve__rounded_up_tail__not_mine), TEST(device_memory__cpu_touches_it__faults),
          TEST(resolve__large_bar__cpu_address), TEST(resolve__beyond_the_end__range_with_address),
          TEST(resolve__over_two_allocations__range_with_address),
          TEST(resolve__pinned_beyond_the_end__range),
          TEST(resolve__memory_of_the_process__not_mine), TEST(resolve__freed__not_mine),
          TEST(resolve__pool_of_the_cpu__pinned), TEST(resolve__locked__pinned_at_both_addresses),
          TEST(resolve__ipc__device_memory_without_identity),
          TEST(resolve__graphics__device_memory_without_identity),
          TEST(resolve__owner_hidden__the_gpu_it_is_mapped_on),
          TEST(resolve__owner_hidden_and_nobody_reaches_it__io),
          TEST(resolve__only_reserved__fault), TEST(resolve__reserved_on_the_host__not_mine),
          TEST(resolve__mapped_virtual_memory__bounds_of_the_mapping))
