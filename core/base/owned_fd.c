/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See owned_fd.h. Each userfaultfd has its own inode, and so has each /proc file.
 */
#include "core/base/owned_fd.h"

#include <sys/stat.h>
#include <unistd.h>

struct owned_fd owned_fd_take(int fd)
{
    struct owned_fd owned = {.fd = fd};
    struct stat file;

    if (fd >= 0 && !fstat(fd, &file)) {
        owned.device = file.st_dev;
        owned.inode = file.st_ino;
    }
    return owned;
}

bool owned_fd_is_open(const struct owned_fd *owned)
{
    struct stat file;

    return owned->fd >= 0 && !fstat(owned->fd, &file) && file.st_dev == owned->device &&
           file.st_ino == owned->inode;
}

void owned_fd_close(struct owned_fd *owned)
{
    if (owned_fd_is_open(owned))
        close(owned->fd);
    owned->fd = -1;
}
