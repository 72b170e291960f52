/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See stats_view.h. The file is mapped only if its size is sealed, since truncation would raise
 * SIGBUS in the reader. Each number is loaded once, atomically, and checked afterwards.
 */
#include "tools/stats/stats_view.h"

#include "tools/foreign.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* Attempts to read a slot between changes; and for all slots of a page, because a hostile page
 * changes always. */
#define TRIES      1000
#define MORE_TRIES 10000

/* The attempts left for a page. */
struct patience {
    int tries;
    time_t until;
};

__attribute__((format(printf, 3, 4))) static enum view_result
refuse(enum view_result result, char why[256], const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(why, 256, format, args);
    va_end(args);
    return result;
}

/* ---- the file --------------------------------------------------------------------------- */

/* Checks that the file has at least size bytes and that its size is sealed. */
static enum view_result check_file(int fd, size_t size, char why[256])
{
    struct statfs system;
    struct stat status;
    int seals = fcntl(fd, F_GET_SEALS);

    if (seals < 0 || fstat(fd, &status) || fstatfs(fd, &system))
        return refuse(VIEW_NONE, why, "it is not a memory file: %s", strerror(errno));
    if (system.f_type != TMPFS_MAGIC || !(seals & F_SEAL_SHRINK))
        return refuse(VIEW_NONE, why, "its size is not sealed, but hmreg seals it");
    if (status.st_size < (off_t)size)
        return refuse(VIEW_NONE, why, "it has %lld bytes, fewer than the %zu it should have",
                      (long long)status.st_size, size);
    return VIEW_GOOD;
}

static const void *map(int fd, size_t size, char why[256])
{
    const void *made = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);

    if (made != MAP_FAILED)
        return made;
    refuse(VIEW_BAD, why, "it cannot be mapped: %s", strerror(errno));
    return NULL;
}

static enum view_result check_header(const struct stats_header *header, int pid, char why[256])
{
    char version[17];

    if (header->magic != STATS_PAGE_MAGIC)
        return refuse(VIEW_NONE, why, "it does not begin like hmreg's memory files");
    if (header->pid != pid)
        return refuse(VIEW_NONE, why, "it is process %d's", header->pid);
    foreign_copy(version, header->hmreg, sizeof(header->hmreg));
    if (header->version != STATS_PAGE_VERSION || header->size != sizeof(struct stats_layout))
        return refuse(VIEW_BAD, why,
                      "its format is %u with %u bytes, but this command reads format %d with %zu: "
                      "use the command of the process's own hmreg, %s",
                      header->version, header->size, STATS_PAGE_VERSION,
                      sizeof(struct stats_layout), version);
    return VIEW_GOOD;
}

static enum view_result read_header(int fd, int pid, struct stats_header *out, char why[256])
{
    enum view_result result = check_file(fd, sizeof(*out), why);
    const struct stats_header *header;

    if (result != VIEW_GOOD)
        return result;
    header = map(fd, sizeof(*header), why);
    if (!header)
        return VIEW_BAD;
    memcpy(out, header, sizeof(*out));
    munmap((void *)(uintptr_t)header, sizeof(*header));
    return check_header(out, pid, why);
}

/* ---- what is in it ---------------------------------------------------------------------- */

