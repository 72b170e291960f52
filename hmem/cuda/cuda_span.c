/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Queries the CUDA driver about a range of addresses.
 *
 * The buffer id, which is never reused, identifies memory in one piece. Virtual memory is walked
 * piece by piece: the application may unmap a piece and map another at the same addresses, and
 * CUDA does not document whether that changes the buffer id. So its identity is a hash of the
 * buffer id, the bounds and the physical memory's id of every piece under the range. With a driver
 * that reports no ids of physical memory, virtual memory has no identity: handles cannot serve,
 * since freed ones are reused.
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
                      const struct cuda_piece *piece)
{
    const uint64_t parts[] = {at->id, piece->block, piece->base, piece->size};

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

static int span_whole(struct hmem *self, uint64_t addr, size_t len, struct cuda_span *span)
{
    int rc = cuda_piece(self, addr, &span->first, false, &span->piece);

    if (rc)
        return rc;
    span->base = addr;
    span->end = addr + len;
    span->segments = 1;
    span->identity = span->first.id;
    if (!span->piece.size)
        return check_tail(self, addr, len, &span->first);
    span->base = span->piece.base;
    span->end = span->piece.base + span->piece.size;
    if (span->end - addr < len)
        return fail_leaves(addr, len, span->end, "the allocation ends there");
    return 0;
}

static bool same_make(const struct cuda_piece *a, const struct cuda_piece *b)
{
    const struct cuda_memory_prop *x = &a->prop, *y = &b->prop;

    return a->has_prop == b->has_prop && x->type == y->type && x->handle_types == y->handle_types &&
           x->location.type == y->location.type && x->location.id == y->location.id &&
           x->compression == y->compression && x->gpudirect == y->gpudirect && x->usage == y->usage;
}

static void span_add(struct cuda_span *span, const struct cuda_lookup *at,
                     const struct cuda_piece *piece)
{
    bool named = piece->block && (!span->segments || span->identity);

    if (!span->segments++) {
        span->base = piece->base;
        span->piece = *piece;
        span->on_host = true;
        span->cpu = true;
    }
    if (span->device < 0)
        span->device = at->device;
    span->on_host &= piece->has_prop && piece->prop.location.type != CUDA_LOCATION_DEVICE;
    span->cpu &= piece->cpu;
    if (at->device != span->first.device || !same_make(piece, &span->piece))
        span->mixed = true;
    span->end = piece->base + piece->size;
    span->identity = named ? blend(span->identity, at, piece) : 0;
}

/* Reservations may be adjacent; a range that spans two of them spans two allocations (-ERANGE). */
static int span_virtual(struct hmem *self, uint64_t addr, size_t len, bool prop,
                        struct cuda_span *span)
{
    struct cuda_lookup at = span->first;
    struct cuda_piece piece;
    int rc = 0;

    for (uint64_t next = addr; next < addr + len; next = span->end) {
        if (next != addr)
            rc = cuda_lookup(self, next, &at);
        if (!rc && (at.sort != CUDA_VIRTUAL || at.start != span->first.start))
            rc = fail_leaves(addr, len, next, "nothing is mapped there");
        if (!rc)
            rc = cuda_piece(self, next, &at, prop, &piece);
        if (!rc && !piece.size)
            rc = hmreg_fail(-EIO, "CUDA says the memory mapped at %#" PRIx64 " has no size", next);
        if (rc)
            return rc;
        span_add(span, &at, &piece);
    }
    return 0;
}

int cuda_span(struct hmem *self, uint64_t addr, size_t len, bool prop, struct cuda_span *out)
{
    struct cuda_span found = {0};
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
        rc = span_virtual(self, addr, len, prop, &found);
        break;
    default:
        rc = span_whole(self, addr, len, &found);
        break;
    }
    if (!rc)
        *out = found;
    return rc;
}
