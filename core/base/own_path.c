/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See own_path.h. Folders are opened with O_PATH, which needs no right to read them, and
 * O_DIRECTORY, which mounts what an automounter would. openat2(2) could refuse links as well, but
 * not by their folder, and filters of system calls end processes for calls that they do not know.
 */
#include "core/base/own_path.h"

#include "core/base/high_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_LINKS 8    /* links whose targets lead through links */
#define LINK_ROOM  1024 /* on the stack, which may be a signal handler's */

static int refuse(int error)
{
    errno = error;
    return -1;
}

static int close_and_refuse(int fd, int error)
{
    close(fd);
    return refuse(error);
}

/* ---- users ------------------------------------------------------------------------------ */

/* The kernel shows each user without a number in this user namespace as the same number, 65534
 * unless an operator chose another, which a process may have as its own as well: then equal numbers
 * do not mean the same user. */
#define UNMAPPED_USER 65534u /* the kernel's default */

/* Reads a short file; "": it cannot be read. */
static void read_short(const char *path, char *text, size_t room)
{
    int fd = high_fd(open(path, O_RDONLY | O_CLOEXEC));
    ssize_t got = fd < 0 ? -1 : read(fd, text, room - 1);

    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
}

/* Is there no such user: has this user namespace a number for every user of the machine? The lines
 * of the map are "first first-outside count". Of a longer map than is read here: no. */
static bool unmapped_user_none(void)
{
    unsigned long long sum = 0;
    char text[1024], *at = text;

    read_short("/proc/self/uid_map", text, sizeof(text));
    while (*at) {
        char *end = at;

        for (int i = 0; i < 3; i++) {
            unsigned long long number = strtoull(at, &end, 10);

            if (end == at)
                return sum == UINT32_MAX;
            sum += i == 2 ? number : 0;
            at = end;
        }
    }
    return sum == UINT32_MAX;
}

/* The number of the users without one. */
static uid_t unmapped_user(void)
{
    char text[32];

    read_short("/proc/sys/kernel/overflowuid", text, sizeof(text));
    return text[0] ? (uid_t)strtoul(text, NULL, 10) : UNMAPPED_USER;
}

/* Is it the effective user, and no other one? */
static bool is_own(uid_t user)
{
    static _Atomic uid_t mapped; /* the last user that was found to be */

    if (user != geteuid())
        return false;
    if (!user || atomic_load_explicit(&mapped, memory_order_relaxed) == user)
        return true;
    if (user == unmapped_user())
        return unmapped_user_none(); /* which changes with the namespace */
    atomic_store_explicit(&mapped, user, memory_order_relaxed);
    return true;
}

static bool is_stranger(uid_t user)
{
    return user && !is_own(user);
}

static bool others_may_write(const struct stat *status)
{
    return status->st_mode & (S_IWGRP | S_IWOTH);
}

static bool is_open_to_strangers(const struct stat *folder)
{
    return is_stranger(folder->st_uid) || others_may_write(folder);
}

/* ---- a name's folders -------------------------------------------------------------------- */

