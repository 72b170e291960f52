/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The simulated Level Zero driver's contexts, memory and command lists.
 *
 * Memory lies in objects, as a GPU's buffer objects: an object has the descriptor. An allocation
 * has an object of its own, or (HMREG_FAKE_ZE_POOL) is a piece of a pool's object, as small ones
 * are in Intel's driver: pieces begin 512 bytes into the pool, at multiples of 512, and the
 * interface does not report their offset in the object. Asked about the bytes between an allocation
 * and the next multiple, the driver names the allocation, which ends before them. Memory of a
 * device of several tiles (HMREG_FAKE_ZE_TILES) has one object per tile, side by side.
 */
#include "simulated/ze/ze.h"

#include <stdlib.h>
#include <unistd.h>

/* Newer than Debian's header. */
#define STYPE_SUB_ALLOCATIONS   0x0002000D
#define ERROR_ADDRESS_NOT_FOUND ((ze_result_t)0x78000021)
struct sub_allocation {
    void *base;
    size_t size;
};
struct sub_allocations {
    ze_structure_type_t stype;
    void *next;
    uint32_t *count;
    struct sub_allocation *parts;
};

#define CHUNK 512

struct _ze_context_handle_t {
    struct _ze_context_handle_t *next;
};

struct _ze_command_list_handle_t {
    struct _ze_command_list_handle_t *next;
    ze_context_handle_t context;
    ze_device_handle_t device;
};

static struct _ze_context_handle_t *contexts;
static struct _ze_command_list_handle_t *lists;
static struct object *objects;
static struct memory *memories;
static uint64_t last_piece = 1ull << 40; /* ids of pieces, distinct from the engine's */

static void free_deferred(bool all);

bool fake_ze_context_is_live(ze_context_handle_t context)
{
    bool live = false;

    fake_lock();
    for (struct _ze_context_handle_t *c = contexts; c && !live; c = c->next)
        live = c == context;
    fake_unlock();
    return live;
}

ze_result_t fake_zeContextCreate(ze_driver_handle_t driver, const ze_context_desc_t *desc,
                                 ze_context_handle_t *out)
{
    ENTRY("zeContextCreate");
    if (!fake_ze_driver_is_live(driver))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (desc->stype != ZE_STRUCTURE_TYPE_CONTEXT_DESC || desc->pNext || desc->flags)
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    fake_lock();
    *out = calloc(1, sizeof(**out));
    (*out)->next = contexts;
    contexts = *out;
    fake_unlock();
    return ZE_RESULT_SUCCESS;
}

ze_result_t fake_zeContextDestroy(ze_context_handle_t context)
{
    struct _ze_context_handle_t **link = &contexts;
    struct _ze_context_handle_t *gone;

    ENTRY("zeContextDestroy");
    fake_lock();
    while (*link && *link != context)
        link = &(*link)->next;
    gone = *link;
    if (gone) {
        *link = gone->next;
        free_deferred(true);
    }
    fake_unlock();
    if (!gone)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    free(gone);
    return ZE_RESULT_SUCCESS;
}

/* ---- objects ---------------------------------------------------------------------------- */

static size_t device_page(void)
{
    return (size_t)fake_env("HMREG_FAKE_ZE_PAGE", (long)fake_page());
}

struct object *fake_ze_object(const struct object *object)
{
    struct object *made = calloc(1, sizeof(*made));

    *made = *object;
    made->fd = -1;
    made->next = objects;
    objects = made;
    return made;
}

static struct object *object_new(ze_device_handle_t device, enum fake_kind kind, size_t len,
                                 size_t align)
{
    struct fake_alloc *alloc = fake_alloc(device->index, kind, len, align);

    if (!alloc)
        return NULL;
    return fake_ze_object(&(struct object){.blocks = {alloc->block},
                                           .addr = alloc->addr,
                                           .len = alloc->len,
                                           .id = alloc->id,
                                           .device = device,
                                           .handles = 1});
}

static bool has_tiles(ze_device_handle_t device)
{
    return device->tile < 0 && fake_ze_tiles() > 1;
}

