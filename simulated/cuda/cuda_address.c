/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The fake libcuda.so.1: cuGetProcAddress, by which the runtime API finds the driver's functions,
 * and the forms of functions that older programs, and those with a default stream for each thread,
 * get from it. A name has no suffix; the version of CUDA that the program was compiled with decides
 * which form it gets, the flags which default stream.
 */
#include "simulated/cuda/cuda_fake.h"

#include <string.h>

/* ---- other forms ------------------------------------------------------------------------ */

/* Of CUDA before 3.2, whose addresses have 32 bits: ours are all above. */
unsigned cuMemFree(unsigned addr)
{
    ENTER();
    return addr ? CUDA_INVALID_VALUE : CUDA_OK;
}

unsigned cuMemFreeAsync_ptsz(unsigned long long addr, struct cuda_stream *stream)
{
    return cuMemFreeAsync(addr, stream);
}

unsigned cuCtxDestroy(struct cuda_context *context)
{
    return cuCtxDestroy_v2(context);
}

/* Destroys the context: no function attaches to one any more. */
unsigned cuCtxDetach(struct cuda_context *context)
{
    return cuCtxDestroy_v2(context);
}

unsigned cuDevicePrimaryCtxRelease(int device)
{
    return cuDevicePrimaryCtxRelease_v2(device);
}

unsigned cuDevicePrimaryCtxReset(int device)
{
    return cuDevicePrimaryCtxReset_v2(device);
}

/* Releases all that is not allocated, which is at most what it may keep. */
unsigned cuMemPoolTrimTo(struct cuda_pool *pool, size_t keep)
{
    ENTER();
    if (pool && !keep)
        fake_cuda_trim();
    return pool ? CUDA_OK : CUDA_INVALID_VALUE;
}

/* ---- names ------------------------------------------------------------------------------ */

enum { STREAM_LEGACY = 1, STREAM_PER_THREAD = 2 };          /* flags */
enum { STATUS_FOUND, STATUS_NO_SUCH_NAME, STATUS_TOO_OLD }; /* cuGetProcAddress_v2's answer */

struct form {
    const char *symbol;
    void *address;
};

/* Not defined where the driver is older. */
#pragma weak cuCtxFromGreenCtx
#pragma weak cuCtxSetFlags
#pragma weak cuDevResourceGenerateDesc
#pragma weak cuDeviceGetDevResource
#pragma weak cuGreenCtxCreate
#pragma weak cuGreenCtxDestroy
#pragma weak cuLibraryGetGlobal
#pragma weak cuLibraryGetManaged
#pragma weak cuLibraryLoadData
#pragma weak cuLibraryUnload
#pragma weak cuMemGetHandleForAddressRange
#pragma weak cuMulticastAddDevice
#pragma weak cuMulticastBindMem
#pragma weak cuMulticastCreate
#pragma weak cuMulticastUnbind

#define FORM(member, name, parameters) {#name, (void *)name},
static const struct form forms[] = {CUDA_ENTRIES(FORM, FORM) CUDA_TEST_ENTRIES(FORM)
                                        CUDA_OTHER_ENTRIES(FORM)};

