/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Exports CUDA memory as a dmabuf. The driver exports whole host pages only, so the descriptor
 * covers the pages from the range's first to its last. A device that imports it maps all of it into
 * its window (BAR1), which may be smaller than the allocation. If the driver refuses that, the
 * whole allocation is exported (for virtual memory, the mapped segments under the range).
 * Allocations smaller than a page share a page with their neighbours; the offset distinguishes
 * them. The export is asked for in the memory's own context or, if it has none, in its device's
 * primary one if that is active. With the flag of the PCIe mapping a descriptor may register
 * through the ordinary verb and then fail in transfers, so only a caller that knows the NIC
 * requests it (core/context/ways.h).
 *
 * A claimed range is exported by the claim alone. The driver is asked about the address only if it
 * refuses as if it needed a context, to find the memory's context.
 */
#include "core/base/dmabuf.h"
#include "hmem/cuda/cuda.h"

#define CUDA_12_8 12080 /* the first driver with the flag of the PCIe mapping */

static int refuse_version(struct cuda_hmem *self, struct hmreg_reason *why)
{
    return hmreg_refuse(why, -EOPNOTSUPP, "no-dmabuf-export",
                        "this driver has CUDA %d.%d, which lacks cuMemGetHandleForAddressRange: "
                        "dmabuf export needs 11.7 or later",
                        self->version / 1000, self->version % 1000 / 10);
}

static int refuse_mapping(struct cuda_hmem *self)
{
    return hmreg_fail(-EOPNOTSUPP,
                      "this driver has CUDA %d.%d: dmabufs with the PCIe mapping "
                      "(CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE) need 12.8 or later",
                      self->version / 1000, self->version % 1000 / 10);
}

static int refuse_device(struct cuda_hmem *self, const struct cuda_range *range,
                         struct hmreg_reason *why)
{
    if (range->device >= 0 && self->devices[range->device].integrated)
        return hmreg_refuse(why, -EOPNOTSUPP, "integrated-device",
                            "CUDA device %d shares the host's memory and exports no dmabuf: "
                            "allocate the memory with cuMemHostAlloc",
                            range->device);
    return hmreg_refuse(
        why, -EOPNOTSUPP, "no-dmabuf-export",
        "CUDA device %d reports that it exports no dmabuf (attribute %d is 0): it needs the "
        "driver's open kernel modules and hardware that supports the export",
        range->device, CUDA_DEV_DMABUF);
}

static int refuse_virtual(const struct cuda_range *range, struct hmreg_reason *why)
{
    const struct cuda_memory_prop *prop = &range->segment.prop;

    if (range->mixed)
        return hmreg_refuse(why, -EXDEV, "mixed-segments",
                            "the %u segments of virtual memory under the range differ in device or "
                            "properties, so one dmabuf cannot cover them",
                            range->segments);
    if (!range->segment.has_prop)
        return 0;
    if (prop->location.type != CUDA_LOCATION_DEVICE)
        return hmreg_refuse(why, -EOPNOTSUPP, "host-memory",
                            "this virtual memory is on the host: it is registered by its address");
    return 0;
}

int cuda_exportable(struct cuda_hmem *self, const struct cuda_range *range,
                    struct hmreg_reason *why)
{
    switch (range->first.sort) {
    case CUDA_HOST:
        return hmreg_refuse(why, -EOPNOTSUPP, "host-memory",
                            "pinned host memory is registered by its address, not by a dmabuf");
    case CUDA_MANAGED:
        return hmreg_refuse(why, -EOPNOTSUPP, "managed-memory",
                            "managed memory moves between host and device: no dmabuf can name it");
    default:
        break;
    }
    if (range->first.sort == CUDA_VIRTUAL && refuse_virtual(range, why))
        return why->code;
    if (!self->api.range_handle)
        return refuse_version(self, why);
    if (range->device < 0 || !self->devices[range->device].info.dmabuf)
        return refuse_device(self, range, why);
    return 0;
}

/* ---- the descriptor --------------------------------------------------------------------- */

/* Virtual memory that its creator did not make for GPUDirect: no driver promises its export. */
static bool is_without_gpudirect(const struct cuda_range *range)
{
    return range->first.sort == CUDA_VIRTUAL && range->segment.has_prop &&
           range->segment.prop.location.type == CUDA_LOCATION_DEVICE &&
           !range->segment.prop.gpudirect;
}

bool cuda_export_may_fail(const struct cuda_range *range)
{
    return range->first.sort == CUDA_POOL || is_without_gpudirect(range);
}

/* Translates the driver's refusal. With several segments it may mean that one descriptor cannot
 * cover them, whichever of the two results the driver returns. */
static int handle_errno(unsigned result, const struct cuda_range *range)
{
    if (result != CUDA_NOT_SUPPORTED && result != CUDA_INVALID_VALUE)
        return -EIO;
    return range->segments > 1 && !is_without_gpudirect(range) ? -EXDEV : -EOPNOTSUPP;
}

static const char *handle_remedy(const struct cuda_range *range, bool foreign)
{
    if (foreign)
        return ", and no context of that device is active: make its primary context active "
               "(cudaSetDevice)";
    if (range->first.sort == CUDA_UNKNOWN)
        return ", which the caller claims: HMREG_DEBUG=claims checks the claim";
    if (range->first.sort == CUDA_POOL)
        return ", which is in a stream-ordered pool (cuMemAllocAsync): allocate it with "
               "cuMemAlloc, or cuMemCreate";
    if (is_without_gpudirect(range))
        return ", which was created without gpuDirectRDMACapable: set it in the properties for "
               "cuMemCreate";
    if (range->first.sort == CUDA_VIRTUAL)
        return "";
    return "; memory imported by IPC can be exported only by the process that allocated it";
}

