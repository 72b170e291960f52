/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Makes the driver's synchronous calls finish before they return (sync_memops). Plain memory has an
 * attribute for it, which the driver refuses for virtual memory and pools. For these, contexts have
 * a flag since CUDA 12.1. It is set in the calling thread's context and in the device's primary
 * one, for all writes in them. Setting it first takes locks of the driver, so registrations set it,
 * but queries of pointers never do.
 */
#include "hmem/cuda/cuda.h"

/* Sets the flag of the current context. */
static unsigned set_flag(struct cuda_hmem *self)
{
    unsigned flags = 0;
    unsigned result = self->api.context_flags(&flags);

    if (result || flags & CUDA_CONTEXT_SYNC_MEMOPS)
        return result;
    return self->api.set_context_flags(flags | CUDA_CONTEXT_SYNC_MEMOPS);
}

static bool is_current_device(struct cuda_hmem *self, int device)
{
    int current = -1;

    return !self->api.context_device(&current) && current == self->devices[device].handle;
}

static unsigned set_flags(struct cuda_hmem *self, int device)
{
    bool current = is_current_device(self, device);
    unsigned result = current ? set_flag(self) : CUDA_OK;
    struct cuda_guard guard;

    if (result)
        return result;
    result = cuda_enter(self, NULL, device, false, &guard);
    if (result)
        return current && cuda_wants_context(result) ? CUDA_OK : result;
    result = set_flag(self);
    cuda_leave(self, &guard);
    return result;
}

static int sync_contexts(struct cuda_hmem *self, uint64_t addr, int device)
{
    unsigned result;

    if (!self->api.context_flags || !self->api.set_context_flags)
        return hmreg_fail(-EOPNOTSUPP,
                          "sync_memops is on, but this driver, CUDA %d.%d, supports it only for "
                          "memory of cuMemAlloc: virtual memory and pools need 12.1 or later",
                          self->version / 1000, self->version % 1000 / 10);
    result = set_flags(self, device);
    if (!result)
        return 0;
    return cuda_fail(
        self, -EIO, result,
        "sync_memops is on, but no context of CUDA device %d accepts it for the memory "
        "at %#" PRIx64 "%s",
        device, addr, cuda_wants_context(result) ? ", as none is active (cudaSetDevice)" : "");
}

int cuda_sync_memops(struct hmem *hmem, uint64_t addr, int device)
{
    struct cuda_hmem *self = (struct cuda_hmem *)hmem;
    unsigned on = 1, result = CUDA_NOT_SUPPORTED, mode = cuda_relax(self);
    int rc = atomic_load(&hmem->shut_down) ? -ESHUTDOWN : 0;

    if (!rc && self->api.set_pointer_attribute)
        result = self->api.set_pointer_attribute(&on, CUDA_PTR_SYNC_MEMOPS, addr);
    if (!rc && cuda_says_no_answer(result))
        rc = sync_contexts(self, addr, device);
    else if (!rc && result)
        rc = cuda_fail(self, -EIO, result, "sync_memops cannot be set for %#" PRIx64, addr);
    cuda_restore(self, mode);
    return vendor_result(hmem, rc, addr);
}