/* Contiguous addresses, with one piece of memory for each of the device's tiles. */
static struct object *tiled_new(ze_device_handle_t device, size_t len)
{
    unsigned handles = (unsigned)fake_ze_tiles();
    size_t part = ((len + handles - 1) / handles + fake_page() - 1) & ~(fake_page() - 1);
    struct object object = {.len = part * handles, .device = device, .handles = handles};

    object.addr = fake_reserve(device->index, object.len, 0);
    if (!object.addr)
        return NULL;
    for (unsigned i = 0; i < handles; i++) {
        object.blocks[i] = fake_block_new(device->index, part);
        object.id = fake_map(object.addr + i * part, part, object.blocks[i], 0)->id;
    }
    return fake_ze_object(&object);
}

void fake_ze_object_put(struct object *object)
{
    struct object **link = &objects;

    if (--object->users)
        return;
    while (*link != object)
        link = &(*link)->next;
    *link = object->next;
    if (object->fd >= 0)
        close(object->fd);
    for (unsigned i = 0; i < object->handles; i++) {
        fake_free(object->addr + i * (object->len / object->handles));
        if (object->handles > 1)
            fake_block_put(object->blocks[i]);
    }
    if (object->handles > 1 || object->reserved)
        fake_unreserve(object->addr);
    free(object);
}

/* The descriptor of an object, of its first handle if it has several: always the same one. */
static int object_fd(struct object *object)
{
    if (object->fd < 0)
        object->fd = fake_block_dup(object->blocks[0]);
    return object->fd;
}

static struct object *pool_at(uint64_t addr)
{
    for (struct object *o = objects; o; o = o->next)
        if (o->pool && addr >= o->addr && addr - o->addr < o->len)
            return o;
    return NULL;
}

/* ---- memory ----------------------------------------------------------------------------- */

/* A piece whose free is deferred takes room in its pool, and is unknown already. */
struct memory *fake_ze_memory_at(uint64_t addr)
{
    for (struct memory *m = memories; m; m = m->next)
        if (addr >= m->addr && addr - m->addr < m->len && !(m->deferred && m->object->pool))
            return m;
    return NULL;
}

struct memory *fake_ze_owned_at(const void *ptr, ze_context_handle_t context, enum origin origin)
{
    struct memory *found = fake_ze_memory_at((uintptr_t)ptr);

    return found && found->context == context && found->origin == origin ? found : NULL;
}

struct memory *fake_ze_memory(struct object *object, uint64_t addr, size_t len,
                              ze_memory_type_t type, ze_context_handle_t context)
{
    struct memory *made = calloc(1, sizeof(*made));

    *made = (struct memory){.next = memories,
                            .addr = addr,
                            .len = len,
                            .id = object->id,
                            .type = type,
                            .context = context,
                            .object = object};
    object->users++;
    memories = made;
    return made;
}

struct memory *fake_ze_memory_of_block(ze_device_handle_t device, struct fake_block *block,
                                       ze_context_handle_t context, enum origin origin)
{
    uint64_t addr = fake_reserve(device->index, block->len, device_page());
    struct object object = {.blocks = {block},
                            .addr = addr,
                            .len = block->len,
                            .device = device,
                            .handles = 1,
                            .reserved = true};
    struct memory *made;

    if (!addr)
        return NULL;
    object.id = fake_map(addr, block->len, block, 0)->id;
    made =
        fake_ze_memory(fake_ze_object(&object), addr, block->len, ZE_MEMORY_TYPE_DEVICE, context);
    made->device = device;
    made->origin = origin;
    return made;
}

static bool piece_is_free(uint64_t addr, size_t len)
{
    for (struct memory *m = memories; m; m = m->next)
        if (addr < m->addr + m->len && m->addr < addr + len)
            return false;
    return true;
}

