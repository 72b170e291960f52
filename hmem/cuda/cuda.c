/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The CUDA vendor: loads libcuda.so.1, the driver's library, never the runtime API above it (which
 * creates contexts on its own). cuda.h lists what the other files do.
 */
#include "hmem/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- opening ---------------------------------------------------------------------------- */

static void describe(struct cuda_hmem *self)
{
    const struct cuda_api *api = &self->api;
    struct hmem_runtime *out = &self->base.runtime;

    if (!api->driver_version(&self->version))
        snprintf(out->version, sizeof(out->version), "%d.%d", self->version / 1000,
                 self->version % 1000 / 10);
    if (!api->range_handle)
        vendor_lacks(&self->base, "no cuMemGetHandleForAddressRange (CUDA 11.7): device memory "
                                  "cannot be exported as a dmabuf");
    if (!api->handle_retain || !api->handle_prop || !api->handle_release)
        vendor_lacks(&self->base, "no cuMemRetainAllocationHandle or a related function (CUDA "
                                  "11.0): the properties of virtual memory cannot be read");
}

static int start(struct hmem *hmem)
{
    struct cuda_hmem *self = (struct cuda_hmem *)hmem;
    unsigned result = self->api.init(0);

    if (result)
        return cuda_fail_start(self, result, "cuInit");
    self->page = (size_t)sysconf(_SC_PAGESIZE);
    describe(self);
    hmem->complete = cuda_complete;
    return cuda_list_devices(self);
}

static void stop(struct hmem *self)
{
    free(((struct cuda_hmem *)self)->devices);
}

static void device(struct hmem *self, int index, struct hmem_device *out)
{
    *out = ((struct cuda_hmem *)self)->devices[index].info;
}

/* cuCtxGetCurrent() works without a context. */
static bool started(void)
{
    static _Atomic(void *) found;
    unsigned (*current)(void **) =
        (unsigned (*)(void **))loader_find("libcuda.so.1", "cuCtxGetCurrent", &found);
    void *context = NULL;

    return !current || current(&context) != CUDA_NOT_INITIALIZED;
}

VENDOR_DEFINE(CUDA, cuda, "CUDA", "libcuda.so.1", CUDA_DEINITIALIZED, .started = started,
              .prepare_watch = cuda_prepare_watch, .watch = cuda_watch, .is_same = cuda_is_same,
              .sync_memops = cuda_sync_memops);
