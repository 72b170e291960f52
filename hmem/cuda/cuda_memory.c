/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Copies and allocations, each in a context. For memory without a context we retain its device's
 * primary context and release it afterwards. Memory that we allocate keeps that context retained
 * until it is freed, since destroying a context frees its memory.
 */
#include "hmem/cuda/cuda.h"

/* ---- copy ------------------------------------------------------------------------------- */

/* True if this side determines the context to copy in. */
static bool has_place(const struct cuda_lookup *at)
{
    return at->context || at->device >= 0;
}

/* Selects the context to copy in: of the side on a device, else of pinned host memory. Virtual
 * memory on the host belongs to no device: device 0 is as good as any. */
static struct cuda_lookup side_of(const struct cuda_lookup *dst, const struct cuda_lookup *src)
{
    bool by_dst = dst->sort >= CUDA_MANAGED && (has_place(dst) || !has_place(src));
    struct cuda_lookup side = by_dst                      ? *dst
                              : src->sort >= CUDA_MANAGED ? *src
                              : dst->sort == CUDA_HOST    ? *dst
                                                          : *src;

    if (side.sort == CUDA_VIRTUAL && !has_place(&side))
        side.device = 0;
    return side;
}

/* Copies in a new stream: the legacy stream would break the capture of other streams to a graph. So
 * the copy waits for no other work of the application. */
static unsigned copy_now(struct cuda_hmem *self, uint64_t dst, uint64_t src, size_t len)
{
    struct cuda_stream *stream = NULL;
    unsigned result = self->api.stream_create(&stream, CUDA_STREAM_NON_BLOCKING);

    if (result)
        return result;
    result = self->api.copy_async(dst, src, len, stream);
    if (!result)
        result = self->api.stream_wait(stream);
    self->api.stream_destroy(stream);
    return result;
}

static int copy_between(struct cuda_hmem *self, uint64_t dst, uint64_t src, size_t len)
{
    struct cuda_lookup at_dst, at_src, side;
    struct cuda_guard guard;
    unsigned result;
    int rc = cuda_lookup(self, dst, &at_dst);

    if (!rc)
        rc = cuda_lookup(self, src, &at_src);
    if (rc)
        return rc;
    side = side_of(&at_dst, &at_src);
    if (side.sort == CUDA_UNKNOWN || side.sort == CUDA_RESERVED)
        return hmreg_fail(-EIO, "neither %#" PRIx64 " nor %#" PRIx64 " is memory of CUDA", dst,
                          src);
    result = cuda_enter(self, side.context, side.device, true, &guard);
    if (result)
        return cuda_fail(self, -EIO, result, "no context of CUDA device %d to copy in",
                         side.device);
    result = copy_now(self, dst, src, len);
    cuda_leave(self, &guard);
    if (result)
        return cuda_fail(self, -EIO, result,
                         "CUDA cannot copy %zu bytes from %#" PRIx64 " to %#" PRIx64, len, src,
                         dst);
    return 0;
}

int cuda_copy(struct hmem *hmem, uint64_t dst, uint64_t src, size_t len)
{
    struct cuda_hmem *self = (struct cuda_hmem *)hmem;
    unsigned mode = cuda_relax(self);
    int rc = copy_between(self, dst, src, len);

    cuda_restore(self, mode);
    return vendor_result(hmem, rc, dst);
}

/* ---- allocations ------------------------------------------------------------------------ */

static unsigned allocate(struct cuda_hmem *self, enum hmreg_mem_kind kind, size_t len, void **out)
{
    unsigned long long addr = 0;
    unsigned result;

    if (kind == HMREG_MEM_HOST_PINNED)
        return self->api.alloc_host(out, len, CUDA_HOSTALLOC_PORTABLE);
    result = kind == HMREG_MEM_MANAGED ? self->api.alloc_managed(&addr, len, CUDA_ATTACH_GLOBAL)
                                       : self->api.alloc(&addr, len);
    if (!result)
        *out = (void *)(uintptr_t)addr;
    return result;
}

/* Translates the vendor's errors to ours. */
static int alloc_errno(unsigned result)
{
    switch (result) {
    case CUDA_OUT_OF_MEMORY:
        return -ENOMEM;
    case CUDA_NOT_SUPPORTED:
        return -EOPNOTSUPP;
    default:
        return -EIO;
    }
}

static int alloc_on(struct cuda_hmem *self, int device, enum hmreg_mem_kind kind, size_t len,
                    void **out)
{
    struct cuda_guard guard;
    void *made = NULL;
    unsigned result;

    if (atomic_load(&self->base.shut_down))
        return -ESHUTDOWN;
    result = cuda_enter(self, NULL, device, true, &guard);
    if (result)
        return cuda_fail(self, alloc_errno(result), result, "CUDA device %d returned no context",
                         device);
    result = allocate(self, kind, len, &made);
    if (!result)
        guard.retained = -1; /* the memory keeps the context until it is freed */
    cuda_leave(self, &guard);
    if (result)
        return cuda_fail(self, alloc_errno(result), result,
                         "CUDA device %d did not allocate %zu bytes of kind %s", device, len,
                         hmreg_mem_kind_name(kind));
    *out = made;
    return 0;
}

int cuda_alloc(struct hmem *hmem, int device, enum hmreg_mem_kind kind, size_t len, void **out)
{
    struct cuda_hmem *self = (struct cuda_hmem *)hmem;
    unsigned mode;
    int rc;

    if (kind == HMREG_MEM_HOST)
        return hmreg_fail(
            -EOPNOTSUPP,
            "CUDA does not allocate pageable host memory: request kind pinned, or iface system");
    mode = cuda_relax(self);
    rc = alloc_on(self, device, kind, len, out);
    cuda_restore(self, mode);
    return vendor_result(hmem, rc, 0);
}

/* Frees in the memory's context, the device's primary one, and releases the reference that
 * cuda_alloc() kept. */
static int free_in(struct cuda_hmem *self, const struct cuda_lookup *at, void *addr,
                   enum hmreg_mem_kind kind)
{
    struct cuda_guard guard;
    int device = -1;
    unsigned result = cuda_enter(self, at->context, at->device, false, &guard);

    if (result)
        return cuda_fail(self, -EIO, result, "the context of %p cannot be made current", addr);
    result = self->api.context_device(&device);
    if (!result)
        result = kind == HMREG_MEM_HOST_PINNED ? self->api.free_host(addr)
                                               : self->api.free((uintptr_t)addr);
    cuda_leave(self, &guard);
    if (result)
        return cuda_fail(self, -EIO, result, "CUDA cannot free %p", addr);
    self->api.primary_release(device);
    return 0;
}

int cuda_free(struct hmem *hmem, void *addr, enum hmreg_mem_kind kind)
{
    struct cuda_hmem *self = (struct cuda_hmem *)hmem;
    unsigned mode = cuda_relax(self);
    struct cuda_lookup at;
    int rc = cuda_lookup(self, (uintptr_t)addr, &at);

    if (!rc)
        rc = at.sort == CUDA_UNKNOWN ? -HMEM_NOT_MINE : free_in(self, &at, addr, kind);
    cuda_restore(self, mode);
    return vendor_result(hmem, rc, (uintptr_t)addr);
}
