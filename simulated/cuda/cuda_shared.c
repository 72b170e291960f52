/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The fake libcuda.so.1: memory of stream-ordered pools, and memory imported from another process
 * by IPC. A pool's memory belongs to no context; some pools can be shared by a descriptor, which is
 * for other CUDA processes and is no dmabuf. IPC names memory of cuMemAlloc only, and only to other
 * processes: the handle contains where this simulation finds its file there.
 */
#include "simulated/cuda/cuda_fake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct cuda_pool defaults[8];
static struct cuda_pool *pools;

/* ---- what pools keep --------------------------------------------------------------------- */

struct kept {
    struct kept *next;
    const struct cuda_pool *pool;
    int device;
    uint64_t addr;
    size_t len;
};

static struct kept *kept;

void fake_cuda_keep(const struct memory *freed)
{
    struct kept *made = malloc(sizeof(*made));

    if (!made)
        abort();
    *made = (struct kept){kept, freed->pool, freed->device, freed->addr, freed->len};
    kept = made;
}

bool fake_cuda_kept(const struct cuda_pool *pool, int device, size_t len, uint64_t *addr)
{
    struct kept **link = &kept, *found;

    while (*link && ((*link)->pool != pool || (*link)->device != device || (*link)->len != len))
        link = &(*link)->next;
    found = *link;
    if (!found)
        return false;
    *link = found->next;
    *addr = found->addr;
    free(found);
    return true;
}

void fake_cuda_trim(void)
{
    fake_cuda_forget_freed();
    while (kept) {
        struct kept *gone = kept;

        kept = gone->next;
        fake_free(gone->addr);
        free(gone);
    }
}

/* ---- pools ------------------------------------------------------------------------------ */

unsigned cuDeviceGetDefaultMemPool(struct cuda_pool **pool, int device)
{
    ENTER();
    if (!pool)
        return CUDA_INVALID_VALUE;
    if (!fake_cuda_device(device))
        return CUDA_INVALID_DEVICE;
    defaults[device].device = device;
    *pool = &defaults[device];
    return CUDA_OK;
}

unsigned cuMemPoolCreate(struct cuda_pool **pool, const struct cuda_pool_prop *prop)
{
    struct cuda_pool *made;

    ENTER();
    if (!pool || !prop || prop->type != CUDA_MEMORY_PINNED || prop->windows ||
        prop->handle_types & ~CUDA_HANDLE_POSIX_FD || prop->location.type != CUDA_LOCATION_DEVICE ||
        !fake_cuda_device(prop->location.id))
        return CUDA_INVALID_VALUE;
    made = calloc(1, sizeof(*made));
    if (!made)
        abort();
    *made = (struct cuda_pool){
        .next = pools, .device = prop->location.id, .handle_types = prop->handle_types};
    pools = made;
    *pool = made;
    return CUDA_OK;
}

/* Frees destroyed pools without allocations. */
static void collect(void)
{
    struct cuda_pool **link = &pools;

    while (*link) {
        struct cuda_pool *gone = *link;

        if (!gone->ended || fake_cuda_pool_used(gone)) {
            link = &gone->next;
            continue;
        }
        *link = gone->next;
        free(gone);
    }
}

static bool is_pool(const struct cuda_pool *pool)
{
    const struct cuda_pool *known = pools;

    while (known && known != pool)
        known = known->next;
    return known && !known->ended;
}

unsigned cuMemPoolDestroy(struct cuda_pool *pool)
{
    ENTER();
    if (!is_pool(pool))
        return CUDA_INVALID_VALUE;
    pool->ended = true;
    fake_cuda_trim();
    collect();
    return CUDA_OK;
}

/* A plain file, as the real descriptor is of a kind private to the driver. */
unsigned cuMemPoolExportToShareableHandle(void *handle, struct cuda_pool *pool, unsigned type,
                                          unsigned long long flags)
{
    int fd;

    ENTER();
    if (!handle || !is_pool(pool) || flags || !type || !(pool->handle_types & type))
        return CUDA_INVALID_VALUE;
    fd = memfd_create("simulated pool", MFD_CLOEXEC);
    if (fd < 0)
        return CUDA_OUT_OF_MEMORY;
    memcpy(handle, &fd, sizeof(fd));
    return CUDA_OK;
}

static unsigned alloc_new(struct cuda_pool *pool, size_t size, unsigned long long *addr)
{
    struct memory *made = NULL;
    unsigned result = fake_cuda_allocate(MEMORY_POOL, FAKE_DEVICE, size, &made);

    if (result)
        return result;
    made->pool = pool ? pool : &defaults[made->device];
    made->context = NULL;
    *addr = made->addr;
    return CUDA_OK;
}

static unsigned alloc_from(struct cuda_pool *pool, size_t size, unsigned long long *addr)
{
    struct cuda_context *context = NULL;
    unsigned result = fake_cuda_context(&context);
    const struct cuda_pool *of;
    struct memory *made;
    uint64_t again = 0;

    if (!addr)
        return CUDA_INVALID_VALUE;
    collect();
    of = pool || result ? pool : &defaults[context->device];
    if (result || !fake_cuda_kept(of, context->device, size, &again))
        return alloc_new(pool, size, addr);
    made = fake_cuda_enter_memory(MEMORY_POOL, again, 0, size, context);
    made->pool = pool ? pool : &defaults[context->device];
    made->context = NULL;
    *addr = again;
    return CUDA_OK;
}

