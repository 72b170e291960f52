/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Declarations that some HSA headers since 5.2 (Debian 12) lack, for the library, the simulated
 * runtime and tests that act as the application. Constants always have names of our own, since
 * #ifdef cannot detect an enumerator; the test rocr_abi compares them with the installed header.
 * Types are declared only where the header is too old; prototypes always, so that the compiler
 * checks them against the header's. The vendor looks these functions up when it loads the runtime.
 */
#ifndef HMREG_HMEM_ROCR_ROCR_ABI_H
#define HMREG_HMEM_ROCR_ROCR_ABI_H

/* HSA's headers detect this on x86 only. */
#if !defined(LITTLEENDIAN_CPU) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define LITTLEENDIAN_CPU
#endif

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <stddef.h>
#include <stdint.h>

#define ROCR_INFO_DMABUF_SUPPORTED  0x204 /* hsa_system_info_t: bool */
#define ROCR_INFO_VMEM_SUPPORTED    0x205 /* bool */
#define ROCR_INFO_EXT_VERSION_MAJOR 0x207
#define ROCR_INFO_EXT_VERSION_MINOR 0x208
#define ROCR_VMEM_NO_REGISTER       1 /* a flag of hsa_amd_vmem_address_reserve() */
#define ROCR_ACCESS_NONE            0 /* hsa_access_permission_t */

/* hsa_amd_pointer_type_t */
enum rocr_pointer_type {
    ROCR_POINTER_UNKNOWN = 0,
    ROCR_POINTER_HSA = 1,
    ROCR_POINTER_LOCKED = 2,
    ROCR_POINTER_GRAPHICS = 3,
    ROCR_POINTER_IPC = 4,
    ROCR_POINTER_RESERVED = 5, /* reserved by the virtual memory API, nothing mapped */
    ROCR_POINTER_VMEM = 6,     /* mapped by the virtual memory API */
};

/* hsa_amd_pointer_info_t. `registered` lies in the padding of the older one. */
struct rocr_pointer_info {
    uint32_t size;
    uint32_t type;
    void *agent_base;
    void *host_base;
    size_t len;
    void *user_data;
    hsa_agent_t owner;
    uint32_t global_flags;
    uint8_t registered; /* RESERVED: 0 for plain host memory set aside for managed memory */
};
_Static_assert(sizeof(struct rocr_pointer_info) <= sizeof(hsa_amd_pointer_info_t) &&
                   offsetof(struct rocr_pointer_info, global_flags) ==
                       offsetof(hsa_amd_pointer_info_t, global_flags),
               "a beginning of the vendor's struct");

#if HSA_AMD_INTERFACE_VERSION_MAJOR == 1 && HSA_AMD_INTERFACE_VERSION_MINOR < 4

/* Physical memory of the virtual memory API. */
typedef struct hsa_amd_vmem_alloc_handle_s {
    uint64_t handle;
} hsa_amd_vmem_alloc_handle_t;

typedef enum { MEMORY_TYPE_NONE, MEMORY_TYPE_PINNED } hsa_amd_memory_type_t;

typedef struct hsa_amd_memory_access_desc_s {
    hsa_access_permission_t permissions;
    hsa_agent_t agent_handle;
} hsa_amd_memory_access_desc_t;

#endif

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
hsa_status_t hsa_amd_vmem_set_access(void *va, size_t size,
                                     const hsa_amd_memory_access_desc_t *desc, size_t count);
hsa_status_t hsa_amd_vmem_get_access(void *va, hsa_access_permission_t *perms, hsa_agent_t agent);

#endif
