/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A descriptor that is kept open in a process that may close it: closefrom(3) closes what it has
 * not opened, and the number then names another file. The file's own identity tells. A read or an
 * ioctl that another file would suffer from, and the close, come after asking for it.
 */
#ifndef HMREG_CORE_BASE_OWNED_FD_H
#define HMREG_CORE_BASE_OWNED_FD_H

#include <stdbool.h>
#include <stdint.h>

struct owned_fd {
    int fd; /* -1: none */
    uint64_t device, inode;
};

/* fd: just opened, or -1. */
struct owned_fd owned_fd_take(int fd);

/* Does the number still name the file? */
bool owned_fd_is_open(const struct owned_fd *owned);

/* Leaves the number alone if it does not. */
void owned_fd_close(struct owned_fd *owned);

#endif
