/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The simulated HSA runtime's virtual memory. Physical memory is a handle, here its block; it is
 * mapped from its beginning, no agent has access before it is set, and it is freed with its last
 * handle and mapping. A handle is retained at the start of a mapping only.
 */
#include "simulated/rocr/rocr_fake.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef FAKE_HSA_5_2

/* ---- addresses ----------------------------------------------------------------------- */

hsa_status_t hsa_amd_vmem_address_reserve(void **va, size_t size, uint64_t wanted, uint64_t flags)
{
    bool registered = !(flags & ROCR_VMEM_NO_REGISTER);
    uint64_t at;

    ENTER();
    fake_lock();
    at =
        registered
            ? fake_reserve(0, size, 0)
            : address(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (at)
        note((struct memory){.type = ROCR_POINTER_RESERVED,
                             .base = at,
                             .len = size,
                             .registered = registered,
                             .reserved = registered ? at : 0});
    fake_unlock();
    *va = pointer(at);
    return at ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_OUT_OF_RESOURCES;
}

static bool has_mappings(const struct memory *reserved)
{
    for (const struct memory *m = memories; m; m = m->next)
        if (m->type == ROCR_POINTER_VMEM && contains(reserved->base, reserved->len, m->base))
            return true;
    return false;
}

static hsa_status_t give_back(struct memory *reserved, size_t size)
{
    if (!reserved)
        return HSA_STATUS_ERROR_INVALID_ALLOCATION;
    if (size != reserved->len)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    if (has_mappings(reserved))
        return HSA_STATUS_ERROR_RESOURCE_FREE;
    unlink_memory(reserved);
    if (reserved->registered)
        fake_unreserve(reserved->reserved);
    else
        munmap(pointer(reserved->base), size);
    free(reserved);
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_vmem_address_free(void *va, size_t size)
{
    hsa_status_t status;

    ENTER();
    fake_lock();
    status = give_back(memory_from(address(va), ROCR_POINTER_RESERVED), size);
    fake_unlock();
    return status;
}

/* ---- handles ------------------------------------------------------------------------- */

hsa_status_t hsa_amd_vmem_handle_create(hsa_amd_memory_pool_t id, size_t size,
                                        hsa_amd_memory_type_t type, uint64_t flags,
                                        hsa_amd_vmem_alloc_handle_t *handle)
{
    const struct pool *pool;
    struct fake_block *block;

    ENTER();
    pool = pool_of(id);
    if (!pool || !size || size % fake_page())
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    block = fake_block_new((int)pool->agent->index - 1, size);
    if (!block || (!pool->agent->index && !fake_block_to_host(block)))
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    handle->handle = address(block);
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_vmem_handle_release(hsa_amd_vmem_alloc_handle_t handle)
{
    ENTER();
    fake_block_put(pointer(handle.handle));
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_vmem_retain_alloc_handle(hsa_amd_vmem_alloc_handle_t *handle, void *addr)
{
    struct memory *memory;

    ENTER();
    fake_lock();
    memory = memory_from(address(addr), ROCR_POINTER_VMEM);
    if (memory) {
        struct fake_block *block = fake_find(memory->base)->block;

        fake_block_hold(block);
        handle->handle = address(block);
    }
    fake_unlock();
    return memory ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ALLOCATION;
}

/* The descriptor covers the physical memory completely; the caller closes it. */
hsa_status_t hsa_amd_vmem_export_shareable_handle(int *fd, hsa_amd_vmem_alloc_handle_t handle,
                                                  uint64_t flags)
{
    long bytes = fake_env("HMREG_FAKE_HSA_SHORT", -1);

    ENTER();
    if (flags)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    *fd = bytes < 0 ? fake_block_dup(pointer(handle.handle)) : fake_file((size_t)bytes);
    return *fd < 0 ? HSA_STATUS_ERROR_OUT_OF_RESOURCES : HSA_STATUS_SUCCESS;
}

/* ---- mappings ------------------------------------------------------------------------ */

static bool overlaps(uint64_t addr, size_t len)
{
    for (const struct memory *m = memories; m; m = m->next)
        if (m->type == ROCR_POINTER_VMEM && addr < m->base + m->len && m->base < addr + len)
            return true;
    return false;
}

static bool is_reserved(uint64_t addr, size_t len)
{
    const struct memory *reserved = memory_at(addr);

    return reserved && reserved->type == ROCR_POINTER_RESERVED &&
           addr + len <= reserved->base + reserved->len && !overlaps(addr, len);
}

/* in_offset is ignored: the mapping shows the memory from its beginning. */
hsa_status_t hsa_amd_vmem_map(void *va, size_t size, size_t in_offset,
                              hsa_amd_vmem_alloc_handle_t handle, uint64_t flags)
{
    struct fake_block *block = pointer(handle.handle);
    struct fake_alloc *made = NULL;

    ENTER();
    fake_lock();
    if (size <= block->len && is_reserved(address(va), size))
        made = fake_map(address(va), size, block, 0);
    if (made)
        note((struct memory){.type = ROCR_POINTER_VMEM,
                             .base = address(va),
                             .len = size,
                             .owner = &agents[block->device + 1]});
    fake_unlock();
    return made ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

/* Maps memory of the host at the address for the CPU, or nothing. */
static void let_cpu_in(const struct memory *memory, bool in)
{
    const struct fake_block *block = fake_find(memory->base)->block;
    int how = in ? PROT_READ | PROT_WRITE : PROT_NONE;
    int flags = in ? MAP_SHARED | MAP_FIXED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;

    if (mmap(pointer(memory->base), memory->len, how, flags, in ? block->fd : -1, 0) == MAP_FAILED)
        abort();
}

hsa_status_t hsa_amd_vmem_set_access(void *va, size_t size,
                                     const hsa_amd_memory_access_desc_t *desc, size_t count)
{
    struct memory *memory;

    ENTER();
    fake_lock();
    memory = memory_from(address(va), ROCR_POINTER_VMEM);
    for (size_t i = 0; memory && memory->len == size && i < count; i++) {
        const struct agent *agent = agent_of(desc[i].agent_handle);
        bool may = desc[i].permissions == HSA_ACCESS_PERMISSION_RW;

        memory->access = may ? memory->access | bit(agent) : memory->access & ~bit(agent);
        if (!agent->index && !memory->owner->index)
            let_cpu_in(memory, may);
    }
    fake_unlock();
    return memory && memory->len == size ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ALLOCATION;
}

hsa_status_t hsa_amd_vmem_get_access(void *va, hsa_access_permission_t *perms, hsa_agent_t id)
{
    const struct memory *memory;
    bool mapped, may;

    ENTER();
    fake_lock();
    memory = memory_at(address(va));
    mapped = memory && memory->type == ROCR_POINTER_VMEM;
    may = mapped && agent_of(id) && memory->access & bit(agent_of(id));
    fake_unlock();
    if (!mapped)
        return HSA_STATUS_ERROR_INVALID_ALLOCATION;
    *perms = may ? HSA_ACCESS_PERMISSION_RW : (hsa_access_permission_t)ROCR_ACCESS_NONE;
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_vmem_unmap(void *va, size_t size)
{
    struct memory *memory;

    ENTER();
    fake_lock();
    memory = memory_from(address(va), ROCR_POINTER_VMEM);
    if (memory && memory->len == size) {
        let_cpu_in(memory, false);
        unlink_memory(memory);
        fake_free(address(va));
        free(memory);
    }
    fake_unlock();
    return memory ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ALLOCATION;
}

#endif
