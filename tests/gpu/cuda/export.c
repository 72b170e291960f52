/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Descriptors: that offset and length truly name the bytes, whatever the alignment; who owns
 * them; and each refusal with its reason.
 */
#include "tests/gpu/cuda/driver.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB 1048576ul

/* Resolves and exports as the core does; skips where this real device cannot. */
static int export(const struct bench *bench, uint64_t addr, size_t len, struct hmreg_dmabuf *out)
{
    struct hmem_range range;

    assert_ok(bench_resolve(bench, addr, len, &range));
    return hmem_cuda_ops.export_dmabuf(bench->hmem, addr, len, &range, out);
}

static void need_export(const struct bench *bench)
{
    struct hmem_device device;

    hmem_cuda_ops.device(bench->hmem, 0, &device);
    if (!device.dmabuf)
        test_skip("%s exports no dmabuf", device.name);
}

static void export__any_place_and_length__names_the_bytes(void **state)
{
    static const size_t cuts[][2] = {{0, MIB},       {0, 1},       {1, 1},      {4095, 2},
                                     {4096, 4096},   {4097, 8191}, {65535, 3},  {MIB - 1, 1},
                                     {12345, 54321}, {1, MIB - 2}, {511, 66000}};
    struct bench bench = bench_begin();
    unsigned long long addr = cu_alloc(MIB);

    need_export(&bench);
    cu_write_pattern(addr, MIB);
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        struct hmreg_dmabuf dmabuf = {-1, 0, 0};

        assert_ok(export(&bench, addr + cuts[i][0], cuts[i][1], &dmabuf));
        assert_int_equal(dmabuf.length, cuts[i][1]);
        check_dmabuf(&dmabuf, cuts[i][0]);
        close(dmabuf.fd);
    }
    CU(cu.free(addr));
    bench_end(&bench);
}

/* Small allocations share a page, and so a descriptor's page: the offset tells them apart, and
 * a write through one changes no byte of the others. */
static void export__small_neighbours__kept_apart(void **state)
{
    struct bench bench = bench_begin();
    unsigned long long addrs[3];
    unsigned char bytes[3][100];
    struct hmreg_dmabuf dmabuf;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *view;

    need_export(&bench);
    for (int i = 0; i < 3; i++) {
        addrs[i] = cu_alloc(100);
        CU(cu.fill(addrs[i], (unsigned char)(i + 1), 100));
    }
    assert_ok(export(&bench, addrs[1], 100, &dmabuf));
    assert_int_equal(dmabuf.offset % page, addrs[1] % page);
    view = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, dmabuf.fd,
                (off_t)(dmabuf.offset - dmabuf.offset % page));
    if (view != MAP_FAILED) {
        memset(view + dmabuf.offset % page, 0xee, dmabuf.length);
        munmap(view, page);
        for (int i = 0; i < 3; i++) {
            CU(cu.copy_to_host(bytes[i], addrs[i], 100));
            for (int j = 0; j < 100; j++)
                assert_int_equal(bytes[i][j], i == 1 ? 0xee : i + 1);
        }
    }
    close(dmabuf.fd);
    for (int i = 0; i < 3; i++)
        CU(cu.free(addrs[i]));
    bench_end(&bench);
}

static void export__odd_length_allocation__whole_pages_below(void **state)
{
    struct bench bench = bench_begin();
    unsigned long long addr = cu_alloc(5001);
    struct hmreg_dmabuf dmabuf;

    need_export(&bench);
    cu_write_pattern(addr, 5001);
    assert_ok(export(&bench, addr + 4990, 11, &dmabuf));
    check_dmabuf(&dmabuf, 4990);
    close(dmabuf.fd);
    CU(cu.free(addr));
    bench_end(&bench);
}

static void export__second_device__names_the_bytes(void **state)
{
    struct cuda_context *second = NULL;
    struct hmreg_dmabuf dmabuf;
    unsigned long long addr;
    struct bench bench;

    driver_need_devices(2);
    bench = bench_begin();
    need_export(&bench);
    CU(cu.primary_retain(&second, 1));
    CU(cu.context_push(second));
    addr = cu_alloc(MIB);
    cu_write_pattern(addr, MIB);
    CU(cu.context_pop(NULL));
    assert_ok(export(&bench, addr + 77, 777, &dmabuf));
    check_dmabuf(&dmabuf, 77);
    close(dmabuf.fd);
    CU(cu.context_push(second));
    CU(cu.free(addr));
    CU(cu.context_pop(NULL));
    CU(cu.primary_release(1));
    bench_end(&bench);
}

