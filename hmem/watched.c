/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See watched.h. A table of words, one for each hash of an allocation's beginning: how many
 * pages of 4 KiB the longest watched allocation with that hash has, and further bits of the hash.
 * If allocations share a word, the further bits are replaced by SHARED, and the word is never
 * cleared again.
 */
#include "hmem/watched.h"

#include "core/contract/hmem.h"

#define INDEX_BITS WATCHED_INDEX_BITS
#define PAGE_SHIFT 12
#define TAG_SHIFT  40
#define PAGES      ((UINT64_C(1) << TAG_SHIFT) - 1)
#define SHARED     (UINT64_C(0xffffff) << TAG_SHIFT)

static uint64_t hash(uint64_t start)
{
    return start * UINT64_C(0x9e3779b97f4a7c15);
}

static size_t index_of(uint64_t start)
{
    return hash(start) >> (64 - INDEX_BITS);
}

/* 23 further bits of the hash, so never SHARED. */
static uint64_t tag_of(uint64_t start)
{
    return (hash(start) >> (64 - INDEX_BITS - 23) & 0x7fffff) << TAG_SHIFT;
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

    widen(&watched->all, start, end);
    do {
        uint64_t tag = !known || (known & SHARED) == tag_of(start) ? tag_of(start) : SHARED;

        next = tag | ((known & PAGES) > pages ? known & PAGES : pages);
    } while (!atomic_compare_exchange_weak(word, &known, next));
}

/* Either this finds the free, or the free finds what was added. */
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

/* The watched allocation that begins there, which is not watched any more. */
static struct watched_extent take(struct watched *watched, uint64_t start)
{
    _Atomic uint64_t *word = &watched->words[index_of(start)];
    uint64_t known = atomic_load(word);

    do {
        if (!known || ((known & SHARED) != SHARED && (known & SHARED) != tag_of(start)))
            return (struct watched_extent){start, start};
    } while ((known & SHARED) != SHARED && !atomic_compare_exchange_weak(word, &known, 0));
    return (struct watched_extent){start, start + ((known & PAGES) << PAGE_SHIFT)};
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
