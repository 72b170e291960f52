/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The simulated Level Zero driver's virtual memory. Each mapping is an allocation of its own, with
 * a new id; the object behind it is the physical memory, whole, which may be longer than its mapped
 * part. Physical memory of a device is mapped once at most, and only a reservation connects two
 * mappings. As in Intel's driver all mappings of a reservation have one access attribute; to change
 * it at the beginning of a mapping unmaps the range, and maps the physical memory of that mapping
 * there, from its beginning.
 */
#include "simulated/ze/ze.h"

#include <stdlib.h>

struct _ze_physical_mem_handle_t {
    struct _ze_physical_mem_handle_t *next;
    struct fake_block *block;
    ze_device_handle_t device;
    size_t size;
};

struct reservation {
    struct reservation *next;
    uint64_t addr;
    size_t len;
    ze_memory_access_attribute_t access;
};

static struct _ze_physical_mem_handle_t *physicals;
static struct reservation *reservations;

/* ---- reservations ----------------------------------------------------------------------- */

ze_result_t fake_zeVirtualMemQueryPageSize(ze_context_handle_t context, ze_device_handle_t device,
                                           size_t size, size_t *page)
{
    ENTRY("zeVirtualMemQueryPageSize");
    if (!fake_ze_context_is_live(context) || !fake_ze_device_is_live(device))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    *page = fake_page();
    return ZE_RESULT_SUCCESS;
}

ze_result_t fake_zeVirtualMemReserve(ze_context_handle_t context, const void *start, size_t size,
                                     void **out)
{
    struct reservation *made;
    uint64_t addr;

    ENTRY("zeVirtualMemReserve");
    if (!fake_ze_context_is_live(context))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!size || size % fake_page())
        return ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
    fake_lock();
    addr = fake_reserve(0, size, 0);
    made = addr ? calloc(1, sizeof(*made)) : NULL;
    if (made) {
        *made = (struct reservation){reservations, addr, size, ZE_MEMORY_ACCESS_ATTRIBUTE_NONE};
        reservations = made;
        *out = (void *)(uintptr_t)addr;
    }
    fake_unlock();
    return made ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
}

/* The reservation that contains all of the range. */
static struct reservation *reserved(uint64_t addr, size_t size)
{
    struct reservation *r = reservations;

    while (r && (addr < r->addr || addr - r->addr >= r->len || size > r->len - (addr - r->addr)))
        r = r->next;
    return r;
}

static void unmap_all(const struct reservation *r)
{
    for (uint64_t at = r->addr; at < r->addr + r->len; at += fake_page()) {
        struct memory *memory = fake_ze_memory_at(at);

        if (memory)
            fake_ze_forget(memory);
    }
}

/* Frees its mappings too. */
ze_result_t fake_zeVirtualMemFree(ze_context_handle_t context, const void *ptr, size_t size)
{
    struct reservation **link = &reservations, *gone;

    ENTRY("zeVirtualMemFree");
    fake_lock();
    while (*link && ((*link)->addr != (uintptr_t)ptr || (*link)->len != size))
        link = &(*link)->next;
    gone = *link;
    if (gone) {
        unmap_all(gone);
        *link = gone->next;
        fake_unreserve(gone->addr);
        free(gone);
    }
    fake_unlock();
    return gone ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_ARGUMENT;
}

ze_result_t fake_zeVirtualMemGetAccessAttribute(ze_context_handle_t context, const void *ptr,
                                                size_t size, ze_memory_access_attribute_t *access,
                                                size_t *out)
{
    const struct reservation *r;

    ENTRY("zeVirtualMemGetAccessAttribute");
    if (!fake_ze_context_is_live(context))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    fake_lock();
    r = reserved((uintptr_t)ptr, size);
    if (r) {
        *access = r->access;
        *out = r->len;
    }
    fake_unlock();
    return r ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_ARGUMENT;
}

/* ---- physical memory -------------------------------------------------------------------- */

ze_result_t fake_zePhysicalMemCreate(ze_context_handle_t context, ze_device_handle_t device,
                                     ze_physical_mem_desc_t *desc, ze_physical_mem_handle_t *out)
{
    struct _ze_physical_mem_handle_t *made;

    ENTRY("zePhysicalMemCreate");
    if (!fake_ze_context_is_live(context) || !fake_ze_device_is_live(device))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (desc->stype != ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC || desc->pNext)
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    if (!desc->size || desc->size % fake_page())
        return ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
    fake_lock();
    made = calloc(1, sizeof(*made));
    *made = (struct _ze_physical_mem_handle_t){
        .next = physicals,
        .block = fake_block_new(device->index, desc->size),
        .device = device,
        .size = desc->size,
    };
    physicals = made;
    *out = made;
    fake_unlock();
    return ZE_RESULT_SUCCESS;
}

/* Mapped memory stays until it is unmapped. */
ze_result_t fake_zePhysicalMemDestroy(ze_context_handle_t context, ze_physical_mem_handle_t handle)
{
    struct _ze_physical_mem_handle_t **link = &physicals, *gone;

    ENTRY("zePhysicalMemDestroy");
    fake_lock();
    while (*link && *link != handle)
        link = &(*link)->next;
    gone = *link;
    if (gone) {
        *link = gone->next;
        fake_block_put(gone->block);
        free(gone);
    }
    fake_unlock();
    return gone ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_ARGUMENT;
}

