/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Queries the CUDA driver about an address or a range, on a thread that may have no context.
 *
 * One batch query answers most questions; for other memory it returns type 0 and leaves the range
 * unchanged. Some drivers answer no attribute on a thread without a context: then all is asked
 * again in an active primary context of a device. If none is active, no memory of the runtime API
 * exists: memory that the CPU can read is the host's, and for other memory the look-up fails. Plain
 * device memory has a context. Device memory without one comes from a pool or is mapped into
 * reserved addresses; for the latter, RANGE_START and RANGE_SIZE describe the reservation, and only
 * the MAPPING attributes or cuMemGetAddressRange describe the mapped segment. cuMemGetAddressRange
 * needs a current context, so it is tried second.
 */
#include "hmem/cuda/cuda.h"

#include <sys/uio.h>
#include <unistd.h>

/* Answers of the batch query in the vendor's types; zero: no answer. */
struct answers {
    struct cuda_context *context;
    void *host;
    unsigned long long id, start;
    size_t size;
    unsigned type, managed, mapped;
    int ordinal;
    enum cuda_sort sort; /* our conclusion */
};

static unsigned ask_batch(struct cuda_hmem *self, uint64_t addr, struct answers *out)
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

/* Results that mean "not CUDA memory", also in a process that never used CUDA. */
static bool says_unknown(unsigned result)
{
    return result == CUDA_INVALID_VALUE || result == CUDA_NOT_INITIALIZED;
}

/* Virtual memory may be on the host; without a context the driver reports little about other host
 * memory. */
static int host_sort(struct cuda_hmem *self, uint64_t addr, struct answers *found)
{
    unsigned long long handle = 0;
    int rc = found->context ? 0 : cuda_virtual_retain(self, addr, &handle);

    if (handle)
        self->api.handle_release(handle);
    found->sort = handle ? CUDA_VIRTUAL : CUDA_HOST;
    return rc;
}

static int device_sort(struct cuda_hmem *self, uint64_t addr, struct answers *found)
{
    struct cuda_pool *pool = NULL;
    unsigned result = CUDA_OK;

    if (!found->context)
        result = self->api.pointer_attribute(&pool, CUDA_PTR_MEMPOOL, addr);
    if (result && !cuda_says_no_answer(result))
        return cuda_fail_query(self, result, "the memory pool of %#" PRIx64 " cannot be read",
                               addr);
    found->sort = found->context  ? CUDA_PLAIN
                  : pool          ? CUDA_POOL
                  : found->mapped ? CUDA_VIRTUAL
                                  : CUDA_RESERVED;
    return 0;
}

static int find_sort(struct cuda_hmem *self, uint64_t addr, struct answers *found)
{
    if (found->managed) {
        found->sort = CUDA_MANAGED;
        return 0;
    }
    switch (found->type) {
    case CUDA_TYPE_NONE:
        found->sort = found->size ? CUDA_RESERVED : CUDA_UNKNOWN;
        return 0;
    case CUDA_TYPE_HOST:
        return host_sort(self, addr, found);
    case CUDA_TYPE_DEVICE:
        return device_sort(self, addr, found);
    }
    return hmreg_fail(-EIO,
                      "CUDA says %#" PRIx64 " is memory of type %u, which hmreg does not know",
                      addr, found->type);
}

/* As cuda_lookup(), in the context that is current: -CUDA_NO_CONTEXT. */
static int lookup_in_current_context(struct cuda_hmem *self, uint64_t addr, struct cuda_lookup *out)
{
    struct answers found = {.ordinal = -1, .sort = CUDA_UNKNOWN};
    unsigned result;
    int rc = 0;

    if (atomic_load(&self->base.shut_down))
        return -ESHUTDOWN;
    result = ask_batch(self, addr, &found);
    if (result && !says_unknown(result))
        return cuda_fail_query(self, result, "CUDA cannot identify %#" PRIx64 "", addr);
    if (!result)
        rc = find_sort(self, addr, &found);
    if (rc)
        return rc;
    /* Every caller passes a valid pointer. NOLINTNEXTLINE(clang-analyzer-core.*) */
    *out = (struct cuda_lookup){
        .sort = found.sort,
        .context = found.context,
        .host = (uintptr_t)found.host,
        .id = found.id,
        .device =
            found.ordinal >= 0 && found.ordinal < self->base.device_count ? found.ordinal : -1,
        .start = found.start,
        /* The range may be a pool's if the memory has no context. */
        .size = found.context || found.sort == CUDA_VIRTUAL ? found.size : 0,
    };
    return 0;
}

