/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Level Zero: the GPUs of Intel, by libze_loader.so.1 and whatever drivers it finds.
 *
 * Each driver is asked in turn about an address, in our context of it: what it does not know it
 * answers with success and the type UNKNOWN. The specification allows the same answer for memory
 * of the application's own contexts; the drivers there are answer in every context, and open
 * tries whether that is so.
 *
 * An allocation is identified by the id its driver gives it, which counts up and is not used
 * again. All addresses of a driver's pool may share one: that is right for registrations, since
 * the memory behind them stays the same for as long as the pool lives.
 */
#include "hmem/ze.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Younger than Debian 12's header (Level Zero 1.4). */
#define TYPE_HOST_IMPORTED    4
#define STYPE_SUB_ALLOCATIONS ((ze_structure_type_t)0x0002000D)
struct sub_allocations {
    ze_structure_type_t stype;
    void *next;
    uint32_t *count;
    void *parts; /* not asked for */
};

/* ---- what is at an address -------------------------------------------------------------- */

/* Asks one driver. The type is ZE_MEMORY_TYPE_UNKNOWN for memory that is not its own. */
static int ask(struct hmem *self, struct ze_driver *driver, uint64_t addr, struct ze_found *out)
{
    ze_memory_allocation_properties_t properties = {
        .stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES};
    ze_device_handle_t handle = NULL;
    ze_result_t result =
        self->api.properties(driver->context, ze_address(addr), &properties, &handle);

    if (ze_went_down(self, result))
        return -HMEM_NOT_MINE;
    if (result)
        return ze_fail(-EIO, result, "zeMemGetAllocProperties(%#" PRIx64 ") failed", addr);
    *out = (struct ze_found){.driver = driver,
                             .type = properties.type,
                             .id = properties.id,
                             .page = properties.pageSize,
                             .device = handle};
    return 0;
}

/* Where the allocation lies. A freed piece of a driver's pool still has a type, but no range. */
static int measure(struct hmem *self, uint64_t addr, struct ze_found *found)
{
    void *base = NULL;
    size_t len = 0;
    ze_result_t result =
        self->api.address_range(found->driver->context, ze_address(addr), &base, &len);

    if ((int)result == ZE_ADDRESS_NOT_FOUND)
        return -HMEM_NOT_MINE;
    if (result)
        return ze_fail(-EIO, result, "zeMemGetAddressRange(%#" PRIx64 ") failed", addr);
    found->base = (uintptr_t)base;
    found->len = len;
    if (addr < found->base || addr - found->base >= len)
        return ze_fail(-EIO, result,
                       "zeMemGetAddressRange(%#" PRIx64 ") answers %p and %zu bytes, which is "
                       "not where the address is",
                       addr, base, len);
    return 0;
}

/* The driver's id is never used again, and counts from 1; drivers count apart. */
static uint64_t identity_of(const struct hmem *self, const struct ze_found *found)
{
    return found->id | (uint64_t)(ze_driver_number(self, found->driver) + 1) << 56;
}

/* The allocation at addr, of whichever driver. -HMEM_NOT_MINE: of none. */
static int find(struct hmem *self, uint64_t addr, struct ze_found *out)
{
    for (unsigned i = 0; i < self->driver_count; i++) {
        int rc =
            atomic_load(&self->down) ? -HMEM_NOT_MINE : ask(self, &self->drivers[i], addr, out);

        if (rc)
            return rc;
        if (out->type == ZE_MEMORY_TYPE_UNKNOWN)
            continue;
        out->pieces = 1;
        out->identity = identity_of(self, out);
        return measure(self, addr, out);
    }
    return -HMEM_NOT_MINE;
}

static int fail_leaves(uint64_t addr, size_t len, const struct ze_found *found)
{
    uint64_t end = found->base + found->len;

    return hmreg_fail(-ERANGE,
                      "the range of %zu bytes at %#" PRIx64 " leaves the Level Zero "
                      "allocation it starts in at %#" PRIx64 ", after %" PRIu64 " bytes",
                      len, addr, end, end - addr);
}

/* Is all of [base, base+len) in one reservation of virtual memory? Neighbours that were allocated
 * one by one are not, and stay two allocations. */
