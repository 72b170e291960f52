/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Queries the CUDA driver about a range of addresses.
 *
 * The buffer id, which is never reused, identifies memory in one piece. Virtual memory is walked
 * segment by segment: the application may unmap a segment and map another at the same addresses,
 * and CUDA does not document whether that changes the buffer id. So its identity is a hash of the
 * buffer id, the bounds and the physical memory's id of every segment under the range. With a
 * driver that reports no ids of physical memory, virtual memory has no identity: handles cannot
 * serve, since freed ones are reused.
 */
#include "hmem/cuda/cuda.h"

#include <errno.h>
#include <inttypes.h>

/* ---- identity of virtual memory --------------------------------------------------------- */

/* A bijection that diffuses each input bit (the finalizer of MurmurHash3). */
static uint64_t spread(uint64_t x)
{
    x = (x ^ x >> 33) * 0xff51afd7ed558ccd;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53;
    return x ^ x >> 33;
}

/* Buffer ids count up from 1, so the top bit distinguishes the two kinds of identity. */
static uint64_t blend(uint64_t identity, const struct cuda_lookup *at,
                      const struct cuda_segment *segment)
{
    const uint64_t parts[] = {at->id, segment->block, segment->base, segment->size};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        identity = spread(identity + parts[i] + 0x9e3779b97f4a7c15);
    return identity | 1ull << 63;
}

/* ---- spans ------------------------------------------------------------------------------ */

static int fail_leaves(uint64_t addr, size_t len, uint64_t at, const char *what)
{
    return hmreg_fail(-ERANGE,
                      "the range of %zu bytes at %#" PRIx64 " leaves its allocation at %#" PRIx64
                      ", %" PRIu64 " bytes in: %s",
                      len, addr, at, at - addr, what);
}

/* If the driver does not report the allocation's size, both ends of the range must have the same
 * buffer id. */
static int check_tail(struct hmem *self, uint64_t addr, size_t len, const struct cuda_lookup *first)
{
    struct cuda_lookup last;
    int rc = cuda_lookup(self, addr + len - 1, &last);

    if (rc || last.id == first->id)
        return rc;
    return fail_leaves(addr, len, addr + len - 1,
                       "the last byte is not of the allocation of the first");
}

static int range_whole(struct hmem *self, uint64_t addr, size_t len, struct cuda_range *range)
{
    int rc = cuda_segment(self, addr, &range->first, false, &range->segment);

    if (rc)
        return rc;
    range->base = addr;
    range->end = addr + len;
    range->segments = 1;
    range->identity = range->first.id;
    if (!range->segment.size)
        return check_tail(self, addr, len, &range->first);
    range->base = range->segment.base;
    range->end = range->segment.base + range->segment.size;
    if (range->end - addr < len)
        return fail_leaves(addr, len, range->end, "the allocation ends there");
    return 0;
}

static bool same_make(const struct cuda_segment *a, const struct cuda_segment *b)
{
    const struct cuda_memory_prop *x = &a->prop, *y = &b->prop;

    return a->has_prop == b->has_prop && x->type == y->type && x->handle_types == y->handle_types &&
           x->location.type == y->location.type && x->location.id == y->location.id &&
           x->compression == y->compression && x->gpudirect == y->gpudirect && x->usage == y->usage;
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
    if (at->device != range->first.device || !same_make(segment, &range->segment))
        range->mixed = true;
    range->end = segment->base + segment->size;
    range->identity = named ? blend(range->identity, at, segment) : 0;
}

/* Reservations may be adjacent; a range that spans two of them spans two allocations (-ERANGE). */
static int range_virtual(struct hmem *self, uint64_t addr, size_t len, bool prop,
                         struct cuda_range *range)
{
    struct cuda_lookup at = range->first;
    struct cuda_segment segment;
    int rc = 0;

    for (uint64_t next = addr; next < addr + len; next = range->end) {
        if (next != addr)
            rc = cuda_lookup(self, next, &at);
        if (!rc && (at.sort != CUDA_VIRTUAL || at.start != range->first.start))
            rc = fail_leaves(addr, len, next, "nothing is mapped there");
        if (!rc)
            rc = cuda_segment(self, next, &at, prop, &segment);
        if (!rc && !segment.size)
            rc = hmreg_fail(-EIO, "CUDA says the memory mapped at %#" PRIx64 " has no size", next);
        if (rc)
            return rc;
        range_add(range, &at, &segment);
    }
    return 0;
}

int cuda_lookup_range(struct hmem *self, uint64_t addr, size_t len, bool prop,
                      struct cuda_range *out)
{
    struct cuda_range found = {0};
    int rc = cuda_lookup(self, addr, &found.first);

    if (rc)
        return rc;
    found.device = found.first.device;
    switch (found.first.sort) {
    case CUDA_UNKNOWN:
        return -HMEM_NOT_MINE;
    case CUDA_RESERVED:
        return hmreg_fail(-EFAULT, "%#" PRIx64 " is a reserved address of CUDA without memory",
                          addr);
    case CUDA_VIRTUAL:
        rc = range_virtual(self, addr, len, prop, &found);
        break;
    default:
        rc = range_whole(self, addr, len, &found);
        break;
    }
    if (!rc)
        *out = found;
    return rc;
}
