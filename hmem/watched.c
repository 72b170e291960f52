/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See watched.h. A table of words, each with an allocation's start and its number of pages of 4
 * KiB. The start is exact: place and TAG together identify one start. A word that allocations share
 * has the longest length and SHARED instead of a start, and is never cleared again.
 */
#include "hmem/watched.h"

#include "core/contract/hmem.h"

#define INDEX_BITS WATCHED_INDEX_BITS
#define PAGE_SHIFT 12
#define PAGE_BITS  28
#define PAGES      ((UINT64_C(1) << PAGE_BITS) - 1) /* this many or more */
#define SHARED     (UINT64_C(1) << 63)
#define TAG        (~SHARED & ~PAGES)

/* Only such starts have a tag: multiples of 256 bytes with addresses of 57 bits, sign-extended as
 * by processors and GPUs. */
#define START_SHIFT 8
#define START_BITS  49
#define START_MASK  ((UINT64_C(1) << START_BITS) - 1)
#define EXTENSION   (64 - START_BITS - START_SHIFT)
_Static_assert(START_BITS == INDEX_BITS + 63 - PAGE_BITS, "place and tag have all bits");

/* Different for each start with a tag, since the factor is odd. */
static uint64_t hash(uint64_t start)
{
    return (start >> START_SHIFT) * UINT64_C(0x19e3779b97f4b) & START_MASK;
}

static size_t index_of(uint64_t start)
{
    return hash(start) >> (START_BITS - INDEX_BITS);
}

static bool has_tag(uint64_t start)
{
    return !(start % (1 << START_SHIFT)) &&
           (uint64_t)((int64_t)(start << EXTENSION) >> EXTENSION) == start;
}

static uint64_t tag_of(uint64_t start)
{
    return has_tag(start) ? hash(start) << PAGE_BITS & TAG : SHARED;
}

static void raise_to(_Atomic uint64_t *bound, uint64_t to)
{
    uint64_t known = atomic_load(bound);

    while (known < to && !atomic_compare_exchange_weak(bound, &known, to))
        ;
}

static void widen(struct watched_bounds *bounds, uint64_t start, uint64_t end)
{
    raise_to(&bounds->end, end);
    raise_to(&bounds->not_start, ~start);
}

static void add(struct watched *watched, uint64_t start, uint64_t end)
{
    uint64_t pages = (end - start + (1 << PAGE_SHIFT) - 1) >> PAGE_SHIFT;
    _Atomic uint64_t *word = &watched->words[index_of(start)];
    uint64_t known = atomic_load(word), next;

    pages = pages < PAGES ? pages : PAGES;
    widen(&watched->all, start, end);
    do {
        uint64_t tag = !known || (known & ~PAGES) == tag_of(start) ? tag_of(start) : SHARED;

        next = tag | ((known & PAGES) > pages ? known & PAGES : pages);
    } while (!atomic_compare_exchange_weak(word, &known, next));
}

/* Either this check finds the free, or the free finds the added allocation. */
bool watched_add(struct watched *watched, uint64_t start, uint64_t end)
{
    add(watched, start, end);
    return !atomic_load(&watched->frees[index_of(start)]);
}

void watched_add_virtual(struct watched *watched, uint64_t start, uint64_t end)
{
    widen(&watched->all, start, end);
    widen(&watched->mapped, start, end);
}

static uint64_t end_of(const struct watched *watched, uint64_t start, uint64_t pages)
{
    uint64_t end = pages == PAGES ? atomic_load(&watched->all.end) : start + (pages << PAGE_SHIFT);

    return end < start ? UINT64_MAX : end;
}

/* Ends the watch of the allocation that begins there, and returns its range. */
static struct watched_extent take(struct watched *watched, uint64_t start)
{
    _Atomic uint64_t *word = &watched->words[index_of(start)];
    uint64_t known = atomic_load(word);

    do {
        if (!known || (!(known & SHARED) && (known & TAG) != tag_of(start)))
            return (struct watched_extent){start, start};
    } while (!(known & SHARED) && !atomic_compare_exchange_weak(word, &known, 0));
    return (struct watched_extent){start, end_of(watched, start, known & PAGES)};
}

struct watched_extent watched_virtual(const struct watched *watched, uint64_t start, uint64_t end)
{
    if (start < atomic_load(&watched->mapped.end) && ~atomic_load(&watched->mapped.not_start) < end)
        return (struct watched_extent){start, end};
    return (struct watched_extent){start, start};
}

static struct watched_extent between(const struct watched_bounds *bounds)
{
    struct watched_extent found = {~atomic_load(&bounds->not_start), atomic_load(&bounds->end)};

    return found.start < found.end ? found : (struct watched_extent){0, 0};
}

struct watched_extent watched_all(const struct watched *watched)
{
    return between(&watched->all);
}

struct watched_extent watched_all_virtual(const struct watched *watched)
{
    return between(&watched->mapped);
}

void watched_report(struct watched_extent ended)
{
    if (ended.start < ended.end)
        hmem_ended(ended.start, ended.end);
}

struct watched_extent watched_begin_free(struct watched *watched, uint64_t addr)
{
    struct watched_extent ended;

    atomic_fetch_add(&watched->frees[index_of(addr)], 1);
    ended = take(watched, addr);
    watched_report(ended);
    return ended;
}

void watched_end_free(struct watched *watched, uint64_t addr, bool failed,
                      struct watched_extent ended)
{
    if (failed && ended.start < ended.end)
        add(watched, ended.start, ended.end);
    atomic_fetch_sub(&watched->frees[index_of(addr)], 1);
}
