/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A descriptor that the library keeps open in a process that may close it: closefrom(3) closes
 * descriptors that the application did not open, and the number may then refer to another file. The
 * file's device and inode show that: each userfaultfd has its own inode, and so has each /proc
 * file. Callers check them before a close, and before a read or an ioctl that could harm another
 * file.
 */
#ifndef HMREG_CORE_BASE_OWNED_FD_H
#define HMREG_CORE_BASE_OWNED_FD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

struct owned_fd {
    int fd; /* -1: none */
    uint64_t device, inode;
};

/* Takes ownership of fd, which was just opened or is -1. */
static inline struct owned_fd owned_fd_take(int fd)
{
    struct stat file = {0};

    if (fd >= 0)
        fstat(fd, &file);
    return (struct owned_fd){fd, file.st_dev, file.st_ino};
}

/* Does the descriptor still refer to the file? */
static inline bool owned_fd_is_open(const struct owned_fd *owned)
{
    struct stat file;

    return owned->fd >= 0 && !fstat(owned->fd, &file) && file.st_dev == owned->device &&
           file.st_ino == owned->inode;
}

/* Closes the descriptor if it still refers to the file. */
static inline void owned_fd_close(struct owned_fd *owned)
{
    if (owned_fd_is_open(owned))
        close(owned->fd);
    owned->fd = -1;
}

#endif
