/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See own_path.h. Folders are opened with O_PATH, which needs no right to read them, and
 * O_DIRECTORY, which triggers automounts. openat2(2) can refuse links too, but not depending on
 * their folder, and filters of system calls end processes for unknown calls.
 */
#include "core/base/own_path.h"

#include "core/base/high_fd.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MOST_LINKS 8    /* links whose targets lead through links */
#define LINK_ROOM  1024 /* on the stack, which may be a signal handler's */

static int refuse(int error)
{
    errno = error;
    return -1;
}

/* error 0: none. */
static int keep_or_refuse(int fd, int error)
{
    if (!error)
        return fd;
    close(fd);
    return refuse(error);
}

/* ---- users ------------------------------------------------------------------------------ */

/* The map of a user namespace that has a number for every user. */
#define EVERY_USER "         0          0 4294967295\n"

/* The kernel's default of overflowuid. */
#define UNMAPPED_USER "65534"

/* Reads a short file; after a failure the text is unchanged. */
static void read_short(const char *path, char *text, size_t room)
{
    int fd = high_fd(open(path, O_RDONLY | O_CLOEXEC));
    ssize_t got = fd < 0 ? -1 : read(fd, text, room - 1);

    high_fd_close(fd);
    if (got >= 0)
        text[got] = '\0';
}

/* Is it surely the effective user? The kernel shows all users without a number in this user
 * namespace as one number. This process may have that number too, and then equal numbers do not
 * mean the same user. */
static bool is_own(uid_t user)
{
    char map[64] = "", unmapped[16] = UNMAPPED_USER;

    if (!user || user != geteuid())
        return user == geteuid();
    read_short("/proc/self/uid_map", map, sizeof(map));
    if (!strcmp(map, EVERY_USER))
        return true;
    read_short("/proc/sys/kernel/overflowuid", unmapped, sizeof(unmapped));
    return user != strtoul(unmapped, NULL, 10);
}

static bool is_stranger(uid_t user)
{
    return user && !is_own(user);
}

static bool others_may_write(const struct stat *status)
{
    return status->st_mode & (S_IWGRP | S_IWOTH);
}

/* ---- a name's folders -------------------------------------------------------------------- */

static int open_folder(int base, const char *name)
{
    return high_fd(openat(base, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

static int walk(int base, const char *path, int links);

/* Follows an entry of a folder that is not itself a folder: a link, with this status. */
static int follow(int folder, const struct stat *status, const char *name, int links)
{
    char target[LINK_ROOM];
    ssize_t length = readlinkat(folder, name, target, sizeof(target));

    if (length < 0)
        return refuse(errno == EINVAL ? ENOTDIR : errno);
    if (is_stranger(status->st_uid) || others_may_write(status) || !links)
        return refuse(ELOOP);
    if (length == sizeof(target))
        return refuse(ENAMETOOLONG);
    target[length] = '\0';
    return walk(folder, target, links - 1);
}

static int enter(int folder, const char *name, int links)
{
    int fd = open_folder(folder, name), error = errno;
    struct stat above, entry;

    if (fstat(folder, &above) || (fd >= 0 && fstat(fd, &entry)))
        return keep_or_refuse(fd, errno);
    if (fd < 0)
        return error == ENOTDIR || error == ELOOP ? follow(folder, &above, name, links)
                                                  : refuse(error);
    /* The folder above, which is "..", is not an entry. */
    if (above.st_mode & S_IWOTH && strcmp(name, "..") != 0 && is_stranger(entry.st_uid))
        return keep_or_refuse(fd, EPERM);
    return fd;
}

/* Opens the folder at the path; a relative path begins at base. */
static int walk(int base, const char *path, int links)
{
    int fd = open_folder(base, path[0] == '/' ? "/" : ".");
    char name[OWN_NAME];

    while (fd >= 0 && *(path += strspn(path, "/"))) {
        size_t length = strcspn(path, "/");
        int above = fd;

        snprintf(name, sizeof(name), "%.*s", (int)length, path);
        fd = enter(above, name, links);
        high_fd_close(above);
        path += length;
    }
    return fd;
}

int own_folder_above(const char *path, char name[OWN_NAME])
{
    char above[PATH_MAX], *last;
    size_t end = (size_t)snprintf(above, sizeof(above), "%s", path);

    if (end >= sizeof(above))
        return refuse(ENAMETOOLONG);
    while (end > 1 && above[end - 1] == '/')
        above[--end] = '\0';
    last = strrchr(above, '/');
    last = last ? last + 1 : above;
    if (!*last)
        return refuse(end ? EEXIST : ENOENT);
    snprintf(name, OWN_NAME, "%.*s", OWN_NAME - 1, last);
    *last = '\0';
    return walk(AT_FDCWD, above, MOST_LINKS);
}

/* ---- folders ----------------------------------------------------------------------------- */

static int judge_folder(int fd)
{
    struct stat status;
    bool good;

    if (fd < 0 || fstat(fd, &status))
        return fd < 0 ? -1 : keep_or_refuse(fd, errno);
    good = status.st_mode & S_ISVTX ? !is_stranger(status.st_uid)
                                    : is_own(status.st_uid) && !others_may_write(&status);
    return keep_or_refuse(fd, good ? 0 : EPERM);
}

int own_folder(const char *path)
{
    return path[0] ? judge_folder(walk(AT_FDCWD, path, MOST_LINKS)) : refuse(ENOENT);
}

int own_folder_make(const char *path)
{
    char name[OWN_NAME];
    int above = own_folder_above(path, name), made;

    if (above < 0)
        return -1;
    made = mkdirat(above, name, 0700) ? -1 : judge_folder(enter(above, name, 0));
    high_fd_close(above);
    return made;
}

/* ---- files in them ----------------------------------------------------------------------- */

int own_file_create(int folder, const char *name)
{
    return high_fd(openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
}

static int open_file(int folder, const char *name, int flags)
{
    const int always = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;

    return high_fd(openat(folder, name, flags | always | O_CLOEXEC, 0666));
}

/* 0, or an errno value. */
static int judge_file(int fd, struct stat *status)
{
    if (fstat(fd, status))
        return errno;
    if (!S_ISREG(status->st_mode))
        return EINVAL;
    return is_own(status->st_uid) ? 0 : EPERM;
}

int own_file_open(int folder, const char *name, off_t length)
{
    int fd = open_file(folder, name, O_RDWR);
    struct stat status;
    int error = fd < 0 ? 0 : judge_file(fd, &status);

    if (fd >= 0 && !error && (others_may_write(&status) || status.st_size != length))
        error = others_may_write(&status) ? EPERM : EINVAL;
    return keep_or_refuse(fd, error);
}

int own_file_overwrite(int folder, const char *name, bool *made)
{
    int fd = open_file(folder, name, O_WRONLY), error;
    struct stat status;

    *made = false;
    if (fd < 0 && errno == ENOENT) {
        fd = open_file(folder, name, O_WRONLY | O_CREAT | O_EXCL);
        *made = fd >= 0;
    }
    if (fd < 0 || *made)
        return fd;
    error = judge_file(fd, &status);
    if (error == EINVAL && S_ISCHR(status.st_mode)) /* root made it */
        error = 0;
    else if (!error && status.st_nlink > 1)
        error = EMLINK;
    if (!error && fcntl(fd, F_SETFL, 0)) /* writes wait again */
        error = errno;
    return keep_or_refuse(fd, error);
}
