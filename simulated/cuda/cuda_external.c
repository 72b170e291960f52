/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The fake libcuda.so.1: memory of another API, imported by a descriptor that no kernel call
 * explains (type OPAQUE_FD). Each mapped buffer has an address of its own, also of the same bytes,
 * and lives until cuMemFree, whether or not the object does. No such API is here, so tests make the
 * descriptor by hmreg_fake_cuda_external().
 */
#include "simulated/cuda/cuda_fake.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct cuda_external {
    struct cuda_external *next;
    int fd;
    size_t size;
};

static struct cuda_external *externals;

int hmreg_fake_cuda_external(size_t len)
{
    return fake_file(len);
}

static bool is_external(const struct cuda_external *external)
{
    const struct cuda_external *known = externals;

    while (known && known != external)
        known = known->next;
    return known;
}

static bool has_size(int fd, size_t size)
{
    struct stat found;

    return !fstat(fd, &found) && (fake_is_dmabuf() || (size_t)found.st_size >= size);
}

/* The descriptor is the driver's from now on. */
unsigned cuImportExternalMemory(struct cuda_external **external,
                                const struct cuda_external_handle *handle)
{
    struct cuda_context *context = NULL;
    struct cuda_external *made;
    unsigned result;

    ENTER();
    result = fake_cuda_context(&context);
    if (result)
        return result;
    if (!external || !handle || handle->type != CUDA_EXTERNAL_OPAQUE_FD || !handle->size ||
        handle->flags > 1) /* 1: it is of one resource alone */
        return CUDA_INVALID_VALUE;
    if (!has_size(handle->handle.fd, handle->size))
        return CUDA_INVALID_HANDLE;
    made = malloc(sizeof(*made));
    if (!made)
        abort();
    *made = (struct cuda_external){externals, handle->handle.fd, handle->size};
    externals = made;
    *external = made;
    return CUDA_OK;
}

unsigned cuExternalMemoryGetMappedBuffer(unsigned long long *addr, struct cuda_external *external,
                                         const struct cuda_external_buffer *buffer)
{
    struct cuda_context *context = NULL;
    struct fake_block *block;
    unsigned result;
    uint64_t at;
    int fd;

    ENTER();
    result = fake_cuda_context(&context);
    if (result)
        return result;
    if (!is_external(external))
        return CUDA_INVALID_HANDLE;
    if (!addr || !buffer || !buffer->size || buffer->flags || buffer->offset % fake_page() ||
        buffer->offset > external->size || buffer->size > external->size - buffer->offset)
        return CUDA_INVALID_VALUE;
    fd = fcntl(external->fd, F_DUPFD_CLOEXEC, 0);
    block = fd < 0 ? NULL : fake_cuda_block_of(context->device, fd, buffer->offset, buffer->size);
    at = block ? fake_cuda_map_block(block, 0, buffer->size) : 0;
    if (!at)
        return CUDA_OUT_OF_MEMORY;
    fake_cuda_enter_memory(MEMORY_EXTERNAL, at, 0, buffer->size, context);
    *addr = at;
    return CUDA_OK;
}

/* The buffers must not be used from now on, but freed: their addresses stay theirs until then. */
unsigned cuDestroyExternalMemory(struct cuda_external *external)
{
    struct cuda_external **link = &externals;

    ENTER();
    if (!is_external(external))
        return CUDA_INVALID_HANDLE;
    while (*link != external)
        link = &(*link)->next;
    *link = external->next;
    close(external->fd);
    free(external);
    return CUDA_OK;
}
