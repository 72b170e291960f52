/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Copies between any two places, and the allocations that tools and tests are given.
 */
#include "tests/gpu/rocr/app.h"

#include <stdlib.h>

#define KIB 1024u
#define MIB (KIB * KIB)

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

static void copy__process_to_device_and_back__same_bytes(void **state)
{
    struct hmem *rocr = app_open();
    unsigned char *host = malloc(MIB);
    char *memory = app_alloc(1, MIB);

    fill_host(host, MIB, 1);
    assert_ok(ops->copy(rocr, at(memory), at(host), MIB));
    app_check(memory, MIB, 1);
    memset(host, 0, MIB);
    assert_ok(ops->copy(rocr, at(host), at(memory), MIB));
    check_host(host, MIB, 1);
    free(host);
    app_free(memory);
    app_close(rocr);
}

static void copy__odd_pieces__only_them(void **state)
{
    struct hmem *rocr = app_open();
    unsigned char *peek;
    char *memory = app_alloc(0, MIB);
    char word[] = "unaligned";

    app_fill(memory, MIB, 4);
    assert_ok(ops->copy(rocr, at(memory) + 4093, at(word), 9));
    peek = app.fake->peek(at(memory));
    assert_memory_equal(peek + 4093, word, 9);
    assert_int_equal(peek[4092], pattern(4092, 4));
    assert_int_equal(peek[4102], pattern(4102, 4));
    app_free(memory);
    app_close(rocr);
}

static void copy__between_gpus__same_bytes(void **state)
{
    struct hmem *rocr = app_open();
    char *a = app_alloc(0, MIB), *b = app_alloc(1, MIB), *c = app_alloc(0, MIB);

    app_fill(a, MIB, 5);
    assert_ok(ops->copy(rocr, at(b), at(a), MIB));
    app_check(b, MIB, 5);
    assert_ok(ops->copy(rocr, at(c), at(a), MIB));
    app_check(c, MIB, 5);
    app_free(a);
    app_free(b);
    app_free(c);
    app_close(rocr);
}

static void copy__imported_memory__same_bytes(void **state)
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
    app_close(rocr);
}

/* The fake answers MEMORY_FAULT where a real GPU's fault would end the process. */
static void copy__pinned_without_access__by_way_of_the_host(void **state)
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
    app_close(rocr);
}

static void copy__pinned_with_access__one_copy(void **state)
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
    app_close(rocr);
}

/* Locked for the other GPU only: this one has no access. */
static void copy__locked_for_another_gpu__same_bytes(void **state)
{
    struct hmem *rocr = app_open();
    unsigned char *host = malloc(MIB);
    char *memory = app_alloc(0, MIB);
    void *alias = NULL;

    assert_int_equal(app.hsa_amd_memory_lock(host, MIB, &app.gpus[1], 1, &alias), 0);
    fill_host(host, MIB, 2);
    assert_ok(ops->copy(rocr, at(memory), at(host), MIB));
    app_check(memory, MIB, 2);
    app_fill(memory, MIB, 3);
    assert_ok(ops->copy(rocr, at(alias), at(memory), MIB));
    check_host(host, MIB, 3);
    assert_int_equal(app.hsa_amd_memory_unlock(host), 0);
    free(host);
    app_free(memory);
    app_close(rocr);
}

static void copy__beyond_the_end__io_and_alive(void **state)
{
    struct hmem *rocr = app_open();
    unsigned char *host = calloc(1, 2 * MIB);
    char *memory = app_alloc(0, MIB);

    assert_fails(ops->copy(rocr, at(host), at(memory), 2 * MIB), -EIO, "could not copy");
    free(host);
    app_free(memory);
    app_close(rocr);
}

static void copy__nothing_mapped__io_and_alive(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);

    assert_fails(ops->copy(rocr, at(memory), 4096, 16), -EIO, "could not copy");
    app_free(memory);
    app_close(rocr);
}

/* ---- allocations ------------------------------------------------------------------------ */

