/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See maps.h. A mapping has no file exactly if the kernel lists device 0:0 and inode 0. Inode 0
 * alone does not suffice: a FUSE server may number a file 0, but no file system is device 0:0. A
 * mapping of MAP_ANONYMOUS | MAP_HUGETLB has a file too, in a file system of the kernel's own for
 * pages of that size. Name and device identify it: memfds and SysV segments are on that device too,
 * and any file at the root of its own mount may have that name.
 */
#include "core/base/maps.h"

#include "core/base/high_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ioctl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* linux/fs.h of Linux 6.11; Debian 12's headers do not have it. */
struct procmap_query {
    uint64_t size;
    uint64_t query_flags;
    uint64_t query_addr;
    uint64_t vma_start;
    uint64_t vma_end;
    uint64_t vma_flags;
    uint64_t vma_page_size;
    uint64_t vma_offset;
    uint64_t inode;
    uint32_t dev_major;
    uint32_t dev_minor;
    uint32_t vma_name_size;
    uint32_t build_id_size;
    uint64_t vma_name_addr;
    uint64_t build_id_addr;
};
#define PROCMAP_QUERY_IOCTL            _IOWR('f', 17, struct procmap_query)
#define PROCMAP_QUERY_VMA_READABLE     0x01
#define PROCMAP_QUERY_VMA_WRITABLE     0x02
#define PROCMAP_QUERY_VMA_EXECUTABLE   0x04
#define PROCMAP_QUERY_VMA_SHARED       0x08
#define PROCMAP_QUERY_COVERING_OR_NEXT 0x10

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif
#define MFD_SIZE_SHIFT 26

/* ---- what is mapped --------------------------------------------------------------------- */

static atomic_bool makes_nothing; /* maps_read_only() */

bool maps_is_read_only(void)
{
    return atomic_load(&makes_nothing);
}

static int make_huge(unsigned flags)
{
    return high_fd(memfd_create("hmreg", MFD_CLOEXEC | MFD_HUGETLB | flags));
}

/* The device of the kernel's own file system for huge pages of 1 << shift bytes, found by a memfd
 * of such pages. 0: there is none, or no memfd can be made. */
static uint64_t ask_hugetlb_device(unsigned shift)
{
    int fd = make_huge(shift << MFD_SIZE_SHIFT | MFD_NOEXEC_SEAL);
    struct stat file;
    uint64_t device;

    if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
        fd = make_huge(shift << MFD_SIZE_SHIFT);
    if (fd < 0)
        return 0;
    device = fstat(fd, &file) ? 0 : file.st_dev;
    close(fd);
    return device;
}

/* Is it one of the kernel's own file systems for huge pages? They stay until the kernel ends. */
static bool is_hugetlb_device(uint64_t device)
{
    enum { LEAST = 16, MOST = 34 }; /* 64 KiB to 16 GiB */
    static _Atomic uint64_t known[MOST - LEAST + 1];

    for (unsigned i = 0; i <= MOST - LEAST; i++)
        if (atomic_load_explicit(&known[i], memory_order_relaxed) == device)
            return true;
    for (unsigned i = 0; i <= MOST - LEAST && !atomic_load(&makes_nothing); i++) {
        uint64_t found = ask_hugetlb_device(LEAST + i);

        atomic_store_explicit(&known[i], found, memory_order_relaxed);
        if (found == device)
            return true;
    }
    return false;
}

static bool is_unnamed_hugetlb(const char *name, uint64_t device)
{
    return (!strcmp(name, "/anon_hugepage (deleted)") || !strcmp(name, "/anon_hugepage")) &&
           device && is_hugetlb_device(device);
}

/* The number of the mapped character device; 0: the file is not one. Only files in /dev are
 * examined: a network file system may never answer. */
static uint64_t device_number(const char *name, uint64_t device, uint64_t inode)
{
    struct stat file;

    return !strncmp(name, "/dev/", 5) && !stat(name, &file) && S_ISCHR(file.st_mode) &&
                   file.st_dev == device && file.st_ino == inode
               ? file.st_rdev
               : 0;
}

