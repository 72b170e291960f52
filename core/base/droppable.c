/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See droppable.h. One mapping has places of a few sizes, those of threads' tables, since each of
 * many mappings would count against the process's limit. It takes memory page by page as it is
 * used. Which places are taken is noted outside, in a page that is wiped in a forked child: the
 * child maps its own.
 */
#include "core/base/droppable.h"

#include "core/base/process.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static const struct kind {
    uint32_t bytes, count; /* bytes: whole cache lines; count: of places, a multiple of 64 */
} kinds[] = {{576, 2048}, {2368, 1024}, {16704, 256}};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))
#define WORDS ((2048 + 1024 + 256) / 64)
#define BYTES (576 * (size_t)2048 + 2368 * (size_t)1024 + 16704 * (size_t)256)

struct arena {
    _Atomic(char *) base; /* MAP_FAILED: the kernel has no such memory */
    _Atomic uint64_t taken[WORDS];
};

static _Atomic(void *) arena_page;

static char *base_of(struct arena *arena)
{
    char *base = atomic_load(&arena->base), *made;

    if (base)
        return base;
    made = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_DROPPABLE | MAP_ANONYMOUS, -1, 0);
    if (atomic_compare_exchange_strong(&arena->base, &base, made))
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

void *droppable_take(size_t bytes)
{
    struct arena *arena = process_page_at(&arena_page);
    char *places = arena ? base_of(arena) : MAP_FAILED, *taken = NULL;
    _Atomic uint64_t *words = arena ? arena->taken : NULL;

    if (places == MAP_FAILED)
        return NULL;
    for (size_t i = 0; i < KINDS && !taken; i++) {
        if (bytes <= kinds[i].bytes)
            taken = take_among(words, places, &kinds[i]);
        words += kinds[i].count / 64;
        places += kinds[i].bytes * (size_t)kinds[i].count;
    }
    return taken ? memset(taken, 0, bytes) : NULL;
}

bool droppable_give_back(void *at)
{
    struct arena *arena = atomic_load(&arena_page);
    char *places = arena ? atomic_load(&arena->base) : NULL;
    size_t offset = (size_t)((uintptr_t)at - (uintptr_t)places);
    _Atomic uint64_t *words = arena ? arena->taken : NULL;

    if (!places || places == MAP_FAILED || offset >= BYTES)
        return false;
    for (size_t i = 0; i < KINDS; i++) {
        size_t size = kinds[i].bytes * (size_t)kinds[i].count, place = offset / kinds[i].bytes;

        if (offset < size) {
            atomic_fetch_and(&words[place / 64], ~(UINT64_C(1) << place % 64));
            break;
        }
        words += kinds[i].count / 64;
        offset -= size;
    }
    return true;
}