static bool is_reserved(struct hmem *self, const struct ze_driver *driver, uint64_t base,
                        size_t len)
{
    ze_memory_access_attribute_t access;
    size_t reserved = 0;

    return self->api.virtual_access &&
           !self->api.virtual_access(driver->context, ze_address(base), len, &access, &reserved);
}

/* The mapping that begins where what was found so far ends becomes part of it. */
static int add_mapping(struct hmem *self, uint64_t addr, size_t len, struct ze_found *found)
{
    uint64_t end = found->base + found->len;
    struct ze_found next = {0};
    int rc = find(self, end, &next);

    if (rc && rc != -HMEM_NOT_MINE)
        return rc;
    if (rc || next.driver != found->driver || next.base != end ||
        !is_reserved(self, found->driver, found->base, found->len + next.len))
        return fail_leaves(addr, len, found);
    if (next.type == ZE_MEMORY_TYPE_DEVICE && found->type != next.type) {
        found->type = next.type;
        found->device = next.device;
    }
    found->len += next.len;
    found->pieces++;
    found->identity =
        (found->identity ^ found->identity >> 29) * 0xbf58476d1ce4e5b9 + next.identity;
    return 0;
}

int ze_find_range(struct hmem *self, uint64_t addr, size_t len, struct ze_found *out)
{
    int rc = find(self, addr, out);

    while (!rc && len > out->base + out->len - addr)
        rc = add_mapping(self, addr, len, out);
    return rc;
}

static int device_index(struct hmem *self, const struct ze_found *found, int *out)
{
    int index = found->device ? ze_device_index(self, found->driver, found->device) : -1;

    if (index < 0 && found->type == ZE_MEMORY_TYPE_DEVICE)
        return ze_fail(-EIO, ZE_RESULT_SUCCESS,
                       "the memory at %#" PRIx64 " is on a device that driver %u does not list",
                       found->base, ze_driver_number(self, found->driver));
    *out = index;
    return 0;
}

/* Mappings; or on how many tiles memory of a device lies, each with a handle of its own: 1 where
 * the driver does not tell, and export sees by the descriptor's size. */
static uint32_t segments(struct hmem *self, const struct ze_found *found)
{
    uint32_t count = 0;
    struct sub_allocations parts = {.stype = STYPE_SUB_ALLOCATIONS, .count = &count};
    ze_memory_allocation_properties_t properties = {
        .stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES, .pNext = &parts};

    if (found->pieces > 1)
        return found->pieces;
    if (found->type != ZE_MEMORY_TYPE_DEVICE || !found->driver->counts_tiles ||
        self->api.properties(found->driver->context, ze_address(found->base), &properties, NULL))
        return 1;
    return count > 1 ? count : 1;
}

static bool is_host(ze_memory_type_t type)
{
    return type == ZE_MEMORY_TYPE_HOST || type == TYPE_HOST_IMPORTED;
}

static int resolve(struct hmem *self, uint64_t addr, size_t len, struct hmem_range *out)
{
    static const enum hmreg_mem_kind kinds[] = {[ZE_MEMORY_TYPE_HOST] = HMREG_MEM_HOST_PINNED,
                                                [ZE_MEMORY_TYPE_DEVICE] = HMREG_MEM_DEVICE,
                                                [ZE_MEMORY_TYPE_SHARED] = HMREG_MEM_MANAGED,
                                                [TYPE_HOST_IMPORTED] = HMREG_MEM_HOST_PINNED};
    struct ze_found found = {0};
    int index = -1;
    int rc = ze_find_range(self, addr, len, &found);

    if (!rc && (unsigned)found.type > TYPE_HOST_IMPORTED)
        rc = ze_fail(-EIO, ZE_RESULT_SUCCESS,
                     "the memory at %#" PRIx64 " is of type %d, which hmreg does not know", addr,
                     (int)found.type);
    if (!rc)
        rc = device_index(self, &found, &index);
    if (rc)
        return rc;
    *out = (struct hmem_range){.device = index,
                               .kind = kinds[found.type],
                               .alloc_base = found.base,
                               .alloc_len = found.len,
                               .identity = found.identity,
                               .segments = segments(self, &found)};
    if (found.type != ZE_MEMORY_TYPE_DEVICE)
        out->host_addr = addr;
    else
        out->exportable = out->segments == 1 && self->devices[index].info.dmabuf;
    return 0;
}

