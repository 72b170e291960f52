/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The fake libcuda.so.1: multicast objects. One is a handle as of physical memory, and is mapped,
 * unmapped and released as such. It has no bytes: memory of each device of its team is bound to it,
 * and may be exchanged while it is mapped. Only kernels reach that by its addresses, so that copies
 * are refused, and no descriptor names it. Where the driver would block until all devices have been
 * added, calls are refused.
 */
#include "simulated/cuda/cuda_fake.h"

#include <stdlib.h>

#if FAKE_CUDA_VERSION >= 12010

struct bound {
    struct bound *next;
    struct physical *memory;
    size_t offset, size; /* in the object */
};

struct multicast {
    unsigned devices; /* of the team */
    unsigned added;   /* a mask */
    size_t size;
    struct bound *bound;
};

bool fake_cuda_multicast_is_full(const struct multicast *multicast)
{
    return (unsigned)__builtin_popcount(multicast->added) == multicast->devices;
}

int fake_cuda_multicast_device(const struct multicast *multicast)
{
    return __builtin_ctz(multicast->added);
}

static struct multicast *multicast_of(unsigned long long handle)
{
    struct physical *object = fake_cuda_physical(handle);

    return object ? object->multicast : NULL;
}

static void unbind(struct bound **link)
{
    struct bound *gone = *link;

    *link = gone->next;
    gone->memory->mappings--;
    fake_cuda_physical_settle(gone->memory);
    free(gone);
}

void fake_cuda_multicast_end(struct multicast *multicast)
{
    while (multicast && multicast->bound)
        unbind(&multicast->bound);
    free(multicast);
}

unsigned cuMulticastCreate(unsigned long long *handle, const struct cuda_multicast_prop *prop)
{
    struct physical *made;

    ENTER();
    if (!handle || !prop || !prop->devices || !fake_cuda_device((int)prop->devices - 1) ||
        !prop->size || prop->size % fake_cuda_granule() || prop->handle_types || prop->flags)
        return CUDA_INVALID_VALUE;
    made = fake_cuda_physical_new(0, prop->size);
    if (!made)
        return CUDA_OUT_OF_MEMORY;
    made->multicast = calloc(1, sizeof(*made->multicast));
    if (!made->multicast)
        abort();
    *made->multicast = (struct multicast){.devices = prop->devices, .size = prop->size};
    *handle = (uintptr_t)made;
    return CUDA_OK;
}

unsigned cuMulticastAddDevice(unsigned long long handle, int device)
{
    struct multicast *multicast;

    ENTER();
    multicast = multicast_of(handle);
    if (!fake_cuda_device(device))
        return CUDA_INVALID_DEVICE;
    if (!multicast || fake_cuda_multicast_is_full(multicast) || multicast->added >> device & 1)
        return CUDA_INVALID_VALUE;
    multicast->added |= 1u << device;
    return CUDA_OK;
}

static bool is_free(const struct multicast *multicast, int device, size_t offset, size_t size)
{
    for (const struct bound *bound = multicast->bound; bound; bound = bound->next)
        if (bound->memory->prop.location.id == device && offset < bound->offset + bound->size &&
            bound->offset < offset + size)
            return false;
    return true;
}

unsigned cuMulticastBindMem(unsigned long long handle, size_t offset, unsigned long long memory,
                            size_t memory_offset, size_t size, unsigned long long flags)
{
    struct multicast *multicast;
    struct physical *physical;
    struct bound *made;

    ENTER();
    multicast = multicast_of(handle);
    physical = fake_cuda_physical(memory);
    if (!multicast || !fake_cuda_multicast_is_full(multicast) || !physical || physical->multicast ||
        flags || !size || (offset | memory_offset | size) % fake_cuda_granule() ||
        size > multicast->size || offset > multicast->size - size || size > physical->block->len ||
        memory_offset > physical->block->len - size ||
        physical->prop.location.type != CUDA_LOCATION_DEVICE ||
        !(multicast->added >> physical->prop.location.id & 1) ||
        !is_free(multicast, physical->prop.location.id, offset, size))
        return CUDA_INVALID_VALUE;
    made = malloc(sizeof(*made));
    if (!made)
        abort();
    *made = (struct bound){multicast->bound, physical, offset, size};
    multicast->bound = made;
    physical->mappings++; /* it holds the memory */
    return CUDA_OK;
}

unsigned cuMulticastUnbind(unsigned long long handle, int device, size_t offset, size_t size)
{
    struct multicast *multicast;
    struct bound **link;

    ENTER();
    multicast = multicast_of(handle);
    if (!multicast)
        return CUDA_INVALID_VALUE;
    link = &multicast->bound;
    while (*link && ((*link)->memory->prop.location.id != device || (*link)->offset != offset ||
                     (*link)->size != size))
        link = &(*link)->next;
    if (!*link)
        return CUDA_INVALID_VALUE;
    unbind(link);
    return CUDA_OK;
}

#else

bool fake_cuda_multicast_is_full(const struct multicast *multicast)
{
    return false;
}

int fake_cuda_multicast_device(const struct multicast *multicast)
{
    return 0;
}

void fake_cuda_multicast_end(struct multicast *multicast)
{
}

#endif
