/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The fake libcuda.so.1: virtual memory management. A reservation has addresses, a physical
 * allocation has bytes, a mapping joins them; the memory is freed with its last handle and its last
 * mapping. All mappings of a reservation have the reservation's buffer id, so that only
 * MEMORY_BLOCK_ID distinguishes physical allocations. A descriptor begins with the range that it
 * was exported for. One of several allocations needs their bytes in one file: the first export
 * moves them there, which works while no other valid descriptor names them. The fake reports on
 * stderr where it cannot follow the real driver.
 */
#include "simulated/cuda/cuda_fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRANULARITY_PAGES 16

static struct reservation *reservations;
static struct physical *physicals;
static struct mapping *mappings;
static unsigned long last_file;

/* ---- finding ---------------------------------------------------------------------------- */

size_t fake_cuda_granule(void)
{
    return GRANULARITY_PAGES * fake_page();
}

struct mapping *fake_cuda_mapping(uint64_t addr)
{
    struct mapping *m = mappings;

    while (m && (addr < m->addr || addr - m->addr >= m->len))
        m = m->next;
    return m;
}

struct reservation *fake_cuda_reservation(uint64_t addr)
{
    struct reservation *r = reservations;

    while (r && (addr < r->addr || addr - r->addr >= r->len))
        r = r->next;
    return r;
}

/* Handles are the addresses of our records, looked up before use. */
struct physical *fake_cuda_physical(unsigned long long handle)
{
    struct physical *p = physicals;

    while (p && (uintptr_t)p != handle)
        p = p->next;
    return p && p->holds ? p : NULL;
}

/* Ids of memory that is gone, for a driver that uses them again. */
static uint64_t spare_ids[64];
static unsigned spare_count;

static uint64_t new_id(void)
{
    return spare_count ? spare_ids[--spare_count] : fake_cuda_id();
}

/* Also while a descriptor holds the memory: nothing says that the driver knows. */
static void recycle_id(const struct physical *physical)
{
    if (fake_env("HMREG_FAKE_CUDA_REUSE_IDS", 0) && spare_count < 64)
        spare_ids[spare_count++] = physical->id;
}

void fake_cuda_physical_settle(struct physical *physical)
{
    struct physical **link = &physicals;

    if (physical->holds || physical->mappings)
        return;
    recycle_id(physical);
    while (*link != physical)
        link = &(*link)->next;
    *link = physical->next;
    fake_block_put(physical->block);
    fake_cuda_multicast_end(physical->multicast);
    free(physical);
}

/* ---- reservations ----------------------------------------------------------------------- */

unsigned cuMemAddressReserve(unsigned long long *addr, size_t size, size_t align,
                             unsigned long long wish, unsigned long long flags)
{
    struct reservation *made;

    ENTER();
    if (!addr || !size || size % fake_cuda_granule() || align & (align - 1) || flags)
        return CUDA_INVALID_VALUE;
    made = calloc(1, sizeof(*made));
    if (!made)
        abort();
    *made = (struct reservation){.next = reservations, .len = size, .id = fake_cuda_id()};
    made->addr = fake_reserve(0, size, align > fake_cuda_granule() ? align : fake_cuda_granule());
    if (!made->addr) {
        free(made);
        return CUDA_OUT_OF_MEMORY;
    }
    reservations = made;
    *addr = made->addr;
    return CUDA_OK;
}

unsigned cuMemAddressFree(unsigned long long addr, size_t size)
{
    struct reservation **link = &reservations, *gone;

    ENTER();
    while (*link && ((*link)->addr != addr || (*link)->len != size))
        link = &(*link)->next;
    gone = *link;
    if (!gone)
        return CUDA_INVALID_VALUE;
    for (struct mapping *m = mappings; m; m = m->next)
        if (m->addr >= addr && m->addr < addr + size)
            return CUDA_INVALID_VALUE;
    *link = gone->next;
    fake_unreserve(addr);
    free(gone);
    return CUDA_OK;
}

/* ---- physical memory -------------------------------------------------------------------- */

static bool is_prop(const struct cuda_memory_prop *prop)
{
    if (!prop || prop->type != CUDA_MEMORY_PINNED || prop->windows)
        return false;
    if (prop->location.type == CUDA_LOCATION_DEVICE)
        return fake_cuda_device(prop->location.id);
    return prop->location.type == CUDA_LOCATION_HOST_NUMA && prop->location.id == 0;
}

