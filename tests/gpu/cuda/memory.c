/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Copies of CUDA's rarer kinds of memory.
 */
#include "tests/gpu/cuda/driver.h"

#define MIB 1048576ul

static int copy(const struct bench *bench, uint64_t dst, uint64_t src, size_t len)
{
    return hmem_cuda_ops.copy(bench->hmem, dst, src, len);
}

/* To the memory and back, at odd offsets. */
static void check_round_trip(const struct bench *bench, uint64_t addr, size_t len)
{
    unsigned char *there = malloc(len), *back = calloc(1, len);

    for (size_t i = 0; i < len; i++)
        there[i] = pattern(i);
    assert_ok(copy(bench, addr, (uintptr_t)there, len));
    assert_ok(copy(bench, (uintptr_t)back, addr, len));
    assert_memory_equal(there, back, len);
    free(there);
    free(back);
}

TEST(copy__other_sorts__both_ways)
{
    struct bench bench = bench_begin();
    unsigned long long pool = 0;
    void *host = NULL;

    CU(cu.alloc_async(&pool, MIB, NULL));
    CU(cu.stream_wait(NULL));
    CU(cu.alloc_host(&host, MIB, CUDA_HOSTALLOC_WRITECOMBINED));
    check_round_trip(&bench, pool + 3, 10000);
    check_round_trip(&bench, (uintptr_t)host + 3, 10000);
    CU(cu.free_async(pool, NULL));
    CU(cu.stream_wait(NULL));
    CU(cu.free_host(host));
}

TEST(copy__neither_side_of_cuda__eio)
{
    struct bench bench = bench_begin();
    char a[8] = "before", b[8] = "after";

    assert_fails(copy(&bench, (uintptr_t)a, (uintptr_t)b, 8), -EIO, "neither");
    assert_string_equal(a, "before");
}

/* ---- allocations ------------------------------------------------------------------------ */

TEST(free__inside_an_allocation__eio)
{
    struct bench bench = bench_begin();
    unsigned long long addr = cu_alloc(MIB);

    assert_fails(hmem_cuda_ops.free(bench.hmem, as_pointer(addr + 512), HMREG_MEM_DEVICE), -EIO,
                 "CUDA cannot free");
    CU(cu.free(addr));
}

TEST_MAIN()
