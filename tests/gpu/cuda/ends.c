/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The ends of memory that the CUDA vendor reports by its hooks: each way in which each watched kind
 * ends, by symbol and by cuGetProcAddress, and which kinds are not watched. Through the cache: a
 * hit on watched memory asks the driver nothing, and the reused address is registered anew.
 */
#include "core/patch/entry_hook.h"
#include "tests/gpu/cuda/driver.h"
#include "tests/support/queries.h"

#include <hmreg/loopback.h>
#include <sys/mman.h>

#define BYTES 100000

/* ---- what is reported ------------------------------------------------------------------- */

static uint64_t expected_start, expected_end;
static unsigned reports; /* that contain the expected range */

static void listen(uint64_t start, uint64_t end)
{
    reports += start <= expected_start && end >= expected_end;
}

static struct bench begin(void)
{
    driver_need_hooks();
    hmem_listen(listen);
    return bench_begin();
}

static const char *why_not; /* the last time that memory was not watched */

static bool watch(const struct bench *bench, uint64_t addr, size_t len)
{
    struct hmem_range range;

    expected_start = addr;
    expected_end = addr + len;
    reports = 0;
    assert_ok(bench_resolve(bench, addr, len, &range));
    return hmem_cuda_ops.watch(bench->hmem, addr, len, &range, &why_not);
}

/* Allocates, and watches the second half. */
static uint64_t watched_plain(const struct bench *bench)
{
    uint64_t addr = cu_alloc(BYTES);

    assert_true(watch(bench, addr + BYTES / 2, BYTES / 2));
    return addr;
}

static void check_reported(void)
{
    assert_true(reports >= 1); /* more if the driver makes one call by another */
}

/* ---- plain memory ----------------------------------------------------------------------- */

typedef unsigned free_function(unsigned long long addr);
typedef unsigned free_async_function(unsigned long long addr, struct cuda_stream *stream);

static void *address_of(const char *name, int version, unsigned long long flags)
{
    unsigned status = 0;
    void *found = NULL;

    if (!cu.get_address)
        test_skip("this driver has no cuGetProcAddress_v2");
    CU(cu.get_address(name, &found, version, flags, &status));
    return found;
}

/* The first case: no hook is in place yet. */
TEST(end__by_an_address_from_before_the_hooks__reported)
{
    free_async_function *free_async = NULL;
    free_function *free_it = NULL;
    struct bench bench;
    void *found[2];

    driver_load();
    found[0] = address_of("cuMemFree", 12000, 0);
    found[1] = address_of("cuMemFreeAsync", 12000, 2);
    memcpy(&free_it, &found[0], sizeof(free_it));
    memcpy(&free_async, &found[1], sizeof(free_async));
    bench = begin();
    for (int i = 0; i < 3; i++) {
        uint64_t addr = watched_plain(&bench);

        CU(free_it(addr));
        check_reported();
    }
    CU(free_async(watched_plain(&bench), NULL));
    check_reported();
}

TEST(end__by_symbol_or_address__reported)
{
    struct bench bench = begin();
    free_function *free_it = NULL;
    void *found;

    CU(cu.free(watched_plain(&bench)));
    check_reported();
    found = address_of("cuMemFree", 13000, 1);
    memcpy(&free_it, &found, sizeof(free_it));
    CU(free_it(watched_plain(&bench)));
    check_reported();
    assert_int_not_equal(cu.free_old((unsigned)watched_plain(&bench)), CUDA_OK);
    check_reported(); /* half of an address: all memory */
    CU(cu.free(expected_start - BYTES / 2));
}

/* The memory is still there, and watched for regions of before. A real driver frees without a
 * context too. */
TEST(free__fails__reported_when_it_succeeds)
{
    struct cuda_context *current = NULL;
    struct bench bench = begin();
    uint64_t addr = watched_plain(&bench);

    CU(cu.context_pop(&current));
    if (cu.fake)
        assert_int_equal(cu.free(addr), CUDA_INVALID_CONTEXT);
    CU(cu.context_push(current));
    reports = 0;
    CU(cu.free(addr));
    check_reported();
}

