/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Memory that ends in ways of which the loader's tracing layer, switched on, does not tell: each is
 * reported, and regions are never stale.
 */
#include "core/patch/entry_hook.h"
#include "tests/gpu/reuse.h"
#include "tests/gpu/ze/bench.h"

#include <dlfcn.h>
#include <level_zero/layers/zel_tracing_api.h>
#include <level_zero/layers/zel_tracing_register_cb.h>
#include <level_zero/ze_ddi.h>

#define TIMES 5000

static struct app application;
static zel_tracer_handle_t tracer;
static unsigned seen; /* frees that the tracer received */
static void *to_free; /* by the tracer's next callback */
static ze_pfnMemFree_t free_by_driver;

static void on_free(ze_mem_free_params_t *params, ze_result_t result, void *user, void **instance)
{
    void *addr = to_free;

    seen++;
    to_free = NULL;
    if (addr)
        assert_int_equal(zeMemFree(application.context, addr), ZE_RESULT_SUCCESS);
}

/* Skips where the loader's tracing layer is not installed. */
static void start_tracer(void)
{
    zel_tracer_desc_t desc = {.stype = ZEL_STRUCTURE_TYPE_TRACER_EXP_DESC};

    if (zelTracerCreate(&desc, &tracer))
        test_skip("the loader has no tracing layer (libze_tracing_layer.so.1)");
    assert_int_equal(zelTracerMemFreeRegisterCallback(tracer, ZEL_REGISTER_EPILOGUE, on_free), 0);
    assert_int_equal(zelTracerSetEnabled(tracer, 1), 0);
}

/* As a loader that is linked statically does. */
static void find_drivers_free(void)
{
    void *driver = dlopen(getenv("ZE_ENABLE_ALT_DRIVERS"), RTLD_NOW | RTLD_NOLOAD);
    ze_pfnGetMemProcAddrTable_t get = NULL;
    ze_mem_dditable_t table = {0};
    void *found;

    assert_non_null(driver);
    found = dlsym(driver, "zeGetMemProcAddrTable");
    assert_non_null(found);
    memcpy(&get, &found, sizeof(get));
    assert_int_equal(get(ZE_API_VERSION_1_3, &table), ZE_RESULT_SUCCESS);
    free_by_driver = table.pfnFree;
    dlclose(driver);
}

static void *alloc(int device, size_t len)
{
    return (void *)(uintptr_t)app_alloc(&application, application.devices[device], len);
}

static void free_past_the_loader(void *addr)
{
    assert_int_equal(free_by_driver(application.context, addr), ZE_RESULT_SUCCESS);
}

static void free_in_a_callback(void *addr)
{
    to_free = addr;
    app_free(&application, app_alloc(&application, application.devices[0], 64));
    assert_null(to_free);
}

static uint64_t expected;
static unsigned reports;

static void listen(uint64_t start, uint64_t end)
{
    reports += start <= expected && end > expected;
}

/* Before any library listens. */
static void check_reported(struct hmem *self, void (*free_it)(void *))
{
    struct hmem_range range;
    void *addr;

    if (entry_hooks_refusal())
        return;
    addr = alloc(0, 4096);
    hmem_listen(listen);
    expected = (uintptr_t)addr;
    assert_ok(ze->resolve(self, expected, 4096, &range));
    assert_true(ze->watch(self, expected, 4096, &range, NULL));
    reports = 0;
    free_it(addr);
    assert_int_not_equal(reports, 0);
}

static void reuse(void (*free_it)(void *), unsigned times)
{
    const struct reuse device = {HMREG_IFACE_ZE, alloc, free_it, false};
    struct hmem *self = bench_open();

    app_open(&application, 0);
    start_tracer();
    find_drivers_free();
    check_reported(self, free_it);
    seen = 0;
    reuse_addresses(&device, times);
    assert_int_equal(zelTracerSetEnabled(tracer, 0), 0);
    assert_int_equal(zelTracerDestroy(tracer), 0);
}

TEST(reuse__freed_past_the_loader__never_stale)
{
    reuse(free_past_the_loader, TIMES);
    assert_true(seen < TIMES / 2); /* the library frees what it tries contexts with */
}

TEST(reuse__freed_inside_a_tracers_callback__never_stale)
{
    reuse(free_in_a_callback, TIMES);
    assert_int_not_equal(seen, 0);
}

TEST_MAIN()