/* ---- virtual memory --------------------------------------------------------------------- */

static void export__several_pieces__one_descriptor(void **state)
{
    struct bench bench = bench_begin();
    struct cuda_memory_prop prop = prop_on(0);
    size_t granule = cu_granule();
    unsigned long long addr = cu_reserve(4 * granule);
    struct hmreg_dmabuf dmabuf;

    need_export(&bench);
    for (int i = 0; i < 3; i++)
        cu_map(addr + i * granule, granule, &prop);
    cu_write_pattern(addr, 3 * granule);
    assert_ok(export(&bench, addr + granule - 100, granule + 200, &dmabuf));
    assert_int_equal(dmabuf.length, granule + 200);
    check_dmabuf(&dmabuf, granule - 100);
    /* What the device writes later is seen too: the pieces were not copied. */
    CU(cu.fill(addr + granule - 100, pattern(0), 1));
    CU(cu.context_wait());
    dmabuf.length = 1;
    check_dmabuf(&dmabuf, 0);
    close(dmabuf.fd);
    CU(cu.unmap(addr, 3 * granule));
    CU(cu.unreserve(addr, 4 * granule));
    bench_end(&bench);
}

static void export__a_later_piece__begins_with_it(void **state)
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
    bench_end(&bench);
}

/* ---- ownership -------------------------------------------------------------------------- */

