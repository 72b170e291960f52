/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See world.h. One thread at a time.
 */
#include "tests/model/world.h"

#include "tests/support/vendors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEVICE_PAGES 16

struct area world[WORLD_AREAS];

static uint64_t last_tag;

size_t world_page(void)
{
    static size_t size;

    if (!size)
        size = (size_t)sysconf(_SC_PAGESIZE);
    return size;
}

static void must(bool done, const char *what)
{
    if (done)
        return;
    perror(what);
    abort();
}

static char *page_at(const struct area *area, unsigned page)
{
    return area->base + page * world_page();
}

static uint64_t *tag_at(const struct area *area, unsigned page)
{
    return (uint64_t *)(void *)page_at(area, page);
}

static void tag_pages(struct area *area, unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++) {
        area->tags[i] = ++last_tag;
        __atomic_store_n(tag_at(area, i), last_tag, __ATOMIC_RELAXED);
    }
}

/* ---- host memory ------------------------------------------------------------------------ */

void world_map(unsigned first, unsigned count)
{
    void *at = page_at(&world[0], first);

    must(mmap(at, count * world_page(), PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at,
         "mmap");
    tag_pages(&world[0], first, count);
}

void world_unmap(unsigned first, unsigned count)
{
    must(!munmap(page_at(&world[0], first), count * world_page()), "munmap");
    memset(&world[0].tags[first], 0, count * sizeof(world[0].tags[0]));
}

void world_drop(unsigned first, unsigned count)
{
    must(!madvise(page_at(&world[0], first), count * world_page(), MADV_DONTNEED), "madvise");
    tag_pages(&world[0], first, count);
}

bool world_may_be_huge(unsigned page)
{
#if defined(__x86_64__)
    const uintptr_t huge = (uintptr_t)2 << 20;
#else
    const uintptr_t huge = (uintptr_t)64 << 10;
#endif

    return (uintptr_t)page_at(&world[0], page) % huge == 0;
}

void world_move(unsigned first, unsigned count, unsigned to)
{
    uint64_t tags[WORLD_PAGES];
    size_t len = count * world_page();
    void *at = page_at(&world[0], to);

    must(mremap(page_at(&world[0], first), len, len, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at,
         "mremap");
    memcpy(tags, &world[0].tags[first], sizeof(tags[0]) * count);
    memset(&world[0].tags[first], 0, sizeof(tags[0]) * count);
    memcpy(&world[0].tags[to], tags, sizeof(tags[0]) * count);
}

/* ---- device memory ---------------------------------------------------------------------- */

void world_free(struct area *area, unsigned segment)
{
    vendor_unclaim(area->iface, page_at(area, segment * WORLD_SEGMENT));
    memset(&area->tags[segment * WORLD_SEGMENT], 0, WORLD_SEGMENT * sizeof(area->tags[0]));
}

void world_alloc(struct area *area, unsigned segment)
{
    struct vendor_claim *claim;

    tag_pages(area, segment * WORLD_SEGMENT, WORLD_SEGMENT);
    claim = vendor_claim(area->iface, page_at(area, segment * WORLD_SEGMENT),
                         WORLD_SEGMENT * world_page(), HMREG_MEM_DEVICE, area->device);
    claim->goes_on = area->goes_on;
}

/* ---- life ------------------------------------------------------------------------------- */

/* A range with a gap on both sides, far below the addresses that the kernel chooses. */
static char *reserve(unsigned pages)
{
    size_t len = (pages + 2) * world_page();
    char *top = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *at;

    must(top != MAP_FAILED, "mmap");
    at = mmap(top - (1ull << 39), len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(at != MAP_FAILED, "mmap");
    munmap(top, len);
    return at + world_page();
}

/* Tests can access this device memory by the CPU; the library does not know that. */
static void open_area(struct area *area, const struct area *like)
{
    *area = *like;
    area->base = reserve(area->pages);
    if (area == world) {
        world_map(0, area->pages);
        return;
    }
    must(!mprotect(area->base, area->pages * world_page(), PROT_READ | PROT_WRITE), "mprotect");
    for (unsigned i = 0; i < area->pages / WORLD_SEGMENT; i++)
        world_alloc(area, i);
}

void world_open(unsigned reports)
{
    static const struct area like[WORLD_AREAS] = {
        {.iface = HMREG_IFACE_SYSTEM, .device = -1, .pages = WORLD_PAGES, .goes_on = true},
        {.iface = HMREG_IFACE_CUDA, .device = 0, .pages = DEVICE_PAGES, .goes_on = true},
        {.iface = HMREG_IFACE_CUDA, .device = 1, .pages = DEVICE_PAGES},
        {.iface = HMREG_IFACE_ROCR, .device = 1, .pages = DEVICE_PAGES},
        {.iface = HMREG_IFACE_ZE, .device = 0, .pages = DEVICE_PAGES},
    };

    vendors_reset();
    for (int i = HMREG_IFACE_SYSTEM + 1; i < HMREG_IFACE_COUNT; i++)
        vendors[i].reports = reports >> (i - HMREG_IFACE_SYSTEM - 1) & 1;
    for (unsigned i = 0; i < WORLD_AREAS; i++)
        open_area(&world[i], &like[i]);
}

void world_close(void)
{
    for (unsigned i = 0; i < WORLD_AREAS; i++)
        munmap(world[i].base - world_page(), (world[i].pages + 2) * world_page());
}

bool world_reports(const struct area *area)
{
    return vendors[area->iface].reports;
}

/* ---- queries ---------------------------------------------------------------------------- */

static unsigned page_of(const struct area *area, uint64_t at)
{
    return (unsigned)((at - (uint64_t)(uintptr_t)area->base) / world_page());
}

bool world_there(const struct area *area, uint64_t start, uint64_t end)
{
    unsigned first = page_of(area, start), last = page_of(area, end - 1);

    if (!area->goes_on && first / WORLD_SEGMENT != last / WORLD_SEGMENT)
        return false;
    for (unsigned i = first; i <= last; i++)
        if (!area->tags[i])
            return false;
    return true;
}

uint64_t world_tag(const struct area *area, uint64_t at)
{
    return area->tags[page_of(area, at)];
}
