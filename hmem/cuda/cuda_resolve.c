/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Resolves a range of CUDA addresses: translates a cuda_range to the contract's hmem_range.
 */
#include "hmem/cuda/cuda.h"

/* Virtual memory may be on the host: its properties say where it is. If only some segments are on
 * the host, the range counts as device memory and is registered segment by segment. */
static enum hmreg_mem_kind kind_of(const struct cuda_range *range)
{
    switch (range->first.sort) {
    case CUDA_HOST:
        return HMREG_MEM_HOST_PINNED;
    case CUDA_MANAGED:
        return HMREG_MEM_MANAGED;
    default:
        return range->on_host ? HMREG_MEM_HOST_PINNED : HMREG_MEM_DEVICE;
    }
}

/* Host memory of CUDA may have a different device address; virtual memory has one address for
 * all. */
static uint64_t host_address(const struct cuda_range *range, enum hmreg_mem_kind kind,
                             uint64_t addr)
{
    if (kind == HMREG_MEM_DEVICE)
        return 0;
    if (range->first.sort == CUDA_VIRTUAL)
        return range->cpu ? addr : 0;
    return range->first.host;
}

/* Did CUDA allocate this host memory? By its documentation it returns no flags for memory that it
 * only registered (cuMemHostRegister), whose pages are the program's. */
static bool has_flags(struct cuda_hmem *self, const struct cuda_lookup *at)
{
    void *addr = (void *)(uintptr_t)at->host;
    struct cuda_guard guard;
    unsigned flags, result;

    if (at->sort != CUDA_HOST || !self->api.host_flags || atomic_load(&self->base.shut_down))
        return false;
    result = self->api.host_flags(&flags, addr);
    if (cuda_wants_context(result) && !cuda_enter(self, at->context, at->device, false, &guard)) {
        result = self->api.host_flags(&flags, addr);
        cuda_leave(self, &guard);
    }
    return !result;
}

static int resolve(struct cuda_hmem *self, uint64_t addr, size_t len, struct hmem_range *out)
{
    struct hmreg_reason why;
    struct cuda_range range;
    enum hmreg_mem_kind kind;
    int rc = cuda_lookup_range(self, addr, len, true, &range);

    if (rc)
        return vendor_resolved(rc);
    kind = kind_of(&range);
    if (kind == HMREG_MEM_DEVICE && range.device < 0)
        return hmreg_fail(
            -EIO, "CUDA reports that %#" PRIx64 " is memory of a device that it does not list",
            addr);
    *out = (struct hmem_range){
        .device = range.device,
        .kind = kind,
        .alloc_base = range.base,
        .alloc_len = range.end - range.base,
        .identity = range.identity,
        .id_recurs = range.identity & CUDA_IDENTITY_VIRTUAL, /* a MEMORY_BLOCK_ID may */
        .segments = range.segments,
        .host_addr = host_address(&range, kind, addr),
        .allocated = kind == HMREG_MEM_HOST_PINNED && range.first.sort == CUDA_VIRTUAL,
        .allocated_if_unnamed = has_flags(self, &range.first),
        .exportable = !cuda_export_may_fail(&range) && cuda_exportable(self, &range, &why) == 0,
    };
    return 0;
}

int cuda_resolve(struct hmem *hmem, uint64_t addr, size_t len, struct hmem_range *out)
{
    struct cuda_hmem *self = (struct cuda_hmem *)hmem;
    unsigned mode = cuda_relax(self);
    int rc = resolve(self, addr, len, out);

    cuda_restore(self, mode);
    return rc;
}

int cuda_identity(struct hmem *hmem, uint64_t addr, size_t len, uint64_t *out)
{
    struct cuda_hmem *self = (struct cuda_hmem *)hmem;
    unsigned mode = cuda_relax(self);
    struct cuda_range range;
    int rc = cuda_lookup_range(self, addr, len, false, &range);

    cuda_restore(self, mode);
    if (rc)
        return vendor_resolved(rc);
    *out = range.identity;
    return 0;
}

/* A pointer query breaks no capture, so the mode stays unchanged. An equal id at the address proves
 * that the allocation, and so its bounds, are unchanged. */
static bool has_id(struct cuda_hmem *self, uint64_t addr, uint64_t id)
{
    unsigned long long now = 0;

    return !atomic_load(&self->base.shut_down) && !(id & CUDA_IDENTITY_VIRTUAL) &&
           !self->api.pointer_attribute(&now, CUDA_PTR_BUFFER_ID, addr) && now == id;
}

static __attribute__((noinline)) bool has_identity(struct hmem *self, uint64_t addr, size_t len,
                                                   uint64_t identity)
{
    struct hmreg_error_guard guard;
    uint64_t now = 0;
    int rc;

    hmreg_error_guard(&guard);
    rc = cuda_identity(self, addr, len, &now);
    hmreg_error_unguard(&guard, rc);
    return !rc && now == identity;
}

bool cuda_is_same(struct hmem *self, uint64_t addr, size_t len, uint64_t identity)
{
    return has_id((struct cuda_hmem *)self, addr, identity) ||
           has_identity(self, addr, len, identity);
}
