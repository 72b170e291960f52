/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Virtual memory of CUDA: physical memory (a handle) mapped into reserved addresses.
 *
 * The buffer id, which is never reused, identifies memory in one piece. Virtual memory is walked
 * segment by segment: the application may unmap a segment and map another at the same addresses,
 * and CUDA does not document whether that changes the buffer id. So its identity is a hash of the
 * buffer id, the bounds and the physical memory's id of every segment under the range. With a
 * driver that reports no ids of physical memory, virtual memory has no identity: handles cannot
 * serve, since freed ones are reused. A driver may use an id again once the memory has no handle
 * and no mapping, also while it is registered: the id finds changes during a get, not at a hit.
 */
#include "hmem/cuda/cuda.h"

/* Tries the caller's current context first, so that a hit costs one call; then makes the memory's
 * context current, or its device's primary context if that is active. */
unsigned cuda_address_range(struct cuda_hmem *self, uint64_t addr, const struct cuda_lookup *at,
                            struct cuda_segment *out)
{
    unsigned long long base = 0;
    size_t size = 0;
    unsigned result = self->api.address_range(&base, &size, addr);

    if (cuda_may_want_context(result)) {
        struct cuda_guard guard;

        result = cuda_enter(self, at->context, at->device, false, &guard);
        if (result)
            return result;
        result = self->api.address_range(&base, &size, addr);
        cuda_leave(self, &guard);
    }
    out->base = base;
    out->size = size;
    return result;
}

/* Retains the handle of virtual memory, which the caller releases; 0 for any other memory. */
int cuda_virtual_retain(struct cuda_hmem *self, uint64_t addr, unsigned long long *out)
{
    unsigned result;

    *out = 0;
    if (!self->api.handle_retain || !self->api.handle_prop || !self->api.handle_release)
        return 0;
    result = self->api.handle_retain(out, (void *)(uintptr_t)addr);
    if (!result)
        return 0;
    *out = 0;
    if (cuda_says_no_answer(result))
        return 0;
    return cuda_fail_query(self, result, "the allocation mapped at %#" PRIx64 " cannot be retained",
                           addr);
}

static unsigned mapping(struct cuda_hmem *self, uint64_t addr, struct cuda_segment *out)
{
    unsigned long long base = 0;
    size_t size = 0;
    unsigned result = self->api.pointer_attribute(&base, CUDA_PTR_MAPPING_BASE, addr);

    if (!result)
        result = self->api.pointer_attribute(&size, CUDA_PTR_MAPPING_SIZE, addr);
    out->base = base;
    out->size = size;
    return result;
}

/* The CPU can use the address of virtual memory on the host only if it was given access. */
static bool cpu_may(struct cuda_hmem *self, uint64_t addr, const struct cuda_memory_prop *prop)
{
    unsigned long long flags = 0;

    return prop->location.type != CUDA_LOCATION_DEVICE && self->api.access &&
           !self->api.access(&flags, &prop->location, addr) && flags == CUDA_ACCESS_READWRITE;
}

/* Reads the properties that the memory at addr was created with. Imported memory has none. */
static int read_prop(struct cuda_hmem *self, uint64_t addr, struct cuda_segment *out)
{
    unsigned long long handle;
    unsigned result;
    int rc = cuda_virtual_retain(self, addr, &handle);

    if (rc || !handle)
        return rc;
    result = self->api.handle_prop(&out->prop, handle);
    self->api.handle_release(handle);
    if (cuda_says_no_answer(result) || (!result && !out->prop.location.type))
        return hmreg_fail(-EOPNOTSUPP,
                          "the mapping at %#" PRIx64
                          " has no memory properties, like a multicast object: register the memory "
                          "that is bound to it",
                          addr);
    if (result)
        return cuda_fail_query(self, result,
                               "the properties of the memory at %#" PRIx64 " cannot be read", addr);
    out->has_prop = true;
    out->cpu = cpu_may(self, addr, &out->prop);
    return 0;
}

int cuda_virtual_segment(struct cuda_hmem *self, uint64_t addr, const struct cuda_lookup *at,
                         bool prop, struct cuda_segment *out)
{
    unsigned long long block = 0;
    unsigned result = mapping(self, addr, out);

    if (cuda_says_no_answer(result))
        result = cuda_address_range(self, addr, at, out);
    if (result)
        return cuda_fail_query(self, result, "the mapping at %#" PRIx64 " cannot be read", addr);
    result = self->api.pointer_attribute(&block, CUDA_PTR_MEMORY_BLOCK_ID, addr);
    if (result && !cuda_says_no_answer(result))
        return cuda_fail_query(self, result, "the id of the memory at %#" PRIx64 " cannot be read",
                               addr);
    out->block = block;
    return prop ? read_prop(self, addr, out) : 0;
}

int cuda_virtual_follows(struct cuda_hmem *self, uint64_t addr, struct cuda_segment *out)
{
    unsigned long long block = 0;
    size_t size = 0;
    unsigned result = self->api.pointer_attribute(&size, CUDA_PTR_MAPPING_SIZE, addr);

    if (!result)
        result = self->api.pointer_attribute(&block, CUDA_PTR_MEMORY_BLOCK_ID, addr);
    if (result && !cuda_says_no_answer(result))
        return cuda_fail_query(self, result, "the mapping at %#" PRIx64 " cannot be read", addr);
    *out = (struct cuda_segment){.base = addr, .size = result ? 0 : size, .block = block};
    return 0;
}

bool cuda_virtual_same(const struct cuda_segment *a, const struct cuda_segment *b)
{
    const struct cuda_memory_prop *x = &a->prop, *y = &b->prop;

    return a->has_prop == b->has_prop && x->type == y->type && x->handle_types == y->handle_types &&
           x->location.type == y->location.type && x->location.id == y->location.id &&
           x->compression == y->compression && x->gpudirect == y->gpudirect && x->usage == y->usage;
}

/* A bijection that diffuses each input bit (the finalizer of MurmurHash3). */
static uint64_t spread(uint64_t x)
{
    x = (x ^ x >> 33) * 0xff51afd7ed558ccd;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53;
    return x ^ x >> 33;
}

/* Buffer ids count up from 1, so the top bit distinguishes the two kinds of identity. */
uint64_t cuda_virtual_identity(uint64_t identity, const struct cuda_lookup *at,
                               const struct cuda_segment *segment)
{
    const uint64_t parts[] = {at->id, segment->block, segment->base, segment->size};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        identity = spread(identity + parts[i] + 0x9e3779b97f4a7c15);
    return identity | CUDA_IDENTITY_VIRTUAL;
}
