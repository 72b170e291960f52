/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Files and folders below a root, as if that were "/": links, absolute ones and ".." too, end
 * there. Another user may have filled the root and may change it meanwhile. First the links are
 * read, until a path is left that has none; then that is opened component by component, none of
 * which may be a link. So nothing outside is opened, whatever is exchanged in between. The kernel
 * does the same for openat2(2) with RESOLVE_IN_ROOT; older kernels, emulators and filters of system
 * calls lack that, so that this would be needed beside it.
 *
 * Without a root ("") paths are the machine's own. All is inline, as in high_fd.h.
 */
#ifndef HMREG_CORE_BASE_BELOW_H
#define HMREG_CORE_BASE_BELOW_H

#include "core/base/high_fd.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BELOW_LINKS 40 /* as many as Linux follows */

/* Opens NAME in the folder of a descriptor, which it closes. */
static inline int below_step(int folder, const char *name, int flags)
{
    int made = high_fd(openat(folder, name, flags | O_NOFOLLOW | O_CLOEXEC));
    int error = errno;

    close(folder);
    errno = error;
    return made;
}

/* Opens a path that below_resolve() has made; where a link has come since, this fails. */
static inline int below_open_plain(const char *root, const char *path, int flags)
{
    int fd = high_fd(open(root, O_PATH | O_DIRECTORY | O_CLOEXEC));
    char name[NAME_MAX + 1];

    for (path += strspn(path, "/"); fd >= 0 && *path;) {
        size_t length = strcspn(path, "/"), taken = length + strspn(path + length, "/");
        bool last = !path[taken];

        snprintf(name, sizeof(name), "%.*s", (int)length, path);
        path += taken;
        fd = below_step(fd, name, last ? flags : O_PATH | O_DIRECTORY);
        if (last)
            return fd;
    }
    return fd < 0 ? -1 : below_step(fd, ".", flags); /* the root itself */
}

/* The target of the link NAME in a folder; false: it is none. */
static inline bool below_link(const char *root, const char *folder, const char *name,
                              char target[PATH_MAX])
{
    int fd = below_open_plain(root, folder, O_PATH | O_DIRECTORY);
    ssize_t length = fd < 0 ? -1 : readlinkat(fd, name, target, PATH_MAX - 1);

    if (fd >= 0)
        close(fd);
    target[length > 0 ? length : 0] = '\0';
    return length > 0;
}

/* Takes the first component of a path; false: there is none. */
static inline bool below_take(char *path, char name[NAME_MAX + 1])
{
    size_t slashes = strspn(path, "/"), length = strcspn(path + slashes, "/");

    if (!length || length > NAME_MAX)
        return false;
    memcpy(name, path + slashes, length);
    name[length] = '\0';
    memmove(path, path + slashes + length, strlen(path + slashes + length) + 1);
    return true;
}

/* Appends a component; ".." removes one. False: the path is too long. */
static inline bool below_append(char path[PATH_MAX], const char *name)
{
    size_t used = strlen(path);
    char *slash = strrchr(path, '/');

    if (!strcmp(name, "..") && slash)
        *slash = '\0';
    if (!strcmp(name, "..") || !strcmp(name, "."))
        return true;
    return snprintf(path + used, PATH_MAX - used, "/%s", name) < (int)(PATH_MAX - used);
}

/* The path without links, below the root and without its name; "" is the root itself. Its last
 * components need not exist. */
static inline bool below_resolve(const char *root, const char *path, char real[PATH_MAX])
{
    char rest[PATH_MAX], target[PATH_MAX], joined[2 * PATH_MAX], name[NAME_MAX + 1];
    int links = 0;

    real[0] = '\0';
    if (snprintf(rest, sizeof(rest), "%s", path) >= (int)sizeof(rest))
        return false;
    while (below_take(rest, name)) {
        if (!below_link(root, real, name, target)) {
            if (!below_append(real, name))
                return false;
            continue;
        }
        if (snprintf(joined, sizeof(joined), "%s/%s", target, rest) >= PATH_MAX ||
            ++links > BELOW_LINKS)
            return false;
        strcpy(rest, joined);
        if (target[0] == '/')
            real[0] = '\0';
    }
    return !rest[strspn(rest, "/")];
}

/* As open(2); the descriptor is close-on-exec. -1: it cannot be opened. */
static inline int below_open(const char *root, const char *path, int flags)
{
    char real[PATH_MAX];

    if (!root[0])
        return high_fd(open(path, flags | O_CLOEXEC));
    return below_resolve(root, path, real) ? below_open_plain(root, real, flags) : -1;
}

/* A regular file, for reading: one that waits for a writer, or whose opening has an effect, is
 * none. */
static inline FILE *below_file(const char *root, const char *path)
{
    int fd = below_open(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    struct stat status;
    FILE *file;

    if (fd < 0)
        return NULL;
    file = fstat(fd, &status) || !S_ISREG(status.st_mode) ? NULL : fdopen(fd, "re");
    if (!file)
        close(fd);
    return file;
}

/* As realpath(3), without the root's name; false: there is no such path. */
static inline bool below_real(const char *root, const char *path, char real[PATH_MAX])
{
    int fd;

    if (!root[0])
        return realpath(path, real) != NULL;
    fd = below_resolve(root, path, real) ? below_open_plain(root, real, O_PATH) : -1;
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

#endif
