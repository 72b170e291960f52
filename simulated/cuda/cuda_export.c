/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The fake libcuda.so.1: the dmabuf export. It needs a current context of the memory's device and
 * refuses what is not whole host pages, not completely mapped, or not device memory of its own. It
 * knows the flag of the PCIe mapping from CUDA 12.8 on, and marks its descriptors (pcie.h).
 *
 * Its descriptors are whole files, so that programs can map them: they begin with an allocation. A
 * range that begins inside one is refused. With HMREG_FAKE_CUDA_EXACT they are of exactly the range
 * that was asked for, and cannot be mapped, as the driver's (fake_dmabuf.c); in the guest they are
 * real ones, of one allocation.
 */
#include "simulated/cuda/cuda_fake.h"
#include "simulated/engine/pcie.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#if FAKE_CUDA_VERSION >= 11070

/* ---- descriptors of exactly a range ------------------------------------------------------ */

static unsigned exact_fd(const struct fake_piece *pieces, size_t count, int *fd)
{
    if (fake_is_dmabuf() && count > 1)
        return CUDA_INVALID_VALUE;
    *fd = fake_is_dmabuf() ? fake_duplicate(pieces) : fake_dmabuf_new(pieces, count);
    if (*fd >= 0) /* as the driver's: without close-on-exec */
        fcntl(*fd, F_SETFD, 0);
    return *fd < 0 ? CUDA_OUT_OF_MEMORY : CUDA_OK;
}

static unsigned exact_plain(const struct memory *m, uint64_t addr, size_t size, int *fd)
{
    struct fake_alloc *made = fake_find(m->addr);
    struct fake_piece piece;

    if (!made)
        return CUDA_NOT_SUPPORTED;
    piece = (struct fake_piece){made->block, addr - (made->addr - made->skip), size};
    return exact_fd(&piece, 1, fd);
}

static unsigned exact_virtual(uint64_t addr, size_t size, int *fd)
{
    struct fake_piece pieces[FAKE_CUDA_PIECES];
    const struct mapping *first = fake_cuda_mapping(addr);
    size_t count = 0;

    for (uint64_t at = addr; at < addr + size; count++) {
        const struct mapping *m = fake_cuda_mapping(at);
        uint64_t end;

        if (!m || count == FAKE_CUDA_PIECES)
            return CUDA_INVALID_VALUE;
        if (memcmp(&first->physical->prop, &m->physical->prop, sizeof(m->physical->prop)))
            return CUDA_INVALID_VALUE;
        end = m->addr + m->len < addr + size ? m->addr + m->len : addr + size;
        pieces[count] = (struct fake_piece){m->physical->block, at - m->addr, end - at};
        at = end;
    }
    if (count > 1 && fake_env("HMREG_FAKE_CUDA_EXPORT_ONE", 0))
        return CUDA_INVALID_VALUE;
    return exact_fd(pieces, count, fd);
}

static bool is_exact(void)
{
    return fake_env("HMREG_FAKE_CUDA_EXACT", 0);
}

/* ---- descriptors of whole files --------------------------------------------------------- */

static int device_of(uint64_t addr)
{
    const struct memory *m = fake_cuda_pages(addr, fake_page());
    const struct mapping *piece = m ? NULL : fake_cuda_mapping(addr);

    if (m)
        return m->device;
    if (piece && piece->physical->multicast)
        return fake_cuda_multicast_device(piece->physical->multicast);
    return piece && piece->physical->prop.location.type == CUDA_LOCATION_DEVICE
               ? piece->physical->prop.location.id
               : -1;
}

static bool maps_for_pcie(uint64_t addr)
{
    int device = device_of(addr);

    return device < 0 || !(fake_env("HMREG_FAKE_CUDA_NO_PCIE", 0) >> device & 1);
}

/* The pages that an allocation has alone, or shares with its neighbours. */
static unsigned export_plain(const struct memory *m, uint64_t addr, size_t size, int *fd)
{
    struct fake_alloc *made = fake_find(m->addr);

    bool may = m->sort == MEMORY_PLAIN ||
               (m->sort == MEMORY_POOL && fake_env("HMREG_FAKE_CUDA_POOL_EXPORT", 0)) ||
               (m->sort >= MEMORY_GRAPHICS && fake_env("HMREG_FAKE_CUDA_ANY_EXPORT", 0));

    if (!fake_cuda_exports(m->device) || !made)
        return CUDA_NOT_SUPPORTED;
    if (!may)
        return CUDA_INVALID_VALUE;
    if (is_exact())
        return exact_plain(m, addr, size, fd);
    /* It begins where the pages do, and they where the file does. */
    if (addr != made->addr - made->skip || made->block->start)
        return CUDA_NOT_SUPPORTED;
    *fd = fcntl(made->block->fd, F_DUPFD, 0);
    return *fd < 0 ? CUDA_OUT_OF_MEMORY : CUDA_OK;
}

static unsigned export_range(uint64_t addr, size_t size, int *fd)
{
    struct memory *m = fake_cuda_pages(addr, size);
    struct mapping *piece = m ? NULL : fake_cuda_mapping(addr);

    if (m)
        return export_plain(m, addr, size, fd);
    if (!piece || piece->physical->multicast)
        return CUDA_INVALID_VALUE;
    if (piece->physical->prop.location.type != CUDA_LOCATION_DEVICE ||
        !fake_cuda_exports(piece->physical->prop.location.id))
        return CUDA_NOT_SUPPORTED;
    if (!piece->physical->prop.gpudirect && !fake_env("HMREG_FAKE_CUDA_ANY_EXPORT", 0))
        return CUDA_NOT_SUPPORTED;
    return is_exact() ? exact_virtual(addr, size, fd) : fake_cuda_export_virtual(addr, size, fd);
}

/* Replaces a descriptor by one with the PCIe mapping. */
static int mark_pcie(int fd)
{
    int marked = fake_pcie_dup(fd);

    if (marked >= 0)
        fcntl(marked, F_SETFD, 0);
    close(fd);
    return marked;
}

/* The descriptor is given without close-on-exec: the caller must set it. */
unsigned cuMemGetHandleForAddressRange(void *handle, unsigned long long addr, size_t size,
                                       unsigned type, unsigned long long flags)
{
    unsigned result;
    int fd = -1;

    ENTER();
    if (fake_env("HMREG_FAKE_CUDA_EXPORT_CONTEXT", 1)) {
        result = fake_cuda_context_of(device_of(addr));
        if (result)
            return result;
    }
    if (!handle || !size || addr % fake_page() || size % fake_page() ||
        type != CUDA_RANGE_DMABUF_FD ||
        flags > (FAKE_CUDA_VERSION >= 12080 ? CUDA_RANGE_FLAG_PCIE : 0))
        return CUDA_INVALID_VALUE;
    if (flags && !maps_for_pcie(addr))
        return CUDA_NOT_SUPPORTED;
    if (fake_env("HMREG_FAKE_CUDA_EXPORT_SHORT", 0)) {
        fd = fake_file(fake_page());
        result = fd < 0 ? CUDA_OUT_OF_MEMORY : CUDA_OK;
    } else {
        result = export_range(addr, size, &fd);
    }
    if (!result && flags) {
        fd = mark_pcie(fd);
        result = fd < 0 ? CUDA_OUT_OF_MEMORY : CUDA_OK;
    }
    if (!result)
        memcpy(handle, &fd, sizeof(fd));
    return result;
}

#endif
