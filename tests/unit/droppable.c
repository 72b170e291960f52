/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Places of memory that the kernel may zero: each is taken once, and a child has its own.
 */
#include "core/base/droppable.h"
#include "tests/support/test.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define MOST 20000
#define LEN  500

static bool has_none; /* the kernel */
static char *places[MOST];

void *__real_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset);

void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
    if (has_none && (flags & MAP_TYPE) == MAP_DROPPABLE) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    return __real_mmap(addr, len, prot, flags, fd, offset);
}

static char *take_or_skip(size_t bytes)
{
    char *taken = droppable_take(bytes);

    if (!taken)
        test_skip("the kernel has no MAP_DROPPABLE");
    return taken;
}

static unsigned take_all(size_t bytes)
{
    unsigned count = 0;

    while (count < MOST && (places[count] = droppable_take(bytes))) {
        memset(places[count], (int)(count % 255 + 1), bytes);
        count++;
    }
    return count;
}

static void give_back_all(unsigned count)
{
    while (count)
        assert_true(droppable_give_back(places[--count]));
}

/* A place that two have would have the bytes of the later one. */
TEST(take__until_none_is_left__each_its_own_and_again_zeroed)
{
    static const char zeroes[LEN];
    unsigned count;

    assert_true(droppable_give_back(take_or_skip(LEN)));
    count = take_all(LEN);
    assert_in_range(count, 14000, MOST - 1);
    for (unsigned i = 0; i < count; i++)
        for (size_t byte = 0; byte < LEN; byte += LEN - 1)
            assert_int_equal(places[i][byte] & 255, i % 255 + 1);
    give_back_all(count);
    assert_int_equal(take_all(LEN), count);
    give_back_all(count);
    assert_memory_equal(droppable_take(LEN), zeroes, LEN);
    assert_true(droppable_give_back(places[0]));
}

TEST(take__more_than_a_place_has__null)
{
    assert_true(droppable_give_back(take_or_skip(16000)));
    assert_null(droppable_take(17000));
}

TEST(give_back__other_memory__false)
{
    assert_true(droppable_give_back(take_or_skip(LEN)));
    assert_false(droppable_give_back(places));
    assert_false(droppable_give_back(NULL));
}

/* 0: the parent's memory is zeroed, and no place is taken in the child. */
static int child_check(const char *parents, unsigned parents_count)
{
    if (*parents || droppable_give_back((void *)(uintptr_t)parents))
        return 1;
    return take_all(LEN) == parents_count ? 0 : 2;
}

TEST(fork__child_has_its_own)
{
    unsigned count;

    assert_true(droppable_give_back(take_or_skip(LEN)));
    count = take_all(LEN);
    test_in_child(child_check(places[0], count));
    assert_int_equal(places[0][0], 1);
    give_back_all(count);
}

/* In a child, which has no mapping yet. */
static int check_none(void)
{
    has_none = true;
    return droppable_take(LEN) || droppable_take(LEN) || droppable_give_back(places);
}

TEST(take__kernel_has_none__null)
{
    test_in_child(check_none());
}

TEST_MAIN()
