/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Queries the Level Zero drivers about an address.
 *
 * We query each driver in turn, in our context of that driver; for unknown memory it returns
 * success and the type UNKNOWN. The specification allows the same result for memory of the
 * application's contexts, but existing drivers answer across contexts; ze_complete() tests this.
 *
 * The driver's id identifies an allocation: ids count up and are never reused. All addresses of a
 * driver's pool may share one id, which is correct for registrations, since the memory behind them
 * stays the same for the pool's lifetime.
 */
#include "hmem/ze/ze.h"

/* Queries one driver. The type is ZE_MEMORY_TYPE_UNKNOWN for memory that it does not know. */
static int ask(struct ze_hmem *self, struct ze_driver *driver, uint64_t addr, struct ze_lookup *out)
{
    ze_memory_allocation_properties_t properties = {
        .stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES};
    ze_device_handle_t handle = NULL;
    ze_result_t result =
        self->api.properties(driver->context, ze_address(addr), &properties, &handle);

    if (result)
        return ze_fail(self, -EIO, result, "zeMemGetAllocProperties(%#" PRIx64 ") failed", addr);
    *out = (struct ze_lookup){.driver = driver,
                              .type = properties.type,
                              .id = properties.id,
                              .page = properties.pageSize,
                              .device = handle};
    return 0;
}

/* Was the memory freed since a driver answered about it? The address may be another allocation's.
 */
static bool was_freed(struct ze_hmem *self, uint64_t addr, const struct ze_lookup *found)
{
    struct ze_lookup now = {.id = 0};

    return !ask(self, found->driver, addr, &now) &&
           (now.type == ZE_MEMORY_TYPE_UNKNOWN || now.id != found->id);
}

/* Reads the allocation's range. Freed memory in a driver's pool still has a type, but no range. The
 * bytes that round an allocation up have a type too; their range is the allocation's, which ends
 * before them. -EAGAIN: the memory was freed meanwhile. */
static int measure(struct ze_hmem *self, uint64_t addr, struct ze_lookup *found)
{
    void *base = NULL;
    size_t len = 0;
    ze_result_t result =
        self->api.address_range(found->driver->context, ze_address(addr), &base, &len);

    if ((int)result == ZE_ADDRESS_NOT_FOUND)
        return -HMEM_NOT_MINE;
    if (result && was_freed(self, addr, found))
        return -EAGAIN;
    if (result)
        return ze_fail(self, -EIO, result, "zeMemGetAddressRange(%#" PRIx64 ") failed", addr);
    found->base = (uintptr_t)base;
    found->len = len;
    if (len && addr >= found->base + len && addr - found->base - len < found->page)
        return -HMEM_NOT_MINE;
    return vendor_check_contains(&self->base, addr, found->base, len);
}

/* Ids are never reused and count from 1, separately in each driver. */
static uint64_t identity_of(const struct ze_hmem *self, const struct ze_lookup *found)
{
    return found->id | (uint64_t)(ze_driver_number(self, found->driver) + 1) << 56;
}

static int look_up_once(struct ze_hmem *self, uint64_t addr, struct ze_lookup *out)
{
    for (unsigned i = 0; i < self->driver_count; i++) {
        struct ze_driver *driver = &self->drivers[i];
        int rc;

        if (!driver->context) /* left out when the runtime was opened */
            continue;
        rc = atomic_load(&self->base.shut_down) ? -ESHUTDOWN : ask(self, driver, addr, out);
        if (rc)
            return rc;
        if (out->type == ZE_MEMORY_TYPE_UNKNOWN)
            continue;
        out->segments = 1;
        out->identity = identity_of(self, out);
        return measure(self, addr, out);
    }
    return -HMEM_NOT_MINE;
}

int ze_lookup(struct ze_hmem *self, uint64_t addr, struct ze_lookup *out)
{
    int rc;

    do
        rc = look_up_once(self, addr, out);
    while (rc == -EAGAIN);
    return rc;
}

/* Adjacent ordinary allocations are in no reservation, and remain two allocations. */
bool ze_is_reserved(struct ze_hmem *self, const struct ze_driver *driver, uint64_t base, size_t len)
{
    ze_memory_access_attribute_t access;
    size_t reserved = 0;

    return self->api.virtual_access &&
           !self->api.virtual_access(driver->context, ze_address(base), len, &access, &reserved);
}

/* Appends the mapping that begins at the end of the range found so far. */
static int add_mapping(struct ze_hmem *self, uint64_t addr, size_t len, struct ze_lookup *found)
{
    uint64_t end = found->base + found->len;
    struct ze_lookup next = {0};
    int rc = ze_lookup(self, end, &next);

    if (rc && rc != -HMEM_NOT_MINE)
        return rc;
    if (rc || next.driver != found->driver || next.base != end ||
        !ze_is_reserved(self, found->driver, found->base, found->len + next.len))
        return vendor_fail_leaves(addr, len, end, "the allocation ends there");
    if (next.type == ZE_MEMORY_TYPE_DEVICE && found->type != next.type) {
        found->type = next.type;
        found->device = next.device;
    }
    found->len += next.len;
    found->segments++;
    found->identity =
        (found->identity ^ found->identity >> 29) * 0xbf58476d1ce4e5b9 + next.identity;
    return 0;
}

/* -EFAULT if the driver has reserved the address; for others drivers refuse the query. */
static int check_driver(struct ze_hmem *self, const struct ze_driver *driver, uint64_t addr)
{
    ze_memory_access_attribute_t access;
    size_t reserved = 0;
    ze_result_t result;

    if (!driver->context || !self->api.virtual_access)
        return 0;
    result = self->api.virtual_access(driver->context, ze_address(addr & ~UINT64_C(4095)), 4096,
                                      &access, &reserved);
    if (!result)
        return hmreg_fail(-EFAULT,
                          "nothing is mapped at %#" PRIx64 ": Level Zero only reserved the address",
                          addr);
    if (result > ZE_RESULT_ERROR_UNINITIALIZED && result < ZE_RESULT_ERROR_UNKNOWN)
        return 0;
    return ze_fail(self, -EIO, result, "zeVirtualMemGetAccessAttribute(%#" PRIx64 ") failed", addr);
}

/* The error for an address that no driver knows: -HMEM_NOT_MINE, -EFAULT, -EIO. */
static int check_not_reserved(struct ze_hmem *self, uint64_t addr)
{
    int rc = 0;

    for (unsigned i = 0; !rc && i < self->driver_count; i++)
        rc = check_driver(self, &self->drivers[i], addr);
    return rc ? rc : -HMEM_NOT_MINE;
}

int ze_lookup_range(struct ze_hmem *self, uint64_t addr, size_t len, struct ze_lookup *out)
{
    int rc = ze_lookup(self, addr, out);

    if (rc == -HMEM_NOT_MINE)
        rc = check_not_reserved(self, addr);
    while (!rc && len > out->base + out->len - addr)
        rc = add_mapping(self, addr, len, out);
    return rc;
}
