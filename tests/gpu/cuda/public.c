/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * CUDA through the public interface: query, export, copy, and regions that a peer reaches by
 * the built-in loopback, with memory freed and exchanged under the cache.
 */
#include "tests/gpu/cuda/driver.h"

#include <hmreg/loopback.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define BYTES 100000

static struct hmreg *open_library(void)
{
    struct hmreg_config config = {.size = sizeof(config),
                                  .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_CUDA)};
    struct hmreg *lib = NULL;

    driver_need_devices(1);
    assert_ok(hmreg_open(&config, &lib));
    return lib;
}

static struct hmreg_domain *open_domain(struct hmreg *lib, enum hmreg_path path)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .order = {path}};
    struct hmreg_domain *domain = NULL;

    assert_ok(hmreg_domain_open_loopback(lib, NULL, &config, &domain));
    return domain;
}

static char *alloc(struct hmreg *lib, int device, enum hmreg_mem_kind kind)
{
    void *made = NULL;

    assert_ok(hmreg_mem_alloc(lib, HMREG_IFACE_CUDA, device, kind, BYTES, &made));
    return made;
}

static void runtime_and_devices__are_told(void **state)
{
    struct hmreg_runtime_info runtime = {.size = sizeof(runtime)};
    struct hmreg_device_info device = {.size = sizeof(device)};
    struct hmreg *lib = open_library();

    assert_ok(hmreg_runtime_query(lib, HMREG_IFACE_CUDA, &runtime));
    assert_int_equal(runtime.present, 1);
    assert_ok(hmreg_device_query(lib, HMREG_IFACE_CUDA, 0, &device));
    assert_true(device.pci.valid);
    if (cu.fake) {
        assert_string_equal(runtime.version, "13.0");
        assert_string_equal(device.name, "simulated CUDA device 0");
        assert_int_equal(device.flags, HMREG_DEVICE_SIMULATED | HMREG_DEVICE_DMABUF);
    }
    assert_ok(hmreg_close(lib));
}

static void query__each_kind__is_told(void **state)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};
    struct hmreg *lib = open_library();
    char *device = alloc(lib, 0, HMREG_MEM_DEVICE);
    char *pinned = alloc(lib, 0, HMREG_MEM_HOST_PINNED);
    char *managed = alloc(lib, 0, HMREG_MEM_MANAGED);

    assert_ok(hmreg_query(lib, device + 3, BYTES - 3, &info));
    assert_int_equal(info.iface, HMREG_IFACE_CUDA);
    assert_int_equal(info.kind, HMREG_MEM_DEVICE);
    assert_int_equal(info.flags & HMREG_MEM_CPU_ACCESS, 0);
    assert_int_equal(info.alloc_base, (uintptr_t)device);
    assert_int_equal(info.alloc_len, BYTES);
    assert_ok(hmreg_query(lib, pinned, BYTES, &info));
    assert_int_equal(info.kind, HMREG_MEM_HOST_PINNED);
    assert_int_equal(info.host_addr, (uintptr_t)pinned);
    assert_ok(hmreg_query(lib, managed, BYTES, &info));
    assert_int_equal(info.kind, HMREG_MEM_MANAGED);
    assert_ok(hmreg_query(lib, &info, sizeof(info), &info));
    assert_int_equal(info.iface, HMREG_IFACE_SYSTEM);
    assert_fails(hmreg_query(lib, device + 1, BYTES, &info), -ERANGE, "leaves");
    assert_ok(hmreg_mem_free(lib, device));
    assert_ok(hmreg_mem_free(lib, pinned));
    assert_ok(hmreg_mem_free(lib, managed));
    assert_ok(hmreg_close(lib));
}

/* Addresses without memory are never taken for host memory. */
static void query__reserved_addresses__efault(void **state)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};
    struct bench bench = bench_begin();
    struct hmreg *lib = open_library();
    size_t granule = cu_granule();
    unsigned long long addr = cu_reserve(granule);

    assert_fails(hmreg_query(lib, as_pointer(addr), 10, &info), -EFAULT, "reserved");
    CU(cu.unreserve(addr, granule));
    assert_ok(hmreg_close(lib));
    bench_end(&bench);
}

