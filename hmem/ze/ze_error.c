/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The names of Level Zero's results, and its end.
 */
#include "hmem/ze/ze.h"

#include <errno.h>

const char *ze_result_name(ze_result_t result)
{
#define NAME(name)                                                                                 \
    case name:                                                                                     \
        return #name
    switch (result) {
        NAME(ZE_RESULT_NOT_READY);
        NAME(ZE_RESULT_ERROR_DEVICE_LOST);
        NAME(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY);
        NAME(ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
        NAME(ZE_RESULT_ERROR_DEVICE_REQUIRES_RESET);
        NAME(ZE_RESULT_ERROR_DEVICE_IN_LOW_POWER_STATE);
        NAME(ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS);
        NAME(ZE_RESULT_ERROR_NOT_AVAILABLE);
        NAME(ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE);
        NAME(ZE_RESULT_ERROR_UNINITIALIZED);
        NAME(ZE_RESULT_ERROR_UNSUPPORTED_VERSION);
        NAME(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
        NAME(ZE_RESULT_ERROR_INVALID_ARGUMENT);
        NAME(ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
        NAME(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE);
        NAME(ZE_RESULT_ERROR_INVALID_NULL_POINTER);
        NAME(ZE_RESULT_ERROR_INVALID_SIZE);
        NAME(ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
        NAME(ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT);
        NAME(ZE_RESULT_ERROR_INVALID_ENUMERATION);
        NAME(ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION);
        NAME(ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE);
        NAME(ZE_RESULT_ERROR_OVERLAPPING_REGIONS);
        NAME(ZE_RESULT_ERROR_UNKNOWN);
    default:
        return (int)result == ZE_ADDRESS_NOT_FOUND ? "ZE_RESULT_ERROR_ADDRESS_NOT_FOUND" : NULL;
    }
#undef NAME
}

bool ze_has_shut_down(struct hmem *self, ze_result_t result)
{
    if (result != ZE_RESULT_ERROR_UNINITIALIZED)
        return false;
    atomic_store(&self->shut_down, true);
    return true;
}

int ze_fail_shut_down(void)
{
    return ze_fail(-ENODEV, ZE_RESULT_ERROR_UNINITIALIZED, "Level Zero has shut down");
}
