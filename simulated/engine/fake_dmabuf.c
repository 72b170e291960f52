/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See fake.h: descriptors of exactly a range. Each is a sealed file of that length without bytes;
 * the table says which memory it stands for. The file that a caller gets is opened anew and holds
 * a shared lock of it: the kernel drops the lock with the last descriptor, in whichever process, so
 * an exclusive lock is possible only when no descriptor is left.
 */
#include "simulated/engine/fake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define KERNEL_ENOTSUPP 524

struct dmabuf {
    struct dmabuf *next;
    int fd;
    ino_t inode;
    unsigned attached;
    size_t len, count;
    struct fake_piece pieces[];
};

struct view {
    struct view *next;
    char *bytes;
    struct dmabuf *dmabuf;
};

static struct dmabuf *dmabufs;
static struct view *views;
static size_t window, window_used; /* of the devices' BAR1; window 0: no limit */
static bool window_read;

static void dmabuf_free(struct dmabuf *dmabuf)
{
    for (size_t i = 0; i < dmabuf->count; i++)
        fake_block_put(dmabuf->pieces[i].block);
    close(dmabuf->fd);
    free(dmabuf);
}

/* Frees those that no descriptor and no device refers to. */
static void sweep(void)
{
    struct dmabuf **link = &dmabufs;

    while (*link) {
        struct dmabuf *dmabuf = *link;

        if (dmabuf->attached || flock(dmabuf->fd, LOCK_EX | LOCK_NB)) {
            link = &dmabuf->next;
            continue;
        }
        *link = dmabuf->next;
        dmabuf_free(dmabuf);
    }
}

static int new_file(size_t len)
{
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
    int fd = memfd_create("simulated dmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd >= 0 && (ftruncate(fd, (off_t)len) || fcntl(fd, F_ADD_SEALS, seals))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int open_again(int fd)
{
    char path[40];
    int again;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    again = open(path, O_RDONLY | O_CLOEXEC);
    if (again >= 0 && flock(again, LOCK_SH)) {
        close(again);
        again = -1;
    }
    return again;
}

static struct dmabuf *dmabuf_new(const struct fake_piece *pieces, size_t count)
{
    struct dmabuf *made = calloc(1, sizeof(*made) + count * sizeof(*pieces));
    struct stat about;

    if (!made)
        abort();
    made->count = count;
    for (size_t i = 0; i < count; i++) {
        made->pieces[i] = pieces[i];
        made->len += pieces[i].len;
        fake_block_hold(pieces[i].block);
    }
    made->fd = new_file(made->len);
    if (made->fd < 0 || fstat(made->fd, &about))
        abort();
    made->inode = about.st_ino;
    return made;
}

int fake_dmabuf_new(const struct fake_piece *pieces, size_t count)
{
    struct dmabuf *made;
    int fd;

    fake_lock();
    sweep();
    made = dmabuf_new(pieces, count);
    fd = open_again(made->fd);
    if (fd < 0) {
        dmabuf_free(made);
    } else {
        made->next = dmabufs;
        dmabufs = made;
    }
    fake_unlock();
    return fd;
}

static unsigned named_by(const struct fake_block *block)
{
    unsigned count = 0;

    for (const struct dmabuf *dmabuf = dmabufs; dmabuf; dmabuf = dmabuf->next)
        for (size_t i = 0; i < dmabuf->count; i++)
            count += dmabuf->pieces[i].block == block;
    return count;
}

size_t fake_dmabuf_held(int device)
{
    size_t held = 0;

    fake_lock();
    sweep();
    for (const struct dmabuf *dmabuf = dmabufs; dmabuf; dmabuf = dmabuf->next)
        for (size_t i = 0; i < dmabuf->count; i++) {
            const struct fake_block *block = dmabuf->pieces[i].block;
            unsigned names = named_by(block);

            if (block->users == names && (device < 0 || block->device == device))
                held += block->len / names;
        }
    fake_unlock();
    return held;
}

/* ---- devices ---------------------------------------------------------------------------- */

static struct dmabuf *find(int fd)
{
    struct dmabuf *found = dmabufs;
    struct stat about;

    if (fstat(fd, &about))
        return NULL;
    while (found && found->inode != about.st_ino)
        found = found->next;
    return found;
}

static char *map_pieces(const struct dmabuf *dmabuf)
{
    char *bytes = mmap(NULL, dmabuf->len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *at = bytes;

    for (size_t i = 0; bytes != MAP_FAILED && i < dmabuf->count; i++) {
        const struct fake_piece *piece = &dmabuf->pieces[i];

        if (mmap(at, piece->len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, piece->block->fd,
                 (off_t)(piece->block->start + piece->skip)) == MAP_FAILED)
            abort();
        at += piece->len;
    }
    return bytes == MAP_FAILED ? NULL : bytes;
}

/* All imports of a descriptor share its place in the window. */
static bool has_room(const struct dmabuf *dmabuf)
{
    if (!window_read)
        window = (size_t)fake_env("HMREG_FAKE_BAR1", 0);
    window_read = true;
    return !window || dmabuf->attached ||
           (window_used <= window && dmabuf->len <= window - window_used);
}

static char *attach(struct dmabuf *dmabuf)
{
    struct view *view = calloc(1, sizeof(*view));

    if (!view)
        abort();
    view->bytes = map_pieces(dmabuf);
    if (!view->bytes)
        abort();
    view->dmabuf = dmabuf;
    view->next = views;
    views = view;
    if (!dmabuf->attached++)
        window_used += dmabuf->len;
    return view->bytes;
}

char *fake_dmabuf_attach(int fd)
{
    struct dmabuf *dmabuf;
    char *bytes = NULL;
    int error;

    fake_lock();
    sweep();
    dmabuf = find(fd);
    error = !dmabuf                                    ? ENOENT
            : fake_env("HMREG_FAKE_ATTACH_REFUSED", 0) ? KERNEL_ENOTSUPP
            : !has_room(dmabuf)                        ? ENOMEM
                                                       : 0;
    if (!error)
        bytes = attach(dmabuf);
    fake_unlock();
    errno = error;
    return bytes;
}

void fake_dmabuf_detach(char *bytes)
{
    struct view **link = &views;
    struct view *gone;

    fake_lock();
    while (*link && (*link)->bytes != bytes)
        link = &(*link)->next;
    gone = *link;
    if (!gone)
        abort();
    *link = gone->next;
    munmap(bytes, gone->dmabuf->len);
    if (!--gone->dmabuf->attached)
        window_used -= gone->dmabuf->len;
    free(gone);
    sweep();
    fake_unlock();
}

void fake_dmabuf_window(size_t bytes)
{
    fake_lock();
    window = bytes;
    window_read = true;
    fake_unlock();
}