/* Judges a shared mapping with a file. A mapping of /dev/zero is anonymous memory. It has that name
 * or, before Linux 6.18, the kernel's name for shared anonymous memory. Major number 1 is the
 * kernel's own: the machine's memory, zero, ... */
static void judge_shared(struct map *map, const char *name, uint64_t device, uint64_t inode)
{
    uint64_t number = device_number(name, device, inode);

    map->shared_anonymous = !strcmp(name, "/dev/zero (deleted)") || number == makedev(1, 5);
    map->device = number && major(number) != 1;
}

/* Judges a mapping with a file. */
static void judge_file(struct map *map, bool shared, const char *name, uint64_t device,
                       uint64_t inode)
{
    if (shared)
        judge_shared(map, name, device, inode);
    else
        map->anonymous = is_unnamed_hugetlb(name, device);
}

/* ---- by ioctl --------------------------------------------------------------------------- */

static int ask(int fd, struct procmap_query *query)
{
    query->size = sizeof(*query);
    return ioctl(fd, PROCMAP_QUERY_IOCTL, query) ? -errno : 0;
}

/* It does not matter if the name is too long (-ENAMETOOLONG): all compared names are short. */
static void judge(int fd, const struct procmap_query *found, struct map *map)
{
    bool shared = found->vma_flags & PROCMAP_QUERY_VMA_SHARED;
    char name[64] = "";
    struct procmap_query query = {
        .query_addr = found->vma_start,
        .vma_name_size = sizeof(name),
        .vma_name_addr = (uintptr_t)name,
    };

    if (!found->dev_major && !found->dev_minor && !found->inode)
        map->anonymous = !shared;
    else if ((shared || found->vma_page_size > (uint64_t)sysconf(_SC_PAGESIZE)) &&
             !ask(fd, &query) && query.vma_start == found->vma_start && query.inode == found->inode)
        judge_file(map, shared, name, makedev(query.dev_major, query.dev_minor), query.inode);
}

static int next_by_asking(int fd, uint64_t addr, struct map *out)
{
    struct procmap_query query = {
        .query_flags = PROCMAP_QUERY_COVERING_OR_NEXT,
        .query_addr = addr,
    };
    int rc = ask(fd, &query);

    if (rc)
        return rc == -ENOENT ? 0 : rc;
    *out = (struct map){
        .start = query.vma_start,
        .end = query.vma_end,
        .readable = query.vma_flags & PROCMAP_QUERY_VMA_READABLE,
        .writable = query.vma_flags & PROCMAP_QUERY_VMA_WRITABLE,
        .executable = query.vma_flags & PROCMAP_QUERY_VMA_EXECUTABLE,
    };
    judge(fd, &query, out);
    return 1;
}

static atomic_bool reads_only;

void maps_read_only(void)
{
    atomic_store(&makes_nothing, true);
    atomic_store(&reads_only, true);
}

static atomic_uint lines; /* see maps_read() */

unsigned maps_read(void)
{
    return atomic_load_explicit(&lines, memory_order_relaxed);
}

static bool answers(int fd)
{
    struct map map;
    int rc;

    if (atomic_load(&reads_only))
        return false;
    rc = next_by_asking(fd, 0, &map);
    if (rc == -ENOTTY) /* this kernel has no such request, and no later call will find one */
        atomic_store(&reads_only, true);
    return rc >= 0;
}

/* ---- by parsing the text ---------------------------------------------------------------- */

/* Returns the next byte of the text; -1 at its end; -1 - errno on failure. */
static int read_byte(struct maps *maps)
{
    ssize_t count;

    if (maps->at == maps->filled) {
        do {
            count = read(maps->fd, maps->text, sizeof(maps->text));
        } while (count < 0 && errno == EINTR);
        if (count <= 0)
            return count ? -1 - errno : -1;
        maps->at = 0;
        maps->filled = (unsigned)count;
    }
    return (unsigned char)maps->text[maps->at++];
}

