/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The CUDA devices, listed once, when we open the driver.
 */
#include "hmem/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

static int attribute(struct cuda_hmem *self, unsigned which, int handle)
{
    int value = 0;

    /* A driver older than the attribute refuses it, and so lacks the feature. */
    return self->api.device_attribute(&value, which, handle) ? 0 : value;
}

static void read_pci(struct cuda_hmem *self, int handle, struct hmreg_pci *out)
{
    int bus = -1, device = -1, domain = -1;

    if (self->api.device_attribute(&bus, CUDA_DEV_PCI_BUS, handle) ||
        self->api.device_attribute(&device, CUDA_DEV_PCI_DEVICE, handle) ||
        self->api.device_attribute(&domain, CUDA_DEV_PCI_DOMAIN, handle))
        return;
    *out = (struct hmreg_pci){
        .domain = (uint32_t)domain, .bus = (uint8_t)bus, .device = (uint8_t)device, .valid = 1};
}

static int read_device(struct cuda_hmem *self, int ordinal, struct cuda_device *out)
{
    struct hmem_device *info = &out->info;
    size_t memory = 0;
    unsigned result = self->api.device_get(&out->handle, ordinal);

    if (result)
        return cuda_fail(self, -EIO, result, "CUDA device %d is not available", ordinal);
    if (self->api.device_name(info->name, sizeof(info->name), out->handle))
        info->name[0] = '\0';
    if (!self->api.device_memory(&memory, out->handle))
        info->memory = memory;
    read_pci(self, out->handle, &info->pci);
    info->simulated = strstr(info->name, "simulated") != NULL;
    info->dmabuf = attribute(self, CUDA_DEV_DMABUF, out->handle);
    info->coherent = attribute(self, CUDA_DEV_HOST_PAGE_TABLES, out->handle);
    out->integrated = attribute(self, CUDA_DEV_INTEGRATED, out->handle);
    return 0;
}

int cuda_list_devices(struct cuda_hmem *self)
{
    unsigned result = self->api.device_count(&self->base.device_count);
    int rc = 0;

    if (result)
        return cuda_fail_start(self, result, "cuDeviceGetCount");
    if (self->base.device_count < 1)
        return hmreg_fail(-ENODEV, "the CUDA driver runs, but has no device");
    self->devices = calloc((size_t)self->base.device_count, sizeof(*self->devices));
    if (!self->devices)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for %d CUDA devices",
                          self->base.device_count);
    for (int i = 0; i < self->base.device_count && !rc; i++)
        rc = read_device(self, i, &self->devices[i]);
    return rc;
}
