/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Random arguments: near the limits of what is accepted, and far from them.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/support/test.h"

#include <sys/mman.h>

#define PLACE_PAGES 8

/* Writable, read-only, unreadable, a file's, and a file's that ends in the middle. */
enum place { WRITABLE, READ_ONLY, UNREADABLE, SHARED, SHORT };
_Static_assert(SHORT + 1 == FUZZ_PLACES, "one of each");

static size_t page;

/* Of the input; behind its end 0. */
static uint64_t given(struct fuzz *fuzz, unsigned bytes)
{
    uint64_t number = 0;

    for (unsigned i = 0; i < bytes && fuzz->input_left; i++, fuzz->input_left--)
        number |= (uint64_t)*fuzz->input++ << 8 * i;
    return number;
}

/* Marsaglia's xorshift. */
uint64_t fuzz_random(struct fuzz *fuzz)
{
    uint64_t x = fuzz->state;

    if (fuzz->input)
        return given(fuzz, 8);

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return fuzz->state = x;
}

unsigned fuzz_below(struct fuzz *fuzz, unsigned limit)
{
    if (fuzz->input)
        return (unsigned)given(fuzz, limit > 256 ? 4 : 1) % limit;
    return (unsigned)((fuzz_random(fuzz) >> 20) % limit);
}

bool fuzz_rarely(struct fuzz *fuzz)
{
    return fuzz_below(fuzz, 16) == 0;
}

/* ---- places ----------------------------------------------------------------------------- */

static char *map_file(char *at, size_t pages)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    char *mapped;

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)(pages * page)), 0);
    mapped = mmap(at, PLACE_PAGES * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    close(fd);
    return mapped;
}

static char *map_private(char *at, int protection)
{
    return mmap(at, PLACE_PAGES * page, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

/* Inaccessible pages lie between and around them. */
void fuzz_places_make(struct fuzz *fuzz)
{
    static const int protections[] = {
        [WRITABLE] = PROT_READ | PROT_WRITE, [READ_ONLY] = PROT_READ, [UNREADABLE] = PROT_NONE};
    char *at;

    page = (size_t)sysconf(_SC_PAGESIZE);
    at = mmap(NULL, (2 * FUZZ_PLACES + 1) * PLACE_PAGES * page, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    fuzz->around = at;
    for (int i = 0; i < FUZZ_PLACES; i++) {
        at += PLACE_PAGES * page;
        fuzz->places[i] = i >= SHARED ? map_file(at, i == SHORT ? PLACE_PAGES / 2 : PLACE_PAGES)
                                      : map_private(at, protections[i]);
        assert_ptr_equal(fuzz->places[i], at);
        at += PLACE_PAGES * page;
    }
}

void fuzz_places_free(struct fuzz *fuzz)
{
    munmap(fuzz->around, (2 * FUZZ_PLACES + 1) * PLACE_PAGES * page);
}

/* ---- addresses -------------------------------------------------------------------------- */

/* Addresses that are never mapped: low, not canonical, the kernel's, the last ones. */
static void *nowhere(struct fuzz *fuzz)
{
    static const uint64_t bases[] = {0,
                                     4096,
                                     UINT64_C(1) << 47,
                                     UINT64_C(1) << 63,
                                     UINT64_C(0xffff888000000000),
                                     UINT64_MAX - 64};

    return (void *)(uintptr_t)(bases[fuzz_below(fuzz, 6)] + fuzz_below(fuzz, 64));
}

void *fuzz_target(struct fuzz *fuzz)
{
    unsigned slot = fuzz_below(fuzz, FUZZ_SLOTS);
    char *owned = fuzz->memory[slot];

    if (fuzz_rarely(fuzz))
        return nowhere(fuzz);
    if (owned && fuzz_below(fuzz, 2)) /* behind it may be another thread's heap */
        return owned + fuzz_below(fuzz, fuzz->memory_len[slot]);
    return fuzz->places[fuzz_below(fuzz, FUZZ_PLACES)] +
           fuzz_below(fuzz, (PLACE_PAGES + 1) * (unsigned)page);
}

void *fuzz_anywhere(struct fuzz *fuzz)
{
    switch (fuzz_below(fuzz, 16)) {
    case 0:
        return (void *)(uintptr_t)fuzz_random(fuzz);
    case 1:
        return (void *)(uintptr_t)(fuzz_random(fuzz) >> 17);
    case 2:
        return &page; /* the program's data */
    case 3:
        return (void *)(uintptr_t)memcpy; /* libc's text */
    case 4:
        return environ[0]; /* the stack */
    default:
        return fuzz_target(fuzz);
    }
}

size_t fuzz_length(struct fuzz *fuzz)
{
    switch (fuzz_below(fuzz, 16)) {
    case 0:
        return 0;
    case 1:
        return (size_t)fuzz_random(fuzz);
    case 2:
        return SIZE_MAX - fuzz_below(fuzz, 4);
    case 3:
        return (size_t)1 << fuzz_below(fuzz, 64);
    default:
        return 1 + fuzz_below(fuzz, fuzz_below(fuzz, 2) ? 64 : 4 * (unsigned)page);
    }
}

/* ---- numbers ---------------------------------------------------------------------------- */

uint64_t fuzz_bits(struct fuzz *fuzz, uint64_t known)
{
    if (fuzz_rarely(fuzz))
        return fuzz_random(fuzz);
    if (fuzz_rarely(fuzz))
        return known ^ UINT64_C(1) << fuzz_below(fuzz, 64);
    return known & fuzz_random(fuzz);
}

int fuzz_small(struct fuzz *fuzz)
{
    return fuzz_rarely(fuzz) ? (int)fuzz_random(fuzz) : (int)fuzz_below(fuzz, 5) - 1;
}

size_t fuzz_size(struct fuzz *fuzz, size_t right)
{
    if (fuzz_rarely(fuzz))
        return (size_t)fuzz_random(fuzz);
    if (fuzz_rarely(fuzz))
        return fuzz_below(fuzz, FUZZ_BYTES);
    return right;
}
