/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The fake libcuda.so.1: pointer queries. The single query refuses unknown addresses. Of those
 * the batch query says, as driver 580 does: type 0, the address as host pointer, device -2, the
 * reservation's range (without one the value stays as it was), otherwise 0. Some attributes are
 * refused in a batch, one needs a context; RANGE_* describe the reservation of virtual memory,
 * MAPPING_* the mapped piece; of a pool's memory they may describe the pool. cuMemGetAddressRange
 * needs a current context of the memory's device. Some drivers answer no attribute on a thread
 * without a context.
 */
#include "simulated/cuda/cuda_fake.h"

#include <string.h>

/* All attributes of one address. */
struct view {
    bool known;
    unsigned type;
    struct cuda_context *context;
    uint64_t device_addr, host; /* 0: none */
    uint64_t id;
    bool managed, mapped, gpudirect, ipc, sync_memops;
    unsigned handle_types;
    int ordinal;
    uint64_t start;
    size_t size;
    struct cuda_pool *pool;
    uint64_t mapping_base, block_id;
    size_t mapping_size;
};

static struct view view_memory(const struct memory *m, uint64_t addr)
{
    bool by_host = m->host && addr >= m->host && addr - m->host < m->len;
    uint64_t skip = addr - (by_host ? m->host : m->addr);
    bool on_host = m->sort == MEMORY_HOST || m->sort == MEMORY_REGISTERED;

    return (struct view){
        .known = true,
        .type = on_host ? CUDA_TYPE_HOST : CUDA_TYPE_DEVICE,
        .context = m->context,
        .device_addr = m->addr + skip,
        .host = m->host ? m->host + skip : 0,
        .id = m->id,
        .managed = m->sort == MEMORY_MANAGED || (m->sort == MEMORY_MODULE && m->host),
        .mapped = true,
        .gpudirect = m->sort == MEMORY_PLAIN && fake_cuda_exports(m->device),
        .ipc = m->sort == MEMORY_PLAIN,
        .sync_memops = m->sync_memops,
        .handle_types = m->pool ? m->pool->handle_types : 0,
        .ordinal = m->device,
        .start = m->addr,
        .size = m->len,
        .pool = m->pool,
        .mapping_base = m->addr,
        .mapping_size = m->len,
        .block_id = m->id,
    };
}

static struct view view_multicast(struct view view, const struct mapping *m, uint64_t addr)
{
    view.type = CUDA_TYPE_DEVICE;
    view.ordinal = fake_cuda_multicast_device(m->physical->multicast);
    view.device_addr = addr;
    view.mapped = true;
    view.mapping_base = m->addr;
    view.mapping_size = m->len;
    view.block_id = m->physical->id;
    return view;
}

static struct view view_virtual(const struct reservation *r, const struct mapping *m, uint64_t addr)
{
    struct view view = {
        .known = true, .id = r->id, .ordinal = -1, .start = r->addr, .size = r->len};
    const struct cuda_memory_prop *prop = m ? &m->physical->prop : NULL;

    if (!m)
        return view;
    if (m->physical->multicast)
        return view_multicast(view, m, addr);
    view.type = prop->location.type == CUDA_LOCATION_DEVICE ? CUDA_TYPE_DEVICE : CUDA_TYPE_HOST;
    view.ordinal = view.type == CUDA_TYPE_DEVICE ? prop->location.id : -1;
    view.device_addr = addr;
    view.mapped = true;
    view.gpudirect = prop->gpudirect;
    view.mapping_base = m->addr;
    view.mapping_size = m->len;
    view.block_id = m->physical->id;
    return view;
}

/* The range attributes of pool memory describe the surrounding block of the pool. */
static void widen_to_pool(struct view *view)
{
    const uint64_t chunk = 2 << 20;
    uint64_t end = view->start + view->size;

    view->start &= ~(chunk - 1);
    view->size = ((end + chunk - 1) & ~(chunk - 1)) - view->start;
}

static unsigned long undefined; /* queries */

unsigned long hmreg_fake_cuda_undefined(void)
{
    return undefined;
}

/* After cuMemFreeAsync() answers are undefined: as before, or as of no memory, by turns. */
static struct memory *freed_memory(uint64_t addr)
{
    struct memory *m = fake_cuda_freed(addr);