int maps_read_line(struct maps *maps, char *line, unsigned size)
{
    unsigned len = 0;
    int byte;

    while ((byte = read_byte(maps)) >= 0 && byte != '\n')
        if (len + 1 < size)
            line[len++] = (char)byte;
    line[len] = '\0';
    return byte >= 0 || len ? 1 : byte + 1;
}

/* Skips a word, and the spaces after it. */
static const char *skip_word(const char *at)
{
    at += strcspn(at, " ");
    return at + strspn(at, " ");
}

/* "device inode name" of a line. A mapping without a file has no name, or one in brackets. */
static bool parse_file(const char *text, bool shared, struct map *out)
{
    uint64_t device, inode;
    const char *number;
    char *at;

    device = strtoull(text, &at, 16) << 32;
    if (*at != ':')
        return false;
    device |= strtoull(at + 1, &at, 16);
    number = skip_word(at);
    inode = strtoull(number, &at, 10);
    if (at == number)
        return false;
    at += strspn(at, " ");
    if (!device && !inode)
        out->anonymous = !shared && (!*at || *at == '[');
    else
        judge_file(out, shared, at, makedev(device >> 32, device & UINT32_MAX), inode);
    return true;
}

/* "start-end rw-p offset device inode name". By hand: sscanf(3) takes most of a walk's time. */
static bool parse(const char *line, struct map *out)
{
    struct map map = {0};
    const char *flags;
    char *at;

    map.start = strtoull(line, &at, 16);
    if (*at != '-')
        return false;
    map.end = strtoull(at + 1, &at, 16);
    flags = skip_word(at);
    if (strcspn(flags, " ") != 4)
        return false;
    map.readable = flags[0] == 'r';
    map.writable = flags[1] == 'w';
    map.executable = flags[2] == 'x';
    *out = map;
    return parse_file(skip_word(skip_word(flags)), flags[3] == 's', out);
}

/* The lines are in address order, so a walk reads the text once. */
static int next_by_reading(struct maps *maps, uint64_t addr, struct map *out)
{
    char line[256];
    int rc;

    while ((rc = maps_read_line(maps, line, sizeof(line))) > 0) {
        maps->lines++;
        if (parse(line, out) && out->end > addr)
            return 1;
    }
    return rc;
}

/* ---- walks ------------------------------------------------------------------------------ */

/* The process's list. Not /proc/self: that is the first thread, which may have ended. */
#define LIST "/proc/thread-self/maps"

static int open_file(const char *path)
{
    return high_fd(open(path, O_RDONLY | O_CLOEXEC));
}

int maps_open(struct maps *maps, const char *path)
{
    maps->fd = open_file(path);
    return maps->fd < 0 ? -errno : 0;
}

struct owned_fd maps_keep(void)
{
    int fd = open_file(LIST);

    if (fd >= 0 && !answers(fd)) {
        close(fd);
        fd = -1;
    }
    return owned_fd_take(fd);
}

void maps_begin(struct maps *maps, const struct owned_fd *kept)
{
    maps->kept = kept && owned_fd_is_open(kept) ? kept->fd : -1;
    maps->fd = -1;
    maps->asks = false;
    maps->at = maps->filled = maps->lines = 0;
}

void maps_end(struct maps *maps)
{
    if (maps->lines)
        atomic_store_explicit(&lines, maps->lines, memory_order_relaxed);
    if (maps->fd >= 0)
        close(maps->fd);
    maps->fd = -1;
}

/* Did the application close the shared descriptor meanwhile? Its number is then unused or another
 * file's. */
static bool is_lost(int rc)
{
    return rc == -EBADF || rc == -ENOTTY || rc == -EINVAL;
}

int maps_next(struct maps *maps, uint64_t addr, struct map *out)
{
    int rc = -EBADF;

    if (maps->kept >= 0)
        rc = next_by_asking(maps->kept, addr, out);
    if (!is_lost(rc))
        return rc;
    maps->kept = -1;
    if (maps->fd < 0) {
        rc = maps_open(maps, LIST);
        if (rc)
            return rc;
        maps->asks = answers(maps->fd);
    }
    return maps->asks ? next_by_asking(maps->fd, addr, out) : next_by_reading(maps, addr, out);
}
