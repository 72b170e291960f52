/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The fake libcuda.so.1: streams captured to graphs. Potentially unsafe calls are prohibited by the
 * modes of the capture and of the calling thread; a prohibited call fails and invalidates the
 * capture, and so does work in the legacy stream while a blocking stream of the context is being
 * captured, whatever the modes. CUDA lists no unsafe calls: all are that allocate, free, map,
 * create or set something, and those that
 * ask or wait for an event. Other queries are not. Only allocations and frees are captured.
 */
#include "simulated/cuda/cuda_fake.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct capture {
    struct capture *next;
    struct cuda_stream *stream;
    struct cuda_context *context;
    struct cuda_graph *graph;
    pid_t thread;
    unsigned mode;
    bool broken;
};

static struct capture *captures;
static _Thread_local unsigned thread_mode = CUDA_CAPTURE_GLOBAL;

/* ---- what is prohibited ------------------------------------------------------------------ */

static const char *const unsafe_calls[] = {
    "cuMemAlloc_v2",
    "cuMemAllocPitch_v2",
    "cuMemAllocManaged",
    "cuMemHostAlloc",
    "cuMemAllocHost_v2",
    "cuMemFree_v2",
    "cuMemFreeHost",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuMemcpy",
    "cuMemcpyHtoD_v2",
    "cuMemcpyDtoH_v2",
    "cuMemcpyDtoD_v2",
    "cuMemsetD8_v2",
    "cuMemAddressReserve",
    "cuMemAddressFree",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemRetainAllocationHandle",
    "cuMemExportToShareableHandle",
    "cuMemImportFromShareableHandle",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemSetAccess",
    "cuMemGetHandleForAddressRange",
    "cuMemPoolCreate",
    "cuMemPoolDestroy",
    "cuMemPoolTrimTo",
    "cuMemPoolExportToShareableHandle",
    "cuIpcGetMemHandle",
    "cuIpcOpenMemHandle_v2",
    "cuIpcCloseMemHandle",
    "cuPointerSetAttribute",
    "cuCtxCreate_v2",
    "cuCtxDestroy_v2",
    "cuCtxSetFlags",
    "cuCtxSynchronize",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxReset_v2",
    "cuDeviceGraphMemTrim",
    "cuDeviceGetGraphMemAttribute",
    "cuModuleLoadData",
    "cuLibraryLoadData",
    "cuLibraryUnload",
    "cuGreenCtxCreate",
    "cuGreenCtxDestroy",
    "cuImportExternalMemory",
    "cuExternalMemoryGetMappedBuffer",
    "cuDestroyExternalMemory",
    "cuMulticastCreate",
    "cuMulticastAddDevice",
    "cuMulticastBindMem",
    "cuMulticastUnbind",
    "cuModuleUnload",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamCreateWithPriority",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventQuery",
    "cuEventSynchronize",
};

static bool is_unsafe(const char *name)
{
    for (size_t i = 0; i < sizeof(unsafe_calls) / sizeof(unsafe_calls[0]); i++)
        if (strcmp(unsafe_calls[i], name) == 0)
            return true;
    return false;
}

static bool prohibits(const struct capture *capture)
{
    if (capture->broken || thread_mode == CUDA_CAPTURE_RELAXED)
        return false;
    if (capture->thread == gettid())
        return capture->mode != CUDA_CAPTURE_RELAXED;
    return thread_mode == CUDA_CAPTURE_GLOBAL && capture->mode == CUDA_CAPTURE_GLOBAL;
}

long fake_cuda_prohibits(const char *name)
{
    long code = CUDA_OK;

    fake_lock();
    for (struct capture *capture = captures; capture && is_unsafe(name); capture = capture->next)
        if (prohibits(capture)) {
            capture->broken = true;
            code = CUDA_CAPTURE_UNSUPPORTED;
        }
    fake_unlock();
    return code;
}

/* ---- work in streams --------------------------------------------------------------------- */

static struct capture *capture_of(const struct cuda_stream *stream)
{
    struct capture *capture = captures;

