/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Errors of opening Level Zero if devices or contexts lack something. */
#include "tests/gpu/ze/bench.h"

#include <hmreg/loopback.h>

TEST(open__device_without_pci_address__says_so)
{
    struct hmem *self = bench_open();
    const struct fake_control *fake = bench_control(0);
    struct hmem_runtime runtime;
    struct hmem_device device = {0};

    bench_close();
    bench_fail(fake, "zeDevicePciGetPropertiesExt", ZE_RESULT_ERROR_UNSUPPORTED_FEATURE, 1, 1);
    self = bench_open();
    ze->runtime(self, &runtime);
    assert_non_null(strstr(runtime.lacks, "1 of 2 devices report no PCI address"));
    ze->device(self, 1, &device);
    assert_false(device.pci.valid);
    ze->device(self, 0, &device);
    assert_true(device.pci.valid);
    fake->reset();
}

TEST(open__devices_without_export__say_so_and_allocate)
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
    assert_fails(ze->export_dmabuf(self, addr, 4096, &range, 0, &dmabuf), -EOPNOTSUPP,
                 "does not export");
    assert_int_equal(dmabuf.fd, -7);
    bench_free(self, addr, HMREG_MEM_DEVICE);
}

/* The specification allows it: then the application's memory is invisible, and the description says
 * so. Until that is asked for, no memory is allocated to find out. */
TEST(open__private_contexts__says_so_when_asked)
{
    struct hmem *self = bench_open();
    const struct fake_control *fake = bench_control(0);
    struct hmem_runtime runtime;

    bench_close();
    fake->reset();
    bench_set("HMREG_FAKE_ZE_PRIVATE", 1);
    self = bench_open();
    assert_int_equal(fake->calls("zeMemAllocHost"), 0);
    ze->runtime(self, &runtime);
    ze->runtime(self, &runtime);
    assert_int_equal(fake->calls("zeMemAllocHost"), 1);
    assert_non_null(strstr(runtime.lacks, "application's own contexts"));
}

/* Everything of the fake driver's that takes memory of a device or of the host. */
static unsigned long allocating_calls(const struct fake_control *fake)
{
    static const char *const calls[] = {"zeMemAllocDevice",
                                        "zeMemAllocHost",
                                        "zeMemAllocShared",
                                        "zeVirtualMemReserve",
                                        "zeVirtualMemMap",
                                        "zePhysicalMemCreate",
                                        "zeCommandListCreateImmediate"};
    unsigned long sum = 0;

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        sum += fake->calls(calls[i]);
    return sum;
}

/* A context is the driver's object for queries, one for each driver, and has no memory. */
TEST(open__library_and_domain__allocate_nothing)
{
    struct hmreg_config config = {.size = sizeof(config),
                                  .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_ZE)};
    const struct fake_control *fake;
    struct hmreg_domain *domain;
    struct hmreg *lib;

    bench_open(); /* loads the driver */
    bench_close();
    fake = bench_control(0);
    fake->reset();
    assert_ok(hmreg_open(&config, &lib));
    assert_ok(hmreg_domain_open_loopback(lib, NULL, NULL, &domain));
    assert_true(fake->calls("zeDeviceGet") > 0);
    assert_int_equal(fake->calls("zeContextCreate"), 1);
    assert_int_equal(allocating_calls(fake), 0);
    assert_int_equal(fake->allocations(), 0);
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_close(lib));
    assert_int_equal(fake->calls("zeContextDestroy"), 1);
    assert_int_equal(allocating_calls(fake), 0);
}

TEST_MAIN()
