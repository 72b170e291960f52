/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * System memory: host memory that no runtime claims. The kernel's list of mappings describes it:
 * the PROCMAP_QUERY ioctl where available (Linux 6.11; about a microsecond), otherwise the text of
 * /proc/thread-self/maps. A range may span several mappings (a heap that grew, pages with another
 * protection); a hole in it is an error. Host memory has no identity: a mapping does not show
 * whether its pages are still the same, so monitors watch it instead.
 */
#include "core/base/error.h"
#include "core/base/high_fd.h"
#include "core/base/maps.h"
#include "core/contract/hmem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

/* The vendor may be NULL: then every query opens the list of mappings anew. */
struct system_hmem {
    struct owned_fd maps; /* see maps_keep(); not for forked children */
};

static int fail_hole(uint64_t addr, size_t len, uint64_t hole)
{
    return hmreg_fail(
        -EFAULT, "nothing is mapped at %#" PRIx64 ", %" PRIu64 " bytes into the range of %zu bytes",
        hole, hole - addr, len);
}

/* Extends the range by the mapping that follows it. */
static void add(struct hmem_range *found, const struct map *map)
{
    if (!found->segments++)
        found->alloc_base = map->start;
    found->alloc_len = map->end - found->alloc_base;
    if (!map->readable)
        found->host_addr = 0;
    if (!map->writable)
        found->read_only = true;
    found->anonymous &= map->anonymous;
    found->of_driver &= map->anonymous || map->device;
    found->unnamed &= map->anonymous || map->device || map->shared_anonymous;
}

/* Walks the mappings under the range. */
static int walk(struct maps *maps, uint64_t addr, size_t len, struct hmem_range *out)
{
    struct hmem_range found = {.device = -1,
                               .kind = HMREG_MEM_HOST,
                               .host_addr = addr,
                               .anonymous = true,
                               .of_driver = true,
                               .unnamed = true};

    for (uint64_t at = addr; at < addr + len;) {
        struct map map = {0};
        int rc = maps_next(maps, at, &map);

        if (rc < 0)
            return hmreg_fail_os(-rc, "the list of mappings, /proc/thread-self/maps, cannot be "
                                      "read");
        if (rc == 0 || map.start > at)
            return fail_hole(addr, len, at);
        add(&found, &map);
        at = map.end;
    }
    *out = found;
    return 0;
}

static int resolve(struct hmem *self, uint64_t addr, size_t len, struct hmem_range *out)
{
    struct maps maps;
    int rc;

    maps_begin(&maps, self ? &((struct system_hmem *)self)->maps : NULL);
    rc = walk(&maps, addr, len, out);
    maps_end(&maps);
    return rc;
}

static int identity(struct hmem *self, uint64_t addr, size_t len, uint64_t *out)
{
    *out = 0;
    return 0;
}

static int system_open(struct hmem **out)
{
    struct owned_fd maps = maps_keep();
    struct system_hmem *self = maps.fd >= 0 ? malloc(sizeof(*self)) : NULL;

    if (self)
        self->maps = maps;
    else
        owned_fd_close(&maps);
    *out = (struct hmem *)self;
    return 0;
}

static void system_close(struct hmem *self)
{
    if (self)
        owned_fd_close(&((struct system_hmem *)self)->maps);
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
                         const struct hmem_range *range, uint64_t flags, struct hmreg_dmabuf *out)
{
    return hmreg_fail(-EOPNOTSUPP, "host memory has no dmabuf: it is registered by its address");
}

/* ---- copies ----------------------------------------------------------------------------- */

static int fail_copy(const char *what, uint64_t addr)
{
    if (errno != EFAULT)
        return hmreg_fail_os(errno, "the pipe through which hmreg copies host memory failed");
    return hmreg_fail(-EFAULT,
                      "the memory at %#" PRIx64
                      " cannot be %s: no page is behind its mapping, as beyond the end of a file",
                      addr, what);
}

/* Copies as much as the pipe takes at once. */
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

/* Copies through the kernel, which returns EFAULT where our own load or store would raise a signal:
 * a mapped page may have no memory. A pipe reaches every mapping that the CPU reaches;
 * process_vm_readv(2) reaches no device mapping. */
static int copy(struct hmem *self, uint64_t dst, uint64_t src, size_t len)
{
    int pipe_fds[2];
    int rc = 0;

    if (high_fd_pair(pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK), pipe_fds))
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
        return hmreg_fail(-EOPNOTSUPP, "system memory has only the kind host, not %s",
                          hmreg_mem_kind_name(kind));
    if (len > SIZE_MAX - page || posix_memalign(&made, page, len))
        return hmreg_fail(-ENOMEM, "%zu bytes of host memory are not available", len);
    *out = made;
    return 0;
}

static int system_free(struct hmem *self, void *addr, enum hmreg_mem_kind kind)
{
    free(addr);
    return 0;
}

const struct hmem_ops hmem_system_ops = {
    .iface = HMREG_IFACE_SYSTEM,
    .name = "system",
    .open = system_open,
    .close = system_close,
    .runtime = runtime,
    .device_count = device_count,
    .device = device,
    .resolve = resolve,
    .identity = identity,
    .export_dmabuf = export_dmabuf,
    .copy = copy,
    .alloc = alloc,
    .free = system_free,
};
