/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Copies in every direction, the allocations for tools and tests, and all of it on many threads.
 */
#include "tests/gpu/cuda/driver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define MIB 1048576ul

static int copy(const struct bench *bench, uint64_t dst, uint64_t src, size_t len)
{
    return hmem_cuda_ops.copy(bench->hmem, dst, src, len);
}

static void fill_host(unsigned char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = pattern(i);
}

/* To the memory and back, at odd places. */
static void check_round_trip(const struct bench *bench, uint64_t addr, size_t len)
{
    unsigned char *there = malloc(len), *back = calloc(1, len);

    fill_host(there, len);
    assert_ok(copy(bench, addr, (uintptr_t)there, len));
    assert_ok(copy(bench, (uintptr_t)back, addr, len));
    assert_memory_equal(there, back, len);
    free(there);
    free(back);
}

static void copy__device_memory__both_ways(void **state)
{
    struct bench bench = bench_begin();
    unsigned long long addr = cu_alloc(MIB);

    check_round_trip(&bench, addr, MIB);
    check_round_trip(&bench, addr + 1, 4096);
    check_round_trip(&bench, addr + MIB - 1, 1);
    CU(cu.free(addr));
    bench_end(&bench);
}

static void copy__other_sorts__both_ways(void **state)
{
    struct bench bench = bench_begin();
    unsigned long long managed = 0, pool = 0;
    void *host = NULL;

    CU(cu.alloc_managed(&managed, MIB, CUDA_ATTACH_GLOBAL));
    CU(cu.alloc_async(&pool, MIB, NULL));
    CU(cu.stream_wait(NULL));
    CU(cu.alloc_host(&host, MIB, CUDA_HOSTALLOC_WRITECOMBINED));
    check_round_trip(&bench, managed + 3, 10000);
    check_round_trip(&bench, pool + 3, 10000);
    check_round_trip(&bench, (uintptr_t)host + 3, 10000);
    CU(cu.free(managed));
    CU(cu.free_async(pool, NULL));
    CU(cu.stream_wait(NULL));
    CU(cu.free_host(host));
    bench_end(&bench);
}

static void copy__over_pieces_of_virtual_memory__both_ways(void **state)
{
    struct bench bench = bench_begin();
    struct cuda_memory_prop prop = prop_on(0);
    size_t granule = cu_granule();
    unsigned long long addr = cu_reserve(2 * granule);

    cu_map(addr, granule, &prop);
    cu_map(addr + granule, granule, &prop);
    check_round_trip(&bench, addr + granule - 1000, 2000);
    CU(cu.unmap(addr, 2 * granule));
    CU(cu.unreserve(addr, 2 * granule));
    bench_end(&bench);
}

/* The driver returns before a copy on the device is done; we return when it is. */
static void copy__on_one_device__is_there_at_once(void **state)
{
    unsigned long long from, to;
    struct bench bench;

    driver_need_fake();
    bench = bench_begin();
    from = cu_alloc(MIB);
    to = cu_alloc(MIB);
    CU(cu.fill(from, 0x42, MIB));
    assert_ok(copy(&bench, to, from, MIB));
    assert_int_equal(cu.fake->peek(to + MIB - 1)[0], 0x42);
    CU(cu.fill(from, 0x43, MIB));
    CU(cu.copy_on_device(to, from, MIB));
    assert_int_equal(cu.fake->peek(to + MIB - 1)[0], 0x42);
    CU(cu.context_wait());
    assert_int_equal(cu.fake->peek(to + MIB - 1)[0], 0x43);
    CU(cu.free(from));
    CU(cu.free(to));
    bench_end(&bench);
}

