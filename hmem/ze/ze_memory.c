/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Copies, allocates and frees Level Zero memory.
 */
#include "hmem/ze/ze.h"

#include <stdlib.h>
#include <string.h>

/* ---- copies ----------------------------------------------------------------------------- */

static int copy_group(struct ze_hmem *self, ze_device_handle_t handle, uint32_t *ordinal)
{
    ze_command_queue_group_properties_t groups[16] = {{0}};
    uint32_t count = 16;
    ze_result_t result;

    for (uint32_t i = 0; i < count; i++)
        groups[i].stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES;
    result = self->api.device_queue_groups(handle, &count, groups);
    if (result)
        return ze_fail(self, -EIO, result, "zeDeviceGetCommandQueueGroupProperties failed");
    for (uint32_t i = 0; i < count && i < 16; i++) {
        if (groups[i].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY) {
            *ordinal = i;
            return 0;
        }
    }
    return ze_fail(self, -EIO, result, "the device has no queue that copies");
}

/* Runs one copy on a device's engine. */
static int copy_directly(struct ze_hmem *self, const struct ze_lookup *by, uint64_t dst,
                         uint64_t src, size_t len)
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
        return ze_fail(self, -EIO, result, "zeCommandListCreateImmediate failed");
    result = self->api.list_copy(list, ze_address(dst), ze_address(src), len, NULL, 0, NULL);
    destroyed = self->api.list_destroy(list);
    if (result)
        return ze_fail(self, -EIO, result,
                       "the copy of %zu bytes from %#" PRIx64 " to %#" PRIx64 " failed", len, src,
                       dst);
    if (destroyed)
        return ze_fail(self, -EIO, destroyed, "zeCommandListDestroy failed");
    return 0;
}

/* Copies through a host buffer between devices that may lack peer access. */
static int copy_bounced(struct ze_hmem *self, const struct ze_lookup *to, uint64_t dst,
                        const struct ze_lookup *from, uint64_t src, size_t len)
{
    size_t most = len < (1u << 20) ? len : 1u << 20;
    char *bounce = malloc(most);
    int rc = bounce ? 0 : hmreg_fail(-ENOMEM, "hmreg has no memory to copy through the host");

    for (size_t done = 0; !rc && done < len; done += most) {
        size_t some = len - done < most ? len - done : most;

        rc = copy_directly(self, from, (uintptr_t)bounce, src + done, some);
        if (!rc)
            rc = copy_directly(self, to, dst + done, (uintptr_t)bounce, some);
    }
    free(bounce);
    return rc;
}

static bool is_host(ze_memory_type_t type)
{
    return type == ZE_MEMORY_TYPE_HOST || type == ZE_TYPE_HOST_IMPORTED;
}

/* Describes one side of a copy. engine: a device's engine must copy; host memory needs none. */
static int side_at(struct ze_hmem *self, uint64_t addr, struct ze_lookup *out, bool *engine)
{
    int rc = ze_lookup(self, addr, out);

    if (rc && rc != -HMEM_NOT_MINE)
        return rc;
    *engine = !rc && !is_host(out->type);
    for (int i = 0; *engine && !out->device && i < self->base.device_count; i++)
        if (&self->drivers[self->devices[i].driver] == out->driver)
            out->device = self->devices[i].handle; /* shared, without a device: any will do */
    return 0;
}

/* Limits a copy to one mapping, since the next may be on another device. */
static size_t room_of(struct ze_hmem *self, const struct ze_lookup *at, uint64_t addr, size_t len)
{
    size_t room = at->base + at->len - addr;

    return room < len && ze_is_reserved(self, at->driver, at->base, at->len) ? room : len;
}

/* Copies as much as one engine can at once. engine: whether each side needed one so far. */
static int copy_some(struct ze_hmem *self, uint64_t dst, uint64_t src, size_t *len, bool engine[2])
{
    struct ze_lookup to = {0}, from = {0};
    bool had[2] = {engine[0], engine[1]};
    int rc = side_at(self, dst, &to, &engine[0]);

    if (!rc)
        rc = side_at(self, src, &from, &engine[1]);
    if (rc)
        return rc;
    if (had[0] > engine[0] || had[1] > engine[1])
        return hmreg_fail(-EIO, "the copy to %#" PRIx64 " extends beyond the end of its allocation",
                          dst);
    if (engine[0])
        *len = room_of(self, &to, dst, *len);
    if (engine[1])
        *len = room_of(self, &from, src, *len);
    if (!engine[0] && !engine[1]) {
        memcpy(ze_address(dst), ze_address(src), *len);
        return 0;
    }
    if (engine[0] && engine[1] && to.device != from.device)
        return copy_bounced(self, &to, dst, &from, src, *len);
    return copy_directly(self, engine[0] ? &to : &from, dst, src, *len);
}

int ze_copy(struct hmem *self, uint64_t dst, uint64_t src, size_t len)
{
    bool engine[2] = {false, false};
    int rc = 0;

    for (size_t done = 0, some; !rc && done < len; done += some) {
        some = len - done;
        rc = copy_some((struct ze_hmem *)self, dst + done, src + done, &some, engine);
    }
    return vendor_result(self, rc, dst);
}

/* ---- memory for tools and tests --------------------------------------------------------- */

static int fail_alloc(struct ze_hmem *self, ze_result_t result, int index, enum hmreg_mem_kind kind,
                      size_t len)
{
    const char *name = hmreg_mem_kind_name(kind);

    switch (result) {
    case ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY:
    case ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY:
    case ZE_RESULT_ERROR_UNSUPPORTED_SIZE:
        return ze_fail(self, -ENOMEM, result, "device %d has no %zu bytes of %s memory", index, len,
                       name);
    case ZE_RESULT_ERROR_UNSUPPORTED_FEATURE:
        return ze_fail(self, -EOPNOTSUPP, result, "device %d has no %s memory", index, name);
    default:
        return ze_fail(self, -EIO, result, "the allocation of %zu bytes of %s memory failed", len,
                       name);
    }
}

int ze_alloc(struct hmem *hmem, int index, enum hmreg_mem_kind kind, size_t len, void **out)
{
    struct ze_hmem *self = (struct ze_hmem *)hmem;
    struct ze_device *on = &self->devices[index];
    ze_context_handle_t context = self->drivers[on->driver].context;
    ze_external_memory_export_desc_t export = {.stype =
                                                   ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_DESC,
                                               .flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF};
    ze_device_mem_alloc_desc_t local = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    ze_host_mem_alloc_desc_t host = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    ze_result_t result;
    void *made = NULL;

    if (atomic_load(&self->base.shut_down))
        return vendor_result(hmem, -ESHUTDOWN, 0);
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
        return vendor_result(hmem, fail_alloc(self, result, index, kind, len), 0);
    *out = made;
    return 0;
}

int ze_free(struct hmem *hmem, void *addr, enum hmreg_mem_kind kind)
{
    struct ze_hmem *self = (struct ze_hmem *)hmem;
    struct ze_lookup found = {0};
    ze_result_t result = ZE_RESULT_SUCCESS;
    int rc = ze_lookup(self, (uintptr_t)addr, &found);

    if (!rc)
        result = self->api.free(found.driver->context, addr);
    if (result)
        rc = ze_fail(self, -EIO, result, "zeMemFree(%p) failed", addr);
    return vendor_result(hmem, rc, (uintptr_t)addr);
}
