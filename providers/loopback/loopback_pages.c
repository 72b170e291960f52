/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * HMREG_MR_MMU_NOTIFY as on a fabric without an MMU notifier: a region knows the pages that were
 * resident at registration and learns of others only through refresh. mincore(2) reports a page as
 * resident, not resident, or (ENOMEM) not mapped.
 */
#include "core/base/high_fd.h"
#include "providers/loopback/loopback.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct pages {
    uint64_t start; /* address of the first page */
    size_t count;
    unsigned char *known; /* one byte per page, bit 0 as in mincore */
};

static uint64_t page_size(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Queries the part of [start, end) in the range, which is one mapping; if it is unmapped
 * concurrently, its pages stay unknown. */
static void look_at(struct pages *pages, uint64_t start, uint64_t end)
{
    uint64_t size = page_size();
    uint64_t last = pages->start + pages->count * size;

    if (start < pages->start)
        start = pages->start;
    if (end > last)
        end = last;
    if (start < end)
        (void)mincore((void *)(uintptr_t)start, end - start,
                      &pages->known[(start - pages->start) / size]);
}

/* Queries the whole range at once or, if mincore fails because a part is unmapped, one mapping at a
 * time; one page at a time would take forever in a region of terabytes. */
static void look(struct pages *pages)
{
    FILE *maps;
    uint64_t start, end;

    if (mincore((void *)(uintptr_t)pages->start, pages->count * page_size(), pages->known) == 0)
        return;
    maps = high_file("/proc/thread-self/maps");
    if (!maps)
        return;
    while (fscanf(maps, "%" SCNx64 "-%" SCNx64 "%*[^\n]", &start, &end) == 2)
        look_at(pages, start, end);
    fclose(maps);
}

static bool pages_init(struct pages *pages, const struct iovec *iov)
{
    uint64_t addr = (uint64_t)(uintptr_t)iov->iov_base;

    pages->start = addr & ~(page_size() - 1);
    pages->count = (size_t)((addr + iov->iov_len - 1 - pages->start) / page_size()) + 1;
    pages->known = calloc(pages->count, 1);
    if (!pages->known)
        return false;
    look(pages);
    return true;
}

struct pages *pages_new(const struct iovec *iov, size_t count)
{
    struct pages *pages = calloc(count, sizeof(*pages));

    for (size_t i = 0; pages && i < count; i++) {
        if (pages_init(&pages[i], &iov[i]))
            continue;
        pages_free(pages, count);
        return NULL;
    }
    return pages;
}

void pages_free(struct pages *pages, size_t count)
{
    for (size_t i = 0; pages && i < count; i++)
        free(pages[i].known);
    free(pages);
}

bool pages_known(const struct pages *pages, size_t index, uint64_t addr, uint64_t len)
{
    const struct pages *range = &pages[index];
    size_t first = (size_t)((addr - range->start) / page_size());
    size_t last = (size_t)((addr + len - 1 - range->start) / page_size());

    for (size_t i = first; i <= last; i++)
        if (!(range->known[i] & 1))
            return false;
    return true;
}

int pages_refresh(struct pages *pages, size_t index, uint64_t addr, uint64_t len, uint64_t *hole)
{
    struct pages *range = &pages[index];
    size_t first = (size_t)((addr - range->start) / page_size());
    size_t last = (size_t)((addr + len - 1 - range->start) / page_size());
    unsigned char resident;

    for (size_t i = first; i <= last; i++) {
        *hole = range->start + i * page_size();
        if (mincore((void *)(uintptr_t)*hole, page_size(), &resident)) {
            range->known[i] = 0;
            return -EFAULT;
        }
        range->known[i] = 1;
    }
    return 0;
}
