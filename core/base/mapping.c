/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See mapping.h. A dmabuf's exporter may refuse mmap (many GPUs' exporters do): only trying shows
 * it. CPU access to a dmabuf must begin and end with DMA_BUF_IOCTL_SYNC. The fabric may access the
 * memory at any time while it is registered, so access begins at registration and ends at
 * deregistration.
 */
#include "core/base/mapping.h"

#include "core/base/error.h"
#include "core/base/high_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

static int sync_access(int fd, uint64_t edge)
{
    struct dma_buf_sync sync = {.flags = DMA_BUF_SYNC_RW | edge};
    int rc;

    do {
        rc = ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync);
    } while (rc && (errno == EINTR || errno == EAGAIN));
    return rc ? -errno : 0;
}

/* A simulated dmabuf is another kind of file, which has no such ioctl: it fails with ENOTTY, or on
 * some file types with EINVAL. */
static int begin_access(int fd, int *sync_fd, struct hmreg_reason *why)
{
    int rc = sync_access(fd, DMA_BUF_SYNC_START);

    *sync_fd = -1;
    if (rc == -ENOTTY || rc == -EINVAL)
        return 0;
    if (rc)
        return hmreg_refuse(why, rc, "dmabuf-sync-failed",
                            "the dmabuf's exporter refused CPU access: %s", hmreg_strerror(rc));
    *sync_fd = high_fd_duplicate(fd);
    if (*sync_fd < 0) {
        rc = -errno;
        sync_access(fd, DMA_BUF_SYNC_END);
        return hmreg_refuse(why, rc, "no-descriptor", "no descriptor is left to keep a dmabuf: %s",
                            hmreg_strerror(rc));
    }
    return 0;
}

/* An exporter's mmap is missing (ENODEV) or refuses, as NVIDIA's does on most machines (524). */
static bool cannot_map(int errnum)
{
    return errnum == ENODEV || errnum == KERNEL_ENOTSUPP;
}

int mapping_open(const struct hmreg_dmabuf *dmabuf, struct mapping *out, struct hmreg_reason *why)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t start = dmabuf->offset & ~(page - 1);
    size_t len = (size_t)((dmabuf->offset + dmabuf->length + page - 1) & ~(page - 1)) - start;
    struct mapping made = {.len = len};
    int rc;

    made.base = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, dmabuf->fd, (off_t)start);
    if (made.base == MAP_FAILED) {
        rc = cannot_map(errno) ? -EOPNOTSUPP : -errno;
        return hmreg_refuse(why, rc, "no-dmabuf-mmap",
                            "the dmabuf cannot be mapped for the CPU: %s", hmreg_strerror(rc));
    }
    rc = begin_access(dmabuf->fd, &made.sync_fd, why);
    if (rc) {
        munmap(made.base, len);
        return rc;
    }
    /* A forked child must neither keep nor access its parent's device memory. */
    madvise(made.base, len, MADV_DONTFORK);
    made.addr = (uint64_t)(uintptr_t)made.base + (dmabuf->offset - start);
    *out = made;
    return 0;
}

void mapping_close(struct mapping *mapping)
{
    if (!mapping->base)
        return;
    if (mapping->sync_fd >= 0) {
        sync_access(mapping->sync_fd, DMA_BUF_SYNC_END);
        close(mapping->sync_fd);
    }
    munmap(mapping->base, mapping->len);
    mapping->base = NULL;
}