/* ---- contexts --------------------------------------------------------------------------- */

TEST(end__with_a_context__reported)
{
    unsigned (*const destroys[])(struct cuda_context *) = {cu.context_destroy,
                                                           cu.context_destroy_old};
    struct bench bench = begin();

    for (size_t i = 0; i < 2; i++) {
        struct cuda_context *context = NULL;

        if (!destroys[i])
            continue;
        CU(cu.context_create(&context, 0, 0));
        watched_plain(&bench);
        CU(destroys[i](context));
        check_reported();
    }
}

TEST(end__with_the_primary_context__reported)
{
    struct cuda_context *current = NULL;
    struct bench bench = begin();

    watched_plain(&bench);
    CU(cu.primary_reset(0));
    check_reported();
    CU(cu.context_pop(&current));
    CU(cu.primary_release(0)); /* the last: a reset context cannot be allocated from */
    CU(cu.primary_retain(&bench.context, 0));
    CU(cu.context_push(bench.context));
    watched_plain(&bench);
    CU(cu.context_pop(&current));
    CU(cu.primary_release(0));
    check_reported();
    CU(cu.primary_retain(&bench.context, 0));
    CU(cu.context_push(bench.context));
    bench_end(&bench);
}

/* As libraries do that look at memory on a thread without a context. */
TEST(release__of_a_context_that_others_retain__not_reported)
{
    struct cuda_context *again = NULL;
    struct bench bench = begin();
    uint64_t addr = watched_plain(&bench);

    for (int i = 0; i < 10; i++) {
        CU(cu.primary_retain(&again, 0));
        CU(cu.primary_release(0));
    }
    assert_int_equal(cu.primary_release(7), CUDA_INVALID_DEVICE);
    reports = 0;
    CU(cu.primary_retain(&again, 0));
    CU(cu.primary_release(0));
    assert_int_equal(reports, 0);
    CU(cu.free(addr));
    check_reported();
}

/* Its end releases a context, of some device, that the hooks count. */
static unsigned reports_before; /* of a release */

static void count_before(const char *call, bool ended)
{
    if (!ended && strcmp(call, "cuDevicePrimaryCtxRelease_v2") == 0)
        reports_before = reports;
}

TEST(release__last_of_two__reported_before_the_call)
{
    struct cuda_context *context = NULL;
    struct bench bench;

    driver_need_fake();
    driver_need_devices(2);
    bench = begin();
    CU(cu.primary_retain(&context, 1));
    CU(cu.primary_retain(&context, 1));
    CU(cu.context_push(context));
    watched_plain(&bench);
    CU(cu.context_pop(&context));
    cu.around(count_before);
    CU(cu.primary_release(1));
    assert_int_equal(reports_before, 0);
    CU(cu.primary_release(1));
    cu.around(NULL);
    assert_true(reports_before >= 1);
}

TEST(release__last_after_a_green_context__reported_before_the_call)
{
    struct cuda_context *context = NULL;
    struct cuda_green *green;
    struct bench bench;

    driver_need_fake();
    driver_need_devices(2);
    bench = begin();
    CU(cu.primary_retain(&context, 1));
    green = cu_green(1, &context);
    CU(cu.primary_release(1));
    CU(cu.primary_retain(&context, 1));
    CU(cu.green_destroy(green));
    CU(cu.context_push(context));
    watched_plain(&bench);
    CU(cu.context_pop(&context));
    cu.around(count_before);
    CU(cu.primary_release(1));
    cu.around(NULL);
    assert_true(reports_before >= 1);
}

/* ---- other kinds ------------------------------------------------------------------------ */

