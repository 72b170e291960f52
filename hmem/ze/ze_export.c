/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Exports Level Zero memory as dmabufs.
 *
 * A driver keeps the descriptor that it exports and returns the same one again, so we return a
 * duplicate. The descriptor refers to a whole buffer object, and the allocation may be a part of
 * it (drivers pool small allocations) at an offset that the interface does not report.
 * object_start() derives the offset where it is provable and refuses otherwise: a wrong offset
 * would let a peer write into a neighbouring allocation.
 *
 * Pieces of pools are refused although the driver's ids tell where a pool begins. Intel's driver
 * has pools on GPUs of which it compresses memory (Xe2 and later): at the export of other memory it
 * undoes that, of a pool's it does not, and a NIC would read compressed bytes.
 *
 * The export is a query, zeMemGetAllocProperties, with a request chained to it. For a claimed range
 * its answer also supplies what object_start() needs and the claim lacks. The driver closes the
 * descriptor when the memory is freed, and its number may then be another file's: so the memory is
 * asked for once more after the duplication. Intel's driver keeps freed memory for a next
 * allocation and describes it as before: the descriptors' files are compared, too.
 */
#include "core/base/dmabuf.h"
#include "hmem/ze/ze.h"

#include <unistd.h>

static int fail_export(struct ze_hmem *self, const struct ze_lookup *found, ze_result_t result)
{
    bool unsupported = result == ZE_RESULT_ERROR_UNSUPPORTED_FEATURE ||
                       result == ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION;

    if (unsupported && found->type == ZE_MEMORY_TYPE_SHARED)
        return ze_fail(self, -EOPNOTSUPP, result,
                       "shared memory of Level Zero has no dmabuf: it migrates between host and "
                       "device");
    if (unsupported)
        return ze_fail(self, -EOPNOTSUPP, result,
                       "Level Zero's driver does not export the memory at %#" PRIx64
                       ": allocate it with ze_external_memory_export_desc_t",
                       found->base);
    return ze_fail(self, -EIO, result,
                   "Level Zero's driver gave no descriptor for the memory at %#" PRIx64,
                   found->base);
}

static int fail_unknown(const struct ze_lookup *found)
{
    return hmreg_fail(-EOPNOTSUPP,
                      "Level Zero's driver knows no memory at %#" PRIx64
                      ", which the caller claims: HMREG_DEBUG=claims checks the claim",
                      found->base);
}

/* The driver's description of the memory, with the descriptor that it keeps. */
struct answer {
    ze_result_t result;
    ze_memory_type_t type;
    uint64_t id, page;
    int fd; /* -1: none */
};

static struct answer ask(struct ze_hmem *self, const struct ze_lookup *found)
{
    ze_external_memory_export_fd_t exported = {.stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_FD,
                                               .flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF,
                                               .fd = -1};
    ze_memory_allocation_properties_t properties = {
        .stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES, .pNext = &exported};
    ze_result_t result =
        self->api.properties(found->driver->context, ze_address(found->base), &properties, NULL);

    return (struct answer){result, properties.type, properties.id, properties.pageSize,
                           exported.fd};
}

/* Is the allocation unchanged, and the descriptor still its own? Else the descriptor may be of any
 * file. */
static int check_not_freed(struct ze_hmem *self, const struct ze_lookup *found, int fd)
{
    struct answer now = ask(self, found);
    struct dmabuf_file ours, its;

    if (now.result)
        return ze_fail(self, -EIO, now.result, "zeMemGetAllocProperties(%#" PRIx64 ") failed",
                       found->base);
    if (now.type != found->type || now.id != found->id || !dmabuf_look(fd, &ours) ||
        !dmabuf_look(now.fd, &its) ||
        (its.identified && (ours.dev != its.dev || ours.ino != its.ino)))
        return -HMEM_NOT_MINE;
    return 0;
}

/* Returns a duplicate of the descriptor that the driver keeps. For a claim, also completes *found.
 */