/* Forms that came with another version than since() assumes. */
static const struct {
    const char *symbol;
    int version;
} versions[] = {
    {"cuCtxDestroy_v2", 4000},
    {"cuCtxFromGreenCtx", 12040},
    {"cuCtxGetCurrent", 4000},
    {"cuCtxGetFlags", 7000},
    {"cuCtxGetStreamPriorityRange", 5050},
    {"cuCtxPopCurrent_v2", 4000},
    {"cuCtxPushCurrent_v2", 4000},
    {"cuCtxSetCurrent", 4000},
    {"cuCtxSetFlags", 12010},
    {"cuDestroyExternalMemory", 10000},
    {"cuDevResourceGenerateDesc", 12040},
    {"cuDeviceGetByPCIBusId", 4010},
    {"cuDeviceGetDefaultMemPool", 11020},
    {"cuDeviceGetDevResource", 12040},
    {"cuDeviceGetGraphMemAttribute", 11040},
    {"cuDeviceGetPCIBusId", 4010},
    {"cuDeviceGraphMemTrim", 11040},
    {"cuDevicePrimaryCtxGetState", 7000},
    {"cuEventDestroy_v2", 4000},
    {"cuDevicePrimaryCtxRelease", 7000},
    {"cuDevicePrimaryCtxRelease_v2", 11000},
    {"cuDevicePrimaryCtxReset", 7000},
    {"cuDevicePrimaryCtxReset_v2", 11000},
    {"cuDevicePrimaryCtxRetain", 7000},
    {"cuDriverGetVersion", 2020},
    {"cuExternalMemoryGetMappedBuffer", 10000},
    {"cuGetErrorName", 6000},
    {"cuGetErrorString", 6000},
    {"cuGetProcAddress", 11030},
    {"cuGetProcAddress_v2", 12000},
    {"cuGraphAddMemAllocNode", 11040},
    {"cuGraphAddMemFreeNode", 11040},
    {"cuGraphCreate", 10000},
    {"cuGraphDestroy", 10000},
    {"cuGraphExecDestroy", 10000},
    {"cuGraphInstantiateWithFlags", 11040},
    {"cuGraphLaunch", 10000},
    {"cuGraphicsMapResources", 3000},
    {"cuGraphicsUnmapResources", 3000},
    {"cuGraphicsUnregisterResource", 3000},
    {"cuGreenCtxCreate", 12040},
    {"cuGreenCtxDestroy", 12040},
    {"cuImportExternalMemory", 10000},
    {"cuIpcCloseMemHandle", 4010},
    {"cuIpcGetMemHandle", 4010},
    {"cuIpcOpenMemHandle_v2", 11000},
    {"cuLaunchHostFunc", 10000},
    {"cuLibraryGetGlobal", 12000},
    {"cuLibraryGetManaged", 12000},
    {"cuLibraryLoadData", 12000},
    {"cuLibraryUnload", 12000},
    {"cuMemAddressFree", 10020},
    {"cuMemAddressReserve", 10020},
    {"cuMemAllocAsync", 11020},
    {"cuMemAllocFromPoolAsync", 11020},
    {"cuMemAllocManaged", 6000},
    {"cuMemCreate", 10020},
    {"cuMemExportToShareableHandle", 10020},
    {"cuMemFreeAsync", 11020},
    {"cuMemFreeAsync_ptsz", 11020},
    {"cuMemGetAccess", 10020},
    {"cuMemGetAllocationGranularity", 10020},
    {"cuMemGetAllocationPropertiesFromHandle", 10020},
    {"cuMemGetHandleForAddressRange", 11070},
    {"cuMemHostAlloc", 2020},
    {"cuMemHostGetFlags", 2030},
    {"cuMemHostRegister_v2", 6050},
    {"cuMemHostUnregister", 4000},
    {"cuMemImportFromShareableHandle", 10020},
    {"cuMemMap", 10020},
    {"cuMemPoolCreate", 11020},
    {"cuMemPoolDestroy", 11020},
    {"cuMemPoolExportToShareableHandle", 11020},
    {"cuMemPoolTrimTo", 11020},
    {"cuMemRelease", 10020},
    {"cuMemRetainAllocationHandle", 11000},
    {"cuMemSetAccess", 10020},
    {"cuMemUnmap", 10020},
    {"cuMemsetD8Async", 3020},
    {"cuMemcpy", 4000},
    {"cuMemcpyAsync", 4000},
    {"cuMulticastAddDevice", 12010},
    {"cuMulticastBindMem", 12010},
    {"cuMulticastCreate", 12010},
    {"cuMulticastUnbind", 12010},
    {"cuPointerGetAttribute", 4000},
    {"cuPointerGetAttributes", 7000},
    {"cuPointerSetAttribute", 6000},
    {"cuStreamBeginCapture_v2", 10010},
    {"cuStreamCreateWithPriority", 5050},
    {"cuStreamDestroy_v2", 4000},
    {"cuStreamEndCapture", 10000},
    {"cuStreamGetFlags", 5050},
    {"cuStreamGetPriority", 5050},
    {"cuStreamIsCapturing", 10000},
    {"cuStreamWaitEvent", 3020},
    {"cuThreadExchangeStreamCaptureMode", 10010},
};

/* The driver version that introduced a form: 3.2 for other _v2 forms, 2.0 for all others. */
static int since(const char *symbol)
{
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
        if (strcmp(symbol, versions[i].symbol) == 0)
            return versions[i].version;
    return strstr(symbol, "_v2") ? 3020 : 2000;
}

/* Is the symbol a form of this name, and if so for which kind of default stream? */
static bool is_form(const char *symbol, const char *name, bool *thread)
{
    size_t len = strlen(name);
    const char *suffix = symbol + len;

    if (strncmp(symbol, name, len) != 0)
        return false;
    if (strncmp(suffix, "_v2", 3) == 0)
        suffix += 3;
    *thread = strcmp(suffix, "_ptsz") == 0;
    return *thread || !*suffix;
}

static unsigned find(const char *name, int version, unsigned long long flags, void **out)
{
    const struct form *best = NULL;
    unsigned status = STATUS_NO_SUCH_NAME;
    bool best_thread = false;

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        const struct form *form = &forms[i];
        bool thread;

        if (!is_form(form->symbol, name, &thread) || (thread && flags != STREAM_PER_THREAD) ||
            since(form->symbol) > FAKE_CUDA_VERSION || !form->address)
            continue;
        if (since(form->symbol) > version) {
            status = best ? status : STATUS_TOO_OLD;
            continue;
        }
        if (best && (best_thread > thread ||
                     (best_thread == thread && since(best->symbol) > since(form->symbol))))
            continue;
        best = form;
        best_thread = thread;
        status = STATUS_FOUND;
    }
    if (best)
        *out = best->address;
    return status;
}

unsigned cuGetProcAddress_v2(const char *name, void **out, int version, unsigned long long flags,
                             unsigned *status)
{
    unsigned answer;
    long code;

    if (fake_fails(__func__, &code))
        return (unsigned)code;
    if (!name || !out || flags > STREAM_PER_THREAD)
        return CUDA_INVALID_VALUE;
    answer = find(name, version, flags, out);
    if (status)
        *status = answer;
    if (answer != STATUS_FOUND)
        *out = NULL;
    return CUDA_OK; /* whether it is found or not */
}

unsigned cuGetProcAddress(const char *name, void **out, int version, unsigned long long flags)
{
    void *found = NULL;
    unsigned result = cuGetProcAddress_v2(name, &found, version, flags, NULL);

    if (result || !out)
        return result ? result : CUDA_INVALID_VALUE;
    if (found)
        *out = found;
    return found ? CUDA_OK : CUDA_NOT_FOUND;
}
