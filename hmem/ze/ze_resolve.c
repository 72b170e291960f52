/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Resolves a range of Level Zero addresses.
 */
#include "hmem/ze/ze.h"

/* Newer than Debian 12's header (Level Zero 1.4). */
#define STYPE_SUB_ALLOCATIONS ((ze_structure_type_t)0x0002000D)
struct sub_allocations {
    ze_structure_type_t stype;
    void *next;
    uint32_t *count;
    void *parts; /* NULL: not requested */
};

static int device_index(struct ze_hmem *self, const struct ze_lookup *found, int *out)
{
    int index = found->device ? ze_device_index(self, found->driver, found->device) : -1;

    if (index < 0 && found->type == ZE_MEMORY_TYPE_DEVICE)
        return ze_fail(self, -EIO, ZE_RESULT_SUCCESS,
                       "the memory at %#" PRIx64 " is on a device that driver %u does not list",
                       found->base, ze_driver_number(self, found->driver));
    *out = index;
    return 0;
}

/* The number of mappings; or the number of tiles that device memory spans, each with a separate
 * handle. 1 if the driver does not report it; export then checks the descriptor's size. */
static uint32_t count_segments(struct ze_hmem *self, const struct ze_lookup *found)
{
    uint32_t count = 0;
    struct sub_allocations parts = {.stype = STYPE_SUB_ALLOCATIONS, .count = &count};
    ze_memory_allocation_properties_t properties = {
        .stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES, .pNext = &parts};

    if (found->segments > 1)
        return found->segments;
    if (found->type != ZE_MEMORY_TYPE_DEVICE || !found->driver->counts_tiles ||
        self->api.properties(found->driver->context, ze_address(found->base), &properties, NULL))
        return 1;
    return count > 1 ? count : 1;
}

int ze_resolve(struct hmem *hmem, uint64_t addr, size_t len, struct hmem_range *out)
{
    static const enum hmreg_mem_kind kinds[] = {[ZE_MEMORY_TYPE_HOST] = HMREG_MEM_HOST_PINNED,
                                                [ZE_MEMORY_TYPE_DEVICE] = HMREG_MEM_DEVICE,
                                                [ZE_MEMORY_TYPE_SHARED] = HMREG_MEM_MANAGED,
                                                [ZE_TYPE_HOST_IMPORTED] = HMREG_MEM_HOST_PINNED};
    struct ze_hmem *self = (struct ze_hmem *)hmem;
    struct ze_lookup found = {0};
    int index = -1;
    int rc = ze_lookup_range(self, addr, len, &found);

    if (!rc && (unsigned)found.type > ZE_TYPE_HOST_IMPORTED)
        rc = ze_fail(self, -EIO, ZE_RESULT_SUCCESS,
                     "the memory at %#" PRIx64 " is of type %d, which hmreg does not know", addr,
                     (int)found.type);
    if (!rc)
        rc = device_index(self, &found, &index);
    if (rc)
        return vendor_resolved(rc);
    *out = (struct hmem_range){.device = index,
                               .kind = kinds[found.type],
                               .alloc_base = found.base,
                               .alloc_len = found.len,
                               .identity = found.identity,
                               .segments = count_segments(self, &found)};
    if (found.type != ZE_MEMORY_TYPE_DEVICE)
        out->host_addr = addr;
    else
        out->exportable = out->segments == 1 && self->devices[index].info.dmabuf;
    return 0;
}

int ze_identity(struct hmem *self, uint64_t addr, size_t len, uint64_t *out)
{
    struct ze_lookup found = {0};
    int rc = ze_lookup_range((struct ze_hmem *)self, addr, len, &found);

    if (!rc)
        *out = found.identity;
    return vendor_resolved(rc);
}
