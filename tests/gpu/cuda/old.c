/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A driver of CUDA 11.6: no dmabuf export, no block ids, no MAPPING attributes. Memory resolves as
 * usual; errors name what is missing.
 */
#include "tests/gpu/cuda/driver.h"

TEST(runtime__of_11_6__says_what_it_lacks)
{
    struct bench bench = bench_begin();
    struct hmem_runtime runtime;
    struct hmem_device device;

    assert_null(cu.range_handle);
    hmem_cuda_ops.runtime(bench.hmem, &runtime);
    assert_string_equal(runtime.version, "11.6");
    assert_non_null(strstr(runtime.lacks, "cuMemGetHandleForAddressRange"));
    assert_non_null(strstr(runtime.lacks, "11.7"));
    hmem_cuda_ops.device(bench.hmem, 0, &device);
    assert_false(device.dmabuf);
    assert_true(device.pci.valid);
}

TEST(export__of_11_6__eopnotsupp)
{
    struct bench bench = bench_begin();
    unsigned long long addr = cu_alloc(1000);
    struct hmreg_dmabuf dmabuf = {-7, 7, 7};
    struct hmem_range range;

    assert_ok(bench_resolve(&bench, addr, 1000, &range));
    assert_int_equal(range.kind, HMREG_MEM_DEVICE);
    assert_int_equal(range.alloc_len, 1000);
    assert_false(range.exportable);
    assert_fails(hmem_cuda_ops.export_dmabuf(bench.hmem, addr, 1000, &range, 0, &dmabuf),
                 -EOPNOTSUPP, "CUDA 11.6");
    assert_int_equal(dmabuf.fd, -7);
    CU(cu.free(addr));
}

/* The attribute of plain memory is older than the contexts' flag. */
TEST(sync_memops__of_11_6__of_plain_memory_only)
{
    struct bench bench = bench_begin();
    struct cuda_memory_prop prop = prop_on(0);
    unsigned long long plain = cu_alloc(1000), addr = cu_reserve(cu_granule());

    cu_map(addr, cu_granule(), &prop);
    assert_ok(hmem_cuda_ops.sync_memops(bench.hmem, plain, 0));
    assert_fails(hmem_cuda_ops.sync_memops(bench.hmem, addr, 0), -EOPNOTSUPP, "12.1");
    CU(cu.free(plain));
    CU(cu.unmap(addr, cu_granule()));
    CU(cu.unreserve(addr, cu_granule()));
}

/* This driver has no ids of physical memory, so its replacement cannot be detected. */
TEST(identity__virtual_memory_of_11_6__zero)
{
    struct bench bench = bench_begin();
    struct cuda_memory_prop prop = prop_on(0);
    size_t granule = cu_granule();
    unsigned long long addr = cu_reserve(2 * granule);
    struct hmem_range range;
    uint64_t identity = 7;

    cu_map(addr, granule, &prop);
    cu_map(addr + granule, granule, &prop);
    assert_ok(bench_resolve(&bench, addr + 1, granule, &range));
    assert_int_equal(range.segments, 2);
    assert_int_equal(range.identity, 0);
    assert_ok(hmem_cuda_ops.identity(bench.hmem, addr, granule, &identity));
    assert_int_equal(identity, 0);
    CU(cu.unmap(addr, 2 * granule));
    CU(cu.unreserve(addr, 2 * granule));
}

TEST_MAIN()
