/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Records failures of the CUDA driver as our errors.
 */
#include "hmem/cuda/cuda.h"

#include <stdarg.h>
#include <stdio.h>

const char *cuda_result_name(struct hmem *self, int64_t result)
{
    const char *name = NULL;

    return ((struct cuda_hmem *)self)->api.error_name((unsigned)result, &name) ? NULL : name;
}

static int fail(struct cuda_hmem *self, int code, unsigned result, const char *format, va_list args)
{
    const char *name = result == CUDA_DEINITIALIZED ? NULL : cuda_result_name(&self->base, result);
    char sentence[256];

    vsnprintf(sentence, sizeof(sentence), format, args);
    return vendor_fail(
        &self->base, code, result, "%s: %s (%u)%s", sentence, name ? name : "CUDA error", result,
        result == CUDA_NOT_PERMITTED ? "; CUDA permits no call in a stream's host function" : "");
}

int cuda_fail(struct cuda_hmem *self, int code, unsigned result, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    code = fail(self, code, result, format, args);
    va_end(args);
    return code;
}

int cuda_fail_query(struct cuda_hmem *self, unsigned result, const char *format, ...)
{
    va_list args;
    int code;

    if (cuda_wants_context(result))
        return -CUDA_NO_CONTEXT;
    va_start(args, format);
    code = fail(self, -EIO, result, format, args);
    va_end(args);
    return code;
}

/* Results of a driver that cannot be used here, with the remedy where the name does not suffice. */
static const struct {
    unsigned result;
    const char *remedy;
} unusable[] = {
    {CUDA_NOT_INITIALIZED, "this process is a forked child, and its parent has used CUDA, which "
                           "then cannot be used here"},
    {CUDA_STUB_LIBRARY, "this library is CUDA's stub for linking, not the driver: remove its "
                        "folder from the library path"},
    {CUDA_NO_DEVICE, "no device is visible: is there one, and does CUDA_VISIBLE_DEVICES show it?"},
    {CUDA_SYSTEM_NOT_READY, "the system is not ready: is the fabric manager running?"},
    {CUDA_SYSTEM_DRIVER_MISMATCH, "the kernel's driver and this library have different versions"},
    {CUDA_DEVICE_UNAVAILABLE, NULL},
    {CUDA_INVALID_DEVICE, NULL},
    {CUDA_NOT_PERMITTED, NULL},
    {CUDA_NOT_SUPPORTED, NULL},
    {CUDA_COMPAT_NOT_SUPPORTED, NULL},
};

int cuda_fail_start(struct cuda_hmem *self, unsigned result, const char *call)
{
    const char *remedy = NULL;
    int code = -EIO;

    for (size_t i = 0; i < sizeof(unusable) / sizeof(unusable[0]); i++) {
        if (unusable[i].result == result) {
            code = -ENODEV;
            remedy = unusable[i].remedy;
        }
    }
    return cuda_fail(self, code, result, "%s of %s failed, %s", call, self->base.runtime.library,
                     remedy ? remedy : "the driver does not start");
}

bool cuda_says_no_answer(unsigned result)
{
    return result == CUDA_INVALID_VALUE || result == CUDA_NOT_SUPPORTED;
}
