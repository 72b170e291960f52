/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See stats_page.h. Slots of the page (domains, blocks, rows) are assigned and freed under the
 * stats page's lock, which readers do not have. So a domain or block is assigned while its sequence
 * is odd, and a row is cleared while it is free.
 */
#include "core/stats/stats_page.h"

#include "core/base/high_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL /* Linux 6.3 */
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef F_SEAL_FUTURE_WRITE /* Linux 5.1 */
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* ---- the file --------------------------------------------------------------------------- */

/* Some systems require MFD_NOEXEC_SEAL; older kernels do not know it (EINVAL). */
static int make_file(void)
{
    int fd = high_fd(memfd_create(STATS_PAGE_NAME, MFD_CLOEXEC | MFD_NOEXEC_SEAL));

    return fd < 0 && errno == EINVAL
               ? high_fd(memfd_create(STATS_PAGE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING))
               : fd;
}

/* A reader maps the file only if it is sealed against shrinking. F_SEAL_FUTURE_WRITE leaves
 * existing mappings (the library's) writable; kernels before 5.1 do not have it. */
static int seal(int fd)
{
    int seals = F_SEAL_SHRINK | F_SEAL_GROW;

    (void)fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
    return fcntl(fd, F_ADD_SEALS, seals | F_SEAL_SEAL);
}

/* Exceeding RLIMIT_FSIZE would raise SIGXFSZ. */
static bool may_be_so_long(void)
{
    struct rlimit limit;

    return !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur >= sizeof(struct stats_layout);
}

/* Allocates all of the file's memory now. If the system had none left later, a write to a counter
 * would end the process (SIGBUS). */
static int allocate(int fd)
{
    int rc;

    do {
        rc = fallocate(fd, 0, 0, sizeof(struct stats_layout));
    } while (rc && errno == EINTR);
    return rc;
}

static struct stats_layout *map_file(int fd)
{
    struct stats_layout *page;

    if (!may_be_so_long() || allocate(fd))
        return NULL;
    page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        return NULL;
    /* A child may have given up rights that this process has. */
    if (!madvise(page, sizeof(*page), MADV_DONTFORK) && !seal(fd))
        return page;
    munmap(page, sizeof(*page));
    return NULL;
}

static void write_header(struct stats_header *header, enum hmreg_monitor monitor)
{
    header->version = STATS_PAGE_VERSION;
    header->size = sizeof(struct stats_layout);
    header->pid = getpid();
    header->monitor = monitor;
    snprintf(header->hmreg, sizeof(header->hmreg), "%s", hmreg_version());
    /* Last: a reader that sees the magic sees the whole header. */
    atomic_thread_fence(memory_order_release);
    header->magic = STATS_PAGE_MAGIC;
}

void stats_page_open(struct stats_page *stats_page, bool wanted, enum hmreg_monitor monitor)
{
    struct stat status;
    int fd;

    *stats_page = (struct stats_page){.fd = -1};
    pthread_mutex_init(&stats_page->lock, NULL);
    fd = wanted ? make_file() : -1;
    if (fd < 0)
        return;
    stats_page->page = fstat(fd, &status) ? NULL : map_file(fd);
    if (!stats_page->page) {
        close(fd);
        return;
    }
    stats_page->fd = fd;
    stats_page->device = status.st_dev;
    stats_page->inode = status.st_ino;
    write_header(&stats_page->page->header, monitor);
}

_Static_assert(sizeof(((struct stats_header *)0)->monitor_why) ==
                   sizeof(((struct hmreg_monitor_info *)0)->why),
               "the reason is shown whole");

void stats_page_show_monitor(struct stats_page *stats_page, const struct hmreg_monitor_info *info)
{
    struct stats_header *header = stats_page->page ? &stats_page->page->header : NULL;

    if (!header)
        return;
    for (size_t i = 0; i < sizeof(header->monitor_why); i++)
        __atomic_store_n(&header->monitor_why[i], info->why[i], __ATOMIC_RELAXED);
    __atomic_store_n(&header->monitor, (uint32_t)info->active, __ATOMIC_RELEASE);
}

/* Does fd still refer to the page? Programs that become daemons close descriptors that they did not
 * open, and the number may then refer to another file. */