static void export__twice__two_descriptors_close_on_exec(void **state)
{
    struct bench bench = bench_begin();
    unsigned long long addr = cu_alloc(MIB);
    struct hmreg_dmabuf first, second;
    int before = test_count_fds();

    need_export(&bench);
    assert_ok(export(&bench, addr, MIB, &first));
    assert_ok(export(&bench, addr, MIB, &second));
    assert_int_equal(test_count_fds(), before + 2);
    assert_true(first.fd != second.fd);
    assert_true(fcntl(first.fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(second.fd, F_GETFD) & FD_CLOEXEC);
    close(first.fd);
    close(second.fd);
    CU(cu.free(addr));
    bench_end(&bench);
}

static void export__descriptor_0__is_valid(void **state)
{
    struct bench bench = bench_begin();
    unsigned long long addr = cu_alloc(MIB);
    struct hmreg_dmabuf dmabuf = {-1, 0, 0};
    int kept;

    need_export(&bench);
    cu_write_pattern(addr, MIB);
    kept = fcntl(0, F_DUPFD_CLOEXEC, 0);
    close(0);
    assert_ok(export(&bench, addr + 1, 10, &dmabuf));
    assert_int_equal(dmabuf.fd, 0);
    check_dmabuf(&dmabuf, 1);
    close(0);
    if (kept >= 0) {
        dup2(kept, 0);
        close(kept);
    }
    CU(cu.free(addr));
    bench_end(&bench);
}

/* The descriptor holds the memory: it outlives the allocation. */
static void export__memory_freed__descriptor_stays(void **state)
{
    struct bench bench = bench_begin();
    unsigned long long addr = cu_alloc(MIB);
    struct hmreg_dmabuf dmabuf;

    need_export(&bench);
    cu_write_pattern(addr, MIB);
    assert_ok(export(&bench, addr, MIB, &dmabuf));
    CU(cu.free(addr));
    if (cu.fake)
        check_dmabuf(&dmabuf, 0);
    close(dmabuf.fd);
    bench_end(&bench);
}

/* ---- refusals --------------------------------------------------------------------------- */

static void expect_refused(const struct bench *bench, uint64_t addr, size_t len, int code,
                           const char *words)
{
    struct hmreg_dmabuf dmabuf = {-7, 7, 7};
    int before = test_count_fds();
    struct hmem_range range;

    assert_ok(bench_resolve(bench, addr, len, &range));
    if (code == -EOPNOTSUPP)
        assert_false(range.exportable);
    assert_fails(hmem_cuda_ops.export_dmabuf(bench->hmem, addr, len, &range, &dmabuf), code, words);
    assert_int_equal(dmabuf.fd, -7);
    assert_int_equal(dmabuf.offset, 7);
    assert_int_equal(dmabuf.length, 7);
    assert_int_equal(test_count_fds(), before);
}

static void export__pinned_host_memory__eopnotsupp(void **state)
{
    struct bench bench = bench_begin();
    void *host = NULL;

    CU(cu.alloc_host(&host, MIB, 0));
    expect_refused(&bench, (uintptr_t)host, 10, -EOPNOTSUPP, "by its address");
    CU(cu.free_host(host));
    bench_end(&bench);
}

static void export__managed_memory__eopnotsupp(void **state)
{
    struct bench bench = bench_begin();
    unsigned long long addr = 0;

    CU(cu.alloc_managed(&addr, MIB, CUDA_ATTACH_GLOBAL));
    expect_refused(&bench, addr, 10, -EOPNOTSUPP, "managed memory moves");
    CU(cu.free(addr));
    bench_end(&bench);
}

static void export__pool_memory__eopnotsupp(void **state)
{
    struct bench bench = bench_begin();
    unsigned long long addr = 0;

    CU(cu.alloc_async(&addr, MIB, NULL));
    CU(cu.stream_wait(NULL));
    expect_refused(&bench, addr, 10, -EOPNOTSUPP, "allocate it with cuMemAlloc");
    CU(cu.free_async(addr, NULL));
    CU(cu.stream_wait(NULL));
    bench_end(&bench);
}

static void export__created_without_gpudirect__eopnotsupp(void **state)
{
    struct bench bench = bench_begin();
    struct cuda_memory_prop prop = prop_on(0);
    size_t granule = cu_granule();
    unsigned long long addr = cu_reserve(granule);

    need_export(&bench);
    prop.gpudirect = 0;
    cu_map(addr, granule, &prop);
    expect_refused(&bench, addr, 10, -EOPNOTSUPP, "gpuDirectRDMACapable");
    CU(cu.unmap(addr, granule));
    CU(cu.unreserve(addr, granule));
    bench_end(&bench);
}

static void export__pieces_of_two_devices__exdev(void **state)
{
    struct cuda_memory_prop prop = prop_on(0), other = prop_on(1);
    unsigned long long addr;
    struct bench bench;
    size_t granule;

    driver_need_devices(2);
    bench = bench_begin();
    need_export(&bench);
    granule = cu_granule();
    addr = cu_reserve(2 * granule);
    cu_map(addr, granule, &prop);
    cu_map(addr + granule, granule, &other);
    expect_refused(&bench, addr + granule - 1, 2, -EXDEV, "2 pieces");
    CU(cu.unmap(addr, 2 * granule));
    CU(cu.unreserve(addr, 2 * granule));
    bench_end(&bench);
}

/* Imported memory has no properties to compare; its device remains. */
static void export__imported_pieces_of_two_devices__exdev(void **state)
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
    expect_refused(&bench, addr + granule - 1, 2, -EXDEV, "2 pieces");
    cu.fake->reset();
    CU(cu.unmap(addr, 2 * granule));
    CU(cu.unreserve(addr, 2 * granule));
    bench_end(&bench);
}

static void export__virtual_memory_on_the_host__eopnotsupp(void **state)
{
    struct cuda_memory_prop prop = prop_on(0);
    unsigned long long addr;
    struct bench bench;
    size_t granule;

    driver_need_fake();
    bench = bench_begin();
    granule = cu_granule();
    addr = cu_reserve(granule);
    prop.location = (struct cuda_location){CUDA_LOCATION_HOST_NUMA, 0};
    cu_map(addr, granule, &prop);
    expect_refused(&bench, addr, 10, -EOPNOTSUPP, "on the host");
    CU(cu.unmap(addr, granule));
    CU(cu.unreserve(addr, granule));
    bench_end(&bench);
}

static void export__device_without_dmabuf__eopnotsupp(void **state)
{
    struct hmem_device device;
    unsigned long long addr;
    struct bench bench;

    driver_need_fake();
    setenv("HMREG_FAKE_CUDA_NO_DMABUF", "1", 1);
    bench = bench_begin();
    hmem_cuda_ops.device(bench.hmem, 0, &device);
    assert_false(device.dmabuf);
    hmem_cuda_ops.device(bench.hmem, 1, &device);
    assert_true(device.dmabuf);
    addr = cu_alloc(MIB);
    expect_refused(&bench, addr, 10, -EOPNOTSUPP, "device 0 says it exports no dmabuf");
    CU(cu.free(addr));
    unsetenv("HMREG_FAKE_CUDA_NO_DMABUF");
    bench_end(&bench);
}

