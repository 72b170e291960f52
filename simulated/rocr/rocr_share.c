/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The simulated HSA runtime's shared memory: locked, imported, exported, mapped.
 */
#include "simulated/rocr/rocr_fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- imported and locked memory ------------------------------------------------------ */

/* GPUs access locked memory at different addresses. */
hsa_status_t hsa_amd_memory_lock(void *host_ptr, size_t size, hsa_agent_t *list, int count,
                                 void **agent_ptr)
{
    uint64_t in_page = address(host_ptr) % fake_page();
    uint64_t alias;

    ENTER();
    if (!host_ptr || !size || !agent_ptr)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    fake_lock();
    alias = fake_reserve(0, size + in_page, 0);
    if (alias)
        note((struct memory){.type = ROCR_POINTER_LOCKED,
                             .base = alias + in_page,
                             .host = address(host_ptr),
                             .len = size,
                             .owner = &agents[0],
                             .access = count ? access_bits((uint32_t)count, list) : ~0u,
                             .reserved = alias});
    fake_unlock();
    if (!alias)
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    *agent_ptr = pointer(alias + in_page);
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_memory_unlock(void *host_ptr)
{
    struct memory *memory;

    ENTER();
    fake_lock();
    for (memory = memories; memory; memory = memory->next)
        if (memory->host == address(host_ptr))
            break;
    if (memory) {
        unlink_memory(memory);
        fake_unreserve(memory->reserved);
    }
    fake_unlock();
    free(memory);
    return memory ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

/* The same bytes at another address. */
static struct memory *import(struct fake_block *block, size_t skip, size_t len, unsigned type,
                             const struct agent *owner)
{
    uint64_t at = fake_reserve(block->device, len, 0);
    struct fake_alloc *map = at ? fake_map(at, len, block, skip) : NULL;

    if (!map)
        return NULL;
    return note((struct memory){.type = type,
                                .base = at,
                                .len = len,
                                .owner = owner,
                                .access = bit(owner),
                                .reserved = at});
}

static hsa_status_t give_back_import(uint64_t base, unsigned type)
{
    struct memory *memory;

    fake_lock();
    memory = memory_from(base, type);
    if (memory) {
        unlink_memory(memory);
        fake_free(base);
        fake_unreserve(memory->reserved);
    }
    fake_unlock();
    free(memory);
    return memory ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_amd_ipc_memory_create(void *ptr, size_t len, hsa_amd_ipc_memory_t *handle)
{
    struct memory *memory;
    uint64_t base = address(ptr);

    ENTER();
    fake_lock();
    memory = memory_from(base, ROCR_POINTER_HSA);
    fake_unlock();
    if (!memory || memory->len != len || !handle)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    memset(handle, 0, sizeof(*handle));
    memcpy(handle, &base, sizeof(base));
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_ipc_memory_attach(const hsa_amd_ipc_memory_t *handle, size_t len,
                                       uint32_t count, const hsa_agent_t *list, void **mapped)
{
    struct memory *memory = NULL, *made = NULL;
    uint64_t base;

    ENTER();
    memcpy(&base, handle, sizeof(base));
    fake_lock();
    memory = memory_from(base, ROCR_POINTER_HSA);
    if (memory && memory->len == len) {
        struct fake_alloc *alloc = fake_find(base);

        made = import(alloc->block, alloc->skip, len, ROCR_POINTER_IPC, memory->owner);
    }
    if (made)
        *mapped = pointer(made->base);
    fake_unlock();
    return made ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_amd_ipc_memory_detach(void *mapped)
{
    ENTER();
    return give_back_import(address(mapped), ROCR_POINTER_IPC);
}

/* The allocation that a descriptor names. */
static struct fake_alloc *alloc_of(int fd)
{
    struct stat wanted, have;

    if (fstat(fd, &wanted))
        return NULL;
    for (struct memory *m = memories; m; m = m->next) {
        struct fake_alloc *alloc = fake_find(m->base);

        if (alloc && alloc->block->fd >= 0 && !fstat(alloc->block->fd, &have) &&
            have.st_dev == wanted.st_dev && have.st_ino == wanted.st_ino)
            return alloc;
    }
    return NULL;
}

hsa_status_t hsa_amd_interop_map_buffer(uint32_t count, hsa_agent_t *list, int fd, uint32_t flags,
                                        size_t *size, void **ptr, size_t *metadata_size,
                                        const void **metadata)
{
    struct memory *made = NULL;
    struct fake_alloc *alloc;

    ENTER();
    if (!count || !list || !agent_of(list[0]))
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    fake_lock();
    alloc = alloc_of(fd);
    if (alloc)
        made = import(alloc->block, 0, alloc->block->len, ROCR_POINTER_GRAPHICS, agent_of(list[0]));
    if (made) {
        *ptr = pointer(made->base);
        *size = made->len;
    }
    fake_unlock();
    return made ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_amd_interop_unmap_buffer(void *ptr)
{
    ENTER();
    return give_back_import(address(ptr), ROCR_POINTER_GRAPHICS);
}

#ifndef FAKE_HSA_5_2

/* ---- dmabufs ------------------------------------------------------------------------- */

static int make_descriptor(const struct fake_block *block)
{
    long bytes = fake_env("HMREG_FAKE_HSA_SHORT", -1);

    return bytes < 0 ? fake_block_dup(block) : fake_file((size_t)bytes);
}

static hsa_status_t export(uint64_t addr, size_t size, int *fd, uint64_t *offset)
{
    struct memory *memory = memory_at(addr);
    struct fake_alloc *alloc = fake_find(addr);
    int made;

    if (memory && memory->type == ROCR_POINTER_IPC) {
        fprintf(stderr, "simulated runtime: exporting imported memory is a crash in a real one\n");
        abort();
    }
    if (!memory || memory->type != ROCR_POINTER_HSA || size > memory->base + memory->len - addr)
        return HSA_STATUS_ERROR_INVALID_ALLOCATION;
    if (!memory->owner->index)
        return HSA_STATUS_ERROR_INVALID_AGENT;
    made = make_descriptor(alloc->block);
    if (made < 0)
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    *fd = made;
    *offset = alloc->skip + (addr - alloc->addr);
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_portable_export_dmabuf(const void *ptr, size_t size, int *fd, uint64_t *offset)
{
    hsa_status_t status;

    ENTER();
    if (!ptr || !fd || !offset)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    fake_lock();
    status = export(address(ptr), size, fd, offset);
    fake_unlock();
    return status;
}

hsa_status_t hsa_amd_portable_export_dmabuf_v2(const void *ptr, size_t size, int *fd,
                                               uint64_t *offset, uint64_t flags)
{
    ENTER();
    if (flags & ~1ull)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    return hsa_amd_portable_export_dmabuf(ptr, size, fd, offset);
}

/* Like close(2), it releases the descriptor even if it reports an error. */
hsa_status_t hsa_amd_portable_close_dmabuf(int fd)
{
    long code = 0;
    bool fails = fake_fails(__func__, &code);

    if (!is_open())
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    if (close(fd))
        return HSA_STATUS_ERROR_RESOURCE_FREE;
    return fails ? (hsa_status_t)code : HSA_STATUS_SUCCESS;
}

#endif
