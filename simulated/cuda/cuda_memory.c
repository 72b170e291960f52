/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The fake libcuda.so.1: allocations of every kind, registered host memory, copies. Registered and
 * write-combined host memory has one address for the CPU and another for devices, which faults
 * under the CPU. Only these copies reach device memory: it faults under memcpy.
 */
#include "simulated/cuda/cuda_fake.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct memory *memories;
static struct memory *freed; /* of pools, by cuMemFreeAsync() */
static uint64_t last_id;

uint64_t fake_cuda_id(void)
{
    return ++last_id;
}

/* ---- finding ---------------------------------------------------------------------------- */

static bool lies_in(uint64_t addr, uint64_t base, size_t len)
{
    return base && addr >= base && addr - base < len;
}

struct memory *fake_cuda_memory(uint64_t addr)
{
    struct memory *m = memories;

    while (m && !lies_in(addr, m->addr, m->len) && !lies_in(addr, m->host, m->len))
        m = m->next;
    return m;
}

/* ---- what is undefined ------------------------------------------------------------------- */

struct memory *fake_cuda_freed(uint64_t addr)
{
    struct memory *m = freed;

    while (m && !lies_in(addr, m->addr, m->len))
        m = m->next;
    return m;
}

static void remember_freed(const struct memory *m)
{
    struct memory *made = malloc(sizeof(*made));

    if (!made)
        abort();
    *made = *m;
    made->next = freed;
    freed = made;
}

/* Its addresses are other memory's now. */
static void forget_freed(uint64_t addr, size_t len)
{
    struct memory **link = &freed;

    while (*link) {
        struct memory *m = *link;

        if (m->addr >= addr + len || addr >= m->addr + m->len) {
            link = &m->next;
            continue;
        }
        *link = m->next;
        free(m);
    }
}

void fake_cuda_forget_freed(void)
{
    forget_freed(0, SIZE_MAX);
}

/* ---- pages ------------------------------------------------------------------------------- */

/* Neighbours in a page may be of several kinds; cuMemAlloc's can be exported. */
struct memory *fake_cuda_pages(uint64_t addr, size_t len)
{
    uint64_t mask = ~(uint64_t)(fake_page() - 1);
    struct memory *found = NULL;

    for (struct memory *m = memories; m; m = m->next) {
        if (addr < (m->addr & mask) || addr + len > ((m->addr + m->len + ~mask) & mask))
            continue;
        if (!found || m->sort == MEMORY_PLAIN)
            found = m;
    }
    return found;
}

/* ---- creating and freeing --------------------------------------------------------------- */

struct memory *fake_cuda_enter_memory(enum memory_sort sort, uint64_t addr, uint64_t host,
                                      size_t len, struct cuda_context *context)
{
    struct memory *made = calloc(1, sizeof(*made));

    if (!made)
        abort();
    *made = (struct memory){
        .next = memories,
        .sort = sort,
        .addr = addr,
        .host = host,
        .len = len,
        .id = fake_cuda_id(),
        .device = context->device,
        .context = context,
    };
    memories = made;
    forget_freed(addr, len);
    return made;
}

void fake_cuda_leave_memory(struct memory *gone)
{
    struct memory **link = &memories;

    fake_cuda_arrive();
    fake_cuda_ended();
    while (*link != gone)
        link = &(*link)->next;
    *link = gone->next;
    if (gone->sort == MEMORY_POOL && !gone->of_graph)
        fake_cuda_keep(gone);
    else if (gone->sort != MEMORY_REGISTERED)
        fake_free(gone->host ? gone->host : gone->addr);
    if (gone->sort == MEMORY_IMPORTED || gone->sort == MEMORY_GRAPHICS ||
        gone->sort == MEMORY_EXTERNAL || (gone->host && gone->host != gone->addr))
        fake_unreserve(gone->addr & ~(uint64_t)(fake_page() - 1));
    free(gone);
}

