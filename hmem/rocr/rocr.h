/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Internal header of the ROCm vendor: the runtime's entry points, and the functions that its files
 * call in each other, lowest layer first; rocr.c is the top layer.
 *
 * rocr_abi.h declares what the oldest headers lack. The vendor looks these entry points up when it
 * loads the library; hmem_runtime's `lacks` reports the missing ones.
 */
#ifndef HMREG_HMEM_ROCR_ROCR_H
#define HMREG_HMEM_ROCR_ROCR_H

#include "hmem/hmem.h"
#include "hmem/rocr/rocr_abi.h"

struct rocr_api {
    __typeof__(hsa_init) *init;
    __typeof__(hsa_shut_down) *shut_down;
    __typeof__(hsa_status_string) *status_string;
    __typeof__(hsa_system_get_info) *system_get_info;
    __typeof__(hsa_iterate_agents) *iterate_agents;
    __typeof__(hsa_agent_get_info) *agent_get_info;
    __typeof__(hsa_memory_copy) *memory_copy;
    __typeof__(hsa_amd_agent_iterate_memory_pools) *iterate_pools;
    __typeof__(hsa_amd_memory_pool_get_info) *pool_get_info;
    __typeof__(hsa_amd_agent_memory_pool_get_info) *agent_pool_get_info;
    __typeof__(hsa_amd_memory_pool_allocate) *pool_allocate;
    __typeof__(hsa_amd_memory_pool_free) *pool_free;
    __typeof__(hsa_amd_agents_allow_access) *allow_access;
    __typeof__(hsa_amd_register_deallocation_callback) *register_callback;
    __typeof__(hsa_amd_deregister_deallocation_callback) *deregister_callback;
    hsa_status_t (*pointer_info)(const void *ptr, struct rocr_pointer_info *info,
                                 void *(*alloc)(size_t), uint32_t *count, hsa_agent_t **agents);
    __typeof__(hsa_amd_portable_export_dmabuf) *export_dmabuf;
    __typeof__(hsa_amd_portable_close_dmabuf) *close_dmabuf;
    __typeof__(hsa_amd_vmem_retain_alloc_handle) *vmem_retain;
    __typeof__(hsa_amd_vmem_handle_release) *vmem_release;
    __typeof__(hsa_amd_vmem_export_shareable_handle) *vmem_export;
    __typeof__(hsa_amd_vmem_get_access) *vmem_access;
};

struct rocr_pool {
    hsa_amd_memory_pool_t id;
    bool valid;
    size_t size;
};

struct rocr_agent {
    hsa_agent_t id;
    hsa_device_type_t type;
    int device;            /* our index of a GPU, else -1 */
    struct rocr_pool pool; /* a GPU's coarse-grained, a CPU's fine-grained */
    bool cpu_access;       /* a GPU whose memory the CPU can touch (large BAR) */
    struct hmem_device info;
};

struct hmem {
    struct rocr_api api;
    void *handle;
    struct hmem_runtime runtime;
    struct rocr_agent *agents;
    size_t agent_count;
    int devices;
    bool dmabuf;
    _Atomic bool shut_down; /* the runtime has shut down and must not be called again */
};

static inline uint64_t rocr_address(const void *ptr)
{
    return (uint64_t)(uintptr_t)ptr;
}

/* ---- failures (rocr_error.c) ---------------------------------------------------------- */

/* Records a failure of the runtime and returns code; -ENODEV if status says that it shut down. */
int rocr_fail(struct hmem *self, int code, hsa_status_t status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Records and returns the error for a call not made because the runtime has shut down. */
int rocr_fail_shut_down(void);

/* ---- agents (rocr_devices.c) ----------------------------------------------------------- */

/* Lists the agents with their pools, describes the GPUs. -ENODEV: no GPU. -EIO. */
int rocr_list_devices(struct hmem *self);
/* NULL: no such agent. */
const struct rocr_agent *rocr_agent(const struct hmem *self, hsa_agent_t id);
const struct rocr_agent *rocr_gpu(const struct hmem *self, int device);
/* The next agent of a type after `after` (NULL: the first); NULL: no more. */
const struct rocr_agent *rocr_next_agent(const struct hmem *self, hsa_device_type_t type,
                                         const struct rocr_agent *after);

/* ---- memory of HSA's virtual memory API (rocr_virtual.c) ------------------------------------ */

/* Retains the physical memory of the mapping that begins at start; the caller releases it with
 * api.vmem_release. */
bool rocr_virtual_retain(struct hmem *self, uint64_t start, hsa_amd_vmem_alloc_handle_t *out);
/* Writes the bounds of the mapping at addr, which the runtime does not report, into its answer
 * *info. -EOPNOTSUPP: the bounds cannot be found. -EIO. */
int rocr_virtual_bounds(struct hmem *self, uint64_t addr, struct rocr_pointer_info *info);
/* Is memory mapped at an address that an older runtime reports as only reserved? */
bool rocr_virtual_is_mapped(struct hmem *self, uint64_t addr);
/* Describes the mapping that begins exactly at start. False: none does. */
bool rocr_virtual_begins(struct hmem *self, uint64_t start, struct rocr_pointer_info *info);
/* Does the CPU have access to the mapping at addr? */
bool rocr_virtual_cpu_may(struct hmem *self, uint64_t addr, const struct rocr_agent *cpu);

/* ---- one address (rocr_lookup.c) -------------------------------------------------------- */

/* The runtime's description of the memory at addr. Same errors as resolve. */
int rocr_lookup(struct hmem *self, uint64_t addr, struct rocr_pointer_info *info);
/* The start of addr's allocation, as a host or a device address, whichever addr is. */
uint64_t rocr_base_of(const struct rocr_pointer_info *info, uint64_t addr);
/* The CPU address of addr; 0: no CPU access. */
uint64_t rocr_cpu_address(struct hmem *self, const struct rocr_pointer_info *info,
                          const struct rocr_agent *owner, uint64_t addr);
/* The CPU address of an address in locked memory. */
uint64_t rocr_host_address(const struct rocr_pointer_info *locked, uint64_t addr);
/* The agent, CPU or GPU, that owns the memory. -EIO, -HMEM_NOT_MINE. */
int rocr_owner(struct hmem *self, uint64_t addr, const struct rocr_pointer_info *info,
               const struct rocr_agent **out);
/* The agents that can access addr; the caller frees *agents. -EIO, -HMEM_NOT_MINE. */
int rocr_ask_agents(struct hmem *self, uint64_t addr, hsa_agent_t **agents, uint32_t *count);

/* ---- operations of hmem.h (rocr_export.c, rocr_resolve.c, rocr_memory.c) ------------------ */

int rocr_export(struct hmem *self, uint64_t addr, size_t len, const struct hmem_range *range,
                struct hmreg_dmabuf *out);

int rocr_resolve(struct hmem *self, uint64_t addr, size_t len, struct hmem_range *out);
int rocr_identity(struct hmem *self, uint64_t addr, size_t len, uint64_t *out);
/* Deregisters all deallocation callbacks. Called when the last user in this process closes. */
void rocr_forget(struct hmem *self);

int rocr_copy(struct hmem *self, uint64_t dst, uint64_t src, size_t len);
int rocr_alloc(struct hmem *self, int device, enum hmreg_mem_kind kind, size_t len, void **out);
int rocr_free(struct hmem *self, void *addr, enum hmreg_mem_kind kind);

#endif
