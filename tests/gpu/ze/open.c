/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Level Zero opened on one simulated driver: what is said of the runtime and of its devices. */
#include "tests/gpu/ze/bench.h"

#include <errno.h>

static void open__one_driver__lists_its_devices(void **state)
{
    struct hmem *self = bench_open();

    assert_int_equal(ze->device_count(self), 2);
    for (int i = 0; i < 2; i++) {
        struct hmem_device device = {0};
        char name[64];

        ze->device(self, i, &device);
        snprintf(name, sizeof(name), "simulated Level Zero device %d", i);
        assert_string_equal(device.name, name);
        assert_true(device.simulated);
        assert_true(device.dmabuf);
        assert_int_equal(device.memory, 16ull << 30);
        assert_true(device.pci.valid);
        assert_int_equal(device.pci.bus, 0x60 + i);
    }
    ze->close(self);
}

static void open__runtime__tells_version_and_file(void **state)
{
    struct hmem *self = bench_open();
    struct hmem_runtime runtime;

    ze->runtime(self, &runtime);
    assert_string_equal(runtime.version, "1.4, driver 100");
    assert_non_null(strstr(runtime.library, "libze_loader.so.1"));
    assert_string_equal(runtime.lacks, "");
    ze->close(self);
}

/* The close destroys every context that the open created. */
static void close__destroys_its_contexts(void **state)
{
    struct hmem *self = bench_open();
    const struct fake_control *fake = bench_control(0);

    ze->close(self);
    fake->reset();
    self = bench_open();
    ze->close(self);
    assert_int_equal(fake->calls("zeContextCreate"), fake->calls("zeContextDestroy"));
    assert_true(fake->calls("zeContextCreate") >= 1);
    assert_int_equal(fake->allocations(), 0);
}

static void open__device_without_pci_address__says_so(void **state)
{
    struct hmem *self = bench_open();
    const struct fake_control *fake = bench_control(0);
    struct hmem_runtime runtime;
    struct hmem_device device = {0};

    ze->close(self);
    bench_fail(fake, "zeDevicePciGetPropertiesExt", ZE_RESULT_ERROR_UNSUPPORTED_FEATURE, 1, 1);
    self = bench_open();
    ze->runtime(self, &runtime);
    assert_non_null(strstr(runtime.lacks, "1 of 2 devices tell no PCI address"));
    ze->device(self, 1, &device);
    assert_false(device.pci.valid);
    ze->device(self, 0, &device);
    assert_true(device.pci.valid);
    ze->close(self);
    fake->reset();
}

static void open__devices_without_export__say_so_and_allocate(void **state)
{
    struct hmreg_dmabuf dmabuf = {.fd = -7};
    struct hmem_runtime runtime;
    struct hmem_device device;
    struct hmem_range range;
    struct hmem *self;
    uint64_t addr;

    bench_set("HMREG_FAKE_ZE_NO_EXPORT", 1);
    self = bench_open();
    ze->runtime(self, &runtime);
    assert_string_equal(runtime.lacks, "2 of 2 devices export no dmabuf");
    ze->device(self, 0, &device);
    assert_false(device.dmabuf);
    addr = bench_alloc(self, 0, HMREG_MEM_DEVICE, 4096);
    assert_ok(ze->resolve(self, addr, 4096, &range));
    assert_false(range.exportable);
    assert_fails(ze->export_dmabuf(self, addr, 4096, &range, &dmabuf), -EOPNOTSUPP,
                 "does not export");
    assert_int_equal(dmabuf.fd, -7);
    bench_free(self, addr, HMREG_MEM_DEVICE);
    ze->close(self);
    bench_unset("HMREG_FAKE_ZE_NO_EXPORT");
}

/* The specification allows it: then the application's memory is invisible, and open says so. */
static void open__private_contexts__says_so(void **state)
{
    struct hmem_runtime runtime;
    struct hmem *self;

    bench_set("HMREG_FAKE_ZE_PRIVATE", 1);
    self = bench_open();
    bench_unset("HMREG_FAKE_ZE_PRIVATE");
    ze->runtime(self, &runtime);
    assert_non_null(strstr(runtime.lacks, "application's own contexts is not recognised"));
    ze->close(self);
}

static void open__driver_without_devices__enodev(void **state)
{
    struct hmem *self = NULL;

    bench_set("HMREG_FAKE_DEVICES", 0);
    assert_fails(ze->open(&self), -ENODEV, "no Level Zero driver has a device");
    bench_unset("HMREG_FAKE_DEVICES");
    assert_null(self);
}

static void open__many_devices__all_listed_in_order(void **state)
{
    struct hmem_device device = {0};
    struct hmem *self;

    bench_set("HMREG_FAKE_DEVICES", 7);
    self = bench_open();
    assert_int_equal(ze->device_count(self), 7);
    for (int i = 0; i < 7; i++) {
        ze->device(self, i, &device);
        assert_int_equal(device.pci.bus, 0x60 + i);
    }
    bench_unset("HMREG_FAKE_DEVICES");
    ze->close(self);
}

TEST_MAIN(TEST(open__one_driver__lists_its_devices), TEST(open__runtime__tells_version_and_file),
          TEST(close__destroys_its_contexts), TEST(open__device_without_pci_address__says_so),
          TEST(open__devices_without_export__say_so_and_allocate),
          TEST(open__private_contexts__says_so), TEST(open__driver_without_devices__enodev),
          TEST(open__many_devices__all_listed_in_order))
