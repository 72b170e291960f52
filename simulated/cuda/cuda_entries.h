/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The part of the CUDA driver API that only applications call: provided by the fake and used by
 * tests, beyond hmem/cuda/cuda_api.h. Written from the documentation, like that file, and compared
 * with the vendor's header by the same test.
 */
#ifndef SIMULATED_CUDA_ENTRIES_H
#define SIMULATED_CUDA_ENTRIES_H

#include "hmem/cuda/cuda_api.h"

enum {
    CUDA_INVALID_IMAGE = 200,
    CUDA_ALREADY_MAPPED = 208,
    CUDA_NOT_MAPPED = 211,
    CUDA_INVALID_HANDLE = 400,
    CUDA_ILLEGAL_STATE = 401,
    CUDA_NOT_READY = 600,
    CUDA_ILLEGAL_ADDRESS = 700,
    CUDA_ALREADY_REGISTERED = 712,
    CUDA_NOT_REGISTERED = 713,
    CUDA_CAPTURE_UNSUPPORTED = 900,
    CUDA_CAPTURE_INVALIDATED = 901,
    CUDA_CAPTURE_IMPLICIT = 906,
    CUDA_CAPTURE_WRONG_THREAD = 908,
    CUDA_INVALID_RESOURCE_TYPE = 914,
    CUDA_UNKNOWN_ERROR = 999,
};

struct cuda_event;
struct cuda_external;
struct cuda_graph;
struct cuda_graph_exec;
struct cuda_graphics;
struct cuda_green;
struct cuda_library;
struct cuda_module;
struct cuda_node;
struct cuda_resources; /* a descriptor of some of a device's */

enum {
    CUDA_PTR_DEVICE_POINTER = 3, /* needs a current context */
    CUDA_PTR_HANDLE_TYPES = 14,
    CUDA_PTR_IS_GPUDIRECT = 15,
};

enum {
    CUDA_DEV_GPUDIRECT_VIRTUAL = 110,
    CUDA_DEV_GPUDIRECT = 116,
    CUDA_DEV_HOST_ALLOC_DMABUF = 146,
};

enum { CUDA_HOSTALLOC_WRITECOMBINED = 4 };
enum { CUDA_EVENT_BLOCKING_SYNC = 1, CUDA_EVENT_DISABLE_TIMING = 2, CUDA_EVENT_INTERPROCESS = 4 };
enum { CUDA_GRAPH_AUTO_FREE = 1 };    /* flag of cuGraphInstantiateWithFlags */
enum { CUDA_HANDLE_POSIX_FD = 1 };    /* memory that can be shared by a descriptor */
enum { CUDA_EXTERNAL_OPAQUE_FD = 1 }; /* type of a cuda_external_handle */
enum { CUDA_GREEN_DEFAULT_STREAM = 1 };
enum { CUDA_IPC_LAZY_PEER_ACCESS = 1 };
enum { CUDA_RESOURCE_SM = 1 };
enum { CUDA_MEMORY_PINNED = 1 };      /* type of a cuda_memory_prop */
enum { CUDA_LOCATION_HOST_NUMA = 3 }; /* type of a cuda_location */

#ifndef CUDA_API_VENDORS_STRUCTS
struct cuda_access {
    struct cuda_location location;
    unsigned flags;
};

struct cuda_pool_prop {
    unsigned type;
    unsigned handle_types;
    struct cuda_location location;
    void *windows;
    size_t max_size;
    unsigned short usage;
    unsigned char reserved[54];
};

/* Of a graph's node that allocates. */
struct cuda_alloc_node {
    struct cuda_pool_prop pool;
    const struct cuda_access *access;
    size_t access_count;
    size_t size;
    unsigned long long addr; /* out */
};

/* Names memory to another process. */
struct cuda_ipc {
    char reserved[64];
};

/* Memory of another API, and a buffer in it. */
struct cuda_external_handle {
    unsigned type;
    union {
        int fd;
        void *windows[2];
    } handle;
    unsigned long long size;
    unsigned flags;
    unsigned reserved[16];
};

struct cuda_external_buffer {
    unsigned long long offset, size;
    unsigned flags;
    unsigned reserved[16];
};

/* Multiprocessors of a device. */
struct cuda_resource {
    unsigned type;
    unsigned char padding[92];
    union {
        unsigned sm_count;
        unsigned char reserved[48];
    } of;
};

struct cuda_multicast_prop {
    unsigned devices;
    size_t size;
    unsigned long long handle_types, flags;
};
#endif