unsigned cuMemGetAllocationGranularity(size_t *size, const struct cuda_memory_prop *prop,
                                       unsigned option)
{
    ENTER();
    if (!size || !is_prop(prop) || option > 1)
        return CUDA_INVALID_VALUE;
    *size = fake_cuda_granule();
    return CUDA_OK;
}

struct physical *fake_cuda_physical_new(int device, size_t size)
{
    struct physical *made = calloc(1, sizeof(*made));

    if (!made)
        abort();
    *made = (struct physical){.next = physicals, .id = new_id(), .holds = 1};
    made->block = fake_block_new(device, size);
    if (!made->block) {
        free(made);
        return NULL;
    }
    physicals = made;
    return made;
}

unsigned cuMemCreate(unsigned long long *handle, size_t size, const struct cuda_memory_prop *prop,
                     unsigned long long flags)
{
    struct physical *made;
    int device;

    ENTER();
    if (!handle || !size || size % fake_cuda_granule() || !is_prop(prop) || flags)
        return CUDA_INVALID_VALUE;
    if (size > fake_device_memory())
        return CUDA_OUT_OF_MEMORY;
    device = prop->location.type == CUDA_LOCATION_DEVICE ? prop->location.id : 0;
    made = fake_cuda_physical_new(device, size);
    if (!made)
        return CUDA_OUT_OF_MEMORY;
    made->prop = *prop;
    if (prop->location.type != CUDA_LOCATION_DEVICE && !fake_block_to_host(made->block)) {
        made->holds = 0;
        fake_cuda_physical_settle(made);
        return CUDA_OUT_OF_MEMORY;
    }
    *handle = (uintptr_t)made;
    return CUDA_OK;
}

unsigned cuMemRelease(unsigned long long handle)
{
    struct physical *physical;

    ENTER();
    physical = fake_cuda_physical(handle);
    if (!physical)
        return CUDA_INVALID_VALUE;
    physical->holds--;
    fake_cuda_physical_settle(physical);
    return CUDA_OK;
}

unsigned cuMemRetainAllocationHandle(unsigned long long *handle, void *addr)
{
    struct mapping *piece;

    ENTER();
    piece = fake_cuda_mapping((uintptr_t)addr);
    if (!handle || !piece)
        return CUDA_INVALID_VALUE;
    piece->physical->holds++;
    *handle = (uintptr_t)piece->physical;
    return CUDA_OK;
}

/* A multicast object has none: refused, or of no location, by turns. */
unsigned cuMemGetAllocationPropertiesFromHandle(struct cuda_memory_prop *prop,
                                                unsigned long long handle)
{
    static unsigned turn;
    struct physical *physical;

    ENTER();
    physical = fake_cuda_physical(handle);
    if (!prop || !physical || (physical->multicast && turn++ % 2 == 0))
        return CUDA_INVALID_VALUE;
    *prop = physical->prop;
    return CUDA_OK;
}

