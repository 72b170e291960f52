/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The fake libcuda.so.1: what is said about pointers. The single query refuses what it does not
 * know, the batch query answers it with zeroes; some attributes are refused in a batch, one
 * needs a context; RANGE_* describe the reservation of virtual memory, MAPPING_* the piece that
 * is mapped. cuMemGetAddressRange needs a current context. The dmabuf export refuses what is
 * not whole host pages, not all there, or not device memory of its own.
 */
#include "tests/support/fake/cuda_fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* All attributes of one address. */
struct view {
    bool known;
    unsigned type;
    struct cuda_context *context;
    uint64_t device_addr, host; /* 0: none */
    uint64_t id;
    bool managed, mapped, gpudirect;
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
        .managed = m->sort == MEMORY_MANAGED,
        .mapped = true,
        .gpudirect = m->sort == MEMORY_PLAIN,
        .ordinal = m->device,
        .start = m->addr,
        .size = m->len,
        .pool = m->pool,
        .mapping_base = m->addr,
        .mapping_size = m->len,
        .block_id = m->id,
    };
}

static struct view view_virtual(const struct reservation *r, const struct mapping *m, uint64_t addr)
{
    struct view view = {
        .known = true, .id = r->id, .ordinal = -1, .start = r->addr, .size = r->len};
    const struct cuda_memory_prop *prop = m ? &m->physical->prop : NULL;

    if (!m)
        return view;
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

static struct view view_of(uint64_t addr)
{
    struct memory *m = fake_cuda_memory(addr);
    struct reservation *r = m ? NULL : fake_cuda_reservation(addr);

    if (m)
        return view_memory(m, addr);
    return r ? view_virtual(r, fake_cuda_mapping(addr), addr) : (struct view){0};
}

/* ---- answers ---------------------------------------------------------------------------- */

static bool is_new(unsigned attribute)
{
    return attribute > CUDA_PTR_MEMPOOL &&
           (FAKE_CUDA_VERSION < 11070 || fake_env("HMREG_FAKE_CUDA_NO_MAPPING", 0));
}

/* The value and its width; false: this memory has no such attribute. */
static bool answer(const struct view *view, unsigned attribute, uint64_t *value, size_t *width)
{
    *width = 8;
    switch (attribute) {
    case CUDA_PTR_CONTEXT:
        *value = (uintptr_t)view->context;
        return view->context;
    case CUDA_PTR_MEMORY_TYPE:
        *width = 4;
        *value = view->type;
        return view->type;
    case CUDA_PTR_DEVICE_POINTER:
        *value = view->device_addr;
        return view->device_addr;
    case CUDA_PTR_HOST_POINTER:
        *value = view->host;
        return view->host;
    case CUDA_PTR_BUFFER_ID:
        *value = view->id;
        return true;
    case CUDA_PTR_DEVICE_ORDINAL:
        *width = 4;
        *value = (uint32_t)view->ordinal;
        return view->type;
    case CUDA_PTR_RANGE_START:
        *value = view->start;
        return true;
    case CUDA_PTR_RANGE_SIZE:
        *value = view->size;
        return true;
    case CUDA_PTR_MEMPOOL:
        *value = (uintptr_t)view->pool;
        return true;
    case CUDA_PTR_MAPPING_SIZE:
        *value = view->mapping_size;
        return view->mapped;
    case CUDA_PTR_MAPPING_BASE:
        *value = view->mapping_base;
        return view->mapped;
    case CUDA_PTR_MEMORY_BLOCK_ID:
        *value = view->block_id;
        return view->mapped;
    }
    *width = 4;
    switch (attribute) {
    case CUDA_PTR_IS_MANAGED:
        *value = view->managed;
        return true;
    case CUDA_PTR_MAPPED:
        *value = view->mapped;
        return true;
    case CUDA_PTR_IS_GPUDIRECT:
        *value = view->gpudirect;
        return view->mapped;
    case CUDA_PTR_SYNC_MEMOPS:
    case CUDA_PTR_IS_LEGACY_IPC:
        *value = 0;
        return true;
    }
    *width = 0;
    return false;
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
    uint64_t found = 0;
    size_t width;

    ENTER();
    view = view_of(addr);
    if (!value || is_new(attribute))
        return CUDA_INVALID_VALUE;
    if (attribute == CUDA_PTR_DEVICE_POINTER && fake_cuda_context(&context))
        return CUDA_INVALID_CONTEXT;
    if (!view.known || !answer(&view, attribute, &found, &width))
        return CUDA_INVALID_VALUE;
    memcpy(value, &found, width);
    return CUDA_OK;
}

unsigned cuPointerGetAttributes(unsigned count, unsigned *attributes, void **values,
                                unsigned long long addr)
{
    struct cuda_context *context = NULL;
    struct view view;

    ENTER();
    view = view_of(addr);
    if (!count || !attributes || !values)
        return CUDA_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        uint64_t found = 0;
        size_t width = 0;
        bool has = answer(&view, attributes[i], &found, &width);

        if (!in_batch(attributes[i]) || is_new(attributes[i]) || !width)
            return CUDA_INVALID_VALUE;
        if (attributes[i] == CUDA_PTR_DEVICE_POINTER && fake_cuda_context(&context))
            return CUDA_INVALID_CONTEXT;
        found = has ? found : 0;
        memcpy(values[i], &found, width);
    }
    return CUDA_OK;
}