/* Takes a piece of a pool of the device, an older pool's if it has room. */
static struct memory *piece_new(ze_device_handle_t device, size_t len, size_t pool_len,
                                ze_context_handle_t context)
{
    struct memory *made;

    for (struct object *o = objects; o; o = o->next) {
        if (!o->pool || o->device != device)
            continue;
        for (uint64_t at = o->addr + CHUNK; at + len <= o->addr + o->len; at += CHUNK) {
            if (!piece_is_free(at, len))
                continue;
            made = fake_ze_memory(o, at, len, ZE_MEMORY_TYPE_DEVICE, context);
            made->id = ++last_piece;
            return made;
        }
    }
    struct object *pool = has_tiles(device) ? tiled_new(device, pool_len)
                                            : object_new(device, FAKE_DEVICE, pool_len, 0);
    if (!pool)
        return NULL;
    pool->pool = true;
    return piece_new(device, len, pool_len, context);
}

static struct memory *whole_new(ze_device_handle_t device, enum fake_kind kind, size_t len,
                                size_t align, ze_context_handle_t context)
{
    static const ze_memory_type_t types[] = {[FAKE_DEVICE] = ZE_MEMORY_TYPE_DEVICE,
                                             [FAKE_HOST] = ZE_MEMORY_TYPE_HOST,
                                             [FAKE_MANAGED] = ZE_MEMORY_TYPE_SHARED};
    size_t page = device_page(), whole = len;
    struct object *object;

    if (kind == FAKE_DEVICE && page != fake_page()) {
        whole = (len + page - 1) & ~(page - 1);
        align = align > page ? align : page;
    }
    if (kind == FAKE_DEVICE && has_tiles(device) && len > fake_page())
        object = tiled_new(device, whole);
    else
        object = object_new(device, kind, whole, align);
    return object ? fake_ze_memory(object, object->addr, len, types[kind], context) : NULL;
}

static ze_result_t bad_size(size_t size, size_t alignment)
{
    if (size == 0 || size > (16ull << 30))
        return ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
    if (alignment & (alignment - 1))
        return ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT;
    return ZE_RESULT_SUCCESS;
}

/* The export descriptor at the end of an allocation's, if any. */
static ze_result_t read_export_desc(const void *next, bool *exportable)
{
    const ze_external_memory_export_desc_t *desc = next;

    *exportable = false;
    if (!desc)
        return ZE_RESULT_SUCCESS;
    if (desc->stype != ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_DESC || desc->pNext)
        return ZE_RESULT_ERROR_INVALID_ENUMERATION;
    if (desc->flags != ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF ||
        fake_env("HMREG_FAKE_ZE_NO_EXPORT", 0))
        return ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION;
    *exportable = true;
    return ZE_RESULT_SUCCESS;
}

ze_result_t fake_zeMemAllocDevice(ze_context_handle_t context,
                                  const ze_device_mem_alloc_desc_t *desc, size_t size,
                                  size_t alignment, ze_device_handle_t device, void **out)
{
    size_t pool_len = (size_t)fake_env("HMREG_FAKE_ZE_POOL", 0);
    struct memory *made;
    bool exportable;
    ze_result_t bad;

    ENTRY("zeMemAllocDevice");
    if (!fake_ze_context_is_live(context) || !fake_ze_device_is_live(device))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (desc->stype != ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC || desc->ordinal)
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    bad = read_export_desc(desc->pNext, &exportable);
    bad = bad ? bad : bad_size(size, alignment);
    if (bad)
        return bad;
    fake_lock();
    if (!exportable && size <= pool_len / 2)
        made = piece_new(device, size, pool_len, context);
    else
        made = whole_new(device, FAKE_DEVICE, size, alignment, context);
    if (made) {
        made->device = device;
        made->exportable = exportable;
        *out = (void *)(uintptr_t)made->addr;
    }
    fake_unlock();
    return made ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
}

static ze_result_t alloc_cpu(ze_context_handle_t context, enum fake_kind kind, size_t size,
                             size_t alignment, ze_device_handle_t device, void **out)
{
    static struct _ze_device_handle_t none = {0, -1};
    ze_result_t bad = bad_size(size, alignment);
    struct memory *made;

    if (bad)
        return bad;
    fake_lock();
    made = whole_new(device ? device : &none, kind, size, alignment, context);
    if (made) {
        made->device = device;
        *out = (void *)(uintptr_t)made->addr;
    }
    fake_unlock();
    return made ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
}