/* A descriptor for other CUDA processes, or this one. */
unsigned cuMemExportToShareableHandle(void *shared, unsigned long long handle, unsigned type,
                                      unsigned long long flags)
{
    struct physical *physical;
    int fd;

    ENTER();
    physical = fake_cuda_physical(handle);
    if (!shared || !physical || flags || !type || !(physical->prop.handle_types & type))
        return CUDA_INVALID_VALUE;
    fd = fcntl(physical->block->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return CUDA_OUT_OF_MEMORY;
    physical->exported = true;
    memcpy(shared, &fd, sizeof(fd));
    return CUDA_OK;
}

/* Another handle of the memory that the descriptor names. */
unsigned cuMemImportFromShareableHandle(unsigned long long *handle, void *shared, unsigned type)
{
    struct physical *p = physicals;
    struct stat wanted, have;

    ENTER();
    if (!handle || type != CUDA_HANDLE_POSIX_FD || fstat((int)(intptr_t)shared, &wanted))
        return CUDA_INVALID_VALUE;
    while (p && (fstat(p->block->fd, &have) || have.st_dev != wanted.st_dev ||
                 have.st_ino != wanted.st_ino))
        p = p->next;
    if (!p)
        return CUDA_INVALID_VALUE;
    p->holds++;
    *handle = (uintptr_t)p;
    return CUDA_OK;
}

/* ---- mappings --------------------------------------------------------------------------- */

unsigned cuMemMap(unsigned long long addr, size_t size, size_t offset, unsigned long long handle,
                  unsigned long long flags)
{
    struct physical *physical;
    struct reservation *r;
    struct mapping *made;

    ENTER();
    physical = fake_cuda_physical(handle);
    r = fake_cuda_reservation(addr);
    if (!physical || !r ||
        (physical->multicast && !fake_cuda_multicast_is_full(physical->multicast)) || offset ||
        flags || size > physical->block->len || !size || size % fake_cuda_granule() ||
        addr % fake_cuda_granule() || addr + size > r->addr + r->len)
        return CUDA_INVALID_VALUE;
    for (struct mapping *m = mappings; m; m = m->next)
        if (addr < m->addr + m->len && m->addr < addr + size)
            return CUDA_INVALID_VALUE;
    made = calloc(1, sizeof(*made));
    if (!made || !fake_map(addr, size, physical->block, 0))
        abort();
    *made = (struct mapping){.next = mappings, .addr = addr, .len = size, .physical = physical};
    mappings = made;
    physical->mappings++;
    return CUDA_OK;
}

/* Maps the memory at its device address for the CPU, or removes that mapping. */
static void let_cpu_in(struct mapping *m, bool in)
{
    const struct fake_block *block = m->physical->block;
    int how = in ? PROT_READ | PROT_WRITE : PROT_NONE;
    int flags = in ? MAP_SHARED | MAP_FIXED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;

    m->cpu = in;
    if (mmap((void *)(uintptr_t)m->addr, m->len, how, flags, in ? block->fd : -1,
             in ? (off_t)block->start : 0) == MAP_FAILED)
        abort();
}

static void unmap(struct mapping **link)
{
    struct mapping *gone = *link;

    fake_cuda_ended();
    *link = gone->next;
    if (gone->cpu)
        let_cpu_in(gone, false);
    fake_free(gone->addr);
    gone->physical->mappings--;
    fake_cuda_physical_settle(gone->physical);
    free(gone);
}

/* Is [addr, addr+size) made of whole mappings? */
static bool is_whole(uint64_t addr, size_t size)
{
    uint64_t at = addr;

    while (at < addr + size) {
        struct mapping *piece = fake_cuda_mapping(at);

        if (!piece || piece->addr != at)
            return false;
        at += piece->len;
    }
    return at == addr + size;
}

unsigned cuMemUnmap(unsigned long long addr, size_t size)
{
    struct mapping **link = &mappings;

    ENTER();
    if (!size || !is_whole(addr, size))
        return CUDA_INVALID_VALUE;
    fake_cuda_arrive();
    while (*link) {
        if ((*link)->addr >= addr && (*link)->addr < addr + size)
            unmap(link);
        else
            link = &(*link)->next;
    }
    return CUDA_OK;
}

static bool is_on_host(const struct mapping *m)
{
    return m->physical->prop.location.type != CUDA_LOCATION_DEVICE;
}

static unsigned set_access(struct mapping *m, const struct cuda_access *access)
{
    bool may = access->flags == CUDA_ACCESS_READWRITE;

    if (access->location.type == CUDA_LOCATION_DEVICE)
        m->accessible = may;
    else if (is_on_host(m))
        let_cpu_in(m, may);
    else
        return CUDA_INVALID_VALUE;
    return CUDA_OK;
}

unsigned cuMemSetAccess(unsigned long long addr, size_t size, const struct cuda_access *access,
                        size_t count)
{
    unsigned result = CUDA_OK;

    ENTER();
    if (!access || !count || !size || !is_whole(addr, size))
        return CUDA_INVALID_VALUE;
    for (struct mapping *m = mappings; m; m = m->next)
        for (size_t i = 0; i < count && !result && m->addr >= addr && m->addr < addr + size; i++)
            result = set_access(m, &access[i]);
    return result;
}

unsigned cuMemGetAccess(unsigned long long *flags, const struct cuda_location *location,
                        unsigned long long addr)
{
    const struct mapping *m;
    bool may;

    ENTER();
    m = fake_cuda_mapping(addr);
    if (!flags || !location || !m)
        return CUDA_INVALID_VALUE;
    may = location->type == CUDA_LOCATION_DEVICE ? m->accessible : m->cpu;
    *flags = may ? CUDA_ACCESS_READWRITE : 0;
    return CUDA_OK;
}

/* ---- export ----------------------------------------------------------------------------- */

struct run {
    struct physical *pieces[FAKE_CUDA_PIECES];
    unsigned count;
    size_t len;
};

/* The allocations under a range that begins with one, is mapped throughout and has the same
 * properties. */
static unsigned run_of(uint64_t addr, size_t len, struct run *out)
{
    *out = (struct run){0};
    while (out->len < len) {
        struct mapping *piece = fake_cuda_mapping(addr + out->len);

        if (!piece || out->count == FAKE_CUDA_PIECES)
            return CUDA_INVALID_VALUE;
        if (piece->addr != addr + out->len)
            return CUDA_NOT_SUPPORTED;
        out->pieces[out->count++] = piece->physical;
        out->len += piece->len;
        if (memcmp(&out->pieces[0]->prop, &piece->physical->prop, sizeof(piece->physical->prop)))
            return CUDA_INVALID_VALUE;
    }
    return CUDA_OK;
}

/* Are the pieces consecutive from the beginning of one file? */
static bool is_joined(const struct run *run)
{
    size_t offset = 0;

    for (unsigned i = 0; i < run->count; i++) {
        if (run->pieces[i]->file != run->pieces[0]->file || run->pieces[i]->file_offset != offset)
            return false;
        offset += run->pieces[i]->block->len;
    }
    return run->count == 1 || run->pieces[0]->file;
}

/* Does a valid descriptor name the piece: are all the pieces joined with it mapped? */
static bool is_named(const struct physical *piece)
{
    unsigned alive = 0;

    if (!piece->file)
        return piece->exported;
    for (struct physical *other = physicals; other; other = other->next)
        alive += other->file == piece->file;
    return alive == piece->file_pieces;
}

static bool may_join(const struct run *run)
{
    for (unsigned i = 0; i < run->count; i++) {
        if (is_named(run->pieces[i]))
            return false;
        for (unsigned j = 0; j < i; j++)
            if (run->pieces[i] == run->pieces[j])
                return false;
    }
    return true;
}

static bool move(struct physical *piece, int file, size_t offset)
{
    struct fake_block *block = piece->block;
    void *view = mmap(NULL, block->len, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)offset);

    if (view == MAP_FAILED)
        return false;
    memcpy(view, block->bytes, block->len);
    munmap(block->bytes, block->len);
    close(block->fd);
    block->bytes = view;
    block->fd = fcntl(file, F_DUPFD_CLOEXEC, 0);
    fake_block_moved(block, offset);
    piece->file = last_file;
    piece->file_offset = offset;
    return true;
}

