/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Host memory of the system: what no runtime claimed. The kernel's own list of mappings says
 * what is mapped: by the PROCMAP_QUERY ioctl where there is one (Linux 6.11: a microsecond), by
 * reading /proc/thread-self/maps elsewhere. A range may run over several mappings (a heap that
 * grew, pages with another protection); a hole in it is an error. Host memory has no identity:
 * nothing about a mapping says whether its pages are still the same, so monitors watch it instead.
 */
#include "core/error.h"
#include "hmem/hmem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/ioctl.h>
#include <stdio.h>
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
#define PROCMAP_QUERY_VMA_SHARED       0x08
#define PROCMAP_QUERY_COVERING_OR_NEXT 0x10

/* NULL in its place: the list of mappings is opened for each question. */
struct hmem {
    FILE *maps; /* of the process that opened it, which no forked child uses */
};

struct mapping {
    uint64_t start, end;
    bool readable, writable, shared;
    uint64_t inode; /* 0: no file */
};

/* The mapping that contains addr, or the next above it. 1 found, 0 none above, or -errno. */
typedef int (*next_mapping)(int fd, FILE *maps, uint64_t addr, struct mapping *out);

static int next_by_ioctl(int fd, FILE *maps, uint64_t addr, struct mapping *out)
{
    struct procmap_query query = {
        .size = sizeof(query),
        .query_flags = PROCMAP_QUERY_COVERING_OR_NEXT,
        .query_addr = addr,
    };

    if (ioctl(fd, PROCMAP_QUERY_IOCTL, &query))
        return errno == ENOENT ? 0 : -errno;
    *out = (struct mapping){
        .start = query.vma_start,
        .end = query.vma_end,
        .readable = query.vma_flags & PROCMAP_QUERY_VMA_READABLE,
        .writable = query.vma_flags & PROCMAP_QUERY_VMA_WRITABLE,
        .shared = query.vma_flags & PROCMAP_QUERY_VMA_SHARED,
        .inode = query.inode,
    };
    return 1;
}

/* A line's beginning; a file's name may be longer than any room, and say anything. */
static bool read_line(FILE *maps, char *line, size_t size)
{
    int c = 0;

    if (!fgets(line, (int)size, maps))
        return false;
    if (!strchr(line, '\n'))
        while (c != EOF && c != '\n')
            c = getc(maps);
    return true;
}

/* The lines come in the order of addresses, so one pass serves a whole walk upwards. */
static int next_by_reading(int fd, FILE *maps, uint64_t addr, struct mapping *out)
{
    char line[512];
    char flags[5]; /* "rw-p" */

    while (read_line(maps, line, sizeof(line))) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4c %*x %*x:%*x %" SCNu64, &out->start, &out->end,
                   flags, &out->inode) != 4)
            continue;
        out->readable = flags[0] == 'r';
        out->writable = flags[1] == 'w';
        out->shared = flags[3] == 's';
        if (out->end > addr)
            return 1;
    }
    return 0;
}

static int fail_hole(uint64_t addr, size_t len, uint64_t hole)
{
    return hmreg_fail(
        -EFAULT, "nothing is mapped at %#" PRIx64 ", %" PRIu64 " bytes into the range of %zu bytes",
        hole, hole - addr, len);
}

/* Walks the mappings under the range. */
static int walk(next_mapping next, int fd, FILE *maps, uint64_t addr, size_t len,
                struct hmem_range *out)
{
    struct hmem_range found = {
        .device = -1, .kind = HMREG_MEM_HOST, .host_addr = addr, .anonymous = true};
    uint64_t at = addr;

    while (at < addr + len) {
        struct mapping mapping = {0};
        int rc = next(fd, maps, at, &mapping);

        if (rc < 0)
            return hmreg_fail_os(-rc, "the kernel's list of mappings could not be read");
        if (rc == 0 || mapping.start > at)
            return fail_hole(addr, len, at);
        if (!found.segments++)
            found.alloc_base = mapping.start;
        found.alloc_len = mapping.end - found.alloc_base;
        if (!mapping.readable)
            found.host_addr = 0;
        if (!mapping.writable)
            found.read_only = true;
        if (mapping.shared || mapping.inode)
            found.anonymous = false;
        at = mapping.end;
    }
    *out = found;
    return 0;
}

/* The list of the whole process. "self" is the first thread, which may have ended. */
static FILE *open_maps(void)
{
    return fopen("/proc/thread-self/maps", "re");
}

static bool answers_ioctl(FILE *maps, uint64_t addr)
{
    struct mapping probe;

    return next_by_ioctl(fileno(maps), maps, addr, &probe) >= 0;
}

/* Somebody closes descriptors that are not his: ours is none, or another file's. */
static bool is_lost(int rc)
{
    return rc == -EBADF || rc == -ENOTTY || rc == -EINVAL;
}