TEST(end__of_managed_memory__reported)
{
    struct bench bench = begin();
    unsigned long long addr = 0;

    CU(cu.alloc_managed(&addr, BYTES, CUDA_ATTACH_GLOBAL));
    assert_true(watch(&bench, addr, BYTES));
    CU(cu.free(addr));
    check_reported();
}

/* Driver 580 says no context of such memory: it is not watched, and each hit asks. */
TEST(end__of_a_managed_variable__reported)
{
    struct bench bench = begin();
    unsigned long long addr = 0;
    struct cuda_module *module = cu_module(true, &addr);
    bool watched = watch(&bench, addr, BYTES);

    assert_true(watched || !cu.fake);
    CU(cu.module_unload(module));
    if (watched)
        check_reported();
}

TEST(end__of_a_librarys_managed_variable__reported)
{
    struct bench bench = begin();
    unsigned long long addr = 0;
    struct cuda_library *library = cu_library(true, &addr);
    bool watched = watch(&bench, addr, BYTES);

    assert_true(watched || !cu.fake);
    CU(cu.library_unload(library));
    if (watched)
        check_reported();
}

/* For reports from hardware: nothing documents whose the memory is. */
TEST(end__of_a_green_context__prints_whose_its_memory_is)
{
    struct bench bench = begin();
    struct cuda_context *context = NULL, *of = NULL;
    struct cuda_green *green = cu_green(0, &context);
    uint64_t addr;

    CU(cu.context_push(context));
    addr = watched_plain(&bench);
    CU(cu.pointer_attribute(&of, CUDA_PTR_CONTEXT, addr));
    printf("memory of a green context is of its %s context\n", of == bench.context ? "primary"
                                                               : of == context     ? "own"
                                                                                   : "neither");
    CU(cu.context_pop(&context));
    CU(cu.green_destroy(green));
    check_reported();
    printf("after its end the memory is %s\n", cu.free(addr) ? "gone" : "there");
}

TEST(end__of_a_mapping__reported)
{
    struct cuda_memory_prop prop = prop_on(0);
    struct bench bench = begin();
    size_t granule = cu_granule();
    uint64_t addr = cu_reserve(2 * granule);

    cu_map(addr, granule, &prop);
    cu_map(addr + granule, granule, &prop);
    assert_true(watch(&bench, addr, 2 * granule));
    expected_start += granule;
    CU(cu.unmap(addr + granule, granule));
    check_reported();
    expected_start = addr;
    expected_end = addr + granule;
    reports = 0;
    CU(cu.unmap(addr, granule));
    check_reported();
    CU(cu.unreserve(addr, 2 * granule));
}

/* ---- pinned host memory ------------------------------------------------------------------ */

TEST(end__of_pinned_memory__reported)
{
    struct bench bench = begin();
    void *pinned = NULL, *pages;

    for (int i = 0; i < 2; i++) {
        CU(cu.alloc_host(&pinned, BYTES, 0));
        assert_true(watch(&bench, (uintptr_t)pinned + 5, BYTES - 5));
        CU(cu.free_host(pinned));
        check_reported();
    }
    pages = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CU(cu.host_register(pages, BYTES, 0));
    if (cu.fake) { /* on a real driver it need not have the same address for devices */
        assert_false(watch(&bench, (uintptr_t)pages, BYTES));
    } else if (watch(&bench, (uintptr_t)pages, BYTES)) {
        CU(cu.host_unregister(pages));
        check_reported();
        CU(cu.host_register(pages, BYTES, 0));
    }
    CU(cu.host_unregister(pages));
    munmap(pages, BYTES);
}

TEST(end__of_pinned_memory_with_its_context__reported)
{
    struct cuda_context *context = NULL;
    struct bench bench = begin();
    void *pinned = NULL;

    CU(cu.context_create(&context, 0, 0));
    CU(cu.alloc_host(&pinned, BYTES, 0));
    assert_true(watch(&bench, (uintptr_t)pinned, BYTES));
    CU(cu.context_destroy(context));
    check_reported();
}

