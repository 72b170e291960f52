/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Exports CUDA memory as a dmabuf. The driver exports whole host pages only, so the descriptor
 * covers the whole allocation (for virtual memory, the mapped segments under the range), from the
 * page it begins in to the page it ends in. Allocations smaller than a page share a page with
 * their neighbours; the offset distinguishes them. Flags are 0: a descriptor with the PCIe mapping
 * flag registers through the ordinary verb and then fails in transfers.
 *
 * A claimed range is exported by the claim alone: the driver is asked about the address only if it
 * wants a context, and then for the memory's.
 */
#include "hmem/cuda/cuda.h"
#include "hmem/dmabuf.h"

static int refuse_version(struct cuda_hmem *self, struct hmreg_reason *why)
{
    return hmreg_refuse(why, -EOPNOTSUPP, "no-dmabuf-export",
                        "this driver is of CUDA %d.%d, which has no "
                        "cuMemGetHandleForAddressRange: dmabuf export needs 11.7 or later",
                        self->version / 1000, self->version % 1000 / 10);
}

static int refuse_device(struct cuda_hmem *self, const struct cuda_range *range,
                         struct hmreg_reason *why)
{
    if (range->device >= 0 && self->devices[range->device].integrated)
        return hmreg_refuse(why, -EOPNOTSUPP, "integrated-device",
                            "CUDA device %d shares the host's memory and exports no dmabuf: "
                            "allocate memory to register with cuMemHostAlloc",
                            range->device);
    return hmreg_refuse(why, -EOPNOTSUPP, "no-dmabuf-export",
                        "CUDA device %d says it exports no dmabuf (attribute %d is 0): it needs "
                        "the driver's open kernel modules and hardware that can",
                        range->device, CUDA_DEV_DMABUF);
}

static int refuse_virtual(const struct cuda_range *range, struct hmreg_reason *why)
{
    const struct cuda_memory_prop *prop = &range->segment.prop;

    if (range->mixed)
        return hmreg_refuse(why, -EXDEV, "mixed-segments",
                            "the %u segments of virtual memory under the range are not all of one "
                            "device and of the same properties, so that one dmabuf cannot name "
                            "them",
                            range->segments);
    if (!range->segment.has_prop)
        return 0;
    if (prop->location.type != CUDA_LOCATION_DEVICE)
        return hmreg_refuse(why, -EOPNOTSUPP, "host-memory",
                            "this virtual memory is on the host: it is registered by its address");
    if (!prop->gpudirect)
        return hmreg_refuse(why, -EOPNOTSUPP, "not-gpudirect-capable",
                            "this virtual memory was created without gpuDirectRDMACapable: set "
                            "it in the properties given to cuMemCreate");
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

/* Translates the driver's refusal. With several segments it may mean that one descriptor cannot
 * cover them, whichever of the two results the driver returns. */
static int handle_errno(unsigned result, uint32_t segments)
{
    if (result != CUDA_NOT_SUPPORTED && result != CUDA_INVALID_VALUE)
        return -EIO;
    return segments > 1 ? -EXDEV : -EOPNOTSUPP;
}

static const char *handle_remedy(const struct cuda_range *range)
{
    if (range->first.sort == CUDA_UNKNOWN)
        return ", which the caller claims: HMREG_DEBUG=claims says whether that is right";
    if (range->first.sort == CUDA_POOL)
        return ", of a stream-ordered pool (cuMemAllocAsync): allocate it with cuMemAlloc, or "
               "cuMemCreate";
    if (range->first.sort == CUDA_VIRTUAL)
        return "";
    return "; memory imported by IPC is exported by the process that allocated it";
}

static int fail_handle(struct cuda_hmem *self, const struct cuda_range *range, unsigned result)
{
    return cuda_fail(self, handle_errno(result, range->segments), result,
                     "CUDA device %d gives no dmabuf for the %" PRIu64 " bytes at %#" PRIx64
                     " (%u segment%s)%s",
                     range->device, range->end - range->base, range->base, range->segments,
                     range->segments == 1 ? "" : "s", handle_remedy(range));
}

/* Exports [base, end), both page-aligned, in the memory's context or, if it has none, the device's
 * primary one. */
static unsigned handle_in_context(struct cuda_hmem *self, const struct cuda_lookup *at,
                                  uint64_t base, uint64_t end, int *fd)
{
    struct cuda_guard guard;
    unsigned result = cuda_enter(self, at->context, at->device, false, &guard);

    if (result)
        return result;
    result = self->api.range_handle(fd, base, end - base, CUDA_RANGE_DMABUF_FD, 0);
    cuda_leave(self, &guard);
    return result;
}

/* Only some drivers need a context for the export. */
static int export_range(struct cuda_hmem *self, uint64_t addr, size_t len,
                        const struct cuda_range *range, struct hmreg_dmabuf *out)
{
    uint64_t base = range->base & ~(uint64_t)(self->page - 1);
    uint64_t end = (range->end + self->page - 1) & ~(uint64_t)(self->page - 1);
    struct cuda_lookup at = range->first;
    int fd = -1, rc = 0;
    unsigned result = self->api.range_handle(&fd, base, end - base, CUDA_RANGE_DMABUF_FD, 0);

    if (cuda_wants_context(result)) {
        if (at.sort == CUDA_UNKNOWN) /* claimed */
            rc = cuda_lookup(self, addr, &at);
        if (rc)
            return rc;
        result = handle_in_context(self, &at, base, end, &fd);
    }
    if (result)
        return fail_handle(self, range, result);
    if (fd < 0)
        return hmreg_fail(-EPROTO, "CUDA reports success and gives no dmabuf descriptor");
    return dmabuf_take(fd, addr - base, len, out);
}

/* The claim's words for what cuda_lookup_range() finds out. The sort is not claimed. */
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

static int export_it(struct cuda_hmem *self, uint64_t addr, size_t len,
                     const struct hmem_range *range, struct hmreg_dmabuf *out)
{
    struct hmreg_reason why = {0};
    struct cuda_range found;
    int rc = range->claimed ? take_claim(self, range, &found)
                            : cuda_lookup_range(self, addr, len, true, &found);

    if (rc)
        return rc;
    if (cuda_exportable(self, &found, &why))
        return hmreg_fail(why.code, "%s", why.text);
    return export_range(self, addr, len, &found, out);
}

int cuda_export(struct hmem *self, uint64_t addr, size_t len, const struct hmem_range *range,
                struct hmreg_dmabuf *out)
{
    return vendor_result(self, export_it((struct cuda_hmem *)self, addr, len, range, out), addr);
}