/* ---- what drivers may do ---------------------------------------------------------------- */

static void export__descriptor_too_short__eproto(void **state)
{
    unsigned long long addr;
    struct bench bench;

    driver_need_fake();
    bench = bench_begin();
    addr = cu_alloc(MIB);
    setenv("HMREG_FAKE_CUDA_EXPORT_SHORT", "1", 1);
    expect_refused(&bench, addr + MIB - 1, 1, -EPROTO, "1048576");
    unsetenv("HMREG_FAKE_CUDA_EXPORT_SHORT");
    CU(cu.free(addr));
    bench_end(&bench);
}

static void export__vendor_says_not_supported__eopnotsupp(void **state)
{
    unsigned long long addr;
    struct hmreg_dmabuf dmabuf;
    struct bench bench;

    driver_need_fake();
    bench = bench_begin();
    addr = cu_alloc(MIB);
    cu_fail("cuMemGetHandleForAddressRange", CUDA_NOT_SUPPORTED, 0, 1);
    assert_fails(export(&bench, addr, 1, &dmabuf), -EOPNOTSUPP, "CUDA_ERROR_NOT_SUPPORTED");
    assert_int_equal(hmreg_last_error()->vendor_code, CUDA_NOT_SUPPORTED);
    assert_string_equal(hmreg_last_error()->source, "cuda");
    assert_string_equal(hmreg_last_error()->vendor_text, "CUDA_ERROR_NOT_SUPPORTED");
    CU(cu.free(addr));
    bench_end(&bench);
}

/* The vendor may refuse pieces that look alike to us. */
static void export__vendor_refuses_several_pieces__exdev(void **state)
{
    struct cuda_memory_prop prop = prop_on(0);
    struct hmreg_dmabuf dmabuf;
    unsigned long long addr;
    struct bench bench;
    size_t granule;

    driver_need_fake();
    bench = bench_begin();
    granule = cu_granule();
    addr = cu_reserve(2 * granule);
    cu_map(addr, granule, &prop);
    cu_map(addr + granule, granule, &prop);
    cu_fail("cuMemGetHandleForAddressRange", CUDA_INVALID_VALUE, 0, 1);
    assert_fails(export(&bench, addr, 2 * granule, &dmabuf), -EXDEV, "2 segments");
    CU(cu.unmap(addr, 2 * granule));
    CU(cu.unreserve(addr, 2 * granule));
    bench_end(&bench);
}

static void export__memory_freed_meanwhile__efault(void **state)
{
    struct bench bench = bench_begin();
    unsigned long long addr = cu_alloc_large();
    struct hmreg_dmabuf dmabuf = {-7, 7, 7};
    struct hmem_range range;

    assert_ok(bench_resolve(&bench, addr, 10, &range));
    CU(cu.free(addr));
    assert_fails(hmem_cuda_ops.export_dmabuf(bench.hmem, addr, 10, &range, &dmabuf), -EFAULT,
                 "freed");
    assert_int_equal(dmabuf.fd, -7);
    bench_end(&bench);
}

TEST_MAIN(
    TEST(export__any_place_and_length__names_the_bytes), TEST(export__small_neighbours__kept_apart),
    TEST(export__odd_length_allocation__whole_pages_below),
    TEST(export__second_device__names_the_bytes), TEST(export__several_pieces__one_descriptor),
    TEST(export__a_later_piece__begins_with_it), TEST(export__twice__two_descriptors_close_on_exec),
    TEST(export__descriptor_0__is_valid), TEST(export__memory_freed__descriptor_stays),
    TEST(export__pinned_host_memory__eopnotsupp), TEST(export__managed_memory__eopnotsupp),
    TEST(export__pool_memory__eopnotsupp), TEST(export__created_without_gpudirect__eopnotsupp),
    TEST(export__pieces_of_two_devices__exdev), TEST(export__imported_pieces_of_two_devices__exdev),
    TEST(export__virtual_memory_on_the_host__eopnotsupp),
    TEST(export__device_without_dmabuf__eopnotsupp), TEST(export__descriptor_too_short__eproto),
    TEST(export__vendor_says_not_supported__eopnotsupp),
    TEST(export__vendor_refuses_several_pieces__exdev),
    TEST(export__memory_freed_meanwhile__efault))