/* ---- mappings --------------------------------------------------------------------------- */

static bool is_free(uint64_t addr, size_t size)
{
    for (uint64_t at = addr; at < addr + size; at += fake_page())
        if (fake_ze_memory_at(at))
            return false;
    return true;
}

static bool is_mapped(const struct _ze_physical_mem_handle_t *physical)
{
    for (const struct reservation *r = reservations; r; r = r->next)
        for (uint64_t at = r->addr; at < r->addr + r->len; at += fake_page()) {
            const struct memory *memory = fake_ze_memory_at(at);

            if (memory && memory->object->blocks[0] == physical->block)
                return true;
        }
    return false;
}

static void map(const struct _ze_physical_mem_handle_t *physical, uint64_t addr, size_t size,
                size_t offset, ze_context_handle_t context)
{
    struct fake_alloc *alloc = fake_map(addr, size, physical->block, offset);
    struct memory *made =
        fake_ze_memory(fake_ze_object(&(struct object){.blocks = {physical->block},
                                                       .addr = addr,
                                                       .len = size,
                                                       .id = alloc->id,
                                                       .device = physical->device,
                                                       .handles = 1}),
                       addr, size, ZE_MEMORY_TYPE_DEVICE, context);

    made->device = physical->device;
    made->exportable = true;
    made->origin = MAPPED;
}

static bool may_map(const struct _ze_physical_mem_handle_t *physical, uint64_t addr, size_t size,
                    size_t offset)
{
    return offset <= physical->size && size <= physical->size - offset && reserved(addr, size) &&
           is_free(addr, size) && !is_mapped(physical);
}

/* What the driver checks of a range before it looks for mappings. */
static ze_result_t bad_range(uint64_t addr, size_t size)
{
    if (!size || size % fake_page())
        return ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
    return addr % fake_page() ? ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT : ZE_RESULT_SUCCESS;
}

ze_result_t fake_zeVirtualMemMap(ze_context_handle_t context, const void *ptr, size_t size,
                                 ze_physical_mem_handle_t physical, size_t offset,
                                 ze_memory_access_attribute_t access)
{
    uint64_t addr = (uintptr_t)ptr;
    ze_result_t bad = bad_range(addr, size);
    bool good;

    ENTRY("zeVirtualMemMap");
    if (!fake_ze_context_is_live(context) || !physical)
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (access > ZE_MEMORY_ACCESS_ATTRIBUTE_READONLY)
        return ZE_RESULT_ERROR_INVALID_ENUMERATION;
    if (bad || offset % fake_page())
        return bad ? bad : ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT;
    fake_lock();
    good = may_map(physical, addr, size, offset);
    if (good) {
        map(physical, addr, size, offset, context);
        reserved(addr, size)->access = access;
    }
    fake_unlock();
    return good ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_ARGUMENT;
}

/* The mappings that lie whole in the range, of any reservation; none is no error. */
static void unmap(uint64_t addr, size_t size)
{
    for (uint64_t at = addr; at < addr + size; at += fake_page()) {
        struct memory *memory = fake_ze_memory_at(at);

        if (memory && memory->origin == MAPPED && memory->addr == at &&
            memory->len <= addr + size - at)
            fake_ze_forget(memory);
    }
}

ze_result_t fake_zeVirtualMemUnmap(ze_context_handle_t context, const void *ptr, size_t size)
{
    ze_result_t bad = bad_range((uintptr_t)ptr, size);

    ENTRY("zeVirtualMemUnmap");
    if (!fake_ze_context_is_live(context))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (bad)
        return bad;
    fake_lock();
    unmap((uintptr_t)ptr, size);
    fake_unlock();
    return ZE_RESULT_SUCCESS;
}

static const struct _ze_physical_mem_handle_t *physical_of(const struct memory *memory)
{
    const struct _ze_physical_mem_handle_t *p = physicals;

    while (p && p->block != memory->object->blocks[0])
        p = p->next;
    return p;
}

/* Changes the access of the whole reservation. The physical memory is not mapped again if it is
 * too short, which the call does not report. */
static void set_access(struct reservation *r, uint64_t addr, size_t size,
                       ze_memory_access_attribute_t access)
{
    const struct memory *first = fake_ze_memory_at(addr);
    const struct _ze_physical_mem_handle_t *physical;
    ze_context_handle_t context;

    if (r->access == access)
        return;
    r->access = access;
    if (!first || first->addr != addr)
        return;
    physical = physical_of(first);
    context = first->context;
    unmap(addr, size);
    if (physical && may_map(physical, addr, size, 0))
        map(physical, addr, size, 0, context);
}

ze_result_t fake_zeVirtualMemSetAccessAttribute(ze_context_handle_t context, const void *ptr,
                                                size_t size, ze_memory_access_attribute_t access)
{
    struct reservation *r;

    ENTRY("zeVirtualMemSetAccessAttribute");
    if (!fake_ze_context_is_live(context))
        return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (access > ZE_MEMORY_ACCESS_ATTRIBUTE_READONLY)
        return ZE_RESULT_ERROR_INVALID_ENUMERATION;
    fake_lock();
    r = reserved((uintptr_t)ptr, size);
    if (r)
        set_access(r, (uintptr_t)ptr, size, access);
    fake_unlock();
    return r ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_ARGUMENT;
}
