/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Several users of userfaultfd: two libraries in one process, a parent and its child, one library
 * after the other. Each receives the changes of its own memory, and no watch outlives its library.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/inside.h"

#include <sys/mman.h>

static void open_fixture(void)
{
    fixture_open(HMREG_MONITOR_USERFAULTFD, NULL);
}

static bool has_userfaultfd(void)
{
    for (int fd = 0; fd < 256; fd++) {
        char path[64], target[64] = "";

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (readlink(path, target, sizeof(target) - 1) > 0 && strstr(target, "userfaultfd"))
            return true;
    }
    return false;
}

static int childs_part(char *memory)
{
    if (has_userfaultfd())
        return 1;
    return fixture_in_child(open_fixture, memory);
}

TEST(fork__child_continues__parent_is_notified_and_child_has_its_own)
{
    char *memory = fixture_map(1);

    if (TEST_TSAN)
        test_skip("ThreadSanitizer forbids threads in a forked child");
    open_fixture();
    assert_true(has_userfaultfd());
    fixture_key(memory, 10);
    test_in_child(childs_part(memory));
    assert_int_equal(fixture_key(memory, 10), 1);
    munmap(memory, fixture_page());
    assert_int_equal(fixture_stats().invalidations, 1);
}

static unsigned forgotten;

static void forget(void)
{
    forgotten++;
}

TEST(fork__another_kind_of_monitor_beside__it_forgets_its_parents_once)
{
    open_fixture();
    assert_true(inside_forget_at_fork(forget));
    assert_true(inside_forget_at_fork(forget));
    test_in_child(forgotten != 1);
    assert_int_equal(forgotten, 0);
}

TEST(close__nothing_is_watched_and_no_thread_is_left)
{
    char *memory = fixture_map(1);

    for (int i = 0; i < 20; i++) {
        open_fixture();
        fixture_key(memory, 10);
        fixture_close();
        assert_false(has_userfaultfd());
    }
    munmap(memory, fixture_page()); /* would hang if a userfaultfd still watched */
}

TEST_MAIN()