static void export_and_copy__name_the_same_bytes(void **state)
{
    struct hmreg_dmabuf dmabuf = {.fd = -1};
    struct hmreg *lib = open_library();
    char *device = alloc(lib, 0, HMREG_MEM_DEVICE);
    unsigned char out[333], in[333] = {0};

    for (size_t i = 0; i < sizeof(out); i++)
        out[i] = pattern(i);
    assert_ok(hmreg_copy(lib, device + 4567, out, sizeof(out)));
    assert_ok(hmreg_export_dmabuf(lib, device + 4567, sizeof(out), 0, &dmabuf));
    assert_int_equal(dmabuf.length, sizeof(out));
    check_dmabuf(&dmabuf, 0);
    assert_ok(hmreg_copy(lib, in, device + 4567, sizeof(in)));
    assert_memory_equal(in, out, sizeof(in));
    close(dmabuf.fd);
    assert_ok(hmreg_mem_free(lib, device));
    assert_ok(hmreg_close(lib));
}

/* ---- regions ---------------------------------------------------------------------------- */

/* Writes through a region as a peer does, at an offset. */
static void rma_write(struct hmreg_domain *domain, struct hmreg_mr *mr, uint64_t offset,
                      const void *bytes, size_t len)
{
    struct hmreg_remote *remote = NULL;
    char token[4096];
    size_t size = sizeof(token);
    uint64_t addr, key;

    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_remote_open(domain, token, size, &remote));
    assert_ok(hmreg_remote_addr(remote, offset, len, &addr, &key));
    assert_ok(hmreg_loopback_write(remote, bytes, len, NULL, addr, key));
    hmreg_remote_close(remote);
}

static void check_bytes(struct hmreg *lib, uint64_t addr, const void *expected, size_t len)
{
    unsigned char got[4096];

    assert_true(len <= sizeof(got));
    assert_ok(hmreg_copy(lib, got, as_pointer(addr), len));
    assert_memory_equal(got, expected, len);
}

static void region__of_each_kind__is_reached_by_a_peer(void **state)
{
    static const struct {
        enum hmreg_mem_kind kind;
        enum hmreg_path order, path;
    } cases[] = {{HMREG_MEM_DEVICE, HMREG_PATH_MAPPED, HMREG_PATH_MAPPED},
                 {HMREG_MEM_DEVICE, HMREG_PATH_PEERMEM, HMREG_PATH_PEERMEM},
                 {HMREG_MEM_HOST_PINNED, HMREG_PATH_MAPPED, HMREG_PATH_SYSTEM},
                 {HMREG_MEM_MANAGED, HMREG_PATH_MAPPED, HMREG_PATH_SYSTEM}};
    struct hmreg *lib;

    driver_need_fake();
    lib = open_library();
    for (int i = 0; i < 4; i++) {
        struct hmreg_explanation why = {.size = sizeof(why)};
        struct hmreg_domain *domain = open_domain(lib, cases[i].order);
        char *memory = alloc(lib, i % 2, cases[i].kind);
        struct hmreg_mr *mr = NULL;

        assert_ok(
            hmreg_mr_reg(domain, memory + 1, BYTES - 1, HMREG_ACCESS_REMOTE, 0, 5, 0, &mr, NULL));
        assert_ok(hmreg_explain(mr, &why));
        assert_int_equal(why.path, cases[i].path);
        rma_write(domain, mr, 8190, "seen by the device", 19);
        check_bytes(lib, (uintptr_t)memory + 8191, "seen by the device", 19);
        assert_ok(hmreg_mr_close(mr));
        assert_ok(hmreg_domain_close(domain));
        assert_ok(hmreg_mem_free(lib, memory));
    }
    assert_ok(hmreg_close(lib));
}

