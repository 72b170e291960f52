/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Compares our constants and structs with those of the vendor's header, which only this file
 * includes, if a toolkit is installed: a difference fails to compile. Prototypes are in
 * abi_prototypes.c.
 */
#include "tests/support/test.h"

#ifdef HMREG_HAVE_CUDA_H

#include "tests/support/fake/cuda_entries.h"

#include <cuda.h>

#define SAME(ours, theirs) _Static_assert((long)(ours) == (long)(theirs), #ours " is " #theirs)

SAME(CUDA_OK, CUDA_SUCCESS);
SAME(CUDA_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME(CUDA_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(CUDA_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
SAME(CUDA_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED);
SAME(CUDA_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY);
SAME(CUDA_DEVICE_UNAVAILABLE, CUDA_ERROR_DEVICE_UNAVAILABLE);
SAME(CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(CUDA_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE);
SAME(CUDA_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
SAME(CUDA_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE);
SAME(CUDA_ALREADY_MAPPED, CUDA_ERROR_ALREADY_MAPPED);
SAME(CUDA_NOT_MAPPED, CUDA_ERROR_NOT_MAPPED);
SAME(CUDA_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
SAME(CUDA_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(CUDA_CONTEXT_IS_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME(CUDA_ALREADY_REGISTERED, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
SAME(CUDA_NOT_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
SAME(CUDA_NOT_PERMITTED, CUDA_ERROR_NOT_PERMITTED);
SAME(CUDA_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
SAME(CUDA_SYSTEM_NOT_READY, CUDA_ERROR_SYSTEM_NOT_READY);
SAME(CUDA_SYSTEM_DRIVER_MISMATCH, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME(CUDA_COMPAT_NOT_SUPPORTED, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
SAME(CUDA_UNKNOWN_ERROR, CUDA_ERROR_UNKNOWN);
#if CUDA_VERSION >= 12040
SAME(CUDA_INVALID_RESOURCE_TYPE, CUDA_ERROR_INVALID_RESOURCE_TYPE);
#endif

SAME(CUDA_PTR_CONTEXT, CU_POINTER_ATTRIBUTE_CONTEXT);
SAME(CUDA_PTR_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(CUDA_PTR_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
SAME(CUDA_PTR_HOST_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER);
SAME(CUDA_PTR_SYNC_MEMOPS, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
SAME(CUDA_PTR_BUFFER_ID, CU_POINTER_ATTRIBUTE_BUFFER_ID);
SAME(CUDA_PTR_IS_MANAGED, CU_POINTER_ATTRIBUTE_IS_MANAGED);
SAME(CUDA_PTR_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(CUDA_PTR_IS_LEGACY_IPC, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
SAME(CUDA_PTR_RANGE_START, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
SAME(CUDA_PTR_RANGE_SIZE, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
SAME(CUDA_PTR_MAPPED, CU_POINTER_ATTRIBUTE_MAPPED);
SAME(CUDA_PTR_HANDLE_TYPES, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES);
SAME(CUDA_PTR_IS_GPUDIRECT, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE);
SAME(CUDA_PTR_MEMPOOL, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
#if CUDA_VERSION >= 12000
SAME(CUDA_PTR_MAPPING_SIZE, CU_POINTER_ATTRIBUTE_MAPPING_SIZE);
SAME(CUDA_PTR_MAPPING_BASE, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR);
SAME(CUDA_PTR_MEMORY_BLOCK_ID, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID);
#endif
SAME(CUDA_TYPE_HOST, CU_MEMORYTYPE_HOST);
SAME(CUDA_TYPE_DEVICE, CU_MEMORYTYPE_DEVICE);

SAME(CUDA_DEV_INTEGRATED, CU_DEVICE_ATTRIBUTE_INTEGRATED);
SAME(CUDA_DEV_HOST_PAGE_TABLES, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
SAME(CUDA_DEV_PCI_BUS, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
SAME(CUDA_DEV_PCI_DEVICE, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
SAME(CUDA_DEV_PCI_DOMAIN, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
SAME(CUDA_DEV_GPUDIRECT_VIRTUAL, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
SAME(CUDA_DEV_GPUDIRECT, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
SAME(CUDA_DEV_DMABUF, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
#if CUDA_VERSION >= 13000
SAME(CUDA_DEV_HOST_ALLOC_DMABUF, CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED);
#endif
#if CUDA_VERSION >= 12080
SAME(CUDA_RANGE_FLAG_PCIE, CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE);
#endif
SAME(CUDA_RANGE_DMABUF_FD, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
SAME(CUDA_HOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME(CUDA_HOSTALLOC_WRITECOMBINED, CU_MEMHOSTALLOC_WRITECOMBINED);
SAME(CUDA_GRAPH_AUTO_FREE, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
SAME(CUDA_HANDLE_POSIX_FD, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME(CUDA_IPC_LAZY_PEER_ACCESS, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
SAME(CUDA_EXTERNAL_OPAQUE_FD, CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD);
#if CUDA_VERSION >= 12040
SAME(CUDA_GREEN_DEFAULT_STREAM, CU_GREEN_CTX_DEFAULT_STREAM);
SAME(CUDA_RESOURCE_SM, CU_DEV_RESOURCE_TYPE_SM);
#endif
SAME(CUDA_ATTACH_GLOBAL, CU_MEM_ATTACH_GLOBAL);
SAME(CUDA_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
#if CUDA_VERSION >= 12020
SAME(CUDA_LOCATION_HOST_NUMA, CU_MEM_LOCATION_TYPE_HOST_NUMA);
#endif
SAME(CUDA_MEMORY_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(CUDA_ACCESS_READWRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

#define SAME_PLACE(ours, our_member, theirs, their_member)                                         \
    SAME(offsetof(ours, our_member), offsetof(theirs, their_member));                              \
    SAME(sizeof(((ours *)0)->our_member), sizeof(((theirs *)0)->their_member))

SAME(sizeof(struct cuda_location), sizeof(CUmemLocation));
SAME_PLACE(struct cuda_location, type, CUmemLocation, type);
SAME_PLACE(struct cuda_location, id, CUmemLocation, id);
SAME(sizeof(struct cuda_access), sizeof(CUmemAccessDesc));
SAME_PLACE(struct cuda_access, location, CUmemAccessDesc, location);
SAME_PLACE(struct cuda_access, flags, CUmemAccessDesc, flags);
SAME(sizeof(struct cuda_ipc), sizeof(CUipcMemHandle));
SAME(sizeof(struct cuda_pool_prop), sizeof(CUmemPoolProps));
SAME_PLACE(struct cuda_pool_prop, type, CUmemPoolProps, allocType);
SAME_PLACE(struct cuda_pool_prop, handle_types, CUmemPoolProps, handleTypes);
SAME_PLACE(struct cuda_pool_prop, location, CUmemPoolProps, location);
SAME_PLACE(struct cuda_pool_prop, windows, CUmemPoolProps, win32SecurityAttributes);
#if CUDA_VERSION >= 12030
SAME_PLACE(struct cuda_pool_prop, max_size, CUmemPoolProps, maxSize);
#endif
SAME(sizeof(struct cuda_memory_prop), sizeof(CUmemAllocationProp));
SAME_PLACE(struct cuda_memory_prop, type, CUmemAllocationProp, type);
SAME_PLACE(struct cuda_memory_prop, handle_types, CUmemAllocationProp, requestedHandleTypes);
SAME_PLACE(struct cuda_memory_prop, location, CUmemAllocationProp, location);
SAME_PLACE(struct cuda_memory_prop, windows, CUmemAllocationProp, win32HandleMetaData);
SAME_PLACE(struct cuda_memory_prop, compression, CUmemAllocationProp, allocFlags.compressionType);
SAME_PLACE(struct cuda_memory_prop, gpudirect, CUmemAllocationProp,
           allocFlags.gpuDirectRDMACapable);
SAME_PLACE(struct cuda_memory_prop, usage, CUmemAllocationProp, allocFlags.usage);

SAME(sizeof(struct cuda_external_handle), sizeof(CUDA_EXTERNAL_MEMORY_HANDLE_DESC));
SAME_PLACE(struct cuda_external_handle, type, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, type);
SAME_PLACE(struct cuda_external_handle, handle.fd, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, handle.fd);
SAME_PLACE(struct cuda_external_handle, size, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, size);
SAME_PLACE(struct cuda_external_handle, flags, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, flags);
SAME(sizeof(struct cuda_external_buffer), sizeof(CUDA_EXTERNAL_MEMORY_BUFFER_DESC));
SAME_PLACE(struct cuda_external_buffer, offset, CUDA_EXTERNAL_MEMORY_BUFFER_DESC, offset);
SAME_PLACE(struct cuda_external_buffer, size, CUDA_EXTERNAL_MEMORY_BUFFER_DESC, size);
SAME_PLACE(struct cuda_external_buffer, flags, CUDA_EXTERNAL_MEMORY_BUFFER_DESC, flags);
#if CUDA_VERSION >= 12010
SAME(sizeof(struct cuda_multicast_prop), sizeof(CUmulticastObjectProp));
SAME_PLACE(struct cuda_multicast_prop, devices, CUmulticastObjectProp, numDevices);
SAME_PLACE(struct cuda_multicast_prop, size, CUmulticastObjectProp, size);
SAME_PLACE(struct cuda_multicast_prop, handle_types, CUmulticastObjectProp, handleTypes);
#endif
#if CUDA_VERSION >= 12040
SAME(sizeof(struct cuda_resource), sizeof(CUdevResource));
SAME_PLACE(struct cuda_resource, type, CUdevResource, type);
SAME_PLACE(struct cuda_resource, of.sm_count, CUdevResource, sm.smCount);
#endif

SAME(sizeof(unsigned long long), sizeof(CUdeviceptr));
SAME(sizeof(unsigned long long), sizeof(CUmemGenericAllocationHandle));
SAME(sizeof(int), sizeof(CUdevice));

TEST(declarations__beside_cuda_h__agree)
{
    print_message("compiled beside cuda.h of CUDA %d.%d\n", CUDA_VERSION / 1000,
                  CUDA_VERSION % 1000 / 10);
}

#else

TEST(declarations__beside_cuda_h__agree)
{
    test_skip("no cuda.h was found when this was built: set CUDA_HOME, and configure again");
}

#endif

TEST_MAIN()
