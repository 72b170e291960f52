/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * CUDA through the public interface: virtual memory replaced under the cache, and contexts.
 */
#include "tests/gpu/cuda/driver.h"
#include "tests/support/queries.h"
#include "tests/support/walks.h"

#include <hmreg/loopback.h>

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

/* Writes through a region as a peer does, at an offset. */
static void rma_write(struct hmreg_domain *domain, struct hmreg_mr *mr, uint64_t offset,
                      const void *bytes, size_t len)
{
    struct hmreg_remote *remote = NULL;
    uint64_t addr, key;

    remote = test_remote_of(domain, mr);
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

/* ---- hooks ------------------------------------------------------------------------------ */

/* Before Linux 6.11 the list of mappings is read as text: not for each function. */
TEST_FIRST(get__first_of_the_process__mappings_asked_for_twice_for_all_hooks)
{
    struct hmreg_domain *domain;
    struct hmreg_mr *mr;
    struct bench bench;
    struct hmreg *lib;
    uint64_t addr;

    driver_need_fake();
    bench = bench_begin();
    lib = open_library();
    domain = open_domain(lib, HMREG_PATH_MAPPED);
    addr = cu_alloc(BYTES);
    assert_ok(hmreg_mr_get(domain, as_pointer(addr), BYTES, HMREG_SEND, &mr));
    assert_in_range(walks, 0, 2); /* whether they can be hooked, and to hook them */
    hmreg_mr_put(mr);
    assert_ok(hmreg_domain_close(domain));
    CU(cu.free(addr));
    assert_ok(hmreg_close(lib));
    bench_end(&bench);
}

/* ---- the cache -------------------------------------------------------------------------- */

/* Gets a region over two pieces, replaces the second, and gets it again. */
static void exchange_tail(enum hmreg_path path)
{
    struct bench bench = bench_begin();
    struct hmreg *lib = open_library();
    struct hmreg_domain *domain = open_domain(lib, path);
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
    assert_int_equal(test_stats_of(domain).hits, 0);
    assert_ok(hmreg_domain_close(domain));
    CU(cu.unmap(addr, 2 * granule));
    CU(cu.unreserve(addr, 2 * granule));
    assert_ok(hmreg_close(lib));
    bench_end(&bench);
}

TEST(get__piece_exchanged_at_the_tail__fresh)
{
    driver_need_fake();
    exchange_tail(HMREG_PATH_PEERMEM);
    exchange_tail(HMREG_PATH_MAPPED);
}

/* A driver without ids of physical memory: memory that cannot be validated is not cached. */
TEST(get__memory_without_identity__registered_each_time)
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

/* A thread that never used CUDA registers its memory, and has no context afterwards either. */
TEST(get__thread_without_context__has_none_after)
{
    struct getter getter = {0};
    struct bench bench;
    struct hmreg *lib;

    driver_need_fake();
    bench = bench_begin();
    lib = open_library();
    getter.domain = open_domain(lib, HMREG_PATH_MAPPED);
    getter.addr = as_pointer(cu_alloc(BYTES));
    getter.after = bench.context;
    test_on_a_thread(get_there, &getter);
    assert_int_equal(getter.rc, 0);
    assert_null(getter.after);
    assert_int_equal(cu.contexts(), 1);
    assert_ok(hmreg_domain_close(getter.domain));
    CU(cu.free((uintptr_t)getter.addr));
    assert_ok(hmreg_close(lib));
}

TEST_MAIN()