/* By the address that devices use, where it differs. */
TEST(watch__pinned_memory_of_two_addresses__refused)
{
    struct bench bench = begin();
    unsigned long long device = 0;
    void *pinned = NULL;

    CU(cu.alloc_host(&pinned, BYTES, CUDA_HOSTALLOC_WRITECOMBINED));
    CU(cu.host_device_pointer(&device, pinned, 0));
    if (device == (uintptr_t)pinned) {
        CU(cu.free_host(pinned));
        bench_end(&bench);
        test_skip("this driver gives write-combined memory one address");
    }
    assert_false(watch(&bench, (uintptr_t)pinned, BYTES));
    assert_false(watch(&bench, device, BYTES));
    assert_non_null(strstr(why_not, "devices have another address for it"));
    CU(cu.free_host(pinned));
}

/* ---- kinds that are not watched ---------------------------------------------------------- */

TEST(watch__memory_that_may_end_without_a_call__refused)
{
    struct bench bench = begin();
    unsigned long long pool = 0;
    struct hmem_runtime runtime;

    CU(cu.alloc_async(&pool, BYTES, NULL));
    assert_false(watch(&bench, pool, BYTES));
    assert_non_null(strstr(why_not, "stream-ordered, graph and imported memory"));
    CU(cu.free_async(pool, NULL));
    hmem_cuda_ops.runtime(bench.hmem, &runtime);
    assert_non_null(strstr(runtime.unreported, "stream-ordered"));
    assert_null(strstr(runtime.unreported, "pinned"));
    assert_null(strstr(runtime.unreported, "cannot be hooked"));
}

/* It ends with its module, by which no call names it. */
TEST(watch__variable_of_a_module__refused)
{
    struct bench bench = begin();
    unsigned long long addr = 0;
    struct cuda_module *module = cu_module(false, &addr);

    assert_false(watch(&bench, addr, BYTES));
    CU(cu.module_unload(module));
}

/* A driver that does not say what can be named to other processes. */
TEST(watch__query_fails__refused_without_an_error)
{
    struct bench bench;
    struct hmem_range range;
    uint64_t addr;

    driver_need_fake();
    bench = begin();
    addr = cu_alloc(BYTES);
    assert_ok(bench_resolve(&bench, addr, BYTES, &range));
    hmreg_fail(-EXDEV, "before");
    cu_fail("cuPointerGetAttribute", CUDA_INVALID_VALUE, 0, -1);
    assert_false(hmem_cuda_ops.watch(bench.hmem, addr, BYTES, &range, NULL));
    cu_fail("cuPointerGetAttributes", CUDA_UNKNOWN_ERROR, 0, -1);
    assert_false(hmem_cuda_ops.watch(bench.hmem, addr, BYTES, &range, NULL));
    assert_int_equal(hmreg_last_error()->code, -EXDEV);
    cu.fake->reset();
    CU(cu.free(addr));
}

/* ---- the cache -------------------------------------------------------------------------- */

static void open_all(struct hmreg **lib, struct hmreg_domain **domain)
{
    struct hmreg_config config = {.size = sizeof(config),
                                  .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_CUDA)};
    struct hmreg_domain_config order = {.size = sizeof(order), .order = {HMREG_PATH_MAPPED}};

    assert_ok(hmreg_open(&config, lib));
    assert_ok(hmreg_domain_open_loopback(*lib, NULL, &order, domain));
}

static void get_and_put(struct hmreg_domain *domain, uint64_t addr, size_t len)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get(domain, as_pointer(addr), len, HMREG_ACCESS_REMOTE, &mr));
    hmreg_mr_put(mr);
}

