/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A sandbox that begins while userfaultfd watches memory, and refuses every thread a call that the
 * monitor needs: no change of memory, and no close, waits for ever.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/code_filters.h"

#include <string.h>
#include <sys/mman.h>

#define NO_FILTERS 77 /* the exit status of a skipped test */

/* A call that waits for an event that no thread reads waits for ever. */
static void open_fixture(void)
{
    alarm(TEST_PATIENCE_SECONDS);
    fixture_open(HMREG_MONITOR_USERFAULTFD, NULL);
}

/* Two cached regions; *changed is to be unmapped. */
static char *open_with_two(char **changed)
{
    char *memory = fixture_map(1);

    *changed = fixture_map(1);
    open_fixture();
    assert_int_equal(fixture_key(memory, fixture_page()), 1);
    assert_int_equal(fixture_key(*changed, fixture_page()), 2);
    assert_int_equal(fixture_key(memory, fixture_page()), 1);
    return memory;
}

static void check_disabled(const char *why)
{
    struct hmreg_monitor_info info = {.size = sizeof(info)};

    assert_ok(hmreg_monitor_query(fixture.lib, &info));
    assert_int_equal(info.active, HMREG_MONITOR_DISABLED);
    assert_non_null(strstr(info.why, why));
}

/* Where the list of mappings is read as text, the get fails. */
static void check_uncached(char *memory)
{
    struct hmreg_mr *mr = NULL;

    if (hmreg_mr_get(fixture.domain, memory, fixture_page(), HMREG_ACCESS_ALL, &mr))
        return;
    assert_false(fixture_is_cached(mr));
    hmreg_mr_put(mr);
}

/* ---- read(2) ---------------------------------------------------------------------------- */

static int change_unread(bool shared)
{
    char *changed, *memory;

    if (shared && !code_filter_refuse(SYS_close_range, EPERM))
        return NO_FILTERS;
    memory = open_with_two(&changed);
    if (!code_filter_refuse_all(SYS_read, EPERM))
        return NO_FILTERS;
    assert_int_equal(munmap(changed, fixture_page()), 0);
    check_uncached(memory);
    check_disabled("read(2)");
    assert_int_equal(munmap(memory, fixture_page()), 0);
    fixture_close();
    return 0;
}

/* ThreadSanitizer does not survive its own report. */
static void need_races(void)
{
    if (TEST_TSAN)
        test_skip("the library closes what another thread may ask about: a race, on purpose");
}

TEST(change__read_refused__goes_on_and_the_monitor_is_disabled)
{
    need_races();
    test_in_child_or_skip(change_unread(false), "this kernel has no seccomp filters");
}

TEST(change__read_refused_and_the_table_shared__goes_on)
{
    need_races();
    test_in_child_or_skip(change_unread(true), "this kernel has no seccomp filters");
}

/* No other thread of the program is left that could close the descriptor. */
static int close_unread(void)
{
    char *changed, *memory = open_with_two(&changed);

    if (!code_filter_refuse_all(SYS_read, EPERM))
        return NO_FILTERS;
    fixture_close();
    assert_int_equal(munmap(changed, fixture_page()), 0);
    assert_int_equal(munmap(memory, fixture_page()), 0);
    return 0;
}

TEST(close__read_refused__returns)
{
    test_in_child_or_skip(close_unread(), "this kernel has no seccomp filters");
}

static int open_unread(void)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_USERFAULTFD};
    struct hmreg *lib;

    if (hmreg_open(&config, &lib) || hmreg_close(lib) || !code_filter_refuse_all(SYS_read, EPERM))
        return NO_FILTERS;
    assert_int_equal(hmreg_open(&config, &lib), -EPERM);
    assert_non_null(strstr(hmreg_last_error()->text, "read(2)"));
    return 0;
}

TEST(open__read_refused__eperm)
{
    test_in_child_or_skip(open_unread(), "userfaultfd or a seccomp filter is not possible here");
}

/* ---- other calls ------------------------------------------------------------------------ */

static int change_without_fstat(void)
{
    char *changed, *memory = open_with_two(&changed), *other = fixture_map(1);

    if (!code_filter_refuse_all(SYS_newfstatat, EPERM) || /* libc's fstat(3) is one of both */
        !code_filter_refuse_all(SYS_fstat, EPERM))
        return NO_FILTERS;
    assert_int_equal(munmap(changed, fixture_page()), 0);
    check_uncached(other);
    check_disabled("the monitor's descriptor");
    assert_int_equal(munmap(other, fixture_page()), 0);
    assert_int_equal(munmap(memory, fixture_page()), 0);
    fixture_close();
    return 0;
}

TEST(change__fstat_refused__goes_on)
{
    test_in_child_or_skip(change_without_fstat(), "this kernel has no seccomp filters");
}

static int open_without_close(void)
{
    char *changed, *memory = open_with_two(&changed);

    if (!code_filter_refuse_all(SYS_close, EPERM))
        return NO_FILTERS;
    fixture_close();
    assert_int_equal(munmap(changed, fixture_page()), 0);
    open_fixture();
    assert_int_equal(fixture_key(memory, fixture_page()), 1);
    fixture_close();
    assert_int_equal(munmap(memory, fixture_page()), 0);
    return 0;
}

TEST(open__close_refused__returns)
{
    test_in_child_or_skip(open_without_close(), "this kernel has no seccomp filters");
}

TEST_MAIN()
