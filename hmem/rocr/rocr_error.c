/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Records failures of the ROCm runtime as our errors.
 */
#include "core/base/error.h"
#include "hmem/rocr/rocr.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

int rocr_fail(struct hmem *self, int code, hsa_status_t status, const char *format, ...)
{
    const char *words = NULL;
    char text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (status == HSA_STATUS_ERROR_NOT_INITIALIZED)
        self->shut_down = true;
    if (self->shut_down)
        return rocr_fail_shut_down();
    if (self->api.status_string(status, &words) != HSA_STATUS_SUCCESS)
        words = NULL;
    return hmreg_fail_vendor(code, "rocr", status, words, "%s", text);
}

int rocr_fail_shut_down(void)
{
    return hmreg_fail_vendor(-ENODEV, "rocr", HSA_STATUS_ERROR_NOT_INITIALIZED,
                             "HSA_STATUS_ERROR_NOT_INITIALIZED", "the ROCm runtime has shut down");
}
