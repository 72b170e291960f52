/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Counts the cache's calls of userfaultfd: a miss settles once and asks the kernel once to watch
 * its memory. The test interposes ioctl().
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/inside.h"
#include "tests/support/queries.h"

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#define PAGES 64

static atomic_uint settles, watches, unwatches;
/* Unwatches count here only. At the monitor thread's end each mapping is unwatched, if it is
 * watched or not. */
static uintptr_t counted, counted_end;

static bool is_counted(const struct uffdio_range *range)
{
    return range->start < counted_end && counted < range->start + range->len;
}

int __real_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg);

int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
    atomic_fetch_add(&settles, request == UFFDIO_COPY);
    atomic_fetch_add(&watches, request == UFFDIO_REGISTER);
    atomic_fetch_add(&unwatches, request == UFFDIO_UNREGISTER && is_counted(arg));
    return __real_ioctl(fd, request, arg);
}

static void open_fixture(void)
{
    inside_set_idle(INT64_MAX); /* it would unwatch, too */
    fixture_open(HMREG_MONITOR_USERFAULTFD, NULL);
}

static void count_in(const char *memory, size_t pages)
{
    counted = (uintptr_t)memory;
    counted_end = counted + pages * fixture_page();
    unwatches = 0;
}

static void remember_each(char *memory, size_t pages)
{
    for (size_t i = 0; i < pages; i++)
        fixture_key(memory + i * fixture_page(), fixture_page());
}

TEST(miss__nothing_there_before__settles_and_watches_once)
{
    char *memory = fixture_map(PAGES), *first = fixture_map(1);

    open_fixture();
    fixture_key(first, 10); /* starts the monitor's thread, which watches its own memory */
    settles = watches = 0;
    remember_each(memory, PAGES);
    assert_int_equal(watches, PAGES);
    assert_int_equal(settles, PAGES);
    fixture_close();
    munmap(memory, PAGES * fixture_page());
    munmap(first, fixture_page());
}

TEST(hit__by_the_tree__settles)
{
    char *memory = fixture_map(1);

    open_fixture();
    fixture_key(memory, fixture_page());
    settles = 0;
    assert_int_equal(fixture_key(memory + 1, 10), 1);
    assert_int_equal(settles, 1);
    fixture_close();
    munmap(memory, fixture_page());
}

TEST(flush__neighbours__none_is_watched_any_more)
{
    size_t len = PAGES * fixture_page();
    char *memory = fixture_map(PAGES);

    open_fixture();
    for (int round = 0; round < 2;
         round++) { /* the second uses the entries in the opposite order */
        remember_each(memory, PAGES);
        count_in(memory, PAGES);
        assert_ok(hmreg_domain_flush(fixture.domain));
        assert_in_range(unwatches, 1, PAGES + 1);
    }
    munmap(memory, len);
    assert_int_equal(test_monitor_info(fixture.lib).events, 0); /* none of it was still watched */
}

/* The kernel walks the pages that it unwatches. A large mapping is not unwatched at once, since the
 * program would pay for that with each region that it invalidates there. */
TEST(cache_set_flush__large_mapping__unwatched_when_tidied)
{
    size_t pages = (40u << 20) / fixture_page();
    char *memory = fixture_map_at(fixture_reserve(pages), pages);

    open_fixture();
    count_in(memory, pages);
    for (int round = 0; round < 10; round++) {
        fixture_key(memory, pages * fixture_page());
        assert_int_equal(inside_flush(fixture.domain), 0);
    }
    assert_int_equal(unwatches, 0);
    assert_true(inside_tidy(fixture.lib));
    assert_false(inside_tidy(fixture.lib));
    assert_in_range(unwatches, 1, 2); /* 2 where the mapping crosses a multiple of 1 GiB */
    munmap(memory, pages * fixture_page());
    assert_int_equal(test_monitor_info(fixture.lib).events, 0);
}

/* No thread would tidy later: none is left. */
TEST(flush__large_mapping__unwatched_at_once)
{
    size_t pages = (40u << 20) / fixture_page();
    char *memory = fixture_map_at(fixture_reserve(pages), pages);

    open_fixture();
    fixture_key(memory, pages * fixture_page());
    count_in(memory, pages);
    assert_ok(hmreg_domain_flush(fixture.domain));
    assert_in_range(unwatches, 1, 4);
    assert_false(inside_tidy(fixture.lib));
    munmap(memory, pages * fixture_page());
    assert_int_equal(test_monitor_info(fixture.lib).events, 0);
}

TEST(flush__neighbour_of_another_domain__stays_watched)
{
    char *memory = fixture_map(PAGES), *middle = memory + PAGES / 2 * fixture_page();
    struct fixture other;

    open_fixture();
    other = (struct fixture){fixture.lib, counter_open_more(fixture.lib, NULL)};
    remember_each(memory, PAGES);
    fixture_key_in(&other, middle, fixture_page());
    assert_ok(hmreg_domain_flush(fixture.domain));
    munmap(memory, PAGES * fixture_page());
    assert_int_equal(fixture_stats_in(&other).invalidations, 1);
    assert_ok(hmreg_domain_close(other.domain));
}

TEST_MAIN()