static void alloc__device__on_that_device_and_exportable(void **state)
{
    struct hmem *rocr = app_open();

    for (int i = 0; i < 2; i++) {
        struct hmem_range range;
        void *memory = NULL;

        assert_ok(ops->alloc(rocr, i, HMREG_MEM_DEVICE, 12345, &memory));
        range = app_resolve(rocr, memory, 12345);
        assert_int_equal(range.device, i);
        assert_int_equal(range.kind, HMREG_MEM_DEVICE);
        assert_int_equal(range.alloc_len, 12345);
        assert_true(range.exportable);
        assert_ok(ops->free(rocr, memory, HMREG_MEM_DEVICE));
    }
    app_close(rocr);
}

static void alloc__pinned__every_gpu_may_access_it(void **state)
{
    struct hmem *rocr = app_open();
    unsigned char *memory = NULL;
    char *device;

    assert_ok(ops->alloc(rocr, 1, HMREG_MEM_HOST_PINNED, MIB, (void **)&memory));
    fill_host(memory, MIB, 5);
    assert_int_equal(app_resolve(rocr, memory, MIB).kind, HMREG_MEM_HOST_PINNED);
    for (unsigned gpu = 0; gpu < 2; gpu++) {
        device = app_alloc(gpu, MIB);
        assert_int_equal(app.hsa_memory_copy(device, memory, MIB), HSA_STATUS_SUCCESS);
        app_free(device);
    }
    assert_ok(ops->free(rocr, memory, HMREG_MEM_HOST_PINNED));
    app_close(rocr);
}

/* Kernel arguments have a pool of their own, which the GPU does not cache. */
static void alloc__pinned__not_from_the_kernarg_pool(void **state)
{
    struct hmem *rocr = app_open();
    hsa_amd_pointer_info_t info = {.size = sizeof(info)};
    void *memory = NULL;

    assert_ok(ops->alloc(rocr, 0, HMREG_MEM_HOST_PINNED, MIB, &memory));
    assert_int_equal(app.hsa_amd_pointer_info(memory, &info, NULL, NULL, NULL), 0);
    assert_int_equal(info.global_flags, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED);
    assert_ok(ops->free(rocr, memory, HMREG_MEM_HOST_PINNED));
    app_close(rocr);
}

static void alloc__other_kinds__not_supported(void **state)
{
    struct hmem *rocr = app_open();
    void *memory = rocr;

    assert_fails(ops->alloc(rocr, 0, HMREG_MEM_MANAGED, MIB, &memory), -EOPNOTSUPP, "not managed");
    assert_fails(ops->alloc(rocr, 0, HMREG_MEM_HOST, MIB, &memory), -EOPNOTSUPP, "not host");
    assert_ptr_equal(memory, rocr);
    app_close(rocr);
}

static void alloc__too_much__nomem(void **state)
{
    struct hmem *rocr = app_open();
    void *memory = rocr;

    assert_fails(ops->alloc(rocr, 0, HMREG_MEM_DEVICE, 1ull << 50, &memory), -ENOMEM, "left");
    assert_ptr_equal(memory, rocr);
    app_close(rocr);
}

static void free__not_an_allocation__efault(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);

    assert_fails(ops->free(rocr, memory + 512, HMREG_MEM_DEVICE), -EFAULT, "could not free");
    app_free(memory);
    app_close(rocr);
}

TEST_MAIN(TEST(copy__process_to_device_and_back__same_bytes), TEST(copy__odd_pieces__only_them),
          TEST(copy__between_gpus__same_bytes), TEST(copy__imported_memory__same_bytes),
          TEST(copy__pinned_without_access__by_way_of_the_host),
          TEST(copy__pinned_with_access__one_copy), TEST(copy__locked_for_another_gpu__same_bytes),
          TEST(copy__beyond_the_end__io_and_alive), TEST(copy__nothing_mapped__io_and_alive),
          TEST(alloc__device__on_that_device_and_exportable),
          TEST(alloc__pinned__every_gpu_may_access_it),
          TEST(alloc__pinned__not_from_the_kernarg_pool), TEST(alloc__other_kinds__not_supported),
          TEST(alloc__too_much__nomem), TEST(free__not_an_allocation__efault))
