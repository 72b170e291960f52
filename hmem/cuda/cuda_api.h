/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Our own declarations of the part of the CUDA driver API that we call. The vendor's header is
 * proprietary, so we never include it; a test compares this file with it where it is installed.
 * Names are as in libcuda.so.1, with the version suffix spelled out, since the vendor's header
 * renames them silently (cuMemFree is an older function than cuMemFree_v2).
 *
 * Types: results, attributes and handle types are C enums without negative values in the vendor's
 * header, hence unsigned; device addresses and allocation handles are unsigned long long.
 */
#ifndef HMREG_HMEM_CUDA_CUDA_API_H
#define HMREG_HMEM_CUDA_CUDA_API_H

#include <stddef.h>

/* ---- results ---------------------------------------------------------------------------- */

enum {
    CUDA_OK = 0,
    CUDA_INVALID_VALUE = 1,
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_NOT_INITIALIZED = 3,
    CUDA_DEINITIALIZED = 4,
    CUDA_STUB_LIBRARY = 34,
    CUDA_DEVICE_UNAVAILABLE = 46,
    CUDA_NO_DEVICE = 100,
    CUDA_INVALID_DEVICE = 101,
    CUDA_INVALID_CONTEXT = 201,
    CUDA_NOT_FOUND = 500,
    CUDA_CONTEXT_IS_DESTROYED = 709,
    CUDA_NOT_PERMITTED = 800,
    CUDA_NOT_SUPPORTED = 801,
    CUDA_SYSTEM_NOT_READY = 802,
    CUDA_SYSTEM_DRIVER_MISMATCH = 803,
    CUDA_COMPAT_NOT_SUPPORTED = 804,
};

/* ---- attributes ------------------------------------------------------------------------- */

/* Pointer attributes. Older drivers lack some from CUDA_PTR_MEMPOOL on; the batch query does not
 * answer MAPPING_* and the block id. */
enum {
    CUDA_PTR_CONTEXT = 1,
    CUDA_PTR_MEMORY_TYPE = 2, /* CUDA_TYPE_* */
    CUDA_PTR_HOST_POINTER = 4,
    CUDA_PTR_SYNC_MEMOPS = 6, /* settable, for plain device memory */
    CUDA_PTR_BUFFER_ID = 7,   /* unique in the process, never reused */
    CUDA_PTR_IS_MANAGED = 8,
    CUDA_PTR_DEVICE_ORDINAL = 9,
    CUDA_PTR_IS_LEGACY_IPC = 10, /* memory of cuMemAlloc: cuIpcGetMemHandle accepts it */
    CUDA_PTR_RANGE_START = 11,   /* for virtual memory, of the reserved addresses */
    CUDA_PTR_RANGE_SIZE = 12,
    CUDA_PTR_MAPPED = 13,
    CUDA_PTR_MEMPOOL = 17,
    CUDA_PTR_MAPPING_SIZE = 18, /* of the segment mapped at the address */
    CUDA_PTR_MAPPING_BASE = 19,
    CUDA_PTR_MEMORY_BLOCK_ID = 20, /* of the physical allocation */
};
enum { CUDA_TYPE_NONE = 0, CUDA_TYPE_HOST = 1, CUDA_TYPE_DEVICE = 2 };

/* Device attributes. */
enum {
    CUDA_DEV_INTEGRATED = 18, /* shares the host's memory */
    CUDA_DEV_PCI_BUS = 33,
    CUDA_DEV_PCI_DEVICE = 34,
    CUDA_DEV_PCI_DOMAIN = 50,
    CUDA_DEV_HOST_PAGE_TABLES = 100, /* uses the CPU's page tables: a coherent link */
    CUDA_DEV_DMABUF = 124,           /* CUDA 11.7 */
};

enum { CUDA_RANGE_DMABUF_FD = 1 };    /* handle type for cuMemGetHandleForAddressRange */
enum { CUDA_RANGE_FLAG_PCIE = 1 };    /* its flag, CUDA 12.8: NICs reach the memory by PCIe */
enum { CUDA_HOSTALLOC_PORTABLE = 1 }; /* pinned for every context */
enum { CUDA_ATTACH_GLOBAL = 1 };      /* managed memory that any stream may use */
enum { CUDA_LOCATION_DEVICE = 1 };    /* other types: the host, or one of its NUMA nodes */
enum { CUDA_ACCESS_READWRITE = 3 };
/* Attributes of cuDeviceGetGraphMemAttribute: bytes now, and the most so far. */
enum { CUDA_GRAPH_MEM_RESERVED = 2, CUDA_GRAPH_MEM_RESERVED_HIGH = 3 };
enum { CUDA_STREAM_NON_BLOCKING = 1 };
/* Modes of a thread, and of a stream's capture. */
enum { CUDA_CAPTURE_GLOBAL = 0, CUDA_CAPTURE_THREAD_LOCAL = 1, CUDA_CAPTURE_RELAXED = 2 };
enum { CUDA_CONTEXT_SYNC_MEMOPS = 0x80 }; /* a context's flag */

/* ---- types ------------------------------------------------------------------------------ */

