/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The Level Zero vendor: Intel's GPUs, through libze_loader.so.1 and the drivers that it finds.
 * ze.h lists what the other files do.
 */
#include "hmem/ze/ze.h"

#include <stdlib.h>

/* We call zeInit, never zeInitDrivers, although the specification prefers the latter since 1.10.
 * Every loader runs zeInit once per process and repeats its result: it may be called again, from
 * several threads, before or after an application's zeInitDrivers. Loaders before 1.28.3
 * dereference a null pointer in a second zeInitDrivers if the first, possibly the application's,
 * found no driver; and in zeDriverGet, which we therefore call only after a successful zeInit. */
static int init(struct ze_hmem *self)
{
    ze_result_t result = self->api.init(ZE_INIT_FLAG_GPU_ONLY);

    if (result == ZE_RESULT_SUCCESS)
        return 0;
    if (result == ZE_RESULT_ERROR_UNINITIALIZED || result == ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE)
        return hmreg_fail_vendor(-ENODEV, "ze", result, ze_result_name(&self->base, result),
                                 "%s finds no driver with a GPU (zeInit: %#x); Intel's is "
                                 "libze_intel_gpu.so.1",
                                 self->base.runtime.library, result);
    return ze_fail(self, -EIO, result, "zeInit failed");
}

static void complete(struct hmem *hmem)
{
    ze_hooks_find((struct ze_hmem *)hmem);
    ze_complete(hmem);
}

static int start(struct hmem *hmem)
{
    struct ze_hmem *self = (struct ze_hmem *)hmem;
    int rc = init(self);

    hmem->complete = complete;
    if (!rc)
        rc = ze_list_devices(self);
    return rc;
}

static void stop(struct hmem *hmem)
{
    struct ze_hmem *self = (struct ze_hmem *)hmem;

    for (unsigned i = 0; i < self->driver_count; i++)
        if (self->drivers[i].context && !atomic_load(&hmem->shut_down))
            self->api.context_destroy(self->drivers[i].context);
    free(self->drivers);
    free(self->devices);
}

static void device(struct hmem *self, int index, struct hmem_device *out)
{
    *out = ((struct ze_hmem *)self)->devices[index].info;
}

static bool started(void)
{
    static _Atomic(void *) found;
    ze_result_t (*drivers)(uint32_t *, ze_driver_handle_t *) =
        (ze_result_t(*)(uint32_t *, ze_driver_handle_t *))loader_find("libze_loader.so.1",
                                                                      "zeDriverGet", &found);
    uint32_t count = 0;

    return !drivers || drivers(&count, NULL) != ZE_RESULT_ERROR_UNINITIALIZED;
}

VENDOR_DEFINE(ZE, ze, "Level Zero", "libze_loader.so.1", ZE_RESULT_ERROR_UNINITIALIZED,
              .started = started, .prepare_watch = ze_prepare_watch, .watch = ze_watch);
