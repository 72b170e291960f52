/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The stable array: elements stay where they are and keep both their parts while it grows, and it
 * takes two mappings. A region's parts are found by its slot offset as by its number.
 */
#include "core/base/stable_array.h"
#include "core/cache/thread_cache.h"
#include "core/mr/mr.h"
#include "tests/support/test.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define ELEMENTS 5000u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool holds(const char *bytes, size_t size, char value)
{
    while (size && *bytes == value) {
        bytes++;
        size--;
    }
    return size == 0;
}

static bool element_holds(const struct stable_array *array, uint32_t number, char value)
{
    return holds(stable_array_at(array, number), array->size, value) &&
           (!array->second ||
            holds(stable_array_second_at(array, number), array->second, (char)~value));
}

static void fill(const struct stable_array *array, uint32_t number, char value)
{
    memset(stable_array_at(array, number), value, array->size);
    if (array->second)
        memset(stable_array_second_at(array, number), ~value, array->second);
}

static char value_of(uint32_t number)
{
    return (char)(number % 251);
}

/* New elements are zero, and those before keep what was written to them. */
static void keeps_what_it_holds(size_t size, size_t second)
{
    struct stable_array array;
    uint32_t number = STABLE_ARRAY_FIRST;
    unsigned char resident;

    stable_array_init(&array, size, second);
    while (array.end < ELEMENTS) {
        assert_true(stable_array_grow(&array, array.end, &lock));
        for (; number < array.end; number++) {
            assert_true(holds(stable_array_at(&array, number), size, 0));
            assert_true(!second || holds(stable_array_second_at(&array, number), second, 0));
            fill(&array, number, value_of(number));
        }
    }
    for (number = STABLE_ARRAY_FIRST; number < array.end; number++)
        assert_true(element_holds(&array, number, value_of(number)));
    stable_array_free(&array);
    assert_int_equal(mincore(array.base, 1, &resident), -1); /* nothing is mapped there */
}

TEST(grow__elements_of_any_size__keep_what_they_hold)
{
    static const size_t sizes[][2] = {{8, 0}, {48, 64}, {64, 48}, {16, 8}, {104, 24}, {4096, 4096}};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        keeps_what_it_holds(sizes[i][0], sizes[i][1]);
}

/* The least reservation, of 1,024 elements, fits the address space that is left; the next does not.
 */
TEST(grow__address_space_limited__by_a_smaller_reservation)
{
    struct stable_array array;
    struct rlimit before, low;
    void *more;
    bool grown;

    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    low = before;
    low.rlim_cur = test_mapped_pages() * (rlim_t)sysconf(_SC_PAGESIZE) + (8u << 20);
    stable_array_init(&array, 4096, 0);
    assert_int_equal(setrlimit(RLIMIT_AS, &low), 0);
    more = mmap(NULL, 16u << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    grown = stable_array_grow(&array, array.end, &lock);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    if (more != MAP_FAILED)
        test_skip("RLIMIT_AS does not hold here: an emulator");
    assert_true(grown);
    assert_int_equal(array.reserved_end, 1024);
    stable_array_free(&array);
}

TEST(slot_offset__of_each_region__names_both_its_parts)
{
    char *base = (char *)(uintptr_t)0x100000000000;
    struct stable_array array = {
        .base = base, .size = sizeof(struct hmreg_mr), .second = sizeof(struct mr_body)};

    for (uint32_t number = STABLE_ARRAY_FIRST; number < 1u << 24; number += number / 97 + 1) {
        uint32_t offset = pin_slot_offset(number);

        assert_ptr_equal(mr_at(base, offset), stable_array_at(&array, number));
        assert_ptr_equal(mr_body_in(base, offset), stable_array_second_at(&array, number));
    }
}

TEST_MAIN()