/* ---- contexts --------------------------------------------------------------------------- */

/* All facts that are queried about a range, or about one address if range is NULL. */
struct question {
    uint64_t addr;
    size_t len;
    bool prop;
    struct cuda_lookup *lookup;
    struct cuda_range *range;
};

static int range_in_current_context(struct cuda_hmem *self, const struct question *question);

static int ask_in_current_context(struct cuda_hmem *self, const struct question *question)
{
    return question->range ? range_in_current_context(self, question)
                           : lookup_in_current_context(self, question->addr, question->lookup);
}

/* Decides without an active context. */
static int without_context(uint64_t addr)
{
    char byte;
    struct iovec to = {&byte, 1}, from = {(void *)(uintptr_t)addr, 1};

    if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1 || errno != EFAULT)
        return -CUDA_NO_CONTEXT;
    return hmreg_fail(-EIO,
                      "CUDA cannot identify %#" PRIx64
                      " on a thread without a context, no device has an active primary context, "
                      "and the CPU cannot read it: make the memory's context current",
                      addr);
}

/* -CUDA_NO_CONTEXT: no context is active, and the CPU can read the memory. */
static int ask(struct cuda_hmem *self, const struct question *question)
{
    int rc = ask_in_current_context(self, question);

    for (int i = 0; rc == -CUDA_NO_CONTEXT && i < self->base.device_count; i++) {
        struct cuda_guard guard;

        if (cuda_enter(self, NULL, i, false, &guard))
            continue;
        rc = ask_in_current_context(self, question);
        cuda_leave(self, &guard);
    }
    return rc == -CUDA_NO_CONTEXT ? without_context(question->addr) : rc;
}

int cuda_lookup(struct cuda_hmem *self, uint64_t addr, struct cuda_lookup *out)
{
    struct question question = {.addr = addr, .lookup = out};
    int rc = ask(self, &question);

    if (rc != -CUDA_NO_CONTEXT)
        return rc;
    *out = (struct cuda_lookup){.sort = CUDA_UNKNOWN, .device = -1};
    return 0;
}

/* ---- segments ----------------------------------------------------------------------------- */

/* Memory in one piece. Its size stays 0 if the query needs a context and none is available. */
static int whole_segment(struct cuda_hmem *self, uint64_t addr, const struct cuda_lookup *at,
                         struct cuda_segment *out)
{
    unsigned result;

    if (addr >= at->start && addr - at->start < at->size) {
        out->base = at->start;
        out->size = at->size;
        return 0;
    }
    if (at->sort == CUDA_HOST || at->sort == CUDA_MANAGED)
        return 0;
    result = cuda_address_range(self, addr, at, out);
    if (result && !cuda_wants_context(result))
        return cuda_fail(self, -EIO, result, "the allocation at %#" PRIx64 " cannot be read", addr);
    return 0;
}

static int segment_at(struct cuda_hmem *self, uint64_t addr, const struct cuda_lookup *at,
                      bool prop, struct cuda_segment *out)
{
    struct cuda_segment found = {0};
    int rc = at->sort == CUDA_VIRTUAL ? cuda_virtual_segment(self, addr, at, prop, &found)
                                      : whole_segment(self, addr, at, &found);

    if (!rc && found.size)
        rc = vendor_check_contains(&self->base, addr, found.base, found.size);
    if (!rc)
        *out = found;
    return rc;
}

/* ---- ranges ----------------------------------------------------------------------------- */

/* If the driver does not report the allocation's size, both ends of the range must have the same
 * buffer id. */
static int check_tail(struct cuda_hmem *self, uint64_t addr, size_t len,
                      const struct cuda_lookup *first)
{
    struct cuda_lookup last = {0};
    int rc = lookup_in_current_context(self, addr + len - 1, &last);

    if (rc || last.id == first->id)
        return rc;
    return vendor_fail_leaves(addr, len, addr + len - 1,
                              "the first and the last byte are in different allocations");
}

/* May memory of a pool be a graph's? A graph's address is fixed when a node is added, but has other
 * memory at each launch, and CUDA promises no answer that changes with it. A driver without the
 * call has no graph memory. */
static bool may_be_graphs(struct cuda_hmem *self, const struct cuda_lookup *at)
{
    unsigned long long reserved = 0;

    return at->sort == CUDA_POOL && self->api.graph_memory &&
           (self->api.graph_memory(at->device, CUDA_GRAPH_MEM_RESERVED, &reserved) || reserved);
}

