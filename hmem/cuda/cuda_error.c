/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Records failures of the CUDA driver as our errors.
 */
#include "hmem/cuda/cuda.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

/* Explains results whose names do not explain themselves. */
static const char *hint(unsigned result)
{
    return result == CUDA_NOT_PERMITTED ? "; in a stream's host function CUDA permits no call" : "";
}

int cuda_fail(struct hmem *self, int code, unsigned result, const char *format, ...)
{
    const char *name = NULL;
    char sentence[256];
    va_list args;

    if (result == CUDA_DEINITIALIZED) {
        atomic_store(&self->shut_down, true);
        return -ESHUTDOWN;
    }
    if (self->api.error_name(result, &name))
        name = NULL;
    va_start(args, format);
    vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    return hmreg_fail_vendor(code, "cuda", result, name, "%s: %s (%u)%s", sentence,
                             name ? name : "CUDA error", result, hint(result));
}

int cuda_init_errno(unsigned result)
{
    switch (result) {
    case CUDA_NOT_INITIALIZED:
    case CUDA_STUB_LIBRARY:
    case CUDA_DEVICE_UNAVAILABLE:
    case CUDA_NO_DEVICE:
    case CUDA_INVALID_DEVICE:
    case CUDA_NOT_PERMITTED:
    case CUDA_NOT_SUPPORTED:
    case CUDA_SYSTEM_NOT_READY:
    case CUDA_SYSTEM_DRIVER_MISMATCH:
    case CUDA_COMPAT_NOT_SUPPORTED:
        return -ENODEV;
    default:
        return -EIO;
    }
}

bool cuda_says_no_answer(unsigned result)
{
    return result == CUDA_INVALID_VALUE || result == CUDA_NOT_SUPPORTED;
}