static int identity(struct hmem *self, uint64_t addr, size_t len, uint64_t *out)
{
    struct ze_found found = {0};
    int rc = ze_find_range(self, addr, len, &found);

    if (!rc)
        *out = found.identity;
    return rc;
}

/* ---- copies ----------------------------------------------------------------------------- */

static int copy_group(struct hmem *self, ze_device_handle_t handle, uint32_t *ordinal)
{
    ze_command_queue_group_properties_t groups[16] = {{0}};
    uint32_t count = 16;
    ze_result_t result;

    for (uint32_t i = 0; i < count; i++)
        groups[i].stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES;
    result = self->api.device_queue_groups(handle, &count, groups);
    if (result)
        return ze_fail(-EIO, result, "zeDeviceGetCommandQueueGroupProperties failed");
    for (uint32_t i = 0; i < count && i < 16; i++) {
        if (groups[i].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY) {
            *ordinal = i;
            return 0;
        }
    }
    return ze_fail(-EIO, result, "the device has no queue that copies");
}

/* One copy by a device's engine. */
static int submit(struct hmem *self, const struct ze_found *by, uint64_t dst, uint64_t src,
                  size_t len)
{
    ze_command_queue_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                    .mode = ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS};
    ze_command_list_handle_t list = NULL;
    ze_result_t result, destroyed;
    int rc = copy_group(self, by->device, &desc.ordinal);

    if (rc)
        return rc;
    result = self->api.list_create(by->driver->context, by->device, &desc, &list);
    if (result)
        return ze_fail(-EIO, result, "zeCommandListCreateImmediate failed");
    result = self->api.list_copy(list, ze_address(dst), ze_address(src), len, NULL, 0, NULL);
    destroyed = self->api.list_destroy(list);
    if (result)
        return ze_fail(-EIO, result,
                       "the copy of %zu bytes from %#" PRIx64 " to %#" PRIx64 " failed", len, src,
                       dst);
    if (destroyed)
        return ze_fail(-EIO, destroyed, "zeCommandListDestroy failed");
    return 0;
}

/* Between devices that may not reach one another: by way of the host. */
static int bounce(struct hmem *self, const struct ze_found *to, uint64_t dst,
                  const struct ze_found *from, uint64_t src, size_t len)
{
    size_t most = len < (1u << 20) ? len : 1u << 20;
    char *chunk = malloc(most);
    int rc = chunk ? 0 : hmreg_fail(-ENOMEM, "no memory for a copy by way of the host");

    for (size_t done = 0; !rc && done < len; done += most) {
        size_t piece = len - done < most ? len - done : most;

        rc = submit(self, from, (uintptr_t)chunk, src + done, piece);
        if (!rc)
            rc = submit(self, to, dst + done, (uintptr_t)chunk, piece);
    }
    free(chunk);
    return rc;
}

/* One side of a copy. engine: a device's engine must do it; memory of the host needs none. */
static int side(struct hmem *self, uint64_t addr, struct ze_found *out, bool *engine)
{
    int rc = find(self, addr, out);

    if (rc && rc != -HMEM_NOT_MINE)
        return rc;
    if (atomic_load(&self->down))
        return ze_fail_down();
    *engine = !rc && !is_host(out->type);
    for (unsigned i = 0; *engine && !out->device && i < self->device_count; i++)
        if (&self->drivers[self->devices[i].driver] == out->driver)
            out->device = self->devices[i].handle; /* shared memory of no device: any will do */
    return 0;
}

/* A copy does not cross from one mapping into the next, which may be another device's. */
static size_t room_of(struct hmem *self, const struct ze_found *at, uint64_t addr, size_t len)
{
    size_t room = at->base + at->len - addr;

    return room < len && is_reserved(self, at->driver, at->base, at->len) ? room : len;
}

/* As much of the copy as an engine does at once. engine: whether each side had one so far. */
static int copy_some(struct hmem *self, uint64_t dst, uint64_t src, size_t *len, bool engine[2])
{
    struct ze_found to = {0}, from = {0};
    bool had[2] = {engine[0], engine[1]};
    int rc = side(self, dst, &to, &engine[0]);

    if (!rc)
        rc = side(self, src, &from, &engine[1]);
    if (rc)
        return rc;
    if (had[0] > engine[0] || had[1] > engine[1])
        return hmreg_fail(-EIO, "the copy to %#" PRIx64 " leaves the memory it is of", dst);
    if (engine[0])
        *len = room_of(self, &to, dst, *len);
    if (engine[1])
        *len = room_of(self, &from, src, *len);
    if (!engine[0] && !engine[1]) {
        memcpy(ze_address(dst), ze_address(src), *len);
        return 0;
    }
    if (engine[0] && engine[1] && to.device != from.device)
        return bounce(self, &to, dst, &from, src, *len);
    return submit(self, engine[0] ? &to : &from, dst, src, *len);
}

