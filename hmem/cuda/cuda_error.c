/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Records failures of the CUDA driver as our errors.
 */
#include "hmem/cuda/cuda.h"

#include <stdarg.h>
#include <stdio.h>

/* Explains results whose names do not explain themselves. */
static const char *hint(unsigned result)
{
    return result == CUDA_NOT_PERMITTED ? "; in a stream's host function CUDA permits no call" : "";
}

const char *cuda_result_name(struct hmem *self, int64_t result)
{
    const char *name = NULL;

    return ((struct cuda_hmem *)self)->api.error_name((unsigned)result, &name) ? NULL : name;
}

int cuda_fail(struct cuda_hmem *self, int code, unsigned result, const char *format, ...)
{
    const char *name = result == CUDA_DEINITIALIZED ? NULL : cuda_result_name(&self->base, result);
    char sentence[256];
    va_list args;

    va_start(args, format);
    vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    return vendor_fail(&self->base, code, result, "%s: %s (%u)%s", sentence,
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
