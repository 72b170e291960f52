/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Descriptors above 2: 0 to 2 are stdin, stdout and stderr. A program may have closed these. Then
 * the kernel gives their numbers to the next files opened: a thread that reads stdin would read our
 * file, and a thread that writes to stdout would write to it. So every descriptor that the library
 * opens passes through here before its use. The kernel cannot open above a number, so a file has
 * the low number until it is moved, for two system calls.
 *
 * All is inline: each of our libraries opens something, and they share no private function for it.
 */
#ifndef HMREG_CORE_BASE_HIGH_FD_H
#define HMREG_CORE_BASE_HIGH_FD_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define HIGH_FD_FIRST 3

/* As close(2); fd may be -1. Keeps errno. */
static inline void high_fd_close(int fd)
{
    int error = errno;

    if (fd >= 0)
        close(fd);
    errno = error;
}

/* A duplicate, close-on-exec. -1: errno. */
static inline int high_fd_duplicate(int fd)
{
    int made = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD_FIRST);

    if (made < 0 && errno == EINVAL) /* RLIMIT_NOFILE permits no such number */
        errno = EMFILE;
    return made;
}

/* Takes fd, which was just opened or is -1, and returns its replacement. -1, errno: it was not
 * opened, or no number was left and it is closed. */
static inline int high_fd(int fd)
{
    int made;

    if (fd < 0 || fd >= HIGH_FD_FIRST)
        return fd;
    made = high_fd_duplicate(fd);
    high_fd_close(fd);
    return made;
}

/* As high_fd(), for both descriptors of pipe2(2); rc: its result. */
static inline int high_fd_pair(int rc, int fds[2])
{
    if (rc)
        return rc;
    fds[0] = high_fd(fds[0]);
    fds[1] = high_fd(fds[1]);
    if (fds[0] >= 0 && fds[1] >= 0)
        return 0;
    high_fd_close(fds[0]);
    high_fd_close(fds[1]);
    return -1;
}

/* fopen(path, "re") and opendir(path). */
static inline FILE *high_file(const char *path)
{
    int fd = high_fd(open(path, O_RDONLY | O_CLOEXEC));
    FILE *file = fd < 0 ? NULL : fdopen(fd, "re");

    if (!file)
        high_fd_close(fd);
    return file;
}

static inline DIR *high_folder(const char *path)
{
    int fd = high_fd(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);

    if (!folder)
        high_fd_close(fd);
    return folder;
}

#endif