struct cuda_context;
struct cuda_stream;
struct cuda_pool;

#ifndef CUDA_API_VENDORS_STRUCTS /* defined by the test that compares prototypes */
struct cuda_location {
    unsigned type;
    int id;
};

/* The properties that physical memory was created with. */
struct cuda_memory_prop {
    unsigned type;
    unsigned handle_types;
    struct cuda_location location;
    void *windows;
    unsigned char compression;
    unsigned char gpudirect; /* usable by GPUDirect RDMA: chosen at creation */
    unsigned short usage;
    unsigned char reserved[4];
};
#endif

/* ---- entry points ----------------------------------------------------------------------- */

/* NEED or WANT (member of struct cuda_api, name in the library, parameters) */
#define CUDA_ENTRIES(NEED, WANT)                                                                   \
    NEED(init, cuInit, (unsigned flags))                                                           \
    NEED(driver_version, cuDriverGetVersion, (int *version))                                       \
    NEED(error_name, cuGetErrorName, (unsigned error, const char **name))                          \
    NEED(device_count, cuDeviceGetCount, (int *count))                                             \
    NEED(device_get, cuDeviceGet, (int *device, int ordinal))                                      \
    NEED(device_name, cuDeviceGetName, (char *name, int size, int device))                         \
    NEED(device_attribute, cuDeviceGetAttribute, (int *value, unsigned attribute, int device))     \
    NEED(device_memory, cuDeviceTotalMem_v2, (size_t * bytes, int device))                         \
    NEED(primary_state, cuDevicePrimaryCtxGetState, (int device, unsigned *flags, int *active))    \
    NEED(primary_retain, cuDevicePrimaryCtxRetain, (struct cuda_context * *context, int device))   \
    NEED(primary_release, cuDevicePrimaryCtxRelease_v2, (int device))                              \
    NEED(context_push, cuCtxPushCurrent_v2, (struct cuda_context * context))                       \
    NEED(context_pop, cuCtxPopCurrent_v2, (struct cuda_context * *context))                        \
    NEED(context_device, cuCtxGetDevice, (int *device))                                            \
    NEED(pointer_attribute, cuPointerGetAttribute,                                                 \
         (void *value, unsigned attribute, unsigned long long addr))                               \
    NEED(pointer_attributes, cuPointerGetAttributes,                                               \
         (unsigned count, unsigned *attributes, void **values, unsigned long long addr))           \
    NEED(address_range, cuMemGetAddressRange_v2,                                                   \
         (unsigned long long *base, size_t *size, unsigned long long addr))                        \
    NEED(alloc, cuMemAlloc_v2, (unsigned long long *addr, size_t size))                            \
    NEED(free, cuMemFree_v2, (unsigned long long addr))                                            \
    NEED(alloc_managed, cuMemAllocManaged,                                                         \
         (unsigned long long *addr, size_t size, unsigned flags))                                  \
    NEED(alloc_host, cuMemHostAlloc, (void **addr, size_t size, unsigned flags))                   \
    NEED(free_host, cuMemFreeHost, (void *addr))                                                   \
    NEED(                                                                                          \
        copy_async, cuMemcpyAsync,                                                                 \
        (unsigned long long dst, unsigned long long src, size_t size, struct cuda_stream *stream)) \
    NEED(stream_create, cuStreamCreate, (struct cuda_stream * *stream, unsigned flags))            \
    NEED(stream_destroy, cuStreamDestroy_v2, (struct cuda_stream * stream))                        \
    NEED(stream_wait, cuStreamSynchronize, (struct cuda_stream * stream))                          \
    WANT(capture_mode, cuThreadExchangeStreamCaptureMode, (unsigned *mode))                        \
    WANT(host_flags, cuMemHostGetFlags, (unsigned *flags, void *addr))                             \
    WANT(graph_memory, cuDeviceGetGraphMemAttribute,                                               \
         (int device, unsigned attribute, void *value))                                            \
    WANT(set_pointer_attribute, cuPointerSetAttribute,                                             \
         (const void *value, unsigned attribute, unsigned long long addr))                         \
    WANT(context_flags, cuCtxGetFlags, (unsigned *flags))                                          \
    WANT(set_context_flags, cuCtxSetFlags, (unsigned flags))                                       \
    WANT(range_handle, cuMemGetHandleForAddressRange,                                              \
         (void *handle, unsigned long long addr, size_t size, unsigned type,                       \
          unsigned long long flags))                                                               \
    WANT(handle_retain, cuMemRetainAllocationHandle, (unsigned long long *handle, void *addr))     \
    WANT(handle_prop, cuMemGetAllocationPropertiesFromHandle,                                      \
         (struct cuda_memory_prop * prop, unsigned long long handle))                              \
    WANT(handle_release, cuMemRelease, (unsigned long long handle))                                \
    WANT(access, cuMemGetAccess,                                                                   \
         (unsigned long long *flags, const struct cuda_location *location,                         \
          unsigned long long addr))

#define CUDA_MEMBER(member, name, parameters) unsigned(*member) parameters;
struct cuda_api {
    CUDA_ENTRIES(CUDA_MEMBER, CUDA_MEMBER)
};

#endif