static void copy__between_devices__arrives(void **state)
{
    unsigned char there[1000], back[1000] = {0};
    void *first = NULL, *second = NULL;
    struct bench bench;

    driver_need_devices(2);
    bench = bench_begin();
    assert_ok(hmem_cuda_ops.alloc(bench.hmem, 0, HMREG_MEM_DEVICE, 1000, &first));
    assert_ok(hmem_cuda_ops.alloc(bench.hmem, 1, HMREG_MEM_DEVICE, 1000, &second));
    fill_host(there, sizeof(there));
    assert_ok(copy(&bench, (uintptr_t)first, (uintptr_t)there, 1000));
    assert_ok(copy(&bench, (uintptr_t)second, (uintptr_t)first, 1000));
    assert_ok(copy(&bench, (uintptr_t)back, (uintptr_t)second, 1000));
    assert_memory_equal(there, back, 1000);
    assert_ok(hmem_cuda_ops.free(bench.hmem, first, HMREG_MEM_DEVICE));
    assert_ok(hmem_cuda_ops.free(bench.hmem, second, HMREG_MEM_DEVICE));
    bench_end(&bench);
}

static void copy__beyond_the_end__eio(void **state)
{
    struct bench bench;
    unsigned long long addr;
    char *bytes;

    driver_need_fake(); /* what lies beyond is not known on a real device */
    bench = bench_begin();
    addr = cu_alloc(MIB);
    bytes = calloc(1, MIB + 1);
    assert_fails(copy(&bench, addr, (uintptr_t)bytes, MIB + 1), -EIO, "1048577 bytes");
    assert_string_equal(hmreg_last_error()->vendor_text, "CUDA_ERROR_INVALID_VALUE");
    free(bytes);
    CU(cu.free(addr));
    bench_end(&bench);
}

static void copy__neither_side_of_cuda__eio(void **state)
{
    struct bench bench = bench_begin();
    char a[8] = "before", b[8] = "after";

    assert_fails(copy(&bench, (uintptr_t)a, (uintptr_t)b, 8), -EIO, "neither");
    assert_string_equal(a, "before");
    bench_end(&bench);
}

/* ---- allocations ------------------------------------------------------------------------ */

static void expect_kind(const struct bench *bench, enum hmreg_mem_kind kind, int device)
{
    struct hmem_range range;
    void *addr = NULL;

    assert_ok(hmem_cuda_ops.alloc(bench->hmem, device, kind, 12345, &addr));
    assert_ok(bench_resolve(bench, (uintptr_t)addr, 12345, &range));
    assert_int_equal(range.kind, kind);
    assert_int_equal(range.device, device);
    assert_int_equal(range.alloc_base, (uintptr_t)addr);
    if (kind != HMREG_MEM_DEVICE)
        memset(addr, 1, 12345);
    assert_ok(hmem_cuda_ops.free(bench->hmem, addr, kind));
    assert_int_equal(bench_resolve(bench, (uintptr_t)addr, 1, &range), -HMEM_NOT_MINE);
}

static void alloc__each_kind__is_what_resolve_says(void **state)
{
    struct bench bench = bench_begin();

    for (int i = 0; i < hmem_cuda_ops.device_count(bench.hmem); i++) {
        expect_kind(&bench, HMREG_MEM_DEVICE, i);
        expect_kind(&bench, HMREG_MEM_HOST_PINNED, i);
        expect_kind(&bench, HMREG_MEM_MANAGED, i);
    }
    bench_end(&bench);
}

static void alloc__device_memory__exportable_where_the_device_can(void **state)
{
    struct bench bench = bench_begin();
    struct hmem_device device;
    struct hmem_range range;
    void *addr = NULL;

    hmem_cuda_ops.device(bench.hmem, 0, &device);
    assert_ok(hmem_cuda_ops.alloc(bench.hmem, 0, HMREG_MEM_DEVICE, 100, &addr));
    assert_ok(bench_resolve(&bench, (uintptr_t)addr, 100, &range));
    assert_int_equal(range.exportable, device.dmabuf);
    assert_ok(hmem_cuda_ops.free(bench.hmem, addr, HMREG_MEM_DEVICE));
    bench_end(&bench);
}

static void alloc__pageable_host__eopnotsupp(void **state)
{
    struct bench bench = bench_begin();
    void *addr = (void *)7;

    assert_fails(hmem_cuda_ops.alloc(bench.hmem, 0, HMREG_MEM_HOST, 100, &addr), -EOPNOTSUPP,
                 "pageable");
    assert_ptr_equal(addr, (void *)7);
    bench_end(&bench);
}