static bool is_ours(const struct stats_page *stats_page)
{
    struct stat status;

    return !fstat(stats_page->fd, &status) && status.st_dev == stats_page->device &&
           status.st_ino == stats_page->inode;
}

void stats_page_close(struct stats_page *stats_page)
{
    if (stats_page->page) {
        munmap(stats_page->page, sizeof(*stats_page->page));
        if (is_ours(stats_page))
            close(stats_page->fd);
    }
    pthread_mutex_destroy(&stats_page->lock);
}

/* ---- sleeping --------------------------------------------------------------------------- */

/* Remaps the counters' memory to the file, or to no file (-1), in place: caches have pointers into
 * it. */
static bool move(struct stats_layout *page, int fd)
{
    int kind = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *made = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, kind, fd, 0);

    if (made == MAP_FAILED)
        return false;
    memcpy(made, page, sizeof(*page));
    if (!madvise(made, sizeof(*page), MADV_DONTFORK) &&
        mremap(made, sizeof(*page), sizeof(*page), MREMAP_MAYMOVE | MREMAP_FIXED, page) == page)
        return true;
    munmap(made, sizeof(*page));
    return false;
}

bool stats_page_sleep(struct stats_page *stats_page)
{
    if (!stats_page->page || stats_page->fd < 0)
        return true;
    if (!move(stats_page->page, -1))
        return false;
    if (is_ours(stats_page))
        close(stats_page->fd);
    stats_page->fd = -1;
    return true;
}

static bool show(struct stats_page *stats_page, int fd)
{
    struct stat status;

    if (fstat(fd, &status) || !may_be_so_long() || allocate(fd) || !move(stats_page->page, fd))
        return false;
    stats_page->device = status.st_dev;
    stats_page->inode = status.st_ino;
    return !seal(fd) || !move(stats_page->page, -1);
}

void stats_page_wake(struct stats_page *stats_page)
{
    int fd = stats_page->page && stats_page->fd < 0 ? make_file() : -1;

    if (fd < 0)
        return;
    stats_page->page->header.pid = getpid();
    if (show(stats_page, fd))
        stats_page->fd = fd;
    else
        close(fd);
}

/* ---- changes ---------------------------------------------------------------------------- */

