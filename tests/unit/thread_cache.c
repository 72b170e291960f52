/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A thread cache's hash: programs' addresses must not cluster: adjacent buffers, of any usual size.
 */
#include "core/cache/thread_cache.h"
#include "tests/support/test.h"

#define SLOTS 256u

/* With all regions in the table: how many of `count`, so many bytes apart, are found at their first
 * slot. */
static unsigned at_once(uint64_t base, uint64_t apart, unsigned count)
{
    static uint32_t slots[SLOTS + THREAD_CACHE_PROBES];
    unsigned found = 0;

    memset(slots, 0, sizeof(slots));
    for (unsigned i = 0; i < count; i++) {
        uint32_t *first = thread_cache_slot(slots, sizeof(slots[0]) * (SLOTS - 1),
                                            thread_cache_hash(base + i * apart));
        uint32_t *slot = first;

        assert_true(first >= slots && first < slots + SLOTS);
        while (*slot)
            slot++;
        assert_true(slot < slots + SLOTS + THREAD_CACHE_PROBES);
        *slot = pin_slot_offset(i + 1);
        found += slot == first;
    }
    return found;
}

TEST(slot__regions_side_by_side__most_in_their_first)
{
    static const uint64_t apart[] = {64,    256,    4096,    4160,    8192,    12288,  16384,
                                     65536, 262144, 1 << 20, 2 << 20, 4 << 20, 1 << 30};
    static const uint64_t bases[] = {0x310000000000, 0x7f5f3cc7a000, 0x55d0c0001040};

    for (unsigned b = 0; b < 3; b++)
        for (unsigned a = 0; a < sizeof(apart) / sizeof(apart[0]); a++)
            if (at_once(bases[b], apart[a], SLOTS / 2) < SLOTS / 2 * 6 / 10)
                fail_msg("of %u regions %d bytes apart at %#llx, only %u are found at once",
                         SLOTS / 2, (int)apart[a], (unsigned long long)bases[b],
                         at_once(bases[b], apart[a], SLOTS / 2));
}

TEST(slot__pages_side_by_side__all_in_their_first)
{
    assert_int_equal(at_once(0x310000000000, 4096, 100), 100);
    assert_int_equal(at_once(0x7f5f3cc7a000, 4096, SLOTS / 2), SLOTS / 2);
}

TEST_MAIN()
