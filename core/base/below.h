/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Opens files and folders below a root, as if that were "/". No link leads out, absolute or with
 * "..", even if another user changes it meanwhile: the kernel follows it (openat2(2), Linux 5.6).
 * If the kernel lacks that call, or a filter forbids it, nothing below a root can be opened.
 *
 * Without a root ("") paths are the machine's own. All is inline, as in high_fd.h.
 */
#ifndef HMREG_CORE_BASE_BELOW_H
#define HMREG_CORE_BASE_BELOW_H

#include "core/base/high_fd.h"

#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Tries to open a path with "..": the kernel refuses while any folder is moved. */
#define BELOW_TRIES 128

/* As open(2); the descriptor is close-on-exec. -1: errno. */
static inline int below_open(const char *root, const char *path, int flags)
{
    struct open_how how = {.flags = (unsigned)flags | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
    int folder, made = -1;

    if (!root[0])
        return high_fd(open(path, flags | O_CLOEXEC));
    folder = high_fd(open(root, O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (folder < 0)
        return -1;
    errno = EAGAIN;
    for (int i = 0; i < BELOW_TRIES && made < 0 && errno == EAGAIN; i++)
        made = high_fd((int)syscall(SYS_openat2, folder, path, &how, sizeof(how)));
    high_fd_close(folder);
    return made;
}

/* Opens a regular file for reading, and no other: opening a FIFO may wait, and opening a device may
 * have an effect. */
static inline FILE *below_file(const char *root, const char *path)
{
    int fd = below_open(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    struct stat status;
    FILE *file = fd < 0 || fstat(fd, &status) || !S_ISREG(status.st_mode) ? NULL : fdopen(fd, "re");

    if (!file)
        high_fd_close(fd);
    return file;
}

/* As realpath(3): the path on the machine, the root's before it. False: there is no such path. */
static inline bool below_real(const char *root, const char *path, char real[PATH_MAX])
{
    char opened[32];
    int fd;
    bool found;

    if (!root[0])
        return realpath(path, real) != NULL;
    fd = below_open(root, path, O_PATH);
    snprintf(opened, sizeof(opened), "/proc/self/fd/%d", fd);
    found = fd >= 0 && realpath(opened, real);
    high_fd_close(fd);
    return found;
}

#endif