/* Known by the device's address, registered by the CPU's: a load at the former would fault. */
static void region__device_address_of_host_memory__by_its_host_address(void **state)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct bench bench = bench_begin();
    struct hmreg *lib = open_library();
    struct hmreg_domain *domain = open_domain(lib, HMREG_PATH_MAPPED);
    unsigned long long device = 0;
    struct hmreg_mr *mr = NULL;
    void *host = NULL;

    CU(cu.alloc_host(&host, BYTES, CUDA_HOSTALLOC_WRITECOMBINED));
    CU(cu.host_device_pointer(&device, host, 0));
    assert_ok(hmreg_mr_reg(domain, as_pointer(device + 1), BYTES - 1, HMREG_ACCESS_REMOTE, 0, 5, 0,
                           &mr, NULL));
    assert_ok(hmreg_mr_query(mr, &info));
    assert_int_equal(info.path, HMREG_PATH_SYSTEM);
    assert_int_equal(info.local_addr, (uintptr_t)host + 1);
    rma_write(domain, mr, 99, "on the host", 12);
    assert_string_equal((char *)host + 100, "on the host");
    assert_ok(hmreg_mr_close(mr));
    CU(cu.free_host(host));
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_close(lib));
    bench_end(&bench);
}

static void region__pool_memory__refused_with_the_remedy(void **state)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct bench bench = bench_begin();
    struct hmreg *lib = open_library();
    struct hmreg_domain *domain = open_domain(lib, HMREG_PATH_MAPPED);
    unsigned long long addr = 0;
    struct hmreg_mr *mr = NULL;

    CU(cu.alloc_async(&addr, BYTES, NULL));
    CU(cu.stream_wait(NULL));
    assert_fails(
        hmreg_mr_reg(domain, as_pointer(addr), BYTES, HMREG_ACCESS_REMOTE, 0, 5, 0, &mr, NULL),
        -EOPNOTSUPP, "cuMemAlloc");
    assert_null(mr);
    assert_ok(hmreg_explain(NULL, &why));
    assert_int_equal(why.reasons[0].path, HMREG_PATH_MAPPED);
    CU(cu.free_async(addr, NULL));
    CU(cu.stream_wait(NULL));
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_close(lib));
    bench_end(&bench);
}

/* ---- the cache -------------------------------------------------------------------------- */

static void get__freed_and_allocated_at_the_same_address__fresh(void **state)
{
    struct hmreg_domain *domain;
    struct hmreg_mr *mr = NULL;
    struct hmreg *lib;
    char *memory;

    driver_need_fake();
    lib = open_library();
    domain = open_domain(lib, HMREG_PATH_MAPPED);
    memory = alloc(lib, 0, HMREG_MEM_DEVICE);
    assert_ok(hmreg_mr_get(domain, memory, BYTES, HMREG_ACCESS_REMOTE, &mr));
    hmreg_mr_put(mr);
    assert_ok(hmreg_mem_free(lib, memory));
    assert_ptr_equal(alloc(lib, 0, HMREG_MEM_DEVICE), memory);
    assert_ok(hmreg_mr_get(domain, memory, BYTES, HMREG_ACCESS_REMOTE, &mr));
    rma_write(domain, mr, 5, "the new memory", 15);
    check_bytes(lib, (uintptr_t)memory + 5, "the new memory", 15);
    hmreg_mr_put(mr);
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_mem_free(lib, memory));
    assert_ok(hmreg_close(lib));
}

/* Gets a region over two pieces, exchanges the second, and gets it again. */
static void exchange_tail(enum hmreg_path path)
{
    struct bench bench = bench_begin();
    struct hmreg *lib = open_library();
    struct hmreg_domain *domain = open_domain(lib, path);
    struct hmreg_stats stats = {.size = sizeof(stats)};
    struct cuda_memory_prop prop = prop_on(0);
    size_t granule = cu_granule();
    unsigned long long addr = cu_reserve(2 * granule);
    struct hmreg_mr *mr = NULL;

    cu_map(addr, granule, &prop);
    cu_map(addr + granule, granule, &prop);
    for (int i = 0; i < 3; i++) {
        assert_ok(hmreg_mr_get(domain, as_pointer(addr), 2 * granule, HMREG_ACCESS_REMOTE, &mr));
        rma_write(domain, mr, granule - 4, "over the border", 16);
        check_bytes(lib, addr + granule - 4, "over the border", 16);
        hmreg_mr_put(mr);
        CU(cu.unmap(addr + granule, granule));
        cu_map(addr + granule, granule, &prop);
    }
    assert_ok(hmreg_domain_stats(domain, &stats));
    assert_int_equal(stats.hits, 0);
    assert_ok(hmreg_domain_close(domain));
    CU(cu.unmap(addr, 2 * granule));
    CU(cu.unreserve(addr, 2 * granule));
    assert_ok(hmreg_close(lib));
    bench_end(&bench);
}