void stats_page_begin_change(_Atomic uint32_t *sequence)
{
    atomic_store_explicit(sequence, atomic_load_explicit(sequence, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    /* Pairs with the reader's acquire fence: a reader of the change sees the odd sequence. */
    atomic_thread_fence(memory_order_release);
}

void stats_page_end_change(_Atomic uint32_t *sequence)
{
    atomic_store_explicit(sequence, atomic_load_explicit(sequence, memory_order_relaxed) + 1,
                          memory_order_release);
}

/* ---- assignment of slots ---------------------------------------------------------------- */

/* Finds the first free one of count slots of `size` bytes; each has its owner (0: free) at offset
 * `owner`. NULL: none is free; increments *lost. */
static void *free_place(void *places, size_t size, size_t owner, unsigned count,
                        _Atomic uint32_t *lost)
{
    for (unsigned i = 0; i < count; i++) {
        char *place = (char *)places + i * size;

        if (!atomic_load_explicit((_Atomic uint32_t *)(place + owner), memory_order_relaxed))
            return place;
    }
    atomic_fetch_add(lost, 1);
    return NULL;
}

static struct stats_domain *free_domain(struct stats_layout *page)
{
    return free_place(page->domains, sizeof(page->domains[0]),
                      offsetof(struct stats_domain, number), STATS_DOMAINS,
                      &page->header.lost_domains);
}

/* If a domain is not shown, neither are its caches. */
static struct stats_block *free_block(struct stats_layout *page, const struct stats_domain *domain)
{
    return free_place(page->blocks, sizeof(page->blocks[0]), offsetof(struct stats_block, domain),
                      domain ? STATS_BLOCKS : 0, &page->header.lost_blocks);
}

/* If a cache is not shown, neither are its hits. */
static struct stats_row *free_row(struct stats_layout *page, const struct stats_block *block)
{
    return free_place(page->rows, sizeof(page->rows[0]), offsetof(struct stats_row, block),
                      block ? STATS_ROWS : 0, &page->header.lost_rows);
}

struct stats_domain *stats_page_domain(struct stats_page *stats_page, const char *provider,
                                       const char *fabric, uint32_t flags)
{
    struct stats_domain *domain;

    if (!stats_page->page)
        return NULL;
    pthread_mutex_lock(&stats_page->lock);
    stats_page->domains++;
    domain = free_domain(stats_page->page);
    if (domain) {
        stats_page_begin_change(&domain->sequence);
        snprintf(domain->provider, sizeof(domain->provider), "%s", provider);
        snprintf(domain->fabric, sizeof(domain->fabric), "%s", fabric);
        atomic_store_explicit(&domain->flags, flags, memory_order_relaxed);
        atomic_store_explicit(&domain->lost, 0, memory_order_relaxed);
        atomic_store_explicit(&domain->number, stats_page->domains, memory_order_relaxed);
        stats_page_end_change(&domain->sequence);
    }
    pthread_mutex_unlock(&stats_page->lock);
    return domain;
}

static void clear_block(struct stats_block *block)
{
    for (unsigned i = 0; i < STATS_COUNTS_ROOM; i++)
        atomic_store_explicit(&block->counts[i], 0, memory_order_relaxed);
    for (unsigned i = 0; i < HMREG_STATS_TIMES; i++)
        atomic_store_explicit(&block->times[i], 0, memory_order_relaxed);
}

struct stats_block *stats_page_block(struct stats_page *stats_page,
                                     const struct stats_domain *domain, enum hmreg_iface iface,
                                     int device)
{
    struct stats_block *block;

    if (!stats_page->page)
        return NULL;
    pthread_mutex_lock(&stats_page->lock);
    block = free_block(stats_page->page, domain);
    if (block) {
        stats_page_begin_change(&block->sequence);
        clear_block(block);
        atomic_store_explicit(&block->iface, (int32_t)iface, memory_order_relaxed);
        atomic_store_explicit(&block->device, device, memory_order_relaxed);
        atomic_store_explicit(&block->domain, 1 + (uint32_t)(domain - stats_page->page->domains),
                              memory_order_relaxed);
        stats_page_end_change(&block->sequence);
    }
    pthread_mutex_unlock(&stats_page->lock);
    return block;
}

struct stats_row *stats_page_row(struct stats_page *stats_page, const struct stats_block *block)
{
    struct stats_row *row;

    if (!stats_page->page)
        return NULL;
    pthread_mutex_lock(&stats_page->lock);
    row = free_row(stats_page->page, block);
    if (row) {
        atomic_store_explicit(&row->hits, 0, memory_order_relaxed);
        /* Release: a reader that sees the row's block sees hits 0 or the new owner's. */
        atomic_store_explicit(&row->block, 1 + (uint32_t)(block - stats_page->page->blocks),
                              memory_order_release);
    }
    pthread_mutex_unlock(&stats_page->lock);
    return row;
}

/* ---- freeing ---------------------------------------------------------------------------- */

static void end_place(struct stats_page *stats_page, _Atomic uint32_t *sequence,
                      _Atomic uint32_t *owner)
{
    pthread_mutex_lock(&stats_page->lock);
    stats_page_begin_change(sequence);
    atomic_store_explicit(owner, 0, memory_order_relaxed);
    stats_page_end_change(sequence);
    pthread_mutex_unlock(&stats_page->lock);
}

void stats_page_end_domain(struct stats_page *stats_page, struct stats_domain *domain)
{
    if (domain)
        end_place(stats_page, &domain->sequence, &domain->number);
    else if (stats_page->page)
        atomic_fetch_sub(&stats_page->page->header.lost_domains, 1);
}

void stats_page_end_block(struct stats_page *stats_page, struct stats_block *block)
{
    if (block)
        end_place(stats_page, &block->sequence, &block->domain);
    else if (stats_page->page)
        atomic_fetch_sub(&stats_page->page->header.lost_blocks, 1);
}

void stats_page_end_row(struct stats_page *stats_page, struct stats_row *row)
{
    if (row)
        atomic_store_explicit(&row->block, 0, memory_order_release);
    else if (stats_page->page)
        atomic_fetch_sub(&stats_page->page->header.lost_rows, 1);
}