#define CUDA_TEST_ENTRIES(ENTRY)                                                                   \
    ENTRY(error_string, cuGetErrorString, (unsigned error, const char **text))                     \
    ENTRY(device_bus_id, cuDeviceGetPCIBusId, (char *id, int size, int device))                    \
    ENTRY(device_by_bus_id, cuDeviceGetByPCIBusId, (int *device, const char *id))                  \
    ENTRY(context_create, cuCtxCreate_v2,                                                          \
          (struct cuda_context * *context, unsigned flags, int device))                            \
    ENTRY(context_destroy, cuCtxDestroy_v2, (struct cuda_context * context))                       \
    ENTRY(context_set, cuCtxSetCurrent, (struct cuda_context * context))                           \
    ENTRY(context_current, cuCtxGetCurrent, (struct cuda_context * *context))                      \
    ENTRY(context_wait, cuCtxSynchronize, (void))                                                  \
    ENTRY(primary_reset, cuDevicePrimaryCtxReset_v2, (int device))                                 \
    ENTRY(host_function, cuLaunchHostFunc,                                                         \
          (struct cuda_stream * stream, void (*function)(void *), void *arg))                      \
    ENTRY(                                                                                         \
        alloc_pitch, cuMemAllocPitch_v2,                                                           \
        (unsigned long long *addr, size_t *pitch, size_t width, size_t height, unsigned element))  \
    ENTRY(alloc_host_plain, cuMemAllocHost_v2, (void **addr, size_t size))                         \
    ENTRY(host_register, cuMemHostRegister_v2, (void *addr, size_t size, unsigned flags))          \
    ENTRY(host_unregister, cuMemHostUnregister, (void *addr))                                      \
    ENTRY(host_device_pointer, cuMemHostGetDevicePointer_v2,                                       \
          (unsigned long long *device, void *host, unsigned flags))                                \
    ENTRY(fill, cuMemsetD8_v2, (unsigned long long addr, unsigned char value, size_t size))        \
    ENTRY(copy_to_device, cuMemcpyHtoD_v2, (unsigned long long dst, const void *src, size_t size)) \
    ENTRY(copy_to_host, cuMemcpyDtoH_v2, (void *dst, unsigned long long src, size_t size))         \
    ENTRY(copy_on_device, cuMemcpyDtoD_v2,                                                         \
          (unsigned long long dst, unsigned long long src, size_t size))                           \
    ENTRY(copy, cuMemcpy, (unsigned long long dst, unsigned long long src, size_t size))           \
    ENTRY(copy_to_device_async, cuMemcpyHtoDAsync_v2,                                              \
          (unsigned long long dst, const void *src, size_t size, struct cuda_stream *stream))      \
    ENTRY(copy_to_host_async, cuMemcpyDtoHAsync_v2,                                                \
          (void *dst, unsigned long long src, size_t size, struct cuda_stream *stream))            \
    ENTRY(                                                                                         \
        copy_on_device_async, cuMemcpyDtoDAsync_v2,                                                \
        (unsigned long long dst, unsigned long long src, size_t size, struct cuda_stream *stream)) \
    ENTRY(memory_info, cuMemGetInfo_v2, (size_t * available, size_t * total))                      \
    ENTRY(capture_begin, cuStreamBeginCapture_v2, (struct cuda_stream * stream, unsigned mode))    \
    ENTRY(capture_end, cuStreamEndCapture,                                                         \
          (struct cuda_stream * stream, struct cuda_graph * *graph))                               \
    ENTRY(capture_status, cuStreamIsCapturing, (struct cuda_stream * stream, unsigned *status))    \
    ENTRY(stream_query, cuStreamQuery, (struct cuda_stream * stream))                              \
    ENTRY(stream_create_first, cuStreamCreateWithPriority,                                         \
          (struct cuda_stream * *stream, unsigned flags, int priority))                            \
    ENTRY(stream_priority, cuStreamGetPriority, (struct cuda_stream * stream, int *priority))      \
    ENTRY(stream_flags, cuStreamGetFlags, (struct cuda_stream * stream, unsigned *flags))          \
    ENTRY(stream_after, cuStreamWaitEvent,                                                         \
          (struct cuda_stream * stream, struct cuda_event * event, unsigned flags))                \
    ENTRY(priorities, cuCtxGetStreamPriorityRange, (int *least, int *greatest))                    \
    ENTRY(set_async, cuMemsetD8Async,                                                              \
          (unsigned long long addr, unsigned char value, size_t size, struct cuda_stream *stream)) \
    ENTRY(event_create, cuEventCreate, (struct cuda_event * *event, unsigned flags))               \
    ENTRY(event_destroy, cuEventDestroy_v2, (struct cuda_event * event))                           \
    ENTRY(event_record, cuEventRecord, (struct cuda_event * event, struct cuda_stream * stream))   \
    ENTRY(event_query, cuEventQuery, (struct cuda_event * event))                                  \
    ENTRY(event_wait, cuEventSynchronize, (struct cuda_event * event))                             \
    ENTRY(reserve, cuMemAddressReserve,                                                            \
          (unsigned long long *addr, size_t size, size_t align, unsigned long long wish,           \
           unsigned long long flags))                                                              \
    ENTRY(unreserve, cuMemAddressFree, (unsigned long long addr, size_t size))                     \
    ENTRY(create, cuMemCreate,                                                                     \
          (unsigned long long *handle, size_t size, const struct cuda_memory_prop *prop,           \
           unsigned long long flags))                                                              \
    ENTRY(map, cuMemMap,                                                                           \
          (unsigned long long addr, size_t size, size_t offset, unsigned long long handle,         \
           unsigned long long flags))                                                              \
    ENTRY(unmap, cuMemUnmap, (unsigned long long addr, size_t size))                               \
    ENTRY(handle_export, cuMemExportToShareableHandle,                                             \
          (void *shared, unsigned long long handle, unsigned type, unsigned long long flags))      \
    ENTRY(handle_import, cuMemImportFromShareableHandle,                                           \
          (unsigned long long *handle, void *shared, unsigned type))                               \
    ENTRY(set_access, cuMemSetAccess,                                                              \
          (unsigned long long addr, size_t size, const struct cuda_access *access, size_t count))  \
    ENTRY(granularity, cuMemGetAllocationGranularity,                                              \
          (size_t * size, const struct cuda_memory_prop *prop, unsigned option))                   \
    ENTRY(default_pool, cuDeviceGetDefaultMemPool, (struct cuda_pool * *pool, int device))         \
    ENTRY(alloc_async, cuMemAllocAsync,                                                            \
          (unsigned long long *addr, size_t size, struct cuda_stream *stream))                     \
    ENTRY(free_async, cuMemFreeAsync, (unsigned long long addr, struct cuda_stream *stream))       \
    ENTRY(pool_create, cuMemPoolCreate,                                                            \
          (struct cuda_pool * *pool, const struct cuda_pool_prop *prop))                           \
    ENTRY(pool_destroy, cuMemPoolDestroy, (struct cuda_pool * pool))                               \
    ENTRY(pool_export, cuMemPoolExportToShareableHandle,                                           \
          (void *handle, struct cuda_pool *pool, unsigned type, unsigned long long flags))         \
    ENTRY(alloc_from_pool, cuMemAllocFromPoolAsync,                                                \
          (unsigned long long *addr, size_t size, struct cuda_pool *pool,                          \
           struct cuda_stream *stream))                                                            \
    ENTRY(graph_create, cuGraphCreate, (struct cuda_graph * *graph, unsigned flags))               \
    ENTRY(graph_free, cuGraphAddMemFreeNode,                                                       \
          (struct cuda_node * *node, struct cuda_graph * graph, struct cuda_node *const *after,    \
           size_t count, unsigned long long addr))                                                 \
    ENTRY(graph_instantiate, cuGraphInstantiateWithFlags,                                          \
          (struct cuda_graph_exec * *exec, struct cuda_graph * graph, unsigned long long flags))   \
    ENTRY(graph_launch, cuGraphLaunch,                                                             \
          (struct cuda_graph_exec * exec, struct cuda_stream * stream))                            \
    ENTRY(graph_exec_destroy, cuGraphExecDestroy, (struct cuda_graph_exec * exec))                 \
    ENTRY(graph_trim, cuDeviceGraphMemTrim, (int device))                                          \
    ENTRY(graph_destroy, cuGraphDestroy, (struct cuda_graph * graph))                              \
    ENTRY(module_load, cuModuleLoadData, (struct cuda_module * *module, const void *image))        \
    ENTRY(module_global, cuModuleGetGlobal_v2,                                                     \
          (unsigned long long *addr, size_t *bytes, struct cuda_module *module, const char *name)) \
    ENTRY(module_unload, cuModuleUnload, (struct cuda_module * module))                            \
    ENTRY(library_load, cuLibraryLoadData,                                                         \
          (struct cuda_library * *library, const void *image, unsigned *jit_options,               \
           void **jit_values, unsigned jit_count, unsigned *options, void **values,                \
           unsigned count))                                                                        \
    ENTRY(                                                                                         \
        library_global, cuLibraryGetGlobal,                                                        \
        (unsigned long long *addr, size_t *bytes, struct cuda_library *library, const char *name)) \
    ENTRY(                                                                                         \
        library_managed, cuLibraryGetManaged,                                                      \
        (unsigned long long *addr, size_t *bytes, struct cuda_library *library, const char *name)) \
    ENTRY(library_unload, cuLibraryUnload, (struct cuda_library * library))                        \
    ENTRY(device_resource, cuDeviceGetDevResource,                                                 \
          (int device, struct cuda_resource *resource, unsigned type))                             \
    ENTRY(resource_desc, cuDevResourceGenerateDesc,                                                \
          (struct cuda_resources * *desc, struct cuda_resource * resources, unsigned count))       \
    ENTRY(green_create, cuGreenCtxCreate,                                                          \
          (struct cuda_green * *green, struct cuda_resources * desc, int device, unsigned flags))  \
    ENTRY(green_context, cuCtxFromGreenCtx,                                                        \
          (struct cuda_context * *context, struct cuda_green * green))                             \
    ENTRY(green_destroy, cuGreenCtxDestroy, (struct cuda_green * green))                           \
    ENTRY(external_import, cuImportExternalMemory,                                                 \
          (struct cuda_external * *external, const struct cuda_external_handle *handle))           \
    ENTRY(external_map, cuExternalMemoryGetMappedBuffer,                                           \
          (unsigned long long *addr, struct cuda_external *external,                               \
           const struct cuda_external_buffer *buffer))                                             \
    ENTRY(external_destroy, cuDestroyExternalMemory, (struct cuda_external * external))            \
    ENTRY(multicast_create, cuMulticastCreate,                                                     \
          (unsigned long long *handle, const struct cuda_multicast_prop *prop))                    \
    ENTRY(multicast_add, cuMulticastAddDevice, (unsigned long long handle, int device))            \
    ENTRY(multicast_bind, cuMulticastBindMem,                                                      \
          (unsigned long long handle, size_t offset, unsigned long long memory,                    \
           size_t memory_offset, size_t size, unsigned long long flags))                           \
    ENTRY(multicast_unbind, cuMulticastUnbind,                                                     \
          (unsigned long long handle, int device, size_t offset, size_t size))                     \
    ENTRY(graphics_map, cuGraphicsMapResources,                                                    \
          (unsigned count, struct cuda_graphics **graphics, struct cuda_stream *stream))           \
    ENTRY(graphics_pointer, cuGraphicsResourceGetMappedPointer_v2,                                 \
          (unsigned long long *addr, size_t *size, struct cuda_graphics *graphics))                \
    ENTRY(graphics_unmap, cuGraphicsUnmapResources,                                                \
          (unsigned count, struct cuda_graphics **graphics, struct cuda_stream *stream))           \
    ENTRY(graphics_unregister, cuGraphicsUnregisterResource, (struct cuda_graphics * graphics))    \
    ENTRY(ipc_handle, cuIpcGetMemHandle, (struct cuda_ipc * handle, unsigned long long addr))      \
    ENTRY(ipc_open, cuIpcOpenMemHandle_v2,                                                         \
          (unsigned long long *addr, struct cuda_ipc handle, unsigned flags))                      \
    ENTRY(ipc_close, cuIpcCloseMemHandle, (unsigned long long addr))