static void get__piece_exchanged_at_the_tail__fresh(void **state)
{
    driver_need_fake();
    exchange_tail(HMREG_PATH_PEERMEM);
    exchange_tail(HMREG_PATH_MAPPED);
}

/* A driver that does not name physical memory: what nobody can check is not remembered. */
static void get__memory_without_identity__registered_each_time(void **state)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};
    struct cuda_memory_prop prop = prop_on(0);
    struct hmreg_domain *domain;
    unsigned long long addr;
    struct bench bench;
    struct hmreg *lib;
    size_t granule;

    driver_need_fake();
    bench = bench_begin();
    lib = open_library();
    domain = open_domain(lib, HMREG_PATH_MAPPED);
    granule = cu_granule();
    addr = cu_reserve(granule);
    cu_map(addr, granule, &prop);
    setenv("HMREG_FAKE_CUDA_NO_MAPPING", "1", 1);
    for (int i = 0; i < 2; i++) {
        struct hmreg_mr *mr = NULL;

        assert_ok(hmreg_mr_get(domain, as_pointer(addr), granule, HMREG_ACCESS_REMOTE, &mr));
        hmreg_mr_put(mr);
    }
    unsetenv("HMREG_FAKE_CUDA_NO_MAPPING");
    assert_ok(hmreg_domain_stats(domain, &stats));
    assert_int_equal(stats.hits, 0);
    assert_int_equal(stats.uncached, 2);
    assert_int_equal(stats.regions, 0);
    assert_ok(hmreg_domain_close(domain));
    CU(cu.unmap(addr, granule));
    CU(cu.unreserve(addr, granule));
    assert_ok(hmreg_close(lib));
    bench_end(&bench);
}

/* ---- contexts --------------------------------------------------------------------------- */

struct getter {
    struct hmreg_domain *domain;
    void *addr;
    int rc;
    struct cuda_context *after;
};

static void *get_there(void *arg)
{
    struct getter *getter = arg;
    struct hmreg_mr *mr = NULL;

    for (int i = 0; i < 3 && !getter->rc; i++) {
        getter->rc = hmreg_mr_get(getter->domain, getter->addr, BYTES, HMREG_ACCESS_REMOTE, &mr);
        if (!getter->rc)
            hmreg_mr_put(mr);
    }
    cu.context_current(&getter->after);
    return NULL;
}

/* A thread that never used CUDA registers its memory, and has no context after it either. */
static void get__thread_without_context__has_none_after(void **state)
{
    struct getter getter = {0};
    struct bench bench;
    struct hmreg *lib;
    pthread_t thread;

    driver_need_fake();
    bench = bench_begin();
    lib = open_library();
    getter.domain = open_domain(lib, HMREG_PATH_MAPPED);
    getter.addr = as_pointer(cu_alloc(BYTES));
    getter.after = bench.context;
    assert_int_equal(pthread_create(&thread, NULL, get_there, &getter), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(getter.rc, 0);
    assert_null(getter.after);
    assert_int_equal(cu.contexts(), 1);
    assert_ok(hmreg_domain_close(getter.domain));
    CU(cu.free((uintptr_t)getter.addr));
    assert_ok(hmreg_close(lib));
    bench_end(&bench);
}

TEST_MAIN(TEST(runtime_and_devices__are_told), TEST(query__each_kind__is_told),
          TEST(query__reserved_addresses__efault), TEST(export_and_copy__name_the_same_bytes),
          TEST(region__of_each_kind__is_reached_by_a_peer),
          TEST(region__device_address_of_host_memory__by_its_host_address),
          TEST(region__pool_memory__refused_with_the_remedy),
          TEST(get__freed_and_allocated_at_the_same_address__fresh),
          TEST(get__piece_exchanged_at_the_tail__fresh),
          TEST(get__memory_without_identity__registered_each_time),
          TEST(get__thread_without_context__has_none_after))
