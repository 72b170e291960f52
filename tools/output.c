/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See output.h.
 */
#include "tools/output.h"

#include "core/base/high_fd.h"
#include "core/base/own_path.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The destination of a file. */
struct place {
    int fd;
    int folder; /* the name's folder; -1: fd is a duplicate of this process's */
    bool made;  /* the file was created here */
    char name[OWN_NAME];
};

/* -1: the path names no descriptor of this process. */
static int descriptor_of(const char *path)
{
    int number = -1, end = 0;

    if (!strcmp(path, "/dev/stdout"))
        return STDOUT_FILENO;
    if (!strcmp(path, "/dev/stderr"))
        return STDERR_FILENO;
    if (sscanf(path, "/dev/fd/%9d%n", &number, &end) != 1 &&
        sscanf(path, "/proc/self/fd/%9d%n", &number, &end) != 1)
        return -1;
    return path[end] ? -1 : number;
}

static bool place_open(struct place *place, const char *path)
{
    int number = descriptor_of(path);

    *place = (struct place){.fd = -1, .folder = -1};
    if (number >= 0) {
        place->fd = high_fd_duplicate(number);
    } else if (path[0] && path[strlen(path) - 1] == '/') {
        errno = EISDIR;
    } else {
        place->folder = own_folder_above(path, place->name);
        if (place->folder >= 0)
            place->fd = own_file_overwrite(place->folder, place->name, &place->made);
        if (place->fd < 0)
            high_fd_close(place->folder);
    }
    return place->fd >= 0;
}

/* good: keep the file; else remove it if it was created here. */
static void place_close(struct place *place, bool good)
{
    int error = errno;

    if (!good && place->made)
        unlinkat(place->folder, place->name, 0);
    errno = error;
    high_fd_close(place->folder);
    high_fd_close(place->fd);
}

bool output_try(const char *path)
{
    struct place place;

    if (!place_open(&place, path))
        return false;
    place_close(&place, false);
    return true;
}

FILE *output_begin(void)
{
    int fd = high_fd(memfd_create("hmreg-output", MFD_CLOEXEC));
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w+");

    if (!file)
        high_fd_close(fd);
    return file;
}

static bool write_all(int fd, const char *bytes, size_t size)
{
    while (size) {
        ssize_t done = write(fd, bytes, size);

        if (done < 0 && errno != EINTR)
            return false;
        bytes += done > 0 ? done : 0;
        size -= done > 0 ? (size_t)done : 0;
    }
    return true;
}

/* A device cannot be truncated (EINVAL). A full disk may be reported by fsync(2) only. */
static bool write_from(int from, const struct place *to)
{
    char block[1 << 16];
    ssize_t got;
    off_t at = 0;

    while ((got = pread(from, block, sizeof(block), at)) > 0) {
        if (!write_all(to->fd, block, (size_t)got))
            return false;
        at += got;
    }
    return !got &&
           (to->folder < 0 || (!ftruncate(to->fd, at) && !fsync(to->fd)) || errno == EINVAL);
}

bool output_end(FILE *file, const char *path)
{
    struct place place;
    bool good = file && !fflush(file) && !ferror(file) && place_open(&place, path);

    if (good) {
        good = write_from(fileno(file), &place);
        place_close(&place, good);
    }
    if (file) {
        int error = errno;

        fclose(file);
        errno = error;
    }
    return good;
}

const char *output_refusal(int error)
{
    switch (error) {
    case EPERM:
        return "it, or a folder above it, belongs to another user, or other users may write to it";
    case ELOOP:
        return "it is a symbolic link, or another user could have made a link in a folder above it";
    case EMLINK:
        return "it has a second name, a hard link";
    case EINVAL:
    case ENXIO: /* a FIFO without a reader, a socket */
        return "it is not a regular file";
    default:
        return NULL;
    }
}