static void alloc__too_much__enomem(void **state)
{
    struct bench bench = bench_begin();
    void *addr = (void *)7;

    assert_fails(hmem_cuda_ops.alloc(bench.hmem, 0, HMREG_MEM_DEVICE, 1ul << 46, &addr), -ENOMEM,
                 "CUDA_ERROR_OUT_OF_MEMORY");
    assert_ptr_equal(addr, (void *)7);
    bench_end(&bench);
}

static void free__not_from_cuda__its_error(void **state)
{
    struct bench bench = bench_begin();
    unsigned long long addr = cu_alloc(MIB);
    int local = 0;

    assert_fails(hmem_cuda_ops.free(bench.hmem, &local, HMREG_MEM_DEVICE), -EFAULT,
                 "does not know");
    assert_fails(hmem_cuda_ops.free(bench.hmem, as_pointer(addr + 512), HMREG_MEM_DEVICE), -EIO,
                 "CUDA cannot free");
    CU(cu.free(addr));
    bench_end(&bench);
}

/* ---- threads ---------------------------------------------------------------------------- */

#define THREADS 4
#define ROUNDS  40

struct worker {
    struct hmem *hmem;
    int number;
    const char *failed; /* cmocka's asserts are for the main thread */
};

static int one_round(struct worker *worker, int device, size_t len)
{
    unsigned char mark = (unsigned char)(worker->number + 1), seen = 0;
    struct hmreg_dmabuf dmabuf = {.fd = -1};
    struct hmem_range range;
    void *addr = NULL;
    int rc = hmem_cuda_ops.alloc(worker->hmem, device, HMREG_MEM_DEVICE, len, &addr);
    uint64_t at = (uintptr_t)addr;

    if (rc)
        return rc;
    rc = hmem_cuda_ops.resolve(worker->hmem, at, len, &range);
    if (!rc && (range.alloc_base != at || range.alloc_len != len || range.device != device))
        rc = -EBADE;
    if (!rc)
        rc = hmem_cuda_ops.copy(worker->hmem, at + len - 1, (uintptr_t)&mark, 1);
    if (!rc && range.exportable)
        rc = hmem_cuda_ops.export_dmabuf(worker->hmem, at, len, &range, &dmabuf);
    if (dmabuf.fd >= 0)
        close(dmabuf.fd);
    if (!rc)
        rc = hmem_cuda_ops.copy(worker->hmem, (uintptr_t)&seen, at + len - 1, 1);
    if (!rc && seen != mark)
        rc = -EBADE;
    return hmem_cuda_ops.free(worker->hmem, addr, HMREG_MEM_DEVICE) ? -EBADFD : rc;
}

static void *work(void *arg)
{
    struct worker *worker = arg;

    for (int i = 0; i < ROUNDS && !worker->failed; i++)
        if (one_round(worker, i % hmem_cuda_ops.device_count(worker->hmem), 100 + i * 613))
            worker->failed = hmreg_last_error()->text;
    return NULL;
}

static void all_calls__many_threads__each_sees_its_own(void **state)
{
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    struct bench bench = bench_begin();

    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){bench.hmem, i, NULL};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_null(workers[i].failed);
    }
    bench_end(&bench);
}

TEST_MAIN(TEST(copy__device_memory__both_ways), TEST(copy__other_sorts__both_ways),
          TEST(copy__over_pieces_of_virtual_memory__both_ways),
          TEST(copy__on_one_device__is_there_at_once), TEST(copy__between_devices__arrives),
          TEST(copy__beyond_the_end__eio), TEST(copy__neither_side_of_cuda__eio),
          TEST(alloc__each_kind__is_what_resolve_says),
          TEST(alloc__device_memory__exportable_where_the_device_can),
          TEST(alloc__pageable_host__eopnotsupp), TEST(alloc__too_much__enomem),
          TEST(free__not_from_cuda__its_error), TEST(all_calls__many_threads__each_sees_its_own))
