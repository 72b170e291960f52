/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the HSA headers of Debian 12 (5.2.3) lack and newer runtimes have: declared for the fake
 * runtime and for the tests that play the application. The library has declarations of its own,
 * so that a mistake in either shows.
 */
#ifndef TESTS_ROCR_NEWER_H
#define TESTS_ROCR_NEWER_H

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#if HSA_AMD_INTERFACE_VERSION_MAJOR == 1 && HSA_AMD_INTERFACE_VERSION_MINOR < 4

#define HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED          0x204
#define HSA_AMD_SYSTEM_INFO_VIRTUAL_MEM_API_SUPPORTED 0x205
#define HSA_AMD_SYSTEM_INFO_EXT_VERSION_MAJOR         0x207
#define HSA_AMD_SYSTEM_INFO_EXT_VERSION_MINOR         0x208
#define HSA_EXT_POINTER_TYPE_RESERVED_ADDR            5
#define HSA_EXT_POINTER_TYPE_HSA_VMEM                 6
#define HSA_AMD_VMEM_ADDRESS_NO_REGISTER              1

typedef struct hsa_amd_vmem_alloc_handle_s {
    uint64_t handle;
} hsa_amd_vmem_alloc_handle_t;

typedef enum { MEMORY_TYPE_NONE, MEMORY_TYPE_PINNED } hsa_amd_memory_type_t;

hsa_status_t hsa_amd_portable_export_dmabuf(const void *ptr, size_t size, int *dmabuf,
                                            uint64_t *offset);
hsa_status_t hsa_amd_portable_export_dmabuf_v2(const void *ptr, size_t size, int *dmabuf,
                                               uint64_t *offset, uint64_t flags);
hsa_status_t hsa_amd_portable_close_dmabuf(int dmabuf);
hsa_status_t hsa_amd_vmem_address_reserve(void **va, size_t size, uint64_t address, uint64_t flags);
hsa_status_t hsa_amd_vmem_address_free(void *va, size_t size);
hsa_status_t hsa_amd_vmem_handle_create(hsa_amd_memory_pool_t pool, size_t size,
                                        hsa_amd_memory_type_t type, uint64_t flags,
                                        hsa_amd_vmem_alloc_handle_t *handle);
hsa_status_t hsa_amd_vmem_handle_release(hsa_amd_vmem_alloc_handle_t handle);
hsa_status_t hsa_amd_vmem_map(void *va, size_t size, size_t in_offset,
                              hsa_amd_vmem_alloc_handle_t handle, uint64_t flags);
hsa_status_t hsa_amd_vmem_unmap(void *va, size_t size);
hsa_status_t hsa_amd_vmem_retain_alloc_handle(hsa_amd_vmem_alloc_handle_t *handle, void *addr);
hsa_status_t hsa_amd_vmem_export_shareable_handle(int *fd, hsa_amd_vmem_alloc_handle_t handle,
                                                  uint64_t flags);

#define HSA_ACCESS_PERMISSION_NONE 0

typedef struct hsa_amd_memory_access_desc_s {
    hsa_access_permission_t permissions;
    hsa_agent_t agent_handle;
} hsa_amd_memory_access_desc_t;

hsa_status_t hsa_amd_vmem_set_access(void *va, size_t size,
                                     const hsa_amd_memory_access_desc_t *desc, size_t count);
hsa_status_t hsa_amd_vmem_get_access(void *va, hsa_access_permission_t *perms, hsa_agent_t agent);

#endif
#endif