static int resolve(struct hmem *self, uint64_t addr, size_t len, struct hmem_range *out)
{
    struct hmreg_error before;
    int rc = -EBADF;
    FILE *maps;

    hmreg_error_save(&before);
    if (self)
        rc = walk(next_by_ioctl, fileno(self->maps), self->maps, addr, len, out);
    if (!is_lost(rc))
        return rc;
    hmreg_error_restore(&before);
    maps = open_maps();
    if (!maps)
        return hmreg_fail_os(errno, "/proc/thread-self/maps cannot be read");
    rc = walk(answers_ioctl(maps, addr) ? next_by_ioctl : next_by_reading, fileno(maps), maps, addr,
              len, out);
    fclose(maps);
    return rc;
}

static int identity(struct hmem *self, uint64_t addr, size_t len, uint64_t *out)
{
    *out = 0;
    return 0;
}

/* The list of mappings stays open where it need not be read as text: opening it costs several times
 * what a question does. */
static int open_system(struct hmem **out)
{
    FILE *maps = open_maps();
    struct hmem *self = maps && answers_ioctl(maps, 0) ? malloc(sizeof(*self)) : NULL;

    if (self)
        self->maps = maps;
    else if (maps)
        fclose(maps);
    *out = self;
    return 0;
}

static void close_system(struct hmem *self)
{
    if (self)
        fclose(self->maps);
    free(self);
}

static void runtime(struct hmem *self, struct hmem_runtime *out)
{
    *out = (struct hmem_runtime){0};
}

static int device_count(struct hmem *self)
{
    return 0;
}

static void device(struct hmem *self, int index, struct hmem_device *out)
{
    *out = (struct hmem_device){0};
}

static int export_dmabuf(struct hmem *self, uint64_t addr, size_t len,
                         const struct hmem_range *range, struct hmreg_dmabuf *out)
{
    return hmreg_fail(-EOPNOTSUPP, "host memory has no dmabuf: it is registered by its address");
}

/* ---- copies ----------------------------------------------------------------------------- */

static int fail_copy(const char *what, uint64_t addr)
{
    if (errno != EFAULT)
        return hmreg_fail_os(errno, "no pipe to copy host memory through");
    return hmreg_fail(-EFAULT,
                      "the memory at %#" PRIx64 " cannot be %s: there is nothing behind its "
                      "mapping, such as a file that ends before it",
                      addr, what);
}

/* As much as the pipe takes at once. */
static int copy_piece(const int pipe_fds[2], uint64_t dst, uint64_t src, size_t len, size_t *done)
{
    ssize_t in = write(pipe_fds[1], (const void *)(uintptr_t)src, len);

    if (in < 0)
        return fail_copy("read", src);
    for (ssize_t out = 0; out < in;) {
        ssize_t got = read(pipe_fds[0], (void *)(uintptr_t)(dst + (size_t)out), (size_t)(in - out));

        if (got < 0)
            return fail_copy("written", dst + (size_t)out);
        out += got;
    }
    *done += (size_t)in;
    return 0;
}

/* Through the kernel, which answers EFAULT where a load or store of ours would end the program:
 * that pages are mapped does not mean that there is anything behind them. A pipe reaches every
 * mapping that the CPU does; process_vm_readv(2) none of a device's. */
static int copy(struct hmem *self, uint64_t dst, uint64_t src, size_t len)
{
    int pipe_fds[2];
    int rc = 0;

    if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK))
        return fail_copy("copied", src);
    for (size_t done = 0; done < len && !rc;)
        rc = copy_piece(pipe_fds, dst + done, src + done, len - done, &done);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    return rc;
}

/* ---- memory ----------------------------------------------------------------------------- */

static int alloc(struct hmem *self, int index, enum hmreg_mem_kind kind, size_t len, void **out)
{
    void *made = NULL;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    if (kind != HMREG_MEM_HOST)
        return hmreg_fail(-EOPNOTSUPP, "system memory has the kind host only, not %s",
                          hmreg_mem_kind_name(kind));
    if (len > SIZE_MAX - page || posix_memalign(&made, page, len))
        return hmreg_fail(-ENOMEM, "%zu bytes of host memory are not to be had", len);
    *out = made;
    return 0;
}

static int free_system(struct hmem *self, void *addr, enum hmreg_mem_kind kind)
{
    free(addr);
    return 0;
}

const struct hmem_ops hmem_system_ops = {
    .iface = HMREG_IFACE_SYSTEM,
    .name = "system",
    .open = open_system,
    .close = close_system,
    .runtime = runtime,
    .device_count = device_count,
    .device = device,
    .resolve = resolve,
    .identity = identity,
    .export_dmabuf = export_dmabuf,
    .copy = copy,
    .alloc = alloc,
    .free = free_system,
};