    return m && undefined++ % 2 == 0 ? m : NULL;
}

static struct view view_of(uint64_t addr)
{
    struct memory *m = fake_cuda_memory(addr);
    struct reservation *r = m ? NULL : fake_cuda_reservation(addr);
    struct view nothing = {.ordinal = -1};

    if (!m && !r)
        m = freed_memory(addr);
    if (m && m->sort == MEMORY_POOL) {
        struct view view = view_memory(m, addr);

        widen_to_pool(&view);
        return view;
    }
    if (m)
        return view_memory(m, addr);
    return r ? view_virtual(r, fake_cuda_mapping(addr), addr) : nothing;
}

/* ---- answers ---------------------------------------------------------------------------- */

static bool is_new(unsigned attribute)
{
    return attribute > CUDA_PTR_MEMPOOL &&
           (FAKE_CUDA_VERSION < 11070 || fake_env("HMREG_FAKE_CUDA_NO_MAPPING", 0));
}

/* Bytes of an attribute's value; 0: no such attribute. */
static size_t width_of(unsigned attribute)
{
    switch (attribute) {
    case CUDA_PTR_MEMORY_TYPE:
    case CUDA_PTR_DEVICE_ORDINAL:
    case CUDA_PTR_IS_MANAGED:
    case CUDA_PTR_MAPPED:
    case CUDA_PTR_IS_GPUDIRECT:
    case CUDA_PTR_SYNC_MEMOPS:
    case CUDA_PTR_IS_LEGACY_IPC:
        return 4;
    case CUDA_PTR_HANDLE_TYPES:
    case CUDA_PTR_CONTEXT:
    case CUDA_PTR_DEVICE_POINTER:
    case CUDA_PTR_HOST_POINTER:
    case CUDA_PTR_BUFFER_ID:
    case CUDA_PTR_RANGE_START:
    case CUDA_PTR_RANGE_SIZE:
    case CUDA_PTR_MEMPOOL:
    case CUDA_PTR_MAPPING_SIZE:
    case CUDA_PTR_MAPPING_BASE:
    case CUDA_PTR_MEMORY_BLOCK_ID:
        return 8;
    }
    return 0;
}

/* Which attributes this memory has. */
static bool has(const struct view *view, unsigned attribute)
{
    switch (attribute) {
    case CUDA_PTR_CONTEXT:
        return view->context;
    case CUDA_PTR_MEMORY_TYPE:
    case CUDA_PTR_DEVICE_ORDINAL:
        return view->type;
    case CUDA_PTR_DEVICE_POINTER:
        return view->device_addr;
    case CUDA_PTR_HOST_POINTER:
        return view->host;
    case CUDA_PTR_MAPPING_SIZE:
    case CUDA_PTR_MAPPING_BASE:
    case CUDA_PTR_MEMORY_BLOCK_ID:
    case CUDA_PTR_IS_GPUDIRECT:
        return view->mapped;
    }
    return true;
}

static uint64_t value_of(const struct view *view, unsigned attribute)
{
    switch (attribute) {
    case CUDA_PTR_CONTEXT:
        return (uintptr_t)view->context;
    case CUDA_PTR_MEMORY_TYPE:
        return view->type;
    case CUDA_PTR_DEVICE_POINTER:
        return view->device_addr;
    case CUDA_PTR_HOST_POINTER:
        return view->host;
    case CUDA_PTR_BUFFER_ID:
        return view->id;
    case CUDA_PTR_IS_MANAGED:
        return view->managed;
    case CUDA_PTR_DEVICE_ORDINAL:
        return (uint32_t)view->ordinal;
    case CUDA_PTR_RANGE_START:
        return view->start;
    case CUDA_PTR_RANGE_SIZE:
        return view->size;
    case CUDA_PTR_MAPPED:
        return view->mapped;
    case CUDA_PTR_IS_GPUDIRECT:
        return view->gpudirect;
    case CUDA_PTR_IS_LEGACY_IPC:
        return view->ipc;
    case CUDA_PTR_SYNC_MEMOPS:
        return view->sync_memops;
    case CUDA_PTR_HANDLE_TYPES:
        return view->handle_types;
    case CUDA_PTR_MEMPOOL:
        return (uintptr_t)view->pool;
    case CUDA_PTR_MAPPING_SIZE:
        return view->mapping_size;
    case CUDA_PTR_MAPPING_BASE:
        return view->mapping_base;
    case CUDA_PTR_MEMORY_BLOCK_ID:
        return view->block_id;
    }
    return 0;
}

