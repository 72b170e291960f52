/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Memory of the simulated Level Zero driver that zeMemFree does not free: of other processes (IPC)
 * and of modules.
 *
 * An import has the whole object at new addresses, the pool's if the memory is a piece of a pool;
 * its pointer lies in there where the exported one did, and closing it by any address frees all.
 *
 * A module is text, one variable a line: its name and its size in bytes. As Intel's compiler does
 * with exported variables, all lie in one allocation, which the driver describes as it does others.
 */
#include "simulated/ze/ze.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- other processes -------------------------------------------------------------------- */

/* The contents of a ze_ipc_mem_handle_t. */
struct ipc {
    pid_t process;
    int fd;
    size_t start, len; /* of the object in the file */
    size_t offset;     /* of the pointer in the object */
};

ze_result_t fake_zeMemGetIpcHandle(ze_context_handle_t context, const void *ptr,
                                   ze_ipc_mem_handle_t *out)
{
    struct memory *memory;
    struct ipc ipc = {0};

    ENTRY("zeMemGetIpcHandle");
    if (!fake_ze_context_is_live(context))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    fake_lock();
    memory = fake_ze_memory_at((uintptr_t)ptr);
    if (memory && memory->type == ZE_MEMORY_TYPE_DEVICE && memory->object->handles == 1) {
        const struct fake_alloc *alloc = fake_find(memory->object->addr);

        ipc = (struct ipc){.process = getpid(),
                           .fd = alloc->block->fd,
                           .start = alloc->block->start,
                           .len = alloc->block->len,
                           .offset = alloc->skip};
        if (memory->object->pool)
            ipc.offset += (uintptr_t)ptr - memory->object->addr;
    }
    fake_unlock();
    if (!ipc.len)
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    memset(out, 0, sizeof(*out));
    memcpy(out, &ipc, sizeof(ipc));
    return ZE_RESULT_SUCCESS;
}

static int file_of(const struct ipc *ipc)
{
    int process = (int)syscall(SYS_pidfd_open, ipc->process, 0);
    int fd = process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, ipc->fd, 0);

    if (process >= 0)
        close(process);
    return fd;
}

static struct fake_block *import_block(int device, const struct ipc *ipc)
{
    struct fake_block *block = fake_block_new(device, ipc->len);
    int fd = file_of(ipc);
    char *bytes =
        fd < 0 ? MAP_FAILED
               : mmap(NULL, ipc->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)ipc->start);

    if (bytes == MAP_FAILED) { /* the exporter has ended; or a container forbids it */
        if (fd >= 0)
            close(fd);
        fake_block_put(block);
        return NULL;
    }
    munmap(block->bytes, block->len);
    close(block->fd);
    block->fd = fd;
    block->bytes = bytes;
    fake_block_moved(block, ipc->start);
    return block;
}

ze_result_t fake_zeMemOpenIpcHandle(ze_context_handle_t context, ze_device_handle_t device,
                                    ze_ipc_mem_handle_t handle, ze_ipc_memory_flags_t flags,
                                    void **out)
{
    struct memory *made = NULL;
    struct fake_block *block;
    struct ipc ipc;

    ENTRY("zeMemOpenIpcHandle");
    if (!fake_ze_context_is_live(context) || !fake_ze_device_is_live(device))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    memcpy(&ipc, &handle, sizeof(ipc));
    fake_lock();
    block = ipc.len ? import_block(device->index, &ipc) : NULL;
    if (block) {
        made = fake_ze_memory_of_block(device, block, context, IMPORTED);
        fake_block_put(block); /* the mapping holds it */
    }
    if (made)
        *out = (void *)(uintptr_t)(made->addr + ipc.offset);
    fake_unlock();
    return made ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_ARGUMENT;
}

ze_result_t fake_zeMemCloseIpcHandle(ze_context_handle_t context, const void *ptr)
{
    struct memory *gone;

    ENTRY("zeMemCloseIpcHandle");
    fake_lock();
    gone = fake_ze_owned_at(ptr, context, IMPORTED);
    if (gone)
        fake_ze_forget(gone);
    fake_unlock();
    return gone ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_ARGUMENT;
}

/* ---- modules ---------------------------------------------------------------------------- */

#define ALIGNMENT 64 /* of a variable */

struct _ze_module_handle_t {
    struct _ze_module_handle_t *next;
    char *text;
    struct memory *memory; /* NULL: no variables */
};

static struct _ze_module_handle_t *modules;

/* The offset of a variable, and its size. Without one of this name, the size of all; 0 as well for
 * text that is not understood. */
static size_t find(const char *text, const char *name, size_t *size)
{
    size_t at = 0;
    char found[64];
    int used = 0;

    for (; sscanf(text, "%63s %zu %n", found, size, &used) == 2 && *size; text += used) {
        if (name && strcmp(found, name) == 0)
            return at;
        at += (*size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    }
    *size = 0;
    return *text ? 0 : at;
}

static struct _ze_module_handle_t **link_of(ze_module_handle_t module)
{
    struct _ze_module_handle_t **link = &modules;

    while (*link && *link != module)
        link = &(*link)->next;
    return link;
}

static struct memory *variables(ze_context_handle_t context, ze_device_handle_t device, size_t len)
{
    struct fake_block *block = fake_block_new(device->index, len);
    struct memory *made = fake_ze_memory_of_block(device, block, context, OF_MODULE);

    fake_block_put(block);
    return made;
}

ze_result_t fake_zeModuleCreate(ze_context_handle_t context, ze_device_handle_t device,
                                const ze_module_desc_t *desc, ze_module_handle_t *out,
                                ze_module_build_log_handle_t *log)
{
    struct _ze_module_handle_t *made;
    size_t len, none;

    ENTRY("zeModuleCreate");
    if (!fake_ze_context_is_live(context) || !fake_ze_device_is_live(device))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (desc->stype != ZE_STRUCTURE_TYPE_MODULE_DESC || desc->pNext || log ||
        desc->format != ZE_MODULE_FORMAT_NATIVE)
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    made = calloc(1, sizeof(*made));
    made->text = strndup((const char *)desc->pInputModule, desc->inputSize);
    len = find(made->text, NULL, &none);
    fake_lock();
    made->memory = len ? variables(context, device, len) : NULL;
    if (made->memory) {
        made->next = modules;
        modules = made;
    }
    fake_unlock();
    if (made->memory) {
        *out = made;
        return ZE_RESULT_SUCCESS;
    }
    free(made->text);
    free(made);
    return len ? ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY : ZE_RESULT_ERROR_MODULE_BUILD_FAILURE;
}

ze_result_t fake_zeModuleGetGlobalPointer(ze_module_handle_t module, const char *name, size_t *size,
                                          void **out)
{
    ze_result_t result = ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    size_t at, len;

    ENTRY("zeModuleGetGlobalPointer");
    fake_lock();
    if (*link_of(module)) {
        at = find(module->text, name, &len);
        result = len ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_GLOBAL_NAME;
        if (len && out)
            *out = (void *)(uintptr_t)(module->memory->addr + at);
        if (len && size)
            *size = len;
    }
    fake_unlock();
    return result;
}

ze_result_t fake_zeModuleDestroy(ze_module_handle_t module)
{
    struct _ze_module_handle_t **link;

    ENTRY("zeModuleDestroy");
    fake_lock();
    link = link_of(module);
    module = *link;
    if (module) {
        *link = module->next;
        fake_ze_forget(module->memory);
        free(module->text);
        free(module);
    }
    fake_unlock();
    return module ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
}
