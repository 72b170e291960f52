/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Exports of virtual memory in pieces, and possible driver responses to an export.
 */
#include "simulated/engine/pcie.h"
#include "tests/gpu/cuda/driver.h"

#define MIB 1048576ul

/* Resolves and exports as the core does; skips if this real device does not export. */
static int export(const struct bench *bench, uint64_t addr, size_t len, struct hmreg_dmabuf *out)
{
    struct hmem_range range;

    assert_ok(bench_resolve(bench, addr, len, &range));
    return hmem_cuda_ops.export_dmabuf(bench->hmem, addr, len, &range, 0, out);
}

static void need_export(const struct bench *bench)
{
    struct hmem_device device;

    hmem_cuda_ops.device(bench->hmem, 0, &device);
    if (!device.dmabuf)
        test_skip("%s exports no dmabuf", device.name);
}

/* ---- virtual memory --------------------------------------------------------------------- */

TEST(export__a_later_piece__begins_with_it)
{
    struct bench bench = bench_begin();
    struct cuda_memory_prop prop = prop_on(0);
    size_t granule = cu_granule();
    unsigned long long addr = cu_reserve(2 * granule);
    struct hmreg_dmabuf dmabuf;

    need_export(&bench);
    cu_map(addr, granule, &prop);
    cu_map(addr + granule, granule, &prop);
    cu_write_pattern(addr, 2 * granule);
    assert_ok(export(&bench, addr + granule + 33, 44, &dmabuf));
    check_dmabuf(&dmabuf, granule + 33);
    close(dmabuf.fd);
    CU(cu.unmap(addr, 2 * granule));
    CU(cu.unreserve(addr, 2 * granule));
}

static void expect_refused(const struct bench *bench, uint64_t addr, size_t len, int code,
                           const char *words)
{
    struct hmreg_dmabuf dmabuf = {-7, 7, 7};
    int before = test_count_fds();
    struct hmem_range range;

    assert_ok(bench_resolve(bench, addr, len, &range));
    if (code == -EOPNOTSUPP)
        assert_false(range.exportable);
    assert_fails(hmem_cuda_ops.export_dmabuf(bench->hmem, addr, len, &range, 0, &dmabuf), code,
                 words);
    assert_int_equal(dmabuf.fd, -7);
    assert_int_equal(dmabuf.offset, 7);
    assert_int_equal(dmabuf.length, 7);
    assert_int_equal(test_count_fds(), before);
}

/* Imported memory has no properties to compare; the device must be equal. */
TEST(export__imported_pieces_of_two_devices__exdev)
{
    struct cuda_memory_prop prop = prop_on(0), other = prop_on(1);
    unsigned long long addr;
    struct bench bench;
    size_t granule;

    driver_need_fake();
    bench = bench_begin();
    granule = cu_granule();
    addr = cu_reserve(2 * granule);
    cu_map(addr, granule, &prop);
    cu_map(addr + granule, granule, &other);
    cu_fail("cuMemRetainAllocationHandle", CUDA_INVALID_VALUE, 0, -1);
    expect_refused(&bench, addr + granule - 1, 2, -EXDEV, "2 segments");
    cu.fake->reset();
    CU(cu.unmap(addr, 2 * granule));
    CU(cu.unreserve(addr, 2 * granule));
}

/* ---- unusual drivers -------------------------------------------------------------------- */

TEST(export__descriptor_too_short__eproto)
{
    unsigned long long addr;
    struct bench bench;

    driver_need_fake();
    bench = bench_begin();
    addr = cu_alloc(MIB);
    test_setenv("HMREG_FAKE_CUDA_EXPORT_SHORT", "1");
    expect_refused(&bench, addr + 1, MIB - 1, -EPROTO, "1048576");
    CU(cu.free(addr));
}

/* A driver that wants a context for it is asked for the memory's, which a claim does not name. */
TEST(export__of_a_claim_needs_a_context__the_memorys)
{
    struct hmem_range claim = {.kind = HMREG_MEM_DEVICE, .segments = 1, .claimed = true};
    struct hmreg_dmabuf dmabuf;
    unsigned long long addr;
    struct bench bench;

    driver_need_fake();
    bench = bench_begin();
    addr = cu_alloc(MIB);
    cu_write_pattern(addr, MIB);
    claim.alloc_base = addr;
    claim.alloc_len = MIB;
    cu.fake->reset();
    cu_fail("cuMemGetHandleForAddressRange", CUDA_INVALID_CONTEXT, 0, 1);
    assert_ok(hmem_cuda_ops.export_dmabuf(bench.hmem, addr + 33, 44, &claim, 0, &dmabuf));
    check_dmabuf(&dmabuf, 33);
    close(dmabuf.fd);
    assert_int_equal(cu.fake->calls("cuPointerGetAttributes"), 1);
    cu_fail("cuMemGetHandleForAddressRange", CUDA_NOT_SUPPORTED, 0, -1);
    assert_fails(hmem_cuda_ops.export_dmabuf(bench.hmem, addr, 44, &claim, 0, &dmabuf), -EOPNOTSUPP,
                 "HMREG_DEBUG=claims");
    cu.fake->reset();
    CU(cu.free(addr));
}

static int export_pcie(const struct bench *bench, uint64_t addr, struct hmreg_dmabuf *out)
{
    struct hmem_range range;

    assert_ok(bench_resolve(bench, addr, 44, &range));
    return hmem_cuda_ops.export_dmabuf(bench->hmem, addr, 44, &range, HMREG_EXPORT_PCIE, out);
}

TEST(export__pcie_mapping__the_same_bytes)
{
    struct hmreg_dmabuf dmabuf;
    unsigned long long addr;
    struct bench bench;

    driver_need_fake();
    bench = bench_begin();
    addr = cu_alloc(MIB);
    cu_write_pattern(addr, MIB);
    assert_ok(export_pcie(&bench, addr + 33, &dmabuf));
    assert_true(fake_is_pcie(dmabuf.fd));
    check_dmabuf(&dmabuf, 33);
    close(dmabuf.fd);
    CU(cu.free(addr));
}

TEST(export__pcie_mapping_refused_by_the_device__eopnotsupp)
{
    struct hmreg_dmabuf dmabuf = {-7, 7, 7};
    unsigned long long addr;
    struct bench bench;

    driver_need_fake();
    bench = bench_begin();
    addr = cu_alloc(MIB);
    test_setenv("HMREG_FAKE_CUDA_NO_PCIE", "1");
    assert_fails(export_pcie(&bench, addr, &dmabuf), -EOPNOTSUPP, "with the PCIe mapping");
    assert_int_equal(hmreg_last_error()->vendor_code, CUDA_NOT_SUPPORTED);
    assert_int_equal(dmabuf.fd, -7);
    CU(cu.free(addr));
}

TEST_MAIN()
