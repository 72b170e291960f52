/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What a vendor reports of its runtime and devices when it is opened.
 */
#include "tests/gpu/gpu.h"

static void check_device(struct hmem *self, int index)
{
    struct hmem_device device;
    char pci[16];

    memset(&device, 0x5a, sizeof(device));
    gpu.ops->device(self, index, &device);
    assert_true(device.pci.valid);
    snprintf(pci, sizeof(pci), "%04x:%02x:%02x.%x", device.pci.domain, device.pci.bus,
             device.pci.device, device.pci.function);
    if (!gpu.fake())
        return;
    assert_string_equal(device.name, gpu.device_names[index]);
    assert_string_equal(pci, gpu.pci[index]);
    assert_int_equal(device.memory, 16ull << 30);
    assert_true(device.simulated);
    assert_true(device.dmabuf);
}

TEST(device__each__every_field)
{
    struct hmem *self = gpu.begin();

    assert_true(gpu.ops->device_count(self) >= gpu.devices());
    for (int i = 0; i < gpu.devices(); i++)
        check_device(self, i);
    gpu.end(self);
}

TEST(runtime__current__version_and_file)
{
    struct hmem *self = gpu.begin();
    struct hmem_runtime runtime;

    gpu.ops->runtime(self, &runtime);
    assert_non_null(strstr(runtime.library, gpu.library));
    if (gpu.fake()) {
        assert_string_equal(runtime.version, gpu.version);
        assert_string_equal(runtime.lacks, "");
    }
    gpu.end(self);
}

TEST(open__number_of_devices__all_listed_or_enodev)
{
    struct hmem *self, *none = (struct hmem *)7;

    gpu_need_fake();
    setenv("HMREG_FAKE_DEVICES", "4", 1);
    self = gpu.begin();
    assert_int_equal(gpu.ops->device_count(self), 4);
    for (int i = 0; i < 4; i++) {
        struct hmem_device device;

        gpu.ops->device(self, i, &device);
        assert_true(device.pci.valid);
        if (i < 2)
            check_device(self, i);
    }
    gpu.end(self);
    setenv("HMREG_FAKE_DEVICES", "0", 1);
    assert_fails(gpu.ops->open(&none), -ENODEV, gpu.no_device);
    assert_ptr_equal(none, (struct hmem *)7);
    unsetenv("HMREG_FAKE_DEVICES");
}

TEST_MAIN()
