/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See dmabuf.h. A dmabuf reports its length through lseek, which has no file position to move. A
 * file that stands in for one is queried with fstat, since its owner may depend on its position.
 */
#include "core/base/dmabuf.h"

#include "core/base/error.h"
#include "core/base/high_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

int64_t dmabuf_length(int fd)
{
    struct stat about = {0};
    off_t end;

    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode))
        return about.st_size;
    end = lseek(fd, 0, SEEK_END);
    if (end >= 0)
        return end;
    return about.st_size ? about.st_size : -1;
}

bool dmabuf_identity(int fd, uint64_t *dev, uint64_t *ino)
{
    struct statfs system;
    struct stat about;

    if (fstat(fd, &about) || fstatfs(fd, &system) || system.f_type == ANON_INODE_FS_MAGIC)
        return false;
    *dev = about.st_dev;
    *ino = about.st_ino;
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
                        "the dmabuf descriptor has %" PRId64 " bytes, and the range of %zu bytes "
                        "is said to be at %" PRIu64 " in it, up to %" PRIu64,
                        size, len, offset, offset + len);
    else if (fcntl(fd, F_SETFD, FD_CLOEXEC))
        rc = hmreg_fail_os(errno, "the dmabuf descriptor %d cannot be made close-on-exec", fd);
    if (rc)
        close(fd);
    else
        *out = (struct hmreg_dmabuf){.fd = fd, .offset = offset, .length = len};
    return rc;
}
