/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The stable array: elements stay where they are and keep both their parts while it grows, and it
 * takes two mappings. A region's parts are found by its slot offset as by its number.
 */
#include "core/base/stable_array.h"
#include "core/base/populate.h"
#include "core/cache/thread_cache.h"
#include "core/mr/mr.h"
#include "tests/support/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ELEMENTS 5000u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static char *populated; /* up to where */
static bool gaps;

void __real_populate(void *start, size_t bytes);
void __wrap_populate(void *start, size_t bytes);

void __wrap_populate(void *start, size_t bytes)
{
    gaps = gaps || (populated && populated != (char *)start);
    populated = (char *)start + bytes;
    __real_populate(start, bytes);
}

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

    populated = NULL;
    stable_array_init(&array, size, second);
    while (array.end < ELEMENTS) {
        assert_true(stable_array_grow(&array, array.end, &lock));
        assert_false(gaps);
        assert_true(populated >= (char *)stable_array_at(&array, array.end - 1) + size);
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

static bool is_resident(char *page)
{
    unsigned char resident = 0;

    assert_return_code(mincore(page, 1, &resident), errno);
    return resident & 1;
}

TEST(populate__a_range__its_whole_pages)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(pages, MAP_FAILED);
    assert_return_code(madvise(pages, 8 * page, MADV_NOHUGEPAGE), errno);
    if (madvise(pages, page, 23) || !is_resident(pages)) /* MADV_POPULATE_WRITE */
        test_skip("the kernel does not populate: it is older than Linux 5.14, or emulated");
    errno = 77;
    populate(pages + page + 1, 3 * page);
    populate(pages + 5 * page, page);
    populate(pages + 7 * page, page - 1);
    assert_int_equal(errno, 77);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(is_resident(pages + i * page), i == 0 || i == 2 || i == 3 || i == 5);
    munmap(pages, 8 * page);
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
