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

/* The allocation at addr, of whichever driver. -HMEM_NOT_MINE: of none. */
static int find(struct hmem *self, uint64_t addr, struct ze_found *out)
{
    for (unsigned i = 0; i < self->driver_count; i++) {
        int rc =
            atomic_load(&self->down) ? -HMEM_NOT_MINE : ask(self, &self->drivers[i], addr, out);

        if (rc)
            return rc;
        if (out->type != ZE_MEMORY_TYPE_UNKNOWN)
            return measure(self, addr, out);
    }
    return -HMEM_NOT_MINE;
}

/* find(), and the range must lie inside. */
int ze_find_range(struct hmem *self, uint64_t addr, size_t len, struct ze_found *out)
{
    int rc = find(self, addr, out);

    if (rc)
        return rc;
    if (len > out->base + out->len - addr)
        return hmreg_fail(-ERANGE,
                          "the range of %zu bytes at %#" PRIx64 " leaves the Level Zero "
                          "allocation it starts in at %#" PRIx64 ", after %" PRIu64 " bytes",
                          len, addr, out->base + out->len, out->base + out->len - addr);
    return 0;
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

/* The driver's id is never used again, and counts from 1; drivers count apart. */
uint64_t ze_identity(const struct hmem *self, const struct ze_found *found)
{
    return found->id | (uint64_t)(ze_driver_number(self, found->driver) + 1) << 56;
}

/* On how many tiles memory of a device lies, each with a handle of its own: 1 where the driver
 * does not tell, and export sees by the descriptor's size. */
static uint32_t tiles(struct hmem *self, const struct ze_found *found)
{
    uint32_t count = 0;
    struct sub_allocations parts = {.stype = STYPE_SUB_ALLOCATIONS, .count = &count};
    ze_memory_allocation_properties_t properties = {
        .stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES, .pNext = &parts};

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
                               .identity = ze_identity(self, &found),
                               .segments = tiles(self, &found)};
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
        *out = ze_identity(self, &found);
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

static int copy(struct hmem *self, uint64_t dst, uint64_t src, size_t len)
{
    struct ze_found to = {0}, from = {0};
    bool to_engine = false, from_engine = false;
    int rc = side(self, dst, &to, &to_engine);

    if (!rc)
        rc = side(self, src, &from, &from_engine);
    if (rc)
        return rc;
    if (!to_engine && !from_engine) {
        memcpy(ze_address(dst), ze_address(src), len);
        return 0;
    }
    if (to_engine && from_engine && to.device != from.device)
        return bounce(self, &to, dst, &from, src, len);
    return submit(self, to_engine ? &to : &from, dst, src, len);
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