static uint32_t load32(const _Atomic uint32_t *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

static uint64_t load64(const _Atomic uint64_t *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

static uint32_t seq_begin(const _Atomic uint32_t *sequence)
{
    return atomic_load_explicit(sequence, memory_order_acquire);
}

/* Seqlock reader: was the copy made without a concurrent change? */
static bool seq_end(const _Atomic uint32_t *sequence, uint32_t began)
{
    /* Pairs with the writer's release fence: if a load saw part of a change, the load of sequence
     * below sees the change too. */
    atomic_thread_fence(memory_order_acquire);
    if (began % 2 == 0 && load32(sequence) == began)
        return true;
    sched_yield();
    return false;
}

static bool tries_again(struct patience *more)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return --more->tries > 0 && time.tv_sec < more->until;
}

static void copy_domain(const struct stats_domain *from, struct view_domain *to,
                        struct patience *more)
{
    uint32_t began;
    int tries = TRIES;

    do {
        began = seq_begin(&from->sequence);
        to->number = load32(&from->number);
        to->flags = load32(&from->flags);
        to->lost = load32(&from->lost);
        foreign_copy(to->provider, from->provider, sizeof(from->provider));
        foreign_copy(to->fabric, from->fabric, sizeof(from->fabric));
    } while (!seq_end(&from->sequence, began) && --tries && tries_again(more));
}

static uint64_t hits_in_rows(const struct stats_layout *page, unsigned index)
{
    uint64_t hits = 0;

    for (unsigned i = 0; i < STATS_ROWS; i++) {
        const struct stats_row *row = &page->rows[i];

        /* Pairs with the release store of block: hits read after it belong to this cache, unless
         * the row was reassigned since. */
        if (atomic_load_explicit(&row->block, memory_order_acquire) == index + 1)
            hits += load64(&row->hits);
    }
    return hits;
}

/* Returns 1 + the domain's index, 0 if there is no cache at this index. */
static uint32_t copy_numbers(const struct stats_layout *page, unsigned index, struct view_cache *to)
{
    const struct stats_block *from = &page->blocks[index];
    uint32_t domain = load32(&from->domain);

    to->iface = (enum hmreg_iface)atomic_load_explicit(&from->iface, memory_order_relaxed);
    to->device = atomic_load_explicit(&from->device, memory_order_relaxed);
    for (unsigned i = 0; domain && i < STATS_COUNTS; i++)
        to->counts[i] = load64(&from->counts[i]);
    for (unsigned i = 0; domain && i < HMREG_STATS_TIMES; i++)
        to->times[i] = load64(&from->times[i]);
    if (domain)
        to->counts[STATS_HITS] += hits_in_rows(page, index);
    return domain;
}

static uint32_t copy_cache(const struct stats_layout *page, unsigned index, struct view_cache *to,
                           struct patience *more)
{
    const _Atomic uint32_t *sequence = &page->blocks[index].sequence;
    uint32_t domain, began;
    int tries = TRIES;

    do {
        began = seq_begin(sequence);
        domain = copy_numbers(page, index, to);
        to->steady = seq_end(sequence, began);
    } while (!to->steady && --tries && tries_again(more));
    return domain;
}

static bool is_sane(const struct view_cache *cache)
{
    return (unsigned)cache->iface < HMREG_IFACE_COUNT && cache->device >= -1;
}

/* Skips caches whose domain has been closed in the meantime. */
static enum view_result copy_caches(const struct stats_layout *page, struct view *out,
                                    struct patience *more, char why[256])
{
    for (unsigned i = 0; i < STATS_BLOCKS; i++) {
        struct view_cache *cache = &out->caches[out->count];
        uint32_t domain = copy_cache(page, i, cache, more);

        if (domain > STATS_DOMAINS || (domain && !is_sane(cache)))
            return refuse(VIEW_BAD, why,
                          "its cache %u is of iface %d, device %d, domain %u, which cannot be", i,
                          (int)cache->iface, cache->device, domain);
        if (!domain || !out->domains[domain - 1].number)
            continue;
        cache->domain = domain - 1;
        out->count++;
    }
    return VIEW_GOOD;
}

static enum view_result copy_page(const struct stats_layout *page, time_t until, struct view *out,
                                  char why[256])
{
    struct patience more = {MORE_TRIES, until};

    for (unsigned i = 0; i < STATS_DOMAINS; i++)
        copy_domain(&page->domains[i], &out->domains[i], &more);
    out->lost_domains = load32(&page->header.lost_domains);
    out->lost_caches = load32(&page->header.lost_blocks);
    out->lost_threads = load32(&page->header.lost_rows);
    return copy_caches(page, out, &more, why);
}

enum view_result view_read(int fd, int pid, time_t until, struct view *out, char why[256])
{
    const struct stats_layout *page;
    struct stats_header header;
    enum view_result result = read_header(fd, pid, &header, why);

    if (result == VIEW_GOOD)
        result = check_file(fd, sizeof(*page), why);
    if (result != VIEW_GOOD)
        return result;
    page = map(fd, sizeof(*page), why);
    if (!page)
        return VIEW_BAD;
    *out = (struct view){.monitor = header.monitor};
    foreign_copy(out->hmreg, header.hmreg, sizeof(header.hmreg));
    foreign_copy(out->monitor_why, header.monitor_why, sizeof(header.monitor_why));
    result = copy_page(page, until, out, why);
    munmap((void *)(uintptr_t)page, sizeof(*page));
    return result;
}
