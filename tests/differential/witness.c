/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See witness.h. The program's memory is read through /proc/self/mem, which looks at no right of
 * the mapping: mprotect(2) leaves a region valid.
 */
#include "tests/differential/witness.h"

#include "tests/differential/space.h"
#include "tests/support/pinning.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LOOKS 4 /* pages of a range */

static int memory = -1;

bool witness_is_possible(void)
{
    struct ring *ring;

    if (ring_open(&ring))
        return false;
    ring_close(ring);
    return true;
}

void witness_open(void)
{
    memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    if (memory < 0 || ring_open(&pinning.ring))
        abort();
}

void witness_close(void)
{
    memory = -1;
    pinning.ring = NULL;
}

static bool is_same_page(const struct pinned *region, uint64_t at)
{
    static uint64_t last = 0x5eed000000000000;
    uint64_t before = 0, tag = ++last, seen = 0;
    bool same;

    if (pinned_read(region, at, &before, sizeof(before)) ||
        pinned_write(region, at, &tag, sizeof(tag)))
        return false;
    same = pread(memory, &seen, sizeof(seen), (off_t)at) == sizeof(seen) && seen == tag;
    return !pinned_write(region, at, &before, sizeof(before)) && same;
}

const char *witness_judge(const struct hmreg_mr *mr, const void *addr, size_t len)
{
    static char text[128];
    uint64_t start = ((uintptr_t)addr + 7) & ~UINT64_C(7), end = (uintptr_t)addr + len;
    uint64_t pages = (end - start) / space.page;

    for (uint64_t i = 0; memory >= 0 && i < LOOKS; i++) {
        uint64_t at = start + pages * i / (LOOKS - 1) * space.page;

        while (at + sizeof(uint64_t) > end && at > start)
            at = end - sizeof(uint64_t) < start ? start : (end - sizeof(uint64_t)) & ~UINT64_C(7);
        if (at + sizeof(uint64_t) > end || is_same_page(pinned_of(mr), at))
            continue;
        snprintf(text, sizeof(text),
                 "stale: the region has other pages than the program at +%#" PRIx64,
                 space_offset((void *)(uintptr_t)at));
        return text;
    }
    return NULL;
}
