/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A driver of CUDA 12.4, older than the PCIe mapping of dmabufs: it is not asked for one.
 */
#include "tests/gpu/cuda/driver.h"

TEST(export__pcie_mapping_of_12_4__says_which)
{
    struct bench bench = bench_begin();
    unsigned long long addr = cu_alloc(1000);
    struct hmreg_dmabuf dmabuf = {-7, 7, 7};
    struct hmem_range range;

    assert_ok(bench_resolve(&bench, addr, 1000, &range));
    cu.fake->reset();
    assert_fails(
        hmem_cuda_ops.export_dmabuf(bench.hmem, addr, 1000, &range, HMREG_EXPORT_PCIE, &dmabuf),
        -EOPNOTSUPP, "CUDA 12.4");
    assert_non_null(strstr(hmreg_last_error()->text, "12.8"));
    assert_int_equal(cu.fake->calls("cuMemGetHandleForAddressRange"), 0);
    assert_int_equal(dmabuf.fd, -7);
    assert_ok(hmem_cuda_ops.export_dmabuf(bench.hmem, addr, 1000, &range, 0, &dmabuf));
    close(dmabuf.fd);
    CU(cu.free(addr));
}

TEST_MAIN()