bool fake_cuda_pool_used(const struct cuda_pool *pool)
{
    struct memory *m = memories;

    while (m && m->pool != pool)
        m = m->next;
    return m;
}

void fake_cuda_lose(struct cuda_context *context)
{
    struct memory *next;

    for (struct memory *m = memories; m; m = next) {
        next = m->next;
        if (m->context == context)
            fake_cuda_leave_memory(m);
    }
}

unsigned fake_cuda_allocate(enum memory_sort sort, enum fake_kind kind, size_t size,
                            struct memory **out)
{
    struct cuda_context *context = NULL;
    unsigned result = fake_cuda_context(&context);
    struct fake_alloc *made;

    if (result)
        return result;
    if (!size)
        return CUDA_INVALID_VALUE;
    made = fake_alloc(context->device, kind, size, 0);
    if (!made)
        return CUDA_OUT_OF_MEMORY;
    *out = fake_cuda_enter_memory(sort, made->addr, kind == FAKE_DEVICE ? 0 : made->addr, size,
                                  context);
    return CUDA_OK;
}

static unsigned end(uint64_t addr, bool host, bool async)
{
    struct cuda_context *context = NULL;
    unsigned result = fake_cuda_context(&context);
    struct memory *m = fake_cuda_memory(addr);

    if (result)
        return result;
    if (!m || (m->sort >= MEMORY_REGISTERED && (async || m->sort != MEMORY_EXTERNAL)) ||
        (m->sort == MEMORY_HOST) != host || addr != (host ? m->host : m->addr))
        return CUDA_INVALID_VALUE;
    if (async && m->sort == MEMORY_POOL)
        remember_freed(m);
    fake_cuda_leave_memory(m);
    return CUDA_OK;
}

/* ---- entry points: allocations ---------------------------------------------------------- */

unsigned cuMemAlloc_v2(unsigned long long *addr, size_t size)
{
    struct memory *made = NULL;
    unsigned result;

    ENTER();
    result = addr ? fake_cuda_allocate(MEMORY_PLAIN, FAKE_DEVICE, size, &made) : CUDA_INVALID_VALUE;
    if (!result)
        *addr = made->addr;
    return result;
}

/* The pitch aligns rows for the hardware. */
unsigned cuMemAllocPitch_v2(unsigned long long *addr, size_t *pitch, size_t width, size_t height,
                            unsigned element)
{
    const size_t row = 512;
    struct memory *made = NULL;
    unsigned result;

    ENTER();
    if (!addr || !pitch || !width || !height || (element != 4 && element != 8 && element != 16))
        return CUDA_INVALID_VALUE;
    width = (width + row - 1) / row * row;
    result = fake_cuda_allocate(MEMORY_PLAIN, FAKE_DEVICE, width * height, &made);
    if (result)
        return result;
    *addr = made->addr;
    *pitch = width;
    return CUDA_OK;
}

/* Frees memory of a pool too, immediately. */
unsigned cuMemFree_v2(unsigned long long addr)
{
    ENTER();
    return addr ? end(addr, false, false) : CUDA_OK;
}

unsigned cuMemAllocManaged(unsigned long long *addr, size_t size, unsigned flags)
{
    struct memory *made = NULL;
    unsigned result;

    ENTER();
    if (!addr || flags != CUDA_ATTACH_GLOBAL)
        return CUDA_INVALID_VALUE;
    result = fake_cuda_allocate(MEMORY_MANAGED, FAKE_MANAGED, size, &made);
    if (!result)
        *addr = made->addr;
    return result;
}

/* As NVIDIA's driver allocates it. */
__attribute__((constructor)) static void share_host_memory(void)
{
    fake_host_flags = MAP_SHARED;
}