static bool join(const struct run *run)
{
    int file = fake_file(run->len);
    size_t offset = 0;

    if (file < 0)
        return false;
    last_file++;
    for (unsigned i = 0; i < run->count; i++) {
        if (!move(run->pieces[i], file, offset))
            abort();
        run->pieces[i]->file_pieces = run->count;
        offset += run->pieces[i]->block->len;
    }
    close(file);
    return true;
}

unsigned fake_cuda_export_virtual(uint64_t addr, size_t len, int *fd)
{
    struct run run;
    unsigned result = run_of(addr, len, &run);

    if (result)
        return result;
    if (run.count > 1 && fake_env("HMREG_FAKE_CUDA_EXPORT_ONE", 0))
        return CUDA_INVALID_VALUE;
    if (!is_joined(&run) && (!may_join(&run) || !join(&run))) {
        fprintf(stderr, "simulated CUDA: these pieces are exported in another order already\n");
        return CUDA_NOT_SUPPORTED;
    }
    *fd = fcntl(run.pieces[0]->block->fd, F_DUPFD, 0);
    for (unsigned i = 0; i < run.count; i++)
        run.pieces[i]->exported = true;
    return *fd < 0 ? CUDA_OUT_OF_MEMORY : CUDA_OK;
}

unsigned long hmreg_fake_cuda_virtual(void)
{
    unsigned long alive = 0;

    fake_lock();
    for (struct reservation *r = reservations; r; r = r->next)
        alive++;
    for (struct physical *p = physicals; p; p = p->next)
        alive++;
    fake_unlock();
    return alive;
}
