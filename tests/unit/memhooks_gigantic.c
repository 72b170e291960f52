/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * memhooks and pages of 1 GiB, of which two are free on few machines: as root,
 *     echo 2 >/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages
 */
#include "tests/support/cache_fixture.h"

#include <linux/mman.h>
#include <sys/mman.h>

#define GIB (UINT64_C(1) << 30)

/* One page, of which only the first bytes are touched. */
static char *map_page(char *at)
{
    char *memory =
        mmap(at, GIB, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_1GB | MAP_FIXED, -1, 0);

    if (memory == MAP_FAILED)
        test_skip("no page of 1 GiB is free: %s", strerror(errno));
    memory[0] = 1;
    return memory;
}

/* The kernel moves the whole page, over small pages at the other place. */
TEST(mremap__of_a_part_of_a_page_of_1_gib__all_of_it_registered_anew)
{
    char *reserved =
        mmap(NULL, 4 * GIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *place = (char *)(((uintptr_t)reserved + GIB - 1) & ~(GIB - 1)), *over;
    size_t page = fixture_page();
    uint64_t keys[3];

    assert_ptr_not_equal(reserved, MAP_FAILED);
    map_page(place);
    over = mmap(place + 2 * GIB - page, page, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    assert_ptr_not_equal(over, MAP_FAILED);
    fixture_open(fixture_monitor(), NULL);
    keys[0] = fixture_key(place, page);
    keys[1] = fixture_key(place + GIB / 2, page);
    keys[2] = fixture_key(over, page);
    if (mremap(place, page, page, MREMAP_MAYMOVE | MREMAP_FIXED, place + GIB) == MAP_FAILED) {
        fixture_close();
        test_skip("this kernel moves no huge pages: %s", strerror(errno));
    }
    map_page(place);
    assert_int_not_equal(fixture_key(place, page), keys[0]);
    assert_int_not_equal(fixture_key(place + GIB / 2, page), keys[1]);
    assert_int_not_equal(fixture_key(over, page), keys[2]);
    fixture_close();
    munmap(reserved, 4 * GIB);
}

TEST_MAIN()