static int copy(struct hmem *self, uint64_t dst, uint64_t src, size_t len)
{
    bool engine[2] = {false, false};
    int rc = 0;

    for (size_t done = 0, some; !rc && done < len; done += some) {
        some = len - done;
        rc = copy_some(self, dst + done, src + done, &some, engine);
    }
    return rc;
}

/* ---- memory for tools and tests --------------------------------------------------------- */

static int fail_alloc(struct hmem *self, ze_result_t result, int index, enum hmreg_mem_kind kind,
                      size_t len)
{
    const char *name = hmreg_mem_kind_name(kind);

    if (ze_went_down(self, result))
        return ze_fail_down();
    switch (result) {
    case ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY:
    case ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY:
    case ZE_RESULT_ERROR_UNSUPPORTED_SIZE:
        return ze_fail(-ENOMEM, result, "device %d has no %zu bytes of %s memory", index, len,
                       name);
    case ZE_RESULT_ERROR_UNSUPPORTED_FEATURE:
        return ze_fail(-EOPNOTSUPP, result, "device %d has no %s memory", index, name);
    default:
        return ze_fail(-EIO, result, "the allocation of %zu bytes of %s memory failed", len, name);
    }
}

static int alloc(struct hmem *self, int index, enum hmreg_mem_kind kind, size_t len, void **out)
{
    struct ze_device *on = &self->devices[index];
    ze_context_handle_t context = self->drivers[on->driver].context;
    ze_external_memory_export_desc_t export = {.stype =
                                                   ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_DESC,
                                               .flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF};
    ze_device_mem_alloc_desc_t local = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    ze_host_mem_alloc_desc_t host = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    ze_result_t result;
    void *made = NULL;

    if (atomic_load(&self->down))
        return ze_fail_down();
    if (kind == HMREG_MEM_HOST)
        return hmreg_fail(-EOPNOTSUPP, "Level Zero has no pageable host memory");
    if (kind == HMREG_MEM_DEVICE) {
        local.pNext = on->info.dmabuf ? &export : NULL;
        result = self->api.alloc_device(context, &local, len, 0, on->handle, &made);
    } else if (kind == HMREG_MEM_HOST_PINNED) {
        result = self->api.alloc_host(context, &host, len, 0, &made);
    } else {
        result = self->api.alloc_shared(context, &local, &host, len, 0, on->handle, &made);
    }
    if (result)
        return fail_alloc(self, result, index, kind, len);
    *out = made;
    return 0;
}

static int free_ze(struct hmem *self, void *addr, enum hmreg_mem_kind kind)
{
    struct ze_found found = {0};
    ze_result_t result;
    int rc = find(self, (uintptr_t)addr, &found);

    if (rc == -HMEM_NOT_MINE && atomic_load(&self->down))
        return ze_fail_down();
    if (rc == -HMEM_NOT_MINE)
        return hmreg_fail(-EIO, "%p is no memory of Level Zero", addr);
    if (rc)
        return rc;
    result = self->api.free(found.driver->context, addr);
    if (result)
        return ze_fail(-EIO, result, "zeMemFree(%p) failed", addr);
    return 0;
}

static void runtime(struct hmem *self, struct hmem_runtime *out)
{
    *out = self->runtime;
}

static int device_count(struct hmem *self)
{
    return (int)self->device_count;
}

static void device(struct hmem *self, int index, struct hmem_device *out)
{
    *out = self->devices[index].info;
}

const struct hmem_ops hmem_ze_ops = {
    .iface = HMREG_IFACE_ZE,
    .name = "ze",
    .open = ze_open,
    .close = ze_close,
    .runtime = runtime,
    .device_count = device_count,
    .device = device,
    .resolve = resolve,
    .identity = identity,
    .export_dmabuf = ze_export_dmabuf,
    .copy = copy,
    .alloc = alloc,
    .free = free_ze,
};
