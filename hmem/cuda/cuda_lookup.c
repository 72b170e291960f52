/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Queries the CUDA driver about one address, on a thread that may have no context.
 *
 * One batch query answers most questions; it needs no context and zeroes unknown attributes.
 * Plain device memory has a context. Device memory without one comes from a pool or is mapped into
 * reserved addresses; for the latter, RANGE_START and RANGE_SIZE describe the reservation, and only
 * the MAPPING attributes or cuMemGetAddressRange describe the mapped segment. cuMemGetAddressRange
 * needs a current context, so it is tried second.
 */
#include "hmem/cuda/cuda.h"

#include <errno.h>
#include <inttypes.h>

/* The batch query's answers in the vendor's types; zero: no answer. */
struct answers {
    struct cuda_context *context;
    void *host;
    unsigned long long id, start;
    size_t size;
    unsigned type, managed, mapped;
    int ordinal;
};

static unsigned ask(struct hmem *self, uint64_t addr, struct answers *out)
{
    unsigned attributes[] = {
        CUDA_PTR_CONTEXT,     CUDA_PTR_MEMORY_TYPE, CUDA_PTR_HOST_POINTER,
        CUDA_PTR_BUFFER_ID,   CUDA_PTR_IS_MANAGED,  CUDA_PTR_DEVICE_ORDINAL,
        CUDA_PTR_RANGE_START, CUDA_PTR_RANGE_SIZE,  CUDA_PTR_MAPPED,
    };
    void *values[] = {
        &out->context, &out->type,  &out->host, &out->id,     &out->managed,
        &out->ordinal, &out->start, &out->size, &out->mapped,
    };

    return self->api.pointer_attributes(sizeof(values) / sizeof(values[0]), attributes, values,
                                        addr);
}

/* Results that mean "not CUDA memory", including those for a process that never used CUDA. */
static bool says_unknown(unsigned result)
{
    return result == CUDA_INVALID_VALUE || result == CUDA_NOT_INITIALIZED ||
           result == CUDA_INVALID_CONTEXT;
}

/* True if the driver, or this memory, does not have the attribute. */
static bool says_no_answer(unsigned result)
{
    return result == CUDA_INVALID_VALUE || result == CUDA_NOT_SUPPORTED;
}

/* Retains the handle of virtual memory, which the caller releases; 0 for any other memory. */
static int retain(struct hmem *self, uint64_t addr, unsigned long long *out)
{
    unsigned result;

    *out = 0;
    if (!self->api.handle_retain || !self->api.handle_prop || !self->api.handle_release)
        return 0;
    result = self->api.handle_retain(out, (void *)(uintptr_t)addr);
    if (!result)
        return 0;
    *out = 0;
    if (says_no_answer(result))
        return 0;
    return cuda_fail(self, -EIO, result, "the allocation mapped at %#" PRIx64 " cannot be retained",
                     addr);
}

/* Virtual memory may be on the host; without a context the driver says little about other host
 * memory. */
static int host_sort(struct hmem *self, uint64_t addr, const struct answers *found,
                     enum cuda_sort *out)
{
    unsigned long long handle = 0;
    int rc = found->context ? 0 : retain(self, addr, &handle);

    if (rc)
        return rc;
    if (handle)
        self->api.handle_release(handle);
    *out = handle ? CUDA_VIRTUAL : CUDA_HOST;
    return 0;
}

static int device_sort(struct hmem *self, uint64_t addr, const struct answers *found,
                       enum cuda_sort *out)
{
    struct cuda_pool *pool = NULL;
    unsigned result;

    if (found->context) {
        *out = CUDA_PLAIN;
        return 0;
    }
    result = self->api.pointer_attribute(&pool, CUDA_PTR_MEMPOOL, addr);
    if (result && !says_no_answer(result))
        return cuda_fail(self, -EIO, result, "the memory pool of %#" PRIx64 " cannot be read",
                         addr);
    if (pool)
        *out = CUDA_POOL;
    else
        *out = found->mapped ? CUDA_VIRTUAL : CUDA_RESERVED;
    return 0;
}

static int sort_of(struct hmem *self, uint64_t addr, const struct answers *found,
                   enum cuda_sort *out)
{
    if (found->managed) {
        *out = CUDA_MANAGED;
        return 0;
    }
    switch (found->type) {
    case CUDA_TYPE_NONE:
        *out = found->size ? CUDA_RESERVED : CUDA_UNKNOWN;
        return 0;
    case CUDA_TYPE_HOST:
        return host_sort(self, addr, found, out);
    case CUDA_TYPE_DEVICE:
        return device_sort(self, addr, found, out);
    }
    return hmreg_fail(-EIO, "CUDA says %#" PRIx64 " is memory of type %u, which is none we know",
                      addr, found->type);
}

/* Memory without a context may come from a pool; its range attributes may describe the pool. */
static bool says_extent(const struct answers *found, enum cuda_sort sort)
{
    return found->context || sort == CUDA_VIRTUAL;
}