ze_result_t fake_zeMemAllocHost(ze_context_handle_t context, const ze_host_mem_alloc_desc_t *desc,
                                size_t size, size_t alignment, void **out)
{
    ENTRY("zeMemAllocHost");
    if (!fake_ze_context_is_live(context))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (desc->stype != ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC || desc->pNext)
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    return alloc_cpu(context, FAKE_HOST, size, alignment, NULL, out);
}

ze_result_t fake_zeMemAllocShared(ze_context_handle_t context,
                                  const ze_device_mem_alloc_desc_t *device_desc,
                                  const ze_host_mem_alloc_desc_t *host_desc, size_t size,
                                  size_t alignment, ze_device_handle_t device, void **out)
{
    ENTRY("zeMemAllocShared");
    if (!fake_ze_context_is_live(context) || (device && !fake_ze_device_is_live(device)))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (device_desc->stype != ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC || device_desc->pNext ||
        host_desc->stype != ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC || host_desc->pNext)
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    return alloc_cpu(context, FAKE_MANAGED, size, alignment, device, out);
}

void fake_ze_forget(struct memory *gone)
{
    struct memory **link = &memories;

    while (*link != gone)
        link = &(*link)->next;
    *link = gone->next;
    fake_ze_object_put(gone->object);
    free(gone);
}

/* As the driver keeps freed memory for a next allocation (which is not simulated): it is described
 * as before, and its descriptor is closed. */
static void keep(struct memory *freed)
{
    if (freed->object->fd >= 0)
        close(freed->object->fd);
    freed->object->fd = -1;
}

/* Frees what was deferred, if the device does not use it any more (HMREG_FAKE_ZE_BUSY). */
static void free_deferred(bool all)
{
    struct memory *next;

    for (struct memory *m = memories; m; m = next) {
        next = m->next;
        if (m->deferred && (all || !fake_env("HMREG_FAKE_ZE_BUSY", 0)))
            fake_ze_forget(m);
    }
}

/* A piece of a pool is freed by its beginning only: by another address in it nothing is, with
 * success. */
static void free_known(struct memory *gone, const void *ptr, bool defer)
{
    if (gone->object->pool && gone->addr != (uintptr_t)ptr)
        return;
    if (defer && fake_env("HMREG_FAKE_ZE_BUSY", 0))
        gone->deferred = true;
    else if (fake_env("HMREG_FAKE_ZE_KEEP", 0))
        keep(gone);
    else
        fake_ze_forget(gone);
}

/* By any address in it, as Intel's driver does. */
static ze_result_t free_memory(ze_context_handle_t context, const void *ptr, bool defer)
{
    struct memory *gone;

    if (!fake_ze_context_is_live(context))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    fake_lock();
    free_deferred(false);
    gone = fake_ze_owned_at(ptr, context, ALLOCATED);
    if (gone)
        free_known(gone, ptr, defer);
    fake_unlock();
    return gone ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_ARGUMENT;
}

ze_result_t fake_zeMemFree(ze_context_handle_t context, void *ptr)
{
    ENTRY("zeMemFree");
    return free_memory(context, ptr, false);
}

ze_result_t fake_zeMemFreeExt(ze_context_handle_t context, const ze_memory_free_ext_desc_t *desc,
                              void *ptr)
{
    ENTRY("zeMemFreeExt");
    if (desc->stype != ZE_STRUCTURE_TYPE_MEMORY_FREE_EXT_DESC || desc->pNext)
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    if (desc->freePolicy &
        ~(ze_driver_memory_free_policy_ext_flags_t)(ZE_DRIVER_MEMORY_FREE_POLICY_EXT_FLAG_BLOCKING_FREE |
                                                    ZE_DRIVER_MEMORY_FREE_POLICY_EXT_FLAG_DEFER_FREE))
        return ZE_RESULT_ERROR_INVALID_ENUMERATION;
    return free_memory(context, ptr,
                       desc->freePolicy == ZE_DRIVER_MEMORY_FREE_POLICY_EXT_FLAG_DEFER_FREE);
}

