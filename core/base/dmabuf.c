/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See dmabuf.h. Where fstat does not report the length, lseek does: a dmabuf has no file position
 * to move. A regular file that stands in for a dmabuf is queried with fstat only, since its owner
 * may depend on its position.
 */
#include "core/base/dmabuf.h"

#include "core/base/error.h"
#include "core/base/high_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Before Linux 5.3 dmabufs share an inode, and fstat(2) returns no length. */
static int64_t length_of(int fd, const struct stat *about)
{
    if (S_ISREG(about->st_mode) || about->st_size)
        return about->st_size;
    return lseek(fd, 0, SEEK_END);
}

int64_t dmabuf_length(int fd)
{
    struct stat about = {0};

    return fstat(fd, &about) ? -1 : length_of(fd, &about);
}

/* The file system of the shared inodes stays mounted, so its device number never equals a cached
 * one. */
static bool has_own_inode(int fd, uint64_t dev)
{
    static _Atomic uint64_t known; /* device number of a file system where each dmabuf has an inode;
                                    * 0: none */
    struct statfs system;

    if (dev && dev == atomic_load(&known))
        return true;
    if (fstatfs(fd, &system) || system.f_type == ANON_INODE_FS_MAGIC)
        return false;
    atomic_store(&known, dev);
    return true;
}

bool dmabuf_look(int fd, struct dmabuf_file *out)
{
    struct stat about;

    if (fstat(fd, &about))
        return false;
    *out = (struct dmabuf_file){.length = length_of(fd, &about),
                                .dev = about.st_dev,
                                .ino = about.st_ino,
                                .identified = has_own_inode(fd, about.st_dev)};
    return true;
}

int dmabuf_duplicate(int fd)
{
    int own = high_fd_duplicate(fd);

    return own >= 0 ? own
                    : hmreg_fail_os(errno, "the dmabuf descriptor %d could not be duplicated", fd);
}

int dmabuf_take(int fd, uint64_t offset, size_t len, struct hmreg_dmabuf *out)
{
    int64_t size;
    int rc = 0;

    fd = high_fd(fd);
    if (fd < 0)
        return hmreg_fail_os(errno, "no number from %d on is left for a dmabuf descriptor",
                             HIGH_FD_FIRST);
    size = dmabuf_length(fd);
    if (size < 0 || offset > (uint64_t)size || len > (uint64_t)size - offset)
        rc = hmreg_fail(-EPROTO,
                        "the dmabuf descriptor has %" PRId64
                        " bytes, and the range of %zu bytes at %" PRIu64
                        " would end beyond them, at %" PRIu64,
                        size, len, offset, offset + len);
    else if (fcntl(fd, F_SETFD, FD_CLOEXEC))
        rc = hmreg_fail_os(errno, "the dmabuf descriptor %d cannot be made close-on-exec", fd);
    if (rc)
        close(fd);
    else
        *out = (struct hmreg_dmabuf){.fd = fd, .offset = offset, .length = len};
    return rc;
}
