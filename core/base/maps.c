/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See maps.h. A mapping of MAP_ANONYMOUS | MAP_HUGETLB has an inode too, of a kernel-internal file.
 * Only the name that the kernel prints for that file distinguishes the mapping from one of a file
 * in a hugetlbfs, which another process may truncate.
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

static bool is_unnamed_hugetlb(const char *name)
{
    return !strcmp(name, "/anon_hugepage (deleted)") || !strcmp(name, "/anon_hugepage");
}

/* ---- by ioctl --------------------------------------------------------------------------- */

static int ask(int fd, struct procmap_query *query)
{
    query->size = sizeof(*query);
    return ioctl(fd, PROCMAP_QUERY_IOCTL, query) ? -errno : 0;
}

/* If the mapping's name does not fit (-ENAMETOOLONG), it is another name. */
static bool asks_for_unnamed_hugetlb(int fd, uint64_t addr)
{
    char name[64] = "";
    struct procmap_query query = {
        .query_addr = addr,
        .vma_name_size = sizeof(name),
        .vma_name_addr = (uintptr_t)name,
    };

    return !ask(fd, &query) && is_unnamed_hugetlb(name);
}

static bool is_anonymous(int fd, const struct procmap_query *query)
{
    if (query->vma_flags & PROCMAP_QUERY_VMA_SHARED)
        return false;
    if (!query->inode)
        return true;
    return query->vma_page_size > (uint64_t)sysconf(_SC_PAGESIZE) &&
           asks_for_unnamed_hugetlb(fd, query->vma_start);
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
        .anonymous = is_anonymous(fd, &query),
    };
    return 1;
}

static atomic_bool reads_only;

void maps_read_only(void)
{
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
    if (rc == -ENOTTY) /* the kernel has no such request, and will have none */
        maps_read_only();
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

/* Reads a line and keeps its first size - 1 bytes: a file's name may have any length and content.
 * 1: read; 0: end of the list; or -errno. */
static int read_line(struct maps *maps, char *line, unsigned size)
{
    unsigned len = 0;
    int byte;

    while ((byte = read_byte(maps)) >= 0 && byte != '\n')
        if (len + 1 < size)
            line[len++] = (char)byte;
    line[len] = '\0';
    return byte >= 0 || len ? 1 : byte + 1;
}

/* Skips what ends with a space, and the spaces after it. */
static const char *skip_word(const char *at)
{
    at += strcspn(at, " ");
    return at + strspn(at, " ");
}

/* "start-end rw-p offset device inode name". By hand: sscanf(3) takes most of a walk's time. */
static bool parse(const char *line, struct map *out)
{
    const char *flags, *number;
    uint64_t inode;
    char *at;

    out->start = strtoull(line, &at, 16);
    if (*at != '-')
        return false;
    out->end = strtoull(at + 1, &at, 16);
    flags = skip_word(at);
    if (strcspn(flags, " ") != 4)
        return false;
    number = skip_word(skip_word(skip_word(flags)));
    inode = strtoull(number, &at, 10);
    if (at == number)
        return false;
    out->readable = flags[0] == 'r';
    out->writable = flags[1] == 'w';
    out->executable = flags[2] == 'x';
    out->anonymous = flags[3] == 'p' && (!inode || is_unnamed_hugetlb(at + strspn(at, " ")));
    return true;
}

/* The lines are in address order, so a walk reads the text once. */
static int next_by_reading(struct maps *maps, uint64_t addr, struct map *out)
{
    char line[256];
    int rc;

    while ((rc = read_line(maps, line, sizeof(line))) > 0) {
        maps->lines++;
        if (parse(line, out) && out->end > addr)
            return 1;
    }
    return rc;
}

/* ---- walks ------------------------------------------------------------------------------ */

/* Opens the list of the process. Not by /proc/self, which is its first thread, which may have
 * ended. */
static int open_list(void)
{
    return high_fd(open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC));
}

struct owned_fd maps_keep(void)
{
    int fd = open_list();

    if (fd >= 0 && !answers(fd)) {
        close(fd);
        fd = -1;
    }
    return owned_fd_take(fd);
}

void maps_begin(struct maps *maps, int kept)
{
    maps->kept = kept;
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

/* Did the application close the shared descriptor? Its number is then unused or another file's. */
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
        maps->fd = open_list();
        if (maps->fd < 0)
            return -errno;
        maps->asks = answers(maps->fd);
    }
    return maps->asks ? next_by_asking(maps->fd, addr, out) : next_by_reading(maps, addr, out);
}
