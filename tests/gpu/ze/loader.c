/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Other loaders than Debian's: none, one that lacks an entry point, one that is newer and has
 * zeInitDrivers. The test stands between hmem/loader.c and libc (see CMakeLists.txt), so that the
 * rest is the real loader with the simulated driver.
 */
#include "tests/gpu/ze/bench.h"

#include <dlfcn.h>
#include <errno.h>

void *test_dlopen(const char *name, int flags);
void *test_dlsym(void *handle, const char *name);

static bool absent;        /* the loader is not installed */
static const char *lacked; /* the loader has no such entry point */
static bool newer;         /* the loader has zeInitDrivers */
static ze_result_t answer; /* what zeInitDrivers says */
static bool none;          /* ... and that there is no driver */
static int init_drivers_calls, init_calls;

/* What Level Zero 1.10 added. */
struct init_driver_type {
    uint32_t stype;
    const void *next;
    uint32_t flags;
};

static ze_result_t init_drivers(uint32_t *count, ze_driver_handle_t *drivers,
                                struct init_driver_type *type)
{
    init_drivers_calls++;
    assert_int_equal(type->stype, 0x20021);
    assert_int_equal(type->flags, 1);
    assert_null(type->next);
    *count = none ? 0 : *count;
    if (answer || none)
        return answer;
    assert_int_equal(zeInit(ZE_INIT_FLAG_GPU_ONLY), ZE_RESULT_SUCCESS);
    return zeDriverGet(count, drivers);
}

static ze_result_t counted_init(ze_init_flags_t flags)
{
    init_calls++;
    return zeInit(flags);
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
    return dlsym(handle, name);
}

static void prepare(void)
{
    absent = false;
    lacked = NULL;
    newer = none = false;
    answer = ZE_RESULT_SUCCESS;
    init_drivers_calls = init_calls = 0;
}

static void no_loader__enoent(void **state)
{
    struct hmem *self = NULL;

    prepare();
    absent = true;
    assert_fails(ze->open(&self), -ENOENT, "libze_loader.so.1 could not be loaded");
    assert_string_equal(hmreg_last_error()->source, "ze");
    assert_null(self);
}

static void loader_without_a_needed_entry_point__elibbad(void **state)
{
    struct hmem *self = NULL;

    prepare();
    lacked = "zeMemGetAllocProperties";
    assert_fails(ze->open(&self), -ELIBBAD, "has no zeMemGetAllocProperties");
    assert_null(self);
}

static void loader_without_pci_addresses__opens(void **state)
{
    struct hmem_runtime runtime;
    struct hmem *self;

    prepare();
    lacked = "zeDevicePciGetPropertiesExt";
    self = bench_open();
    ze->runtime(self, &runtime);
    assert_non_null(strstr(runtime.lacks, "zeDevicePciGetPropertiesExt"));
    ze->close(self);
}

static void loader_of_debian__zeinit(void **state)
{
    struct hmem *self;

    prepare();
    self = bench_open();
    assert_int_equal(init_calls, 1);
    assert_int_equal(init_drivers_calls, 0);
    assert_int_equal(ze->device_count(self), 2);
    ze->close(self);
}

static void newer_loader__zeinitdrivers_alone(void **state)
{
    struct hmem *self;

    prepare();
    newer = true;
    self = bench_open();
    assert_int_equal(init_calls, 0);
    assert_true(init_drivers_calls >= 1);
    assert_int_equal(ze->device_count(self), 2);
    ze->close(self);
}

/* The loader has zeInitDrivers and its driver does not: the loader says uninitialized. */
static void newer_loader_with_older_driver__zeinit(void **state)
{
    struct hmem *self;

    prepare();
    newer = true;
    answer = ZE_RESULT_ERROR_UNINITIALIZED;
    self = bench_open();
    assert_int_equal(init_calls, 1);
    assert_int_equal(ze->device_count(self), 2);
    ze->close(self);
}

/* zeInitDrivers lists nothing where all drivers are older than it. */
static void newer_loader_lists_no_driver__zeinit(void **state)
{
    struct hmem *self;

    prepare();
    newer = none = true;
    self = bench_open();
    assert_int_equal(init_calls, 1);
    assert_int_equal(ze->device_count(self), 2);
    ze->close(self);
}

TEST_MAIN(TEST(no_loader__enoent), TEST(loader_without_a_needed_entry_point__elibbad),
          TEST(loader_without_pci_addresses__opens), TEST(loader_of_debian__zeinit),
          TEST(newer_loader__zeinitdrivers_alone), TEST(newer_loader_with_older_driver__zeinit),
          TEST(newer_loader_lists_no_driver__zeinit))
