/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See droppable.h. Threads' tables have a few sizes and share mappings, since each mapping counts
 * against the process's limit. A mapping takes memory page by page as it is used, unless the
 * program locks all that it maps. So mappings are small, and the next one is made when all are
 * full. A page that the kernel wipes in a forked child records the places taken: the child makes
 * its own mappings.
 */
#include "core/base/droppable.h"

#include "core/base/process.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static const struct kind {
    uint32_t bytes, count; /* bytes: whole cache lines; count: of places, a multiple of 64 */
} kinds[] = {{576, 256}, {2368, 128}, {16704, 64}};

#define KINDS    (sizeof(kinds) / sizeof(kinds[0]))
#define WORDS    ((256 + 128 + 64) / 64)
#define BYTES    (576 * (size_t)256 + 2368 * (size_t)128 + 16704 * (size_t)64)
#define MAPPINGS 32

struct mapping {
    _Atomic(char *) base; /* NULL: not made yet; MAP_FAILED: the kernel has no such memory */
    _Atomic uint64_t taken[WORDS];
};

_Static_assert(MAPPINGS * sizeof(struct mapping) <= 4096 - sizeof(void *), "fit a wiped page");

static _Atomic(void *) page; /* MAPPINGS of struct mapping */

static char *base_of(struct mapping *mapping)
{
    char *base = atomic_load(&mapping->base), *made;

    if (base)
        return base;
    made = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_DROPPABLE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED && (errno == ENOMEM || errno == EAGAIN))
        return made; /* there may be memory the next time */
    if (atomic_compare_exchange_strong(&mapping->base, &base, made))
        return made;
    if (made != MAP_FAILED)
        munmap(made, BYTES);
    return base;
}

/* Takes a bit of a word that has one left. */
static int take_bit(_Atomic uint64_t *word)
{
    uint64_t was = atomic_load(word);

    while (~was)
        if (atomic_compare_exchange_weak(word, &was, was | (was + 1)))
            return __builtin_ctzll(~was);
    return -1;
}

static char *take_among(_Atomic uint64_t *words, char *places, const struct kind *kind)
{
    for (uint32_t i = 0; i < kind->count / 64; i++) {
        int bit = take_bit(&words[i]);

        if (bit >= 0)
            return places + (i * 64 + (uint32_t)bit) * (size_t)kind->bytes;
    }
    return NULL;
}

/* *ended: there is no further mapping. */
static char *take_in(struct mapping *mapping, size_t bytes, bool *ended)
{
    char *places = base_of(mapping), *taken = NULL;
    _Atomic uint64_t *words = mapping->taken;

    *ended = places == MAP_FAILED;
    for (size_t i = 0; i < KINDS && !taken && !*ended; i++) {
        if (bytes <= kinds[i].bytes)
            taken = take_among(words, places, &kinds[i]);
        words += kinds[i].count / 64;
        places += kinds[i].bytes * (size_t)kinds[i].count;
    }
    return taken;
}

void *droppable_take(size_t bytes)
{
    struct mapping *mappings = process_page_at(&page);
    bool ended = !mappings || bytes > kinds[KINDS - 1].bytes;
    char *taken = NULL;

    for (unsigned i = 0; i < MAPPINGS && !taken && !ended; i++)
        taken = take_in(&mappings[i], bytes, &ended);
    return taken ? memset(taken, 0, bytes) : NULL;
}

static void leave_place(struct mapping *mapping, size_t offset)
{
    _Atomic uint64_t *words = mapping->taken;
    const struct kind *kind = kinds;

    for (; offset >= kind->bytes * (size_t)kind->count; kind++) {
        offset -= kind->bytes * (size_t)kind->count;
        words += kind->count / 64;
    }
    offset /= kind->bytes;
    atomic_fetch_and(&words[offset / 64], ~(UINT64_C(1) << offset % 64));
}

bool droppable_give_back(void *at)
{
    struct mapping *mappings = atomic_load(&page);

    for (unsigned i = 0; mappings && i < MAPPINGS; i++) {
        char *base = atomic_load(&mappings[i].base);
        size_t offset = (size_t)((uintptr_t)at - (uintptr_t)base);

        if (!base || base == MAP_FAILED)
            return false;
        if (offset < BYTES) {
            leave_place(&mappings[i], offset);
            return true;
        }
    }
    return false;
}