/* foreign: the export was requested in another context than the memory's, if that has one. */
static int fail_handle(struct cuda_hmem *self, const struct cuda_range *range, uint64_t flags,
                       bool foreign, unsigned result)
{
    return cuda_fail(self, handle_errno(result, range), result,
                     "CUDA device %d exports no dmabuf for the %" PRIu64 " bytes at %#" PRIx64
                     " (%u segment%s)%s%s",
                     range->device, range->end - range->base, range->base, range->segments,
                     range->segments == 1 ? "" : "s", flags ? " with the PCIe mapping" : "",
                     handle_remedy(range, foreign && cuda_may_want_context(result)));
}

/* The span of the export. */
struct span {
    uint64_t base, end; /* page-aligned */
    unsigned long long flags;
    bool foreign; /* out: no context of the memory's device could be entered */
};

static unsigned handle_in_current_context(struct cuda_hmem *self, const struct span *span, int *fd)
{
    return self->api.range_handle(fd, span->base, span->end - span->base, CUDA_RANGE_DMABUF_FD,
                                  span->flags);
}

/* Exports in the memory's context; if it has none, in its device's primary one if that is active;
 * else in the current one. */
static unsigned handle_in_context(struct cuda_hmem *self, const struct cuda_lookup *at,
                                  struct span *span, int *fd)
{
    struct cuda_guard guard;
    unsigned result = cuda_enter(self, at->context, at->device, false, &guard);

    span->foreign = cuda_wants_context(result);
    if (result)
        return span->foreign ? handle_in_current_context(self, span, fd) : result;
    result = handle_in_current_context(self, span, fd);
    cuda_leave(self, &guard);
    return result;
}

/* As handle_in_context(). For claimed memory only the device is known. If the driver refuses as if
 * it needed another context, looks up the memory's own. */
static int export_span(struct cuda_hmem *self, struct cuda_lookup *at, uint64_t addr,
                       struct span *span, int *fd, unsigned *result)
{
    int rc;

    *result = handle_in_context(self, at, span, fd);
    if (at->sort != CUDA_UNKNOWN || !cuda_may_want_context(*result))
        return 0;
    rc = cuda_lookup(self, addr, at);
    if (!rc && at->context)
        *result = handle_in_context(self, at, span, fd);
    return rc;
}

/* The host's pages that contain [base, end). */
static struct span pages_of(const struct cuda_hmem *self, uint64_t base, uint64_t end,
                            uint64_t flags)
{
    uint64_t mask = self->page - 1;

    return (struct span){
        .base = base & ~mask,
        .end = (end + mask) & ~mask,
        .flags = flags & HMREG_EXPORT_PCIE ? CUDA_RANGE_FLAG_PCIE : 0,
    };
}

static int export_range(struct cuda_hmem *self, uint64_t addr, size_t len,
                        const struct cuda_range *range, uint64_t flags, struct hmreg_dmabuf *out)
{
    struct span whole = pages_of(self, range->base, range->end, flags);
    struct span span = pages_of(self, addr, addr + len, flags);
    struct cuda_lookup at = range->first;
    unsigned result = CUDA_OK;
    int fd = -1;
    int rc = export_span(self, &at, addr, &span, &fd, &result);

    if (!rc && cuda_says_no_answer(result) && (span.base != whole.base || span.end != whole.end)) {
        span = whole;
        rc = export_span(self, &at, addr, &span, &fd, &result);
    }
    if (rc)
        return rc;
    if (result)
        return fail_handle(self, range, flags, span.foreign, result);
    if (fd < 0)
        return hmreg_fail(-EPROTO, "CUDA reported success but returned no dmabuf descriptor");
    return dmabuf_take(fd, addr - span.base, len, out);
}

/* Fills the range from the claim instead of cuda_lookup_range(). The sort is not claimed. */
static int take_claim(struct cuda_hmem *self, const struct hmem_range *claim,
                      struct cuda_range *out)
{
    *out = (struct cuda_range){
        .first = {.sort = CUDA_UNKNOWN, .device = claim->device},
        .base = claim->alloc_base,
        .end = claim->alloc_base + claim->alloc_len,
        .segments = 1,
        .device = claim->device,
    };
    return atomic_load(&self->base.shut_down) ? -ESHUTDOWN : 0;
}

static int export_memory(struct cuda_hmem *self, uint64_t addr, size_t len,
                         const struct hmem_range *range, uint64_t flags, struct hmreg_dmabuf *out)
{
    struct hmreg_reason why = {0};
    struct cuda_range found;
    int rc = range->claimed ? take_claim(self, range, &found)
                            : cuda_lookup_range(self, addr, len, true, &found);

    if (rc)
        return rc;
    if (cuda_exportable(self, &found, &why))
        return hmreg_fail(why.code, "%s", why.text);
    if (flags && self->version < CUDA_12_8)
        return refuse_mapping(self);
    return export_range(self, addr, len, &found, flags, out);
}

int cuda_export(struct hmem *hmem, uint64_t addr, size_t len, const struct hmem_range *range,
                uint64_t flags, struct hmreg_dmabuf *out)
{
    struct cuda_hmem *self = (struct cuda_hmem *)hmem;
    unsigned mode = cuda_relax(self);
    int rc = export_memory(self, addr, len, range, flags, out);

    cuda_restore(self, mode);
    return vendor_result(hmem, rc, addr);
}