static bool wants_context(void)
{
    struct cuda_context *context = NULL;

    return fake_env("HMREG_FAKE_CUDA_QUERY_CONTEXT", 0) && fake_cuda_context(&context);
}

static bool in_batch(unsigned attribute)
{
    return attribute != CUDA_PTR_IS_GPUDIRECT && attribute != CUDA_PTR_MAPPING_SIZE &&
           attribute != CUDA_PTR_MAPPING_BASE && attribute != CUDA_PTR_MEMORY_BLOCK_ID;
}

unsigned cuPointerGetAttribute(void *value, unsigned attribute, unsigned long long addr)
{
    struct cuda_context *context = NULL;
    struct view view;
    uint64_t found;

    ENTER();
    if (wants_context())
        return CUDA_INVALID_CONTEXT;
    view = view_of(addr);
    if (!value || !width_of(attribute) || is_new(attribute))
        return CUDA_INVALID_VALUE;
    if (attribute == CUDA_PTR_DEVICE_POINTER && fake_cuda_context(&context))
        return CUDA_INVALID_CONTEXT;
    if (!view.type || !has(&view, attribute))
        return CUDA_INVALID_VALUE;
    found = value_of(&view, attribute);
    memcpy(value, &found, width_of(attribute));
    return CUDA_OK;
}

/* What a batch says of an address without memory, perhaps reserved; false: the value stays. */
static bool value_of_none(const struct view *view, unsigned attribute, uint64_t addr,
                          uint64_t *value)
{
    bool range = attribute == CUDA_PTR_RANGE_START || attribute == CUDA_PTR_RANGE_SIZE;

    *value = range ? value_of(view, attribute) : 0;
    if (attribute == CUDA_PTR_HOST_POINTER)
        *value = addr;
    if (attribute == CUDA_PTR_DEVICE_ORDINAL)
        *value = (uint32_t)-2;
    return !range || view->known;
}

unsigned cuPointerGetAttributes(unsigned count, unsigned *attributes, void **values,
                                unsigned long long addr)
{
    struct cuda_context *context = NULL;
    struct view view;

    ENTER();
    if (wants_context())
        return CUDA_INVALID_CONTEXT;
    view = view_of(addr);
    if (!count || !attributes || !values)
        return CUDA_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        bool answers = view.known && has(&view, attributes[i]), said = true;
        uint64_t found = answers ? value_of(&view, attributes[i]) : 0;

        if (!in_batch(attributes[i]) || is_new(attributes[i]) || !width_of(attributes[i]))
            return CUDA_INVALID_VALUE;
        if (attributes[i] == CUDA_PTR_DEVICE_POINTER && fake_cuda_context(&context))
            return CUDA_INVALID_CONTEXT;
        if (!view.type)
            said = value_of_none(&view, attributes[i], addr, &found);
        if (said)
            memcpy(values[i], &found, width_of(attributes[i]));
    }
    return CUDA_OK;
}

/* SYNC_MEMOPS can be set, of device memory that is neither a pool's nor virtual. */
unsigned cuPointerSetAttribute(const void *value, unsigned attribute, unsigned long long addr)
{
    struct memory *m;
    unsigned set;

    ENTER();
    m = fake_cuda_memory(addr);
    if (!value || attribute != CUDA_PTR_SYNC_MEMOPS || !m || m->sort != MEMORY_PLAIN)
        return CUDA_INVALID_VALUE;
    memcpy(&set, value, sizeof(set));
    m->sync_memops = set;
    return CUDA_OK;
}

unsigned cuMemGetAddressRange_v2(unsigned long long *base, size_t *size, unsigned long long addr)
{
    struct view view;
    unsigned result;

    ENTER();
    view = view_of(addr);
    result = fake_cuda_context_of(view.ordinal);
    if (result)
        return result;
    if (!view.mapped)
        return CUDA_NOT_FOUND;
    if (base)
        *base = view.mapping_base;
    if (size)
        *size = view.mapping_size;
    return CUDA_OK;
}