/* ---- queries ---------------------------------------------------------------------------- */

static bool hidden_from(const struct memory *memory, ze_context_handle_t context)
{
    return fake_env("HMREG_FAKE_ZE_PRIVATE", 0) && memory->context != context;
}

static ze_result_t give_fd(const struct memory *memory, struct object *object,
                           ze_external_memory_export_fd_t *out)
{
    if (out->flags != ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF ||
        fake_env("HMREG_FAKE_ZE_NO_EXPORT", 0))
        return ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION;
    if (memory->type != ZE_MEMORY_TYPE_DEVICE)
        return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
    if (fake_env("HMREG_FAKE_ZE_INSIST", 0) && !memory->exportable)
        return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
    out->fd = object_fd(object);
    return out->fd < 0 ? ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY : ZE_RESULT_SUCCESS;
}

static ze_result_t give_parts(const struct memory *memory, struct sub_allocations *out)
{
    unsigned handles = memory->object->handles;
    size_t part = memory->object->len / handles;

    if (!fake_ze_has("ZE_experimental_sub_allocations"))
        return ZE_RESULT_ERROR_INVALID_ENUMERATION;
    if (*out->count == 0 || *out->count > handles)
        *out->count = handles;
    for (uint32_t i = 0; out->parts && i < *out->count; i++) {
        out->parts[i].base = (void *)(uintptr_t)(memory->addr + i * part);
        out->parts[i].size = i + 1 < handles ? part : memory->len - i * part;
    }
    return ZE_RESULT_SUCCESS;
}

static ze_result_t extend(const struct memory *memory, void *next)
{
    struct sub_allocations *base = next; /* begins as every extension does */

    if (!base)
        return ZE_RESULT_SUCCESS;
    if (base->next)
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    if (base->stype == ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_FD)
        return give_fd(memory, memory->object, next);
    if ((uint32_t)base->stype == STYPE_SUB_ALLOCATIONS)
        return give_parts(memory, next);
    return ZE_RESULT_ERROR_INVALID_ENUMERATION;
}

static ze_result_t get_properties(ze_context_handle_t context, uint64_t addr,
                                  ze_memory_allocation_properties_t *out,
                                  ze_device_handle_t *device)
{
    struct memory *memory = fake_ze_memory_at(addr);
    struct object *pool = fake_env("HMREG_FAKE_ZE_POOL_ID", 0) ? pool_at(addr) : NULL;
    struct memory unused = {.type = ZE_MEMORY_TYPE_DEVICE, .object = pool};

    if (!memory && pool) {
        unused.device = pool->device;
        memory = &unused;
    }
    if (!memory || hidden_from(memory, context)) {
        out->type = ZE_MEMORY_TYPE_UNKNOWN;
        out->id = 0xdeadull; /* unspecified */
        return ZE_RESULT_SUCCESS;
    }
    out->type = memory->type;
    out->id = pool ? pool->id : memory->id;
    out->pageSize = memory->type == ZE_MEMORY_TYPE_DEVICE ? device_page() : fake_page();
    if (device)
        *device = memory->device;
    return extend(memory, out->pNext);
}

ze_result_t fake_zeMemGetAllocProperties(ze_context_handle_t context, const void *ptr,
                                         ze_memory_allocation_properties_t *out,
                                         ze_device_handle_t *device)
{
    ze_result_t result;

    ENTRY("zeMemGetAllocProperties");
    if (!fake_ze_context_is_live(context))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!ptr || !out)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    if (out->stype != ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES)
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    fake_lock();
    result = get_properties(context, (uintptr_t)ptr, out, device);
    fake_unlock();
    return result;
}

/* The allocation of a pool whose last chunk has the address, behind its end. */
static struct memory *rounded_up(uint64_t addr)
{
    struct memory *m = memories;