unsigned cuMemGetAddressRange_v2(unsigned long long *base, size_t *size, unsigned long long addr)
{
    struct cuda_context *context = NULL;
    struct view view;
    unsigned result;

    ENTER();
    view = view_of(addr);
    result = fake_cuda_context(&context);
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

/* ---- the dmabuf export ------------------------------------------------------------------ */

#if FAKE_CUDA_VERSION >= 11070

static bool is_exporter(int device)
{
    return !(fake_env("HMREG_FAKE_CUDA_NO_DMABUF", 0) >> device & 1);
}

/* The pages that memory in one piece has to itself, or shares with its neighbours. */
static unsigned export_plain(const struct memory *m, uint64_t addr, size_t size, int *fd)
{
    struct fake_alloc *made = fake_find(m->addr);

    if (!is_exporter(m->device) || m->sort != MEMORY_PLAIN || !made)
        return CUDA_NOT_SUPPORTED;
    if (addr != made->block->addr) {
        fprintf(stderr, "simulated CUDA: only exports that begin with an allocation\n");
        return CUDA_NOT_SUPPORTED;
    }
    *fd = fcntl(made->block->fd, F_DUPFD, 0);
    return *fd < 0 ? CUDA_OUT_OF_MEMORY : CUDA_OK;
}

static unsigned export_range(uint64_t addr, size_t size, int *fd)
{
    struct memory *m = fake_cuda_pages(addr, size);
    struct mapping *piece = m ? NULL : fake_cuda_mapping(addr);

    if (m)
        return export_plain(m, addr, size, fd);
    if (!piece)
        return CUDA_INVALID_VALUE;
    if (piece->physical->prop.location.type != CUDA_LOCATION_DEVICE ||
        !is_exporter(piece->physical->prop.location.id))
        return CUDA_NOT_SUPPORTED;
    return fake_cuda_export_virtual(addr, size, fd);
}

/* The descriptor is given without close-on-exec: whoever wants that must see to it. */
unsigned cuMemGetHandleForAddressRange(void *handle, unsigned long long addr, size_t size,
                                       unsigned type, unsigned long long flags)
{
    struct cuda_context *context = NULL;
    unsigned result;
    int fd = -1;

    ENTER();
    if (fake_env("HMREG_FAKE_CUDA_EXPORT_CONTEXT", 0)) {
        result = fake_cuda_context(&context);
        if (result)
            return result;
    }
    if (!handle || !size || addr % fake_page() || size % fake_page() ||
        type != CUDA_RANGE_DMABUF_FD || flags > CUDA_RANGE_FLAG_PCIE)
        return CUDA_INVALID_VALUE;
    if (flags == CUDA_RANGE_FLAG_PCIE)
        return CUDA_NOT_SUPPORTED;
    if (fake_env("HMREG_FAKE_CUDA_EXPORT_SHORT", 0)) {
        fd = fake_file(fake_page());
        result = fd < 0 ? CUDA_OUT_OF_MEMORY : CUDA_OK;
    } else {
        result = export_range(addr, size, &fd);
    }
    if (!result)
        memcpy(handle, &fd, sizeof(fd));
    return result;
}

#endif