/* Older forms, those for each thread's own default stream, and how the runtime API finds functions.
 * Apart, since the vendor's header declares some only for itself. */
#define CUDA_OTHER_ENTRIES(ENTRY)                                                                  \
    ENTRY(free_old, cuMemFree, (unsigned addr))                                                    \
    ENTRY(free_async_thread, cuMemFreeAsync_ptsz,                                                  \
          (unsigned long long addr, struct cuda_stream *stream))                                   \
    ENTRY(context_destroy_old, cuCtxDestroy, (struct cuda_context * context))                      \
    ENTRY(context_detach, cuCtxDetach, (struct cuda_context * context))                            \
    ENTRY(primary_release_old, cuDevicePrimaryCtxRelease, (int device))                            \
    ENTRY(primary_reset_old, cuDevicePrimaryCtxReset, (int device))                                \
    ENTRY(graph_alloc, cuGraphAddMemAllocNode,                                                     \
          (struct cuda_node * *node, struct cuda_graph * graph, struct cuda_node *const *after,    \
           size_t count, struct cuda_alloc_node *params))                                          \
    ENTRY(event_time, cuEventElapsedTime,                                                          \
          (float *ms, struct cuda_event *start, struct cuda_event *end))                           \
    ENTRY(pool_trim, cuMemPoolTrimTo, (struct cuda_pool * pool, size_t keep))                      \
    ENTRY(get_address_old, cuGetProcAddress,                                                       \
          (const char *name, void **out, int version, unsigned long long flags))                   \
    ENTRY(get_address, cuGetProcAddress_v2,                                                        \
          (const char *name, void **out, int version, unsigned long long flags, unsigned *status))

#endif
