/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Copies of memory that not every GPU can access, and possible responses of the runtime to an
 * allocation.
 */
#include "tests/gpu/rocr/app.h"

#define MIB (1u << 20)

static const struct hmem_ops *ops = &hmem_rocr_ops;

static void fill_host(unsigned char *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = pattern(i, seed);
}

static void check_host(const unsigned char *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != pattern(i, seed))
            fail_msg("byte %zu is %#x, not %#x", i, bytes[i], pattern(i, seed));
}

/* ---- copies ----------------------------------------------------------------------------- */

TEST(copy__imported_memory__same_bytes)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    unsigned char *host = calloc(1, MIB);
    hsa_amd_ipc_memory_t handle;
    void *mapped = NULL;

    assert_int_equal(app.hsa_amd_ipc_memory_create(memory, MIB, &handle), 0);
    assert_int_equal(app.hsa_amd_ipc_memory_attach(&handle, MIB, 0, NULL, &mapped), 0);
    app_fill(memory, MIB, 6);
    assert_ok(ops->copy(rocr, at(host), at(mapped), MIB));
    check_host(host, MIB, 6);
    free(host);
    assert_int_equal(app.hsa_amd_ipc_memory_detach(mapped), 0);
    app_free(memory);
}

/* The fake answers MEMORY_FAULT instead of a real GPU's fault, which would end the process. */
TEST(copy__pinned_without_access__by_way_of_the_host)
{
    struct hmem *rocr = app_open();
    unsigned char *pinned = app_alloc_host(MIB);
    char *memory = app_alloc(0, MIB);

    fill_host(pinned, MIB, 7);
    assert_int_equal(app.hsa_memory_copy(memory, pinned, MIB), HSA_STATUS_ERROR_MEMORY_FAULT);
    assert_ok(ops->copy(rocr, at(memory), at(pinned), MIB));
    app_check(memory, MIB, 7);
    app_fill(memory, MIB, 8);
    assert_ok(ops->copy(rocr, at(pinned), at(memory), MIB));
    check_host(pinned, MIB, 8);
    app_free(pinned);
    app_free(memory);
}

TEST(copy__pinned_with_access__one_copy)
{
    struct hmem *rocr = app_open();
    unsigned char *pinned = app_alloc_host(MIB);
    char *memory = app_alloc(0, MIB);

    assert_int_equal(app.hsa_amd_agents_allow_access(1, app.gpus, NULL, pinned), 0);
    fill_host(pinned, MIB, 7);
    assert_ok(ops->copy(rocr, at(memory), at(pinned), MIB));
    assert_int_equal(app.fake->calls("hsa_memory_copy"), 1);
    app_check(memory, MIB, 7);
    app_free(pinned);
    app_free(memory);
}

/* ---- allocations ------------------------------------------------------------------------ */

/* Kernel arguments have a separate pool, which the GPU does not cache. */
TEST(alloc__pinned__not_from_the_kernarg_pool)
{
    struct hmem *rocr = app_open();
    hsa_amd_pointer_info_t info = {.size = sizeof(info)};
    void *memory = NULL;

    assert_ok(ops->alloc(rocr, 0, HMREG_MEM_HOST_PINNED, MIB, &memory));
    assert_int_equal(app.hsa_amd_pointer_info(memory, &info, NULL, NULL, NULL), 0);
    assert_int_equal(info.global_flags, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED);
    assert_ok(ops->free(rocr, memory, HMREG_MEM_HOST_PINNED));
}

TEST(free__not_an_allocation__efault)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);

    assert_fails(ops->free(rocr, memory + 512, HMREG_MEM_DEVICE), -EFAULT, "could not free");
    app_free(memory);
}

TEST_MAIN()
