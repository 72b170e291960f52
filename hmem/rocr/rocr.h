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

#include "hmem/rocr/rocr_abi.h"
#include "hmem/vendor.h"

#define ROCR_ENTRIES(NEED, WANT)                                                                   \
    NEED(init, hsa_init)                                                                           \
    NEED(shut_down, hsa_shut_down)                                                                 \
    NEED(status_string, hsa_status_string)                                                         \
    NEED(system_get_info, hsa_system_get_info)                                                     \
    NEED(iterate_agents, hsa_iterate_agents)                                                       \
    NEED(agent_get_info, hsa_agent_get_info)                                                       \
    NEED(memory_copy, hsa_memory_copy)                                                             \
    NEED(iterate_pools, hsa_amd_agent_iterate_memory_pools)                                        \
    NEED(pool_get_info, hsa_amd_memory_pool_get_info)                                              \
    NEED(agent_pool_get_info, hsa_amd_agent_memory_pool_get_info)                                  \
    NEED(pool_allocate, hsa_amd_memory_pool_allocate)                                              \
    NEED(pool_free, hsa_amd_memory_pool_free)                                                      \
    NEED(allow_access, hsa_amd_agents_allow_access)                                                \
    NEED(register_callback, hsa_amd_register_deallocation_callback)                                \
    NEED(deregister_callback, hsa_amd_deregister_deallocation_callback)                            \
    NEED(pointer_info, hsa_amd_pointer_info)                                                       \
    WANT(export_dmabuf, hsa_amd_portable_export_dmabuf)                                            \
    WANT(export_dmabuf_v2, hsa_amd_portable_export_dmabuf_v2)                                      \
    WANT(close_dmabuf, hsa_amd_portable_close_dmabuf)                                              \
    WANT(vmem_retain, hsa_amd_vmem_retain_alloc_handle)                                            \
    WANT(vmem_release, hsa_amd_vmem_handle_release)                                                \
    WANT(vmem_export, hsa_amd_vmem_export_shareable_handle)                                        \
    WANT(vmem_access, hsa_amd_vmem_get_access)

struct rocr_api {
    ROCR_ENTRIES(LOADER_MEMBER, LOADER_MEMBER)
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

struct rocr_hmem {
    struct hmem base;
    struct rocr_api api;
    struct rocr_agent *agents;
    size_t agent_count;
    bool dmabuf;
    bool started;
    bool starts_once; /* the runtime: in a process */
};

static inline uint64_t rocr_address(const void *ptr)
{
    return (uint64_t)(uintptr_t)ptr;
}

/* ---- failures (rocr_error.c) ---------------------------------------------------------- */

#define rocr_fail(self, ...) vendor_fail(&(self)->base, __VA_ARGS__)

const char *rocr_result_name(struct hmem *self, int64_t status); /* NULL: unknown */

/* ---- agents (rocr_devices.c) ----------------------------------------------------------- */

/* Lists the agents with their pools, describes the GPUs. -ENODEV: no GPU. -EIO. */
int rocr_list_devices(struct rocr_hmem *self);
/* NULL: no such agent. */
const struct rocr_agent *rocr_agent(const struct rocr_hmem *self, hsa_agent_t id);
const struct rocr_agent *rocr_gpu(const struct rocr_hmem *self, int device);
/* The next agent of a type after `after` (NULL: the first); NULL: no more. */
const struct rocr_agent *rocr_next_agent(const struct rocr_hmem *self, hsa_device_type_t type,
                                         const struct rocr_agent *after);

/* ---- memory of HSA's virtual memory API (rocr_virtual.c) ------------------------------------ */

/* Asks the runtime what is at an address of any kind. */
hsa_status_t rocr_pointer_info(struct rocr_hmem *self, uint64_t addr,
                               struct rocr_pointer_info *info);
/* Retains the physical memory of the mapping that begins at start; the caller releases it with
 * api.vmem_release. */
bool rocr_virtual_retain(struct rocr_hmem *self, uint64_t start, hsa_amd_vmem_alloc_handle_t *out);
/* Writes the bounds of the mapping at addr, which the runtime does not report, into its answer
 * *info. -EOPNOTSUPP: the bounds cannot be found. -EIO. */
int rocr_virtual_bounds(struct rocr_hmem *self, uint64_t addr, struct rocr_pointer_info *info);
/* Is memory mapped at an address that an older runtime reports as only reserved? */
bool rocr_virtual_is_mapped(struct rocr_hmem *self, uint64_t addr);
/* Describes the mapping that begins exactly at start. False: none does. */
bool rocr_virtual_begins(struct rocr_hmem *self, uint64_t start, struct rocr_pointer_info *info);
/* Does the CPU have access to the mapping at addr? */
bool rocr_virtual_cpu_may(struct rocr_hmem *self, uint64_t addr, const struct rocr_agent *cpu);

/* ---- one address (rocr_lookup.c) -------------------------------------------------------- */

/* The runtime's description of the memory at addr. Same errors as resolve. */
int rocr_lookup(struct rocr_hmem *self, uint64_t addr, struct rocr_pointer_info *info);
/* The start of addr's allocation, as a host or a device address, whichever addr is. */
uint64_t rocr_base_of(const struct rocr_pointer_info *info, uint64_t addr);
/* The CPU address of addr; 0: no CPU access. */
uint64_t rocr_cpu_address(struct rocr_hmem *self, const struct rocr_pointer_info *info,
                          const struct rocr_agent *owner, uint64_t addr);
/* The CPU address of an address in locked memory. */
uint64_t rocr_host_address(const struct rocr_pointer_info *locked, uint64_t addr);
/* The agent, CPU or GPU, that owns the memory. -EIO, -HMEM_NOT_MINE. */
int rocr_owner(struct rocr_hmem *self, uint64_t addr, const struct rocr_pointer_info *info,
               const struct rocr_agent **out);
/* The agents that can access addr; the caller frees *agents. -EIO, -HMEM_NOT_MINE. */
int rocr_ask_agents(struct rocr_hmem *self, uint64_t addr, hsa_agent_t **agents, uint32_t *count);

/* ---- operations of hmem.h (rocr_resolve.c, rocr_export.c, rocr_memory.c) ------------------ */

VENDOR_OPERATIONS(rocr);
bool rocr_watch(struct hmem *self, uint64_t addr, size_t len, const struct hmem_range *range,
                const char **why);
/* Deregisters all deallocation callbacks. Called when the last user in this process closes. */
void rocr_forget(struct rocr_hmem *self);

#endif
