/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * ROCm memory of the rarer kinds: with a CPU address, locked, imported from a hidden GPU, reserved.
 */
#include "tests/gpu/rocr/app.h"

#include <inttypes.h>
#include <sys/mman.h>

#define MIB (1u << 20)

static const struct hmem_ops *ops = &hmem_rocr_ops;

/* The last error's sentence contains this address. */
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

TEST(resolve__large_bar__cpu_address)
{
    struct hmem *rocr;
    char *memory;

    test_setenv("HMREG_FAKE_HSA_LARGE_BAR", "1");
    rocr = app_open();
    memory = app_alloc(0, MIB);
    assert_int_equal(app_resolve(rocr, memory + 5, 9).host_addr, at(memory + 5));
    memory[MIB - 1] = 1;
    app_free(memory);
    app_close(rocr);
}

static void assert_leaves(struct hmem *rocr, const char *addr, size_t len, const char *end)
{
    struct hmem_range range;

    memset(&range, 0x5a, sizeof(range));
    assert_fails(ops->resolve(rocr, at(addr), len, &range), -ERANGE,
                 "extends beyond its allocation");
    assert_names_address(end);
    assert_int_equal(range.device, 0x5a5a5a5a);
}

TEST(resolve__locked__pinned_at_both_addresses)
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
    assert_false(by_host.allocated);
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
}

static char *attach(char *memory, size_t len)
{
    hsa_amd_ipc_memory_t handle;
    void *mapped = NULL;

    assert_int_equal(app.hsa_amd_ipc_memory_create(memory, len, &handle), 0);
    assert_int_equal(app.hsa_amd_ipc_memory_attach(&handle, len, 0, NULL, &mapped), 0);
    return mapped;
}

TEST(resolve__owner_hidden__the_gpu_it_is_mapped_on)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(1, MIB);
    char *mapped = attach(memory, MIB);

    setenv("HMREG_FAKE_HSA_HIDDEN", "1", 1);
    assert_int_equal(app_resolve(rocr, mapped, MIB).device, 1);
    unsetenv("HMREG_FAKE_HSA_HIDDEN");
    assert_int_equal(app.hsa_amd_ipc_memory_detach(mapped), 0);
    app_free(memory);
}

/* Host memory may begin there. */
TEST(resolve__end_of_a_reservation__not_mine)
{
    struct hmem *rocr = app_open();
    struct hmem_range range;
    char *va = NULL;

    assert_int_equal(app.hsa_amd_vmem_address_reserve((void **)&va, MIB, 0, 0), 0);
    assert_fails(ops->resolve(rocr, at(va) + MIB - 1, 1, &range), -EFAULT, "only reserved");
    assert_not_mine(rocr, va + MIB, 1);
    assert_int_equal(app.hsa_amd_vmem_address_free(va, MIB), 0);
}

TEST_MAIN()
