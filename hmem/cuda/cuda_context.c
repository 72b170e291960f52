/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Contexts of driver calls. cuda_enter() pushes a context for a call and cuda_leave()
 * pops it, which restores the thread's own.
 *
 * A thread's mode towards captured streams is its own, like its contexts.
 *
 * Results of cleanup calls (pop, release) are ignored: the work is done, and there is no recovery.
 */
#include "hmem/cuda/cuda.h"

#define UNCHANGED (~0u)

unsigned cuda_relax(struct cuda_hmem *self)
{
    unsigned mode = CUDA_CAPTURE_RELAXED;

    if (!self->api.capture_mode || atomic_load(&self->base.shut_down) ||
        self->api.capture_mode(&mode))
        return UNCHANGED;
    return mode;
}

void cuda_restore(struct cuda_hmem *self, unsigned mode)
{
    if (mode != UNCHANGED && !atomic_load(&self->base.shut_down))
        self->api.capture_mode(&mode);
}

bool cuda_wants_context(unsigned result)
{
    return result == CUDA_INVALID_CONTEXT || result == CUDA_CONTEXT_IS_DESTROYED;
}

bool cuda_may_want_context(unsigned result)
{
    return cuda_wants_context(result) || result == CUDA_NOT_FOUND || result == CUDA_INVALID_VALUE;
}

/* Success if the device's primary context is active, or if we may create it. */
static unsigned may_retain(struct cuda_hmem *self, int handle, bool create)
{
    unsigned flags = 0;
    int active = 0;
    unsigned result = create ? CUDA_OK : self->api.primary_state(handle, &flags, &active);

    if (!result && !create && !active)
        return CUDA_INVALID_CONTEXT;
    return result;
}

unsigned cuda_enter(struct cuda_hmem *self, struct cuda_context *context, int device, bool create,
                    struct cuda_guard *guard)
{
    unsigned result;

    guard->retained = -1;
    if (!context) {
        if (device < 0)
            return CUDA_INVALID_CONTEXT;
        result = may_retain(self, self->devices[device].handle, create);
        if (!result)
            result = self->api.primary_retain(&context, self->devices[device].handle);
        if (result)
            return result;
        guard->retained = device;
    }
    result = self->api.context_push(context);
    if (result && guard->retained >= 0)
        self->api.primary_release(self->devices[guard->retained].handle);
    return result;
}

void cuda_leave(struct cuda_hmem *self, struct cuda_guard *guard)
{
    struct cuda_context *popped = NULL;

    self->api.context_pop(&popped);
    if (guard->retained >= 0)
        self->api.primary_release(self->devices[guard->retained].handle);
}