    while (m && (!m->object->pool || addr < m->addr ||
                 addr - m->addr >= ((m->len + CHUNK - 1) & ~(size_t)(CHUNK - 1))))
        m = m->next;
    return m;
}

ze_result_t fake_zeMemGetAddressRange(ze_context_handle_t context, const void *ptr, void **base,
                                      size_t *size)
{
    struct memory *memory;
    bool in_pool;

    ENTRY("zeMemGetAddressRange");
    if (!fake_ze_context_is_live(context))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    fake_lock();
    in_pool = pool_at((uintptr_t)ptr);
    memory = fake_ze_memory_at((uintptr_t)ptr);
    if (!memory)
        memory = rounded_up((uintptr_t)ptr);
    if (memory && hidden_from(memory, context))
        memory = NULL;
    if (memory && base)
        *base = (void *)(uintptr_t)memory->addr;
    if (memory && size)
        *size = memory->len;
    fake_unlock();
    if (memory)
        return ZE_RESULT_SUCCESS;
    return in_pool ? ERROR_ADDRESS_NOT_FOUND : ZE_RESULT_ERROR_UNKNOWN;
}

/* ---- copies ----------------------------------------------------------------------------- */

ze_result_t fake_zeCommandListCreateImmediate(ze_context_handle_t context,
                                              ze_device_handle_t device,
                                              const ze_command_queue_desc_t *desc,
                                              ze_command_list_handle_t *out)
{
    ENTRY("zeCommandListCreateImmediate");
    if (!fake_ze_context_is_live(context) || !fake_ze_device_is_live(device))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (desc->stype != ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC || desc->ordinal != 1 || desc->index)
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    if (desc->mode != ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS)
        return ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION;
    fake_lock();
    *out = calloc(1, sizeof(**out));
    **out = (struct _ze_command_list_handle_t){lists, context, device};
    lists = *out;
    fake_unlock();
    return ZE_RESULT_SUCCESS;
}

ze_result_t fake_zeCommandListDestroy(ze_command_list_handle_t list)
{
    struct _ze_command_list_handle_t **link = &lists;
    struct _ze_command_list_handle_t *gone;

    ENTRY("zeCommandListDestroy");
    fake_lock();
    while (*link && *link != list)
        link = &(*link)->next;
    gone = *link;
    if (gone)
        *link = gone->next;
    fake_unlock();
    if (!gone)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    free(gone);
    return ZE_RESULT_SUCCESS;
}

static bool list_is_live(ze_command_list_handle_t list)
{
    bool live = false;

    for (struct _ze_command_list_handle_t *l = lists; l && !live; l = l->next)
        live = l == list;
    return live;
}

/* A command list cannot reach memory of another device, or of a context that this one does not see.
 */
static bool reaches(ze_command_list_handle_t list, uint64_t addr, size_t size)
{
    struct memory *memory = fake_ze_memory_at(addr);

    if (!memory)
        return true;
    if (hidden_from(memory, list->context))
        return false;
    if (size > memory->addr + memory->len - addr)
        return memory->origin == MAPPED && reaches(list, memory->addr + memory->len,
                                                   size - (memory->addr + memory->len - addr));
    return memory->type != ZE_MEMORY_TYPE_DEVICE || memory->device->index == list->device->index;
}

ze_result_t fake_zeCommandListAppendMemoryCopy(ze_command_list_handle_t list, void *dst,
                                               const void *src, size_t size,
                                               ze_event_handle_t signal, uint32_t waits,
                                               ze_event_handle_t *events)
{
    ze_result_t result = ZE_RESULT_ERROR_INVALID_ARGUMENT;

    ENTRY("zeCommandListAppendMemoryCopy");
    fake_lock();
    if (!list_is_live(list))
        result = ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    else if (!signal && !waits && reaches(list, (uintptr_t)dst, size) &&
             reaches(list, (uintptr_t)src, size) &&
             !fake_copy((uintptr_t)dst, (uintptr_t)src, size))
        result = ZE_RESULT_SUCCESS;
    fake_unlock();
    return result;
}