static unsigned alloc_host(void **addr, size_t size, unsigned flags)
{
    struct memory *made = NULL;
    unsigned result =
        addr ? fake_cuda_allocate(MEMORY_HOST, FAKE_HOST, size, &made) : CUDA_INVALID_VALUE;

    if (result)
        return result;
    made->flags = flags;
    if (flags & CUDA_HOSTALLOC_WRITECOMBINED)
        made->addr = fake_reserve(made->device, size, 0);
    if (!made->addr) {
        made->addr = made->host;
        fake_cuda_leave_memory(made);
        return CUDA_OUT_OF_MEMORY;
    }
    *addr = (void *)(uintptr_t)made->host;
    return CUDA_OK;
}

unsigned cuMemHostAlloc(void **addr, size_t size, unsigned flags)
{
    ENTER();
    return flags & ~7u ? CUDA_INVALID_VALUE : alloc_host(addr, size, flags);
}

unsigned cuMemAllocHost_v2(void **addr, size_t size)
{
    ENTER();
    return alloc_host(addr, size, 0);
}

unsigned cuMemFreeAsync(unsigned long long addr, struct cuda_stream *stream)
{
    struct cuda_graph *graph = NULL;
    unsigned result;

    ENTER();
    result = fake_cuda_is_stream(stream) ? fake_cuda_use(stream, &graph) : CUDA_INVALID_HANDLE;
    if (result)
        return result;
    return graph ? fake_cuda_graph_free(graph, addr) : end(addr, false, true);
}

unsigned cuMemFreeHost(void *addr)
{
    ENTER();
    return end((uintptr_t)addr, true, false);
}

/* What virtual memory takes is not counted. */
unsigned cuMemGetInfo_v2(size_t *available, size_t *total)
{
    struct cuda_context *context = NULL;
    size_t used = 0, all = fake_device_memory();
    unsigned result;

    ENTER();
    result = fake_cuda_context(&context);
    if (result)
        return result;
    if (!available || !total)
        return CUDA_INVALID_VALUE;
    for (const struct memory *m = memories; m; m = m->next)
        if (m->device == context->device && (m->sort == MEMORY_PLAIN || m->sort == MEMORY_POOL))
            used += m->len;
    used += fake_dmabuf_held(context->device);
    *total = all;
    *available = used < all ? all - used : 0;
    return CUDA_OK;
}

unsigned cuMemHostGetFlags(unsigned *flags, void *addr)
{
    struct cuda_context *context = NULL;
    struct memory *m;
    unsigned result;

    ENTER();
    result = fake_cuda_context(&context);
    m = fake_cuda_memory((uintptr_t)addr);
    if (result)
        return result;
    if (!flags || !m || m->sort != MEMORY_HOST)
        return CUDA_INVALID_VALUE;
    *flags = m->flags;
    return CUDA_OK;
}

/* ---- entry points: host memory of the caller's ------------------------------------------ */

unsigned cuMemHostRegister_v2(void *addr, size_t size, unsigned flags)
{
    struct cuda_context *context = NULL;
    uint64_t host = (uintptr_t)addr, device;
    unsigned result;

    ENTER();
    result = fake_cuda_context(&context);
    if (result)
        return result;
    if (!addr || !size || flags & ~15u)
        return CUDA_INVALID_VALUE;
    for (struct memory *m = memories; m; m = m->next)
        if (m->host && host < m->host + m->len && m->host < host + size)
            return CUDA_ALREADY_REGISTERED;
    device = fake_reserve(context->device, size + fake_page(), 0);
    if (!device)
        return CUDA_OUT_OF_MEMORY;
    /* Both addresses have the same offset in their page. */
    fake_cuda_enter_memory(MEMORY_REGISTERED, device + host % fake_page(), host, size, context);
    return CUDA_OK;
}

unsigned cuMemHostUnregister(void *addr)
{
    struct memory *m;

    ENTER();
    m = fake_cuda_memory((uintptr_t)addr);
    if (!m || m->sort != MEMORY_REGISTERED || m->host != (uintptr_t)addr)
        return CUDA_NOT_REGISTERED;
    fake_cuda_leave_memory(m);
    return CUDA_OK;
}

