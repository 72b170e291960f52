/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * See bench.h. */
#include "tests/gpu/ze/bench.h"

#include <dlfcn.h>

static struct hmem *opened;

void bench_close(void)
{
    if (opened)
        ze->close(opened);
    opened = NULL;
}

struct hmem *bench_open(void)
{
    test_after(bench_close);
    bench_close();
    assert_ok(ze->open(&opened));
    return opened;
}

struct hmem *bench_open_real(void)
{
    if (!dlopen("libze_intel_gpu.so.1", RTLD_LAZY | RTLD_LOCAL))
        test_skip("no libze_intel_gpu.so.1 on this machine (Debian unstable has libze-intel-gpu1)");
    test_count_dmabufs_only();
    return bench_open();
}

const struct fake_control *bench_control(int driver)
{
    const struct fake_control *(*control)(void) = NULL;
    char *paths = strdup(getenv("ZE_ENABLE_ALT_DRIVERS"));
    char *rest = NULL;
    char *path = strtok_r(paths, ",", &rest);
    void *library;

    for (int i = 0; i < driver; i++)
        path = strtok_r(NULL, ",", &rest);
    library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (!library)
        fail_msg("the loader has not loaded %s", path);
    *(void **)&control = dlsym(library, "hmreg_fake_control");
    dlclose(library);
    free(paths);
    assert_non_null(control);
    return control();
}

uint64_t bench_alloc(struct hmem *self, int device, enum hmreg_mem_kind kind, size_t len)
{
    void *made = NULL;

    assert_ok(ze->alloc(self, device, kind, len, &made));
    assert_non_null(made);
    return (uintptr_t)made;
}

void bench_free(struct hmem *self, uint64_t addr, enum hmreg_mem_kind kind)
{
    assert_ok(ze->free(self, (void *)(uintptr_t)addr, kind));
}

static ze_context_handle_t context; /* of the application */

void app_close(void)
{
    if (context)
        assert_int_equal(zeContextDestroy(context), ZE_RESULT_SUCCESS);
    context = NULL;
}

void app_open(struct app *app, int driver)
{
    ze_context_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    ze_driver_handle_t drivers[4];
    uint32_t count = 4;

    assert_int_equal(zeInit(0), ZE_RESULT_SUCCESS);
    assert_int_equal(zeDriverGet(&count, drivers), ZE_RESULT_SUCCESS);
    assert_true(driver < (int)count);
    app->driver = drivers[driver];
    app->device_count = 8;
    assert_int_equal(zeDeviceGet(app->driver, &app->device_count, app->devices), ZE_RESULT_SUCCESS);
    assert_int_equal(zeContextCreate(app->driver, &desc, &app->context), ZE_RESULT_SUCCESS);
    context = app->context;
    test_after(app_close);
}

uint64_t app_alloc(struct app *app, ze_device_handle_t device, size_t len)
{
    ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    void *made = NULL;

    assert_int_equal(zeMemAllocDevice(app->context, &desc, len, 0, device, &made),
                     ZE_RESULT_SUCCESS);
    return (uintptr_t)made;
}

void app_free(struct app *app, uint64_t addr)
{
    assert_int_equal(zeMemFree(app->context, (void *)(uintptr_t)addr), ZE_RESULT_SUCCESS);
}

unsigned char *bench_peek(uint64_t addr)
{
    unsigned char *bytes = bench_control(0)->peek(addr);

    assert_non_null(bytes);
    return bytes;
}

size_t bench_page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static const char *variables[4];

void bench_unset_all(void)
{
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        if (variables[i])
            assert_int_equal(unsetenv(variables[i]), 0);
    memset(variables, 0, sizeof(variables));
}

void bench_set_text(const char *name, const char *value)
{
    size_t i = 0;

    while (variables[i] && i < sizeof(variables) / sizeof(variables[0]) - 1)
        i++;
    assert_null(variables[i]);
    variables[i] = name;
    test_after(bench_unset_all);
    assert_int_equal(setenv(name, value, 1), 0);
}

void bench_set(const char *name, long value)
{
    char text[32];

    snprintf(text, sizeof(text), "%ld", value);
    bench_set_text(name, text);
}