int cuda_lookup(struct hmem *self, uint64_t addr, struct cuda_lookup *out)
{
    struct answers found = {.ordinal = -1};
    enum cuda_sort sort = CUDA_UNKNOWN;
    unsigned result;
    int rc = 0;

    if (atomic_load(&self->shut_down))
        return -ESHUTDOWN;
    result = ask(self, addr, &found);
    if (result && !says_unknown(result))
        return cuda_fail(self, -EIO, result, "CUDA cannot say what %#" PRIx64 " is", addr);
    if (!result)
        rc = sort_of(self, addr, &found, &sort);
    if (rc)
        return rc;
    *out = (struct cuda_lookup){
        .sort = sort,
        .context = found.context,
        .host = (uintptr_t)found.host,
        .id = found.id,
        .device = found.ordinal >= 0 && found.ordinal < self->count ? found.ordinal : -1,
        .start = found.start,
        .size = says_extent(&found, sort) ? found.size : 0,
    };
    return 0;
}

/* ---- segments ----------------------------------------------------------------------------- */

static bool lies_in(uint64_t addr, uint64_t base, uint64_t size)
{
    return addr >= base && addr - base < size;
}

/* Tries the caller's current context first, whichever its device; then makes the memory's context
 * current, or its device's primary context if that is active. */
static unsigned address_range(struct hmem *self, uint64_t addr, const struct cuda_lookup *at,
                              struct cuda_segment *out)
{
    unsigned long long base = 0;
    size_t size = 0;
    unsigned result = self->api.address_range(&base, &size, addr);

    if (cuda_wants_context(result)) {
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

static unsigned mapping(struct hmem *self, uint64_t addr, struct cuda_segment *out)
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
static bool cpu_may(struct hmem *self, uint64_t addr, const struct cuda_memory_prop *prop)
{
    unsigned long long flags = 0;

    return prop->location.type != CUDA_LOCATION_DEVICE && self->api.access &&
           !self->api.access(&flags, &prop->location, addr) && flags == CUDA_ACCESS_READWRITE;
}

/* Reads the properties that the memory at addr was created with. Imported memory has none. */
static int read_prop(struct hmem *self, uint64_t addr, struct cuda_segment *out)
{
    unsigned long long handle;
    unsigned result;
    int rc = retain(self, addr, &handle);

    if (rc || !handle)
        return rc;
    result = self->api.handle_prop(&out->prop, handle);
    self->api.handle_release(handle);
    if (result)
        return cuda_fail(self, -EIO, result,
                         "the properties of the memory at %#" PRIx64 " cannot be read", addr);
    out->has_prop = true;
    out->cpu = cpu_may(self, addr, &out->prop);
    return 0;
}

static int virtual_segment(struct hmem *self, uint64_t addr, const struct cuda_lookup *at,
                           bool prop, struct cuda_segment *out)
{
    unsigned long long block = 0;
    unsigned result = mapping(self, addr, out);

    if (says_no_answer(result))
        result = address_range(self, addr, at, out);
    if (result)
        return cuda_fail(self, -EIO, result, "what is mapped at %#" PRIx64 " cannot be read", addr);
    result = self->api.pointer_attribute(&block, CUDA_PTR_MEMORY_BLOCK_ID, addr);
    if (result && !says_no_answer(result))
        return cuda_fail(self, -EIO, result, "the id of the memory at %#" PRIx64 " cannot be read",
                         addr);
    out->block = block;
    return prop ? read_prop(self, addr, out) : 0;
}

/* Memory in one piece. Its size stays 0 if the query needs a context and none is available. */
static int whole_segment(struct hmem *self, uint64_t addr, const struct cuda_lookup *at,
                         struct cuda_segment *out)
{
    unsigned result;

    if (lies_in(addr, at->start, at->size)) {
        out->base = at->start;
        out->size = at->size;
        return 0;
    }
    if (at->sort == CUDA_HOST || at->sort == CUDA_MANAGED)
        return 0;
    result = address_range(self, addr, at, out);
    if (result && !cuda_wants_context(result))
        return cuda_fail(self, -EIO, result, "the allocation at %#" PRIx64 " cannot be read", addr);
    return 0;
}

int cuda_segment(struct hmem *self, uint64_t addr, const struct cuda_lookup *at, bool prop,
                 struct cuda_segment *out)
{
    struct cuda_segment found = {0};
    int rc = at->sort == CUDA_VIRTUAL ? virtual_segment(self, addr, at, prop, &found)
                                      : whole_segment(self, addr, at, &found);

    if (rc)
        return rc;
    if (found.size && !lies_in(addr, found.base, found.size))
        return hmreg_fail(-EIO,
                          "CUDA says %#" PRIx64 " lies in [%#" PRIx64 ", +%#" PRIx64
                          "), which does not contain it",
                          addr, found.base, found.size);
    *out = found;
    return 0;
}