unsigned cuMemHostGetDevicePointer_v2(unsigned long long *device, void *host, unsigned flags)
{
    struct cuda_context *context = NULL;
    struct memory *m;
    unsigned result;

    ENTER();
    result = fake_cuda_context(&context);
    m = fake_cuda_memory((uintptr_t)host);
    if (result)
        return result;
    if (!device || flags || !m || !m->host)
        return CUDA_INVALID_VALUE;
    *device = m->addr + ((uintptr_t)host - m->host);
    return CUDA_OK;
}

/* ---- entry points: copies --------------------------------------------------------------- */

/* Translates a device's address of host memory to the CPU's. */
static uint64_t translate(uint64_t addr)
{
    struct memory *m = fake_cuda_memory(addr);

    return m && m->host && lies_in(addr, m->addr, m->len) ? m->host + (addr - m->addr) : addr;
}

static bool may_access(uint64_t addr, size_t size)
{
    for (uint64_t at = addr; at < addr + size;) {
        struct mapping *piece = fake_cuda_mapping(at);

        if (!piece)
            return true;
        if (!piece->accessible || piece->physical->multicast)
            return false;
        at = piece->addr + piece->len;
    }
    return true;
}

static struct {
    uint64_t dst, src;
    size_t size; /* 0: no copy is pending */
    const struct cuda_stream *stream;
    bool blocking; /* the stream is: it may be gone */
    unsigned long number;
} late;

bool fake_cuda_is_pending(unsigned long copy)
{
    return late.size && late.number == copy;
}

/* The legacy stream waits for the blocking ones, and they for it. */
unsigned long fake_cuda_pending(const struct cuda_stream *stream)
{
    bool comes_after = stream == late.stream || ((uintptr_t)stream <= 1 && late.blocking) ||
                       ((uintptr_t)late.stream <= 1 && fake_cuda_is_blocking(stream));

    return late.size && comes_after ? late.number : 0;
}

bool fake_cuda_arrive(void)
{
    bool pending = late.size;

    if (pending && fake_copy(late.dst, late.src, late.size))
        abort();
    late.size = 0;
    return pending;
}

/* A copy between device memories returns before its bytes have arrived: the next call that waits
 * moves them. */
static unsigned copy_late(uint64_t dst, uint64_t src, size_t size, const struct cuda_stream *stream)
{
    late.stream = stream;
    late.blocking = fake_cuda_is_blocking(stream);
    late.number++;
    late.dst = dst;
    late.src = src;
    late.size = size;
    return CUDA_OK;
}

static bool is_device(uint64_t addr, size_t size)
{
    struct memory *m = fake_cuda_memory(addr);
    struct mapping *piece = m ? NULL : fake_cuda_mapping(addr);

    if (piece)
        return piece->physical->prop.location.type == CUDA_LOCATION_DEVICE &&
               size <= piece->addr + piece->len - addr;
    return m && !m->host && size <= m->addr + m->len - addr;
}

/* Was the copy's destination, or its context, made synchronous? */
static bool is_sync(uint64_t dst, const struct cuda_context *context)
{
    struct memory *m = fake_cuda_memory(dst);

    return context->flags & CUDA_CONTEXT_SYNC_MEMOPS || (m && m->sync_memops);
}

static unsigned copy(uint64_t dst, uint64_t src, size_t size, const struct cuda_stream *stream)
{
    struct cuda_context *context = NULL;
    unsigned result = fake_cuda_context(&context);

    if (result)
        return result;
    fake_cuda_arrive();
    if (!may_access(dst, size) || !may_access(src, size))
        return CUDA_INVALID_VALUE;
    if (size && is_device(dst, size) && is_device(src, size) && !is_sync(dst, context))
        return copy_late(dst, src, size, stream);
    return fake_copy(translate(dst), translate(src), size) ? CUDA_INVALID_VALUE : CUDA_OK;
}

