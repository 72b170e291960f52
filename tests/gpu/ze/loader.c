/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Other loaders than Debian's: none, one that lacks an entry point, one that has zeInitDrivers or
 * finds no driver. The test interposes between hmem/loader.c and libc (see CMakeLists.txt), so that
 * the rest is the real loader with the simulated driver.
 */
#include "tests/gpu/ze/bench.h"

#include <dlfcn.h>

void *test_dlopen(const char *name, int flags);
void *test_dlsym(void *handle, const char *name);

static bool absent;        /* the loader is not installed */
static const char *lacked; /* the loader has no such entry point */
static bool newer;         /* the loader has zeInitDrivers */
static int init_drivers_calls, init_calls, driver_get_calls;
static ze_result_t answer; /* the result of zeInit; 0: the loader's */

static ze_result_t init_drivers(uint32_t *count, ze_driver_handle_t *drivers, void *type)
{
    init_drivers_calls++;
    return zeDriverGet(count, drivers);
}

static ze_result_t counted_init(ze_init_flags_t flags)
{
    init_calls++;
    return answer ? answer : zeInit(flags);
}

static ze_result_t counted_driver_get(uint32_t *count, ze_driver_handle_t *drivers)
{
    driver_get_calls++;
    return zeDriverGet(count, drivers);
}

void *test_dlopen(const char *name, int flags)
{
    return dlopen(absent ? "libze_loader_that_is_absent.so.1" : name, flags);
}

void *test_dlsym(void *handle, const char *name)
{
    if (lacked && !strcmp(name, lacked))
        return NULL;
    if (newer && !strcmp(name, "zeInitDrivers"))
        return (void *)init_drivers;
    if (!strcmp(name, "zeInit"))
        return (void *)counted_init;
    if (!strcmp(name, "zeDriverGet"))
        return (void *)counted_driver_get;
    return dlsym(handle, name);
}

static void prepare(void)
{
    absent = false;
    lacked = NULL;
    newer = false;
    answer = ZE_RESULT_SUCCESS;
    init_drivers_calls = init_calls = driver_get_calls = 0;
}

TEST(no_loader__enoent)
{
    struct hmem *self = NULL;

    prepare();
    absent = true;
    assert_fails(ze->open(&self), -ENOENT, "libze_loader.so.1 could not be loaded");
    assert_string_equal(hmreg_last_error()->source, "ze");
    assert_null(self);
}

TEST(loader_without_a_needed_entry_point__elibbad)
{
    struct hmem *self = NULL;

    prepare();
    lacked = "zeMemGetAllocProperties";
    assert_fails(ze->open(&self), -ELIBBAD, "has no zeMemGetAllocProperties");
    assert_null(self);
}

TEST(loader_without_pci_addresses__opens)
{
    struct hmem_runtime runtime;
    struct hmem *self;

    prepare();
    lacked = "zeDevicePciGetPropertiesExt";
    self = bench_open();
    ze->runtime(self, &runtime);
    assert_non_null(strstr(runtime.lacks, "zeDevicePciGetPropertiesExt"));
}

TEST(loader_of_debian__zeinit)
{
    struct hmem *self;

    prepare();
    self = bench_open();
    assert_int_equal(init_calls, 1);
    assert_int_equal(init_drivers_calls, 0);
    assert_int_equal(ze->device_count(self), 2);
}

/* A loader that found no driver dereferences null pointers if zeDriverGet is called. */
TEST(loader_without_a_driver__not_asked_for_drivers)
{
    struct hmem *self = NULL;

    prepare();
    newer = true;
    answer = ZE_RESULT_ERROR_UNINITIALIZED;
    for (int i = 1; i <= 2; i++) {
        assert_fails(ze->open(&self), -ENODEV, "finds no driver with a GPU");
        assert_int_equal(init_calls, i);
    }
    assert_int_equal(init_drivers_calls, 0);
    assert_int_equal(driver_get_calls, 0);
}

TEST_MAIN()