/* In a stream that is being captured, a node of its graph. */
static unsigned alloc_in(struct cuda_stream *stream, struct cuda_pool *pool, size_t size,
                         unsigned long long *addr)
{
    struct cuda_context *context = NULL;
    struct cuda_graph *graph = NULL;
    unsigned result =
        fake_cuda_is_stream(stream) ? fake_cuda_use(stream, &graph) : CUDA_INVALID_HANDLE;

    if (result || !graph)
        return result ? result : alloc_from(pool, size, addr);
    result = fake_cuda_context(&context);
    if (result || !size || !addr)
        return result ? result : CUDA_INVALID_VALUE;
    return fake_cuda_graph_alloc(graph, pool ? pool->device : context->device, size, addr);
}

unsigned cuMemAllocAsync(unsigned long long *addr, size_t size, struct cuda_stream *stream)
{
    ENTER();
    return alloc_in(stream, NULL, size, addr);
}

unsigned cuMemAllocFromPoolAsync(unsigned long long *addr, size_t size, struct cuda_pool *pool,
                                 struct cuda_stream *stream)
{
    ENTER();
    return is_pool(pool) ? alloc_in(stream, pool, size, addr) : CUDA_INVALID_VALUE;
}

/* ---- IPC -------------------------------------------------------------------------------- */

/* The contents of a struct cuda_ipc. */
struct ipc {
    pid_t process;
    int fd;
    size_t start; /* of the memory in the file */
    size_t len;
    int device;
};

unsigned cuIpcGetMemHandle(struct cuda_ipc *handle, unsigned long long addr)
{
    struct ipc ipc;
    struct fake_alloc *made;
    struct memory *m;

    ENTER();
    m = fake_cuda_memory(addr);
    made = m ? fake_find(m->addr) : NULL;
    if (!handle || !made || m->sort != MEMORY_PLAIN)
        return CUDA_INVALID_VALUE;
    ipc = (struct ipc){.process = getpid(),
                       .fd = made->block->fd,
                       .start = made->block->start + made->skip,
                       .len = m->len,
                       .device = m->device};
    memset(handle, 0, sizeof(*handle));
    memcpy(handle, &ipc, sizeof(ipc));
    return CUDA_OK;
}

static int foreign_file(const struct ipc *ipc)
{
    int process = (int)syscall(SYS_pidfd_open, ipc->process, 0);
    int fd = process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, ipc->fd, 0);

    if (process >= 0) {
        int error = errno;

        close(process);
        errno = error;
    }
    return fd;
}

struct fake_block *fake_cuda_block_of(int device, int fd, size_t start, size_t len)
{
    size_t before = start % fake_page();
    struct fake_block *block = fake_block_new(device, before + len);
    char *bytes;

    if (!block) {
        close(fd);
        return NULL;
    }
    bytes = mmap(NULL, block->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(start - before));
    if (bytes == MAP_FAILED)
        abort();
    munmap(block->bytes, block->len);
    close(block->fd);
    block->fd = fd;
    block->bytes = bytes;
    fake_block_moved(block, start - before);
    return block;
}

uint64_t fake_cuda_map_block(struct fake_block *block, size_t skip, size_t len)
{
    uint64_t at = fake_reserve(block->device, skip + len, 0);

    if (!at || !fake_map(at + skip, len, block, skip))
        return 0;
    fake_block_put(block); /* the mapping holds it */
    return at + skip;
}

static unsigned import(const struct ipc *ipc, struct cuda_context *context, uint64_t *out)
{
    size_t before = ipc->start % fake_page();
    int fd = foreign_file(ipc);
    struct fake_block *block;
    uint64_t at;

    if (fd < 0) /* the owner has ended; or a container forbids it */
        return errno == EPERM || errno == ENOSYS ? CUDA_NOT_SUPPORTED : CUDA_OUT_OF_MEMORY;
    block = fake_cuda_block_of(ipc->device, fd, ipc->start, ipc->len);
    at = block ? fake_cuda_map_block(block, before, ipc->len) : 0;
    if (!at)
        return CUDA_OUT_OF_MEMORY;
    fake_cuda_enter_memory(MEMORY_IMPORTED, at, 0, ipc->len, context);
    *out = at;
    return CUDA_OK;
}

unsigned cuIpcOpenMemHandle_v2(unsigned long long *addr, struct cuda_ipc handle, unsigned flags)
{
    struct cuda_context *context = NULL;
    uint64_t at = 0;
    struct ipc ipc;
    unsigned result;

    ENTER();
    memcpy(&ipc, &handle, sizeof(ipc));
    result = fake_cuda_context(&context);
    if (result)
        return result;
    if (!addr || flags != CUDA_IPC_LAZY_PEER_ACCESS || ipc.process == getpid())
        return CUDA_INVALID_VALUE;
    result = import(&ipc, context, &at);
    if (!result)
        *addr = at;
    return result;
}

unsigned cuIpcCloseMemHandle(unsigned long long addr)
{
    struct memory *m;

    ENTER();
    m = fake_cuda_memory(addr);
    if (!m || m->sort != MEMORY_IMPORTED || m->addr != addr)
        return CUDA_INVALID_VALUE;
    fake_cuda_leave_memory(m);
    return CUDA_OK;
}