static unsigned copy_now(uint64_t dst, uint64_t src, size_t size)
{
    unsigned result = fake_cuda_use(NULL, NULL);

    return result ? result : copy(dst, src, size, NULL);
}

static bool is_known(uint64_t addr, size_t size)
{
    struct memory *m = fake_cuda_memory(addr);
    uint64_t base = m && lies_in(addr, m->host, m->len) ? m->host : m ? m->addr : 0;

    return m && size <= base + m->len - addr;
}

/* Between memory of the driver's the bytes arrive later; the caller's own is copied at once, as a
 * driver stages it. */
static unsigned copy_async(uint64_t dst, uint64_t src, size_t size,
                           const struct cuda_stream *stream)
{
    struct cuda_context *context = NULL;
    struct cuda_graph *graph = NULL;
    unsigned result = fake_cuda_context(&context);

    if (result)
        return result;
    if (!fake_cuda_is_stream(stream))
        return CUDA_INVALID_HANDLE;
    result = fake_cuda_use(stream, &graph);
    if (result || graph) /* copies are not captured here */
        return result ? result : CUDA_NOT_SUPPORTED;
    if (!size || !is_known(dst, size) || !is_known(src, size))
        return copy(dst, src, size, stream);
    fake_cuda_arrive();
    return copy_late(translate(dst), translate(src), size, stream);
}

unsigned cuMemcpyAsync(unsigned long long dst, unsigned long long src, size_t size,
                       struct cuda_stream *stream)
{
    ENTER();
    return copy_async(dst, src, size, stream);
}

unsigned cuMemcpyHtoDAsync_v2(unsigned long long dst, const void *src, size_t size,
                              struct cuda_stream *stream)
{
    ENTER();
    return copy_async(dst, (uintptr_t)src, size, stream);
}

unsigned cuMemcpyDtoHAsync_v2(void *dst, unsigned long long src, size_t size,
                              struct cuda_stream *stream)
{
    ENTER();
    return copy_async((uintptr_t)dst, src, size, stream);
}

unsigned cuMemcpyDtoDAsync_v2(unsigned long long dst, unsigned long long src, size_t size,
                              struct cuda_stream *stream)
{
    ENTER();
    return copy_async(dst, src, size, stream);
}

unsigned cuMemcpy(unsigned long long dst, unsigned long long src, size_t size)
{
    ENTER();
    return copy_now(dst, src, size);
}

unsigned cuMemcpyHtoD_v2(unsigned long long dst, const void *src, size_t size)
{
    ENTER();
    return copy_now(dst, (uintptr_t)src, size);
}

unsigned cuMemcpyDtoH_v2(void *dst, unsigned long long src, size_t size)
{
    ENTER();
    return copy_now((uintptr_t)dst, src, size);
}

unsigned cuMemcpyDtoD_v2(unsigned long long dst, unsigned long long src, size_t size)
{
    ENTER();
    return copy_now(dst, src, size);
}

/* stream NULL: at once. */
static unsigned set(uint64_t addr, unsigned char value, size_t size, struct cuda_stream *stream)
{
    unsigned char *bytes = malloc(size ? size : 1);
    unsigned result;

    if (!bytes)
        return CUDA_OUT_OF_MEMORY;
    memset(bytes, value, size);
    result = stream ? copy_async(addr, (uintptr_t)bytes, size, stream)
                    : copy_now(addr, (uintptr_t)bytes, size);
    free(bytes);
    return result;
}

unsigned cuMemsetD8_v2(unsigned long long addr, unsigned char value, size_t size)
{
    ENTER();
    return set(addr, value, size, NULL);
}

unsigned cuMemsetD8Async(unsigned long long addr, unsigned char value, size_t size,
                         struct cuda_stream *stream)
{
    ENTER();
    return set(addr, value, size, stream);
}
