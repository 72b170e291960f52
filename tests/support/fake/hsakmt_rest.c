/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The entry points of libhsakmt that the runtimes 5.2 and 6.1 look up and no test calls. Each is an
 * alias of one function, which ignores arguments.
 */
#include <hsakmttypes.h>

HSAKMT_STATUS kmt_not_supported(void);

HSAKMT_STATUS kmt_not_supported(void)
{
    return HSAKMT_STATUS_NOT_SUPPORTED;
}

#define NOT_SUPPORTED(name)                                                                        \
    HSAKMT_STATUS kmt_##name(void) __asm__(#name)                                                  \
        __attribute__((alias("kmt_not_supported"), visibility("default")))

NOT_SUPPORTED(hsaKmtAllocQueueGWS);
NOT_SUPPORTED(hsaKmtCreateQueue);
NOT_SUPPORTED(hsaKmtDbgDisable);
NOT_SUPPORTED(hsaKmtDbgEnable);
NOT_SUPPORTED(hsaKmtDbgGetDeviceData);
NOT_SUPPORTED(hsaKmtDbgGetQueueData);
NOT_SUPPORTED(hsaKmtDestroyQueue);
NOT_SUPPORTED(hsaKmtGetTileConfig);
NOT_SUPPORTED(hsaKmtOpenSMI);
NOT_SUPPORTED(hsaKmtRegisterGraphicsHandleToNodes);
NOT_SUPPORTED(hsaKmtRegisterSharedHandle);
NOT_SUPPORTED(hsaKmtRegisterSharedHandleToNodes);
NOT_SUPPORTED(hsaKmtReplaceAsanHeaderPage);
NOT_SUPPORTED(hsaKmtReturnAsanHeaderPage);
NOT_SUPPORTED(hsaKmtSPMAcquire);
NOT_SUPPORTED(hsaKmtSPMRelease);
NOT_SUPPORTED(hsaKmtSPMSetDestBuffer);
NOT_SUPPORTED(hsaKmtSVMGetAttr);
NOT_SUPPORTED(hsaKmtSVMSetAttr);
NOT_SUPPORTED(hsaKmtSetQueueCUMask);
NOT_SUPPORTED(hsaKmtSetXNACKMode);
NOT_SUPPORTED(hsaKmtShareMemory);
NOT_SUPPORTED(hsaKmtUpdateQueue);
