/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Resolves a range of CUDA addresses: translates a cuda_span to the contract's hmem_range.
 */
#include "hmem/cuda/cuda.h"

#include <errno.h>
#include <inttypes.h>

/* Virtual memory may be on the host: its properties say where it is. If only some pieces are on
 * the host, the range counts as device memory and is registered piece by piece. */
static enum hmreg_mem_kind kind_of(const struct cuda_span *span)
{
    switch (span->first.sort) {
    case CUDA_HOST:
        return HMREG_MEM_HOST_PINNED;
    case CUDA_MANAGED:
        return HMREG_MEM_MANAGED;
    default:
        return span->on_host ? HMREG_MEM_HOST_PINNED : HMREG_MEM_DEVICE;
    }
}

/* Host memory of CUDA may have a different device address; virtual memory has one address for
 * all. */
static uint64_t host_address(const struct cuda_span *span, enum hmreg_mem_kind kind, uint64_t addr)
{
    if (kind == HMREG_MEM_DEVICE)
        return 0;
    if (span->first.sort == CUDA_VIRTUAL)
        return span->cpu ? addr : 0;
    return span->first.host;
}

int cuda_resolve(struct hmem *self, uint64_t addr, size_t len, struct hmem_range *out)
{
    struct hmreg_reason why;
    struct cuda_span span;
    enum hmreg_mem_kind kind;
    int rc = cuda_span(self, addr, len, true, &span);

    if (rc)
        return rc == -ESHUTDOWN ? -HMEM_NOT_MINE : rc;
    kind = kind_of(&span);
    if (kind == HMREG_MEM_DEVICE && span.device < 0)
        return hmreg_fail(-EIO, "CUDA says %#" PRIx64 " is memory of a device it does not count",
                          addr);
    *out = (struct hmem_range){
        .device = span.device,
        .kind = kind,
        .alloc_base = span.base,
        .alloc_len = span.end - span.base,
        .identity = span.identity,
        .segments = span.segments,
        .host_addr = host_address(&span, kind, addr),
        /* Drivers promise nothing about pool memory; only an export shows. */
        .exportable = span.first.sort != CUDA_POOL && cuda_exportable(self, &span, &why) == 0,
    };
    return 0;
}

int cuda_identity(struct hmem *self, uint64_t addr, size_t len, uint64_t *out)
{
    struct cuda_span span;
    int rc = cuda_span(self, addr, len, false, &span);

    if (rc)
        return rc == -ESHUTDOWN ? -HMEM_NOT_MINE : rc;
    *out = span.identity;
    return 0;
}