static int open_folder(int base, const char *name)
{
    return high_fd(openat(base, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

static int walk(int base, const char *path, size_t length, int links);

/* What is in the folder by this name and is no folder. */
static int follow(int folder, const struct stat *status, const char *name, int links)
{
    char target[LINK_ROOM];
    ssize_t length = readlinkat(folder, name, target, sizeof(target));

    if (length < 0)
        return refuse(errno == EINVAL ? ENOTDIR : errno);
    if (is_open_to_strangers(status) || !links)
        return refuse(ELOOP);
    if (length == sizeof(target))
        return refuse(ENAMETOOLONG);
    return walk(folder, target, (size_t)length, links - 1);
}

/* The folder above, which is "..", is not an entry. */
static bool belongs_to_stranger(int entry, const char *name)
{
    struct stat status;

    return strcmp(name, "..") != 0 && (fstat(entry, &status) || is_stranger(status.st_uid));
}

static int enter(int folder, const char *name, int links)
{
    struct stat status;
    int fd;

    if (fstat(folder, &status))
        return -1;
    fd = open_folder(folder, name);
    if (fd < 0)
        return errno == ENOTDIR || errno == ELOOP ? follow(folder, &status, name, links) : -1;
    if (status.st_mode & S_IWOTH && belongs_to_stranger(fd, name))
        return close_and_refuse(fd, EPERM);
    return fd;
}

/* The next component of a path; it is shorter by it. False: there is none, or, name[0] is 0, it is
 * too long. */
static bool take_component(const char **path, size_t *length, char name[NAME_MAX + 1])
{
    size_t size = 0;

    while (*length && **path == '/')
        ++*path, --*length;
    while (size < *length && (*path)[size] != '/')
        size++;
    name[0] = '\0';
    if (!size)
        return false;
    if (size <= NAME_MAX) {
        memcpy(name, *path, size);
        name[size] = '\0';
    }
    *path += size;
    *length -= size;
    return true;
}

/* The folder that a path of so many bytes leads to, from base where it is relative. */
static int walk(int base, const char *path, size_t length, int links)
{
    int fd = length && path[0] == '/' ? open_folder(AT_FDCWD, "/") : open_folder(base, ".");
    char name[NAME_MAX + 1];

    while (fd >= 0 && take_component(&path, &length, name)) {
        int next, error;

        if (!strcmp(name, "."))
            continue;
        next = name[0] ? enter(fd, name, links) : refuse(ENAMETOOLONG);
        error = errno;
        close(fd);
        errno = error;
        fd = next;
    }
    return fd;
}

/* The folder of a path's last component, and its name. */
static int walk_to_parent(const char *path, char name[NAME_MAX + 1])
{
    size_t end = strlen(path), start;

    while (end > 1 && path[end - 1] == '/')
        end--;
    for (start = end; start && path[start - 1] != '/'; start--)
        ;
    if (start == end)
        return refuse(end ? EEXIST : ENOENT);
    if (end - start > NAME_MAX)
        return refuse(ENAMETOOLONG);
    memcpy(name, path + start, end - start);
    name[end - start] = '\0';
    return walk(AT_FDCWD, path, start, MOST_LINKS);
}

/* ---- folders ----------------------------------------------------------------------------- */

static bool may_hold_files(const struct stat *folder)
{
    if (folder->st_mode & S_ISVTX)
        return !is_stranger(folder->st_uid);
    return is_own(folder->st_uid) && !others_may_write(folder);
}

static int judge_folder(int fd)
{
    struct stat status;

    if (fd < 0)
        return -1;
    if (fstat(fd, &status))
        return close_and_refuse(fd, errno);
    return may_hold_files(&status) ? fd : close_and_refuse(fd, EPERM);
}

int own_folder(const char *path)
{
    return judge_folder(path[0] ? walk(AT_FDCWD, path, strlen(path), MOST_LINKS) : refuse(ENOENT));
}

int own_folder_make(const char *path)
{
    char name[NAME_MAX + 1];
    int parent = walk_to_parent(path, name), made, error;

    if (parent < 0)
        return -1;
    made = mkdirat(parent, name, 0700) ? -1 : judge_folder(enter(parent, name, 0));
    error = errno;
    close(parent);
    errno = error;
    return made;
}

/* ---- files in them ----------------------------------------------------------------------- */

int own_file_create(int folder, const char *name)
{
    return high_fd(openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
}

/* 0, or an errno value. */
static int judge_file(int fd, struct stat *status)
{
    if (fstat(fd, status))
        return errno;
    if (!S_ISREG(status->st_mode))
        return EINVAL;
    return !is_own(status->st_uid) || others_may_write(status) ? EPERM : 0;
}

int own_file_open(int folder, const char *name)
{
    int fd = high_fd(openat(folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    struct stat status;
    int error = fd < 0 ? 0 : judge_file(fd, &status);

    return error ? close_and_refuse(fd, error) : fd;
}

void *own_file_map(int fd, size_t size, int flags)
{
    struct stat status;
    int error = judge_file(fd, &status);
    void *made;

    if (error || status.st_size != (off_t)size) {
        errno = error ? error : EINVAL;
        return NULL;
    }
    made = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, 0);
    return made == MAP_FAILED ? NULL : made;
}

/* ---- reports ----------------------------------------------------------------------------- */

/* -1: the path names no descriptor of this process. */
static int descriptor_of(const char *path)
{
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};

    if (!strcmp(path, "/dev/stdout"))
        return STDOUT_FILENO;
    if (!strcmp(path, "/dev/stderr"))
        return STDERR_FILENO;
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        const char *number;
        size_t digits;

        if (strncmp(path, folders[i], strlen(folders[i])) != 0)
            continue;
        number = path + strlen(folders[i]);
        digits = strspn(number, "0123456789");
        if (digits && digits < 10 && !number[digits])
            return atoi(number);
    }
    return -1;
}

/* 0, or an errno value. A device is of root's making. */
static int judge_output(const struct stat *folder, const struct stat *file)
{
    if (S_ISLNK(file->st_mode))
        return ELOOP;
    if (S_ISDIR(file->st_mode))
        return EISDIR;
    if (S_ISCHR(file->st_mode))
        return 0;
    if (!S_ISREG(file->st_mode))
        return EINVAL;
    if (!is_own(file->st_uid))
        return EPERM;
    return file->st_nlink > 1 && is_open_to_strangers(folder) ? EMLINK : 0;
}

/* Judges what was opened, and makes writes wait again. */
static int take_over(int fd, const struct stat *folder)
{
    struct stat status;
    int error = fstat(fd, &status) ? errno : judge_output(folder, &status);

    if (!error && fcntl(fd, F_SETFL, 0))
        error = errno;
    return error ? close_and_refuse(fd, error) : fd;
}

static void name_temporary(struct own_output *output)
{
    uint64_t number;

    if (getrandom(&number, sizeof(number), GRND_NONBLOCK) < 0)
        number = (uint64_t)getpid(); /* while the machine starts */
    snprintf(output->temporary, sizeof(output->temporary), ".hmreg-%016" PRIx64, number);
}

/* One without a name leaves nothing behind, however the process ends. Some file systems, as NFS,
 * have none; and only /proc leads to it later. */
static int create_temporary(struct own_output *output)
{
    int fd = -1;

    name_temporary(output);
    if (!access("/proc/self/fd", X_OK))
        fd = high_fd(openat(output->folder, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666));
    output->unnamed = fd >= 0;
    if (fd >= 0)
        return fd;
    return high_fd(openat(output->folder, output->temporary,
                          O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
}

static bool is_mounted(int folder, const char *name)
{
    struct statx status;

    return !statx(folder, name, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &status) &&
           status.stx_attributes & STATX_ATTR_MOUNT_ROOT;
}

/* What replaces a file gets its mode, and its group where that is permitted. */
static int create_like(struct own_output *output, const struct stat *old)
{
    int fd = create_temporary(output), error;
    mode_t mode = old->st_mode & 0777;

    if (fd < 0)
        return -1;
    if (fchown(fd, (uid_t)-1, old->st_gid))
        mode &= 0707;
    if (!fchmod(fd, mode))
        return fd;
    error = errno;
    if (!output->unnamed)
        unlinkat(output->folder, output->temporary, 0);
    return close_and_refuse(fd, error);
}

static int open_in_place(struct own_output *output, const struct stat *above)
{
    int fd = high_fd(openat(output->folder, output->name,
                            O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));

    output->temporary[0] = '\0';
    return fd < 0 ? -1 : take_over(fd, above);
}

static int open_output(struct own_output *output)
{
    struct stat above, status;
    int error, fd = -1;

    if (fstat(output->folder, &above))
        return -1;
    if (fstatat(output->folder, output->name, &status, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT ? create_temporary(output) : -1;
    /* Before it is opened, since that has effects where it is a FIFO. */
    error = judge_output(&above, &status);
    if (error)
        return refuse(error);
    if (S_ISREG(status.st_mode) && !is_mounted(output->folder, output->name)) {
        /* A file that its user may not write to is not replaced either. */
        if (faccessat(output->folder, output->name, W_OK, AT_EACCESS))
            return -1;
        fd = create_like(output, &status);
    }
    return fd < 0 ? open_in_place(output, &above) : fd;
}

int own_output_open(struct own_output *output, const char *path)
{
    int fd = descriptor_of(path), error;

    *output = (struct own_output){.fd = -1, .folder = -1};
    if (fd >= 0) {
        output->fd = high_fd_duplicate(fd);
        return output->fd < 0 ? -1 : 0;
    }
    if (path[0] && path[strlen(path) - 1] == '/')
        return refuse(EISDIR);
    output->folder = walk_to_parent(path, output->name);
    if (output->folder < 0)
        return -1;
    output->fd = open_output(output);
    if (output->fd >= 0 && output->temporary[0])
        return 0;
    error = errno;
    close(output->folder);
    output->folder = -1;
    errno = error;
    return output->fd < 0 ? -1 : 0;
}

/* What was longer. Where it is a descriptor of this process, it may have been written before. */
static int cut(const struct own_output *output)
{
    off_t end = output->name[0] ? lseek(output->fd, 0, SEEK_CUR) : -1;
    struct stat status;

    if (end < 0 || fstat(output->fd, &status) || !S_ISREG(status.st_mode))
        return 0;
    return ftruncate(output->fd, end);
}

/* 0, or an errno value. A full disk may be told by fsync(2) only. */
static int rename_output(struct own_output *output)
{
    char path[32];

    if (fsync(output->fd))
        return errno;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", output->fd);
    if (output->unnamed &&
        linkat(AT_FDCWD, path, output->folder, output->temporary, AT_SYMLINK_FOLLOW))
        return errno;
    output->unnamed = false;
    return renameat(output->folder, output->temporary, output->folder, output->name) ? errno : 0;
}

int own_output_end(struct own_output *output, bool complete)
{
    int error;

    if (output->folder < 0)
        return complete ? cut(output) : 0;
    error = complete ? rename_output(output) : 0;
    if ((error || !complete) && !output->unnamed)
        unlinkat(output->folder, output->temporary, 0);
    close(output->folder);
    output->folder = -1;
    return error ? refuse(error) : 0;
}

/* ---- words ------------------------------------------------------------------------------- */

const char *own_refusal(int error)
{
    switch (error) {
    case EPERM:
        return "it, or a folder above it, belongs to another user, or other users may write to it";
    case ELOOP:
        return "it is a symbolic link, or another user could have made one that is above it";
    case EMLINK:
        return "it has a second name, a hard link, which another user could have made";
    case EINVAL:
        return "it is not a regular file";
    default:
        return NULL;
    }
}