static int range_whole(struct cuda_hmem *self, uint64_t addr, size_t len, struct cuda_range *range)
{
    int rc = segment_at(self, addr, &range->first, false, &range->segment);

    if (rc)
        return rc;
    range->base = addr;
    range->end = addr + len;
    range->segments = 1;
    range->identity = may_be_graphs(self, &range->first) ? 0 : range->first.id;
    if (!range->segment.size)
        return check_tail(self, addr, len, &range->first);
    range->base = range->segment.base;
    range->end = range->segment.base + range->segment.size;
    if (range->end - addr < len)
        return vendor_fail_leaves(addr, len, range->end, "the allocation ends there");
    return 0;
}

static void range_add(struct cuda_range *range, const struct cuda_lookup *at,
                      const struct cuda_segment *segment)
{
    bool named = segment->block && (!range->segments || range->identity);

    if (!range->segments++) {
        range->base = segment->base;
        range->segment = *segment;
        range->on_host = true;
        range->cpu = true;
    }
    if (range->device < 0)
        range->device = at->device;
    range->on_host &= segment->has_prop && segment->prop.location.type != CUDA_LOCATION_DEVICE;
    range->cpu &= segment->cpu;
    if (at->device != range->first.device || !cuda_virtual_same(segment, &range->segment))
        range->mixed = true;
    range->end = segment->base + segment->size;
    range->identity = named ? cuda_virtual_identity(range->identity, &range->first, segment) : 0;
}

/* Describes the segment at next, where the last one ends. An identity needs neither device nor
 * properties, so two questions suffice if the reservation continues. */
static int next_segment(struct cuda_hmem *self, uint64_t next, bool prop,
                        const struct cuda_range *range, struct cuda_lookup *at,
                        struct cuda_segment *out)
{
    int rc = 0;

    out->size = 0;
    if (!prop && next - range->first.start < range->first.size)
        rc = cuda_virtual_follows(self, next, out);
    if (rc || out->size)
        return rc;
    rc = lookup_in_current_context(self, next, at);
    return rc || at->sort != CUDA_VIRTUAL ? rc : segment_at(self, next, at, prop, out);
}

/* Reservations may be adjacent; a range that spans two of them spans two allocations (-ERANGE). */
static int range_virtual(struct cuda_hmem *self, uint64_t addr, size_t len, bool prop,
                         struct cuda_range *range)
{
    struct cuda_lookup at = range->first;
    struct cuda_segment segment;
    int rc = segment_at(self, addr, &at, prop, &segment);

    for (uint64_t next = addr; !rc; next = range->end) {
        if (at.sort != CUDA_VIRTUAL || at.start != range->first.start)
            return vendor_fail_leaves(addr, len, next, "nothing is mapped there");
        if (!segment.size)
            return hmreg_fail(-EIO, "CUDA says the memory mapped at %#" PRIx64 " has no size",
                              next);
        range_add(range, &at, &segment);
        if (range->end - addr >= len)
            break;
        rc = next_segment(self, range->end, prop, range, &at, &segment);
    }
    return rc;
}

/* -CUDA_NO_CONTEXT, and the errors of cuda_lookup_range(). */
static int range_in_current_context(struct cuda_hmem *self, const struct question *question)
{
    uint64_t addr = question->addr;
    struct cuda_range found = {0};
    int rc = lookup_in_current_context(self, addr, &found.first);

    if (rc)
        return rc;
    found.device = found.first.device;
    switch (found.first.sort) {
    case CUDA_UNKNOWN:
        return -HMEM_NOT_MINE;
    case CUDA_RESERVED:
        return hmreg_fail(
            -EFAULT, "%#" PRIx64 " is in a range that CUDA only reserved, without memory", addr);
    case CUDA_VIRTUAL:
        rc = range_virtual(self, addr, question->len, question->prop, &found);
        break;
    default:
        rc = range_whole(self, addr, question->len, &found);
        break;
    }
    if (!rc)
        *question->range = found;
    return rc;
}

int cuda_lookup_range(struct cuda_hmem *self, uint64_t addr, size_t len, bool prop,
                      struct cuda_range *out)
{
    struct question question = {.addr = addr, .len = len, .prop = prop, .range = out};
    int rc = ask(self, &question);

    return rc == -CUDA_NO_CONTEXT ? -HMEM_NOT_MINE : rc;
}