    while (capture && capture->stream != stream)
        capture = capture->next;
    return capture;
}

/* The legacy stream waits for all blocking streams of its context, and they for it. */
static unsigned use_legacy(bool breaks)
{
    struct cuda_context *context = NULL;
    unsigned result = CUDA_OK;

    if (fake_cuda_context(&context))
        return CUDA_OK;
    for (struct capture *capture = captures; capture; capture = capture->next) {
        if (capture->context != context || capture->broken ||
            !fake_cuda_is_blocking(capture->stream))
            continue;
        capture->broken = breaks;
        result = CUDA_CAPTURE_IMPLICIT;
    }
    return result;
}

unsigned fake_cuda_use(const struct cuda_stream *stream, struct cuda_graph **graph)
{
    struct capture *capture;

    if ((uintptr_t)stream <= 1)
        return use_legacy(true);
    capture = capture_of(stream);
    if (!capture)
        return CUDA_OK;
    if (!graph)
        capture->broken = true;
    if (capture->broken)
        return graph ? CUDA_CAPTURE_INVALIDATED : CUDA_CAPTURE_UNSUPPORTED;
    *graph = capture->graph;
    return CUDA_OK;
}

/* ---- entry points ------------------------------------------------------------------------ */

unsigned cuStreamBeginCapture_v2(struct cuda_stream *stream, unsigned mode)
{
    struct cuda_context *context = NULL;
    struct capture *made;
    unsigned result;

    ENTER();
    result = fake_cuda_context(&context);
    if (result || mode > CUDA_CAPTURE_RELAXED)
        return result ? result : CUDA_INVALID_VALUE;
    if ((uintptr_t)stream <= 2) /* the legacy one cannot be; each thread's is not simulated */
        return CUDA_CAPTURE_UNSUPPORTED;
    if (!fake_cuda_is_stream(stream))
        return CUDA_INVALID_HANDLE;
    if (capture_of(stream))
        return CUDA_ILLEGAL_STATE;
    made = malloc(sizeof(*made));
    if (!made)
        abort();
    *made = (struct capture){captures, stream, context, fake_cuda_graph(), gettid(), mode, false};
    captures = made;
    return CUDA_OK;
}

unsigned cuStreamEndCapture(struct cuda_stream *stream, struct cuda_graph **graph)
{
    struct capture **link = &captures, *capture;
    unsigned result = CUDA_OK;

    ENTER();
    while (*link && (*link)->stream != stream)
        link = &(*link)->next;
    capture = *link;
    if (!graph || !capture)
        return graph ? CUDA_ILLEGAL_STATE : CUDA_INVALID_VALUE;
    if (capture->mode != CUDA_CAPTURE_RELAXED && capture->thread != gettid())
        return CUDA_CAPTURE_WRONG_THREAD;
    *graph = capture->graph;
    if (capture->broken) {
        fake_cuda_put_graph(capture->graph);
        *graph = NULL;
        result = CUDA_CAPTURE_INVALIDATED;
    }
    *link = capture->next;
    free(capture);
    return result;
}

/* Status: 0 none, 1 active, 2 invalidated. Of the legacy stream it is an error to ask, which breaks
 * nothing. */
unsigned cuStreamIsCapturing(struct cuda_stream *stream, unsigned *status)
{
    const struct capture *capture;

    ENTER();
    if (!status || !fake_cuda_is_stream(stream))
        return status ? CUDA_INVALID_HANDLE : CUDA_INVALID_VALUE;
    capture = capture_of(stream);
    *status = !capture ? 0 : capture->broken ? 2 : 1;
    return (uintptr_t)stream <= 1 ? use_legacy(false) : CUDA_OK;
}

unsigned cuThreadExchangeStreamCaptureMode(unsigned *mode)
{
    unsigned before = thread_mode;

    ENTER();
    if (!mode || *mode > CUDA_CAPTURE_RELAXED)
        return CUDA_INVALID_VALUE;
    thread_mode = *mode;
    *mode = before;
    return CUDA_OK;
}