static int export_object(struct ze_hmem *self, struct ze_lookup *found, int *out)
{
    struct answer asked = ask(self, found);
    int fd, rc;

    if (!asked.result && found->type == ZE_MEMORY_TYPE_UNKNOWN) { /* a claim */
        found->type = asked.type;
        found->id = asked.id;
        found->page = asked.page;
        if (found->type == ZE_MEMORY_TYPE_UNKNOWN)
            return fail_unknown(found);
    }
    if (asked.result || asked.fd < 0)
        return fail_export(self, found, asked.result);
    fd = dmabuf_duplicate(asked.fd);
    if (fd < 0 && fd != -EBADF)
        return fd;
    rc = check_not_freed(self, found, fd);
    if (!rc)
        *out = fd;
    else if (fd >= 0)
        close(fd);
    return rc;
}

/* Finds the start of the object of `length` bytes that contains the allocation. It is page-aligned
 * and the object covers the whole allocation, which often leaves one candidate. */
static int object_start(const struct ze_lookup *found, uint64_t length, uint64_t *out)
{
    uint64_t page = found->page >= 4096 && !(found->page & (found->page - 1)) ? found->page : 4096;
    uint64_t end = found->base + found->len;
    uint64_t last = found->base & ~(page - 1);
    uint64_t first = end > length ? (end - length + page - 1) & ~(page - 1) : 0;

    if (first > last)
        return hmreg_fail(-EPROTO,
                          "the descriptor of Level Zero's driver has %" PRIu64
                          " bytes and cannot hold the "
                          "allocation of %zu bytes at %#" PRIx64,
                          length, found->len, found->base);
    if (first == last) {
        *out = last;
        return 0;
    }
    return hmreg_fail(-EPROTO,
                      "the descriptor of Level Zero's driver has %" PRIu64
                      " bytes for an allocation of %zu, and the driver does not report its offset "
                      "there (a pool): allocate with ze_external_memory_export_desc_t",
                      length, found->len);
}

static int fail_several(uint64_t addr, const struct hmem_range *range,
                        const struct ze_lookup *found)
{
    if (found->segments > 1)
        return hmreg_fail(
            -EXDEV,
            "the range at %#" PRIx64
            " lies in %u mappings of virtual memory, but a descriptor names the memory of only one",
            addr, found->segments);
    return hmreg_fail(-EXDEV,
                      "the memory at %#" PRIx64 " lies on %u tiles, each with a descriptor of its "
                      "own: allocate it on one tile",
                      addr, range->segments);
}

static int export_found(struct ze_hmem *self, uint64_t addr, size_t len, struct ze_lookup *found,
                        struct hmreg_dmabuf *out)
{
    uint64_t start = 0;
    int64_t length;
    int fd = -1;
    int rc = export_object(self, found, &fd);

    if (rc)
        return rc;
    length = dmabuf_length(fd);
    rc = object_start(found, length < 0 ? 0 : (uint64_t)length, &start);
    if (!rc)
        return dmabuf_take(fd, addr - start, len, out);
    close(fd);
    return rc;
}

static int take_claim(struct ze_hmem *self, const struct hmem_range *claim, struct ze_lookup *out)
{
    *out = (struct ze_lookup){
        .driver = &self->drivers[self->devices[claim->device].driver],
        .type = ZE_MEMORY_TYPE_UNKNOWN,
        .base = claim->alloc_base,
        .len = claim->alloc_len,
        .identity = claim->identity,
        .segments = 1,
    };
    return atomic_load(&self->base.shut_down) ? -ESHUTDOWN : 0;
}

int ze_export(struct hmem *hmem, uint64_t addr, size_t len, const struct hmem_range *range,
              uint64_t flags, struct hmreg_dmabuf *out)
{
    struct ze_hmem *self = (struct ze_hmem *)hmem;
    struct ze_lookup found = {0};
    int rc;

    if (range->kind == HMREG_MEM_HOST_PINNED)
        return hmreg_fail(-EOPNOTSUPP,
                          "host memory of Level Zero has no dmabuf: it is registered by its "
                          "address");
    if (flags)
        return hmreg_fail(-EOPNOTSUPP, "Level Zero's callers cannot choose how a dmabuf is mapped, "
                                       "so hmreg cannot export one with the PCIe mapping");
    rc =
        range->claimed ? take_claim(self, range, &found) : ze_lookup_range(self, addr, len, &found);
    if (!rc && found.identity != range->identity)
        rc = -HMEM_NOT_MINE;
    if (!rc)
        rc = range->segments > 1 ? fail_several(addr, range, &found)
                                 : export_found(self, addr, len, &found, out);
    return vendor_result(hmem, rc, addr);
}