static unsigned long queries(void)
{
    static const char *const calls[] = {
        "cuPointerGetAttributes",      "cuPointerGetAttribute", "cuMemGetAddressRange_v2",
        "cuMemRetainAllocationHandle", "cuMemGetAccess",        "cuDevicePrimaryCtxGetState",
    };
    unsigned long sum = 0;

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        sum += cu.fake->calls(calls[i]);
    return sum;
}

/* The driver's queries during `times` hits. */
static unsigned long asked(struct hmreg_domain *domain, uint64_t addr, size_t len, int times)
{
    unsigned long before;

    get_and_put(domain, addr, len);
    before = queries();
    for (int i = 0; i < times; i++)
        get_and_put(domain, addr, len);
    return queries() - before;
}

TEST(hit__kinds_that_are_watched__ask_nothing)
{
    struct cuda_memory_prop prop = prop_on(0);
    unsigned long long managed = 0;
    struct hmreg_domain *domain;
    struct hmreg_stats stats = {.size = sizeof(stats)};
    struct bench bench;
    struct hmreg *lib;
    uint64_t plain, mapped;
    size_t granule;

    driver_need_fake();
    bench = begin();
    open_all(&lib, &domain);
    plain = cu_alloc(BYTES);
    granule = cu_granule();
    mapped = cu_reserve(granule);
    cu_map(mapped, granule, &prop);
    CU(cu.alloc_managed(&managed, BYTES, CUDA_ATTACH_GLOBAL));
    assert_int_equal(asked(domain, plain, BYTES, 100), 0);
    assert_int_equal(asked(domain, mapped, granule, 100), 0);
    assert_ok(hmreg_domain_stats(domain, &stats));
    assert_int_equal(stats.regions, 2);
    CU(cu.free(plain));
    CU(cu.unmap(mapped, granule));
    CU(cu.free(managed));
    CU(cu.unreserve(mapped, granule));
    get_and_put(domain, plain = cu_alloc(BYTES), BYTES);
    assert_ok(hmreg_domain_stats(domain, &stats));
    assert_int_equal(stats.regions, 1);
    assert_int_equal(stats.invalidations, 2);
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_close(lib));
    CU(cu.free(plain));
}

/* One get of 300 pieces, as of expandable segments; any piece's end is noticed. */
TEST(hit__hundreds_of_mappings__asks_nothing)
{
    enum { PIECES = 300 };
    struct cuda_memory_prop prop = prop_on(0);
    struct hmreg_domain *domain;
    struct bench bench;
    struct hmreg *lib;
    size_t granule;
    uint64_t addr;

    driver_need_fake();
    bench = begin();
    open_all(&lib, &domain);
    granule = cu_granule();
    addr = cu_reserve(PIECES * granule);
    for (int i = 0; i < PIECES; i++)
        cu_map(addr + (size_t)i * granule, granule, &prop);
    assert_int_equal(asked(domain, addr, PIECES * granule, 100), 0);
    CU(cu.unmap(addr + 150 * granule, granule));
    cu_map(addr + 150 * granule, granule, &prop);
    assert_int_equal(asked(domain, addr, PIECES * granule, 100), 0);
    assert_int_equal(test_stats_of(domain).misses, 2);
    assert_int_equal(test_stats_of(domain).invalidations, 1);
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_close(lib));
    CU(cu.unmap(addr, PIECES * granule));
    CU(cu.unreserve(addr, PIECES * granule));
}

/* An allocation's id alone says that it is the same. */
TEST(hit__switched_off__asks_one_question)
{
    struct hmreg_domain *domain;
    struct bench bench;
    struct hmreg *lib;
    uint64_t addr;

    driver_need_fake();
    bench = begin();
    setenv("HMREG_DEVICE_MONITOR", "off", 1);
    open_all(&lib, &domain);
    unsetenv("HMREG_DEVICE_MONITOR");
    addr = cu_alloc(BYTES);
    assert_int_equal(asked(domain, addr, BYTES, 100), 100);
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_close(lib));
    CU(cu.free(addr));
}

TEST_MAIN()
