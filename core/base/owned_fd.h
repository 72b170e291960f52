/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A descriptor that the library keeps open in a process that may close it: closefrom(3) closes
 * descriptors that the application did not open, and the number may then refer to another file. The
 * file's device and inode show that. Callers check them before a close, and before a read or an
 * ioctl that could harm another file.
 */
#ifndef HMREG_CORE_BASE_OWNED_FD_H
#define HMREG_CORE_BASE_OWNED_FD_H

#include <stdbool.h>
#include <stdint.h>

struct owned_fd {
    int fd; /* -1: none */
    uint64_t device, inode;
};

/* Takes ownership of fd, which was just opened or is -1. */
struct owned_fd owned_fd_take(int fd);

/* Does the descriptor still refer to the file? */
bool owned_fd_is_open(const struct owned_fd *owned);

/* Closes the descriptor if it still refers to the file. */
void owned_fd_close(struct owned_fd *owned);

#endif
