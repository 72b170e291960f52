/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Which memory is writable and executable while hooks are placed and removed: a process that does
 * so stops at each of its system calls, and its parent reads its list of mappings there. None is
 * both. Where the kernel lets code be changed in no other way, only the code of files that are
 * hooked may be, while one of its instructions is replaced; never the pages of stubs. That nothing
 * is left of it is in memhooks.c.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/code_filters.h"
#include "tests/support/code_watch.h"

/* In a process without stubs yet. */
static int place_and_remove(bool moves)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_MEMHOOKS};
    struct hmreg *lib;
    int rc = 0;

    if ((!moves && !code_filter_moves()) || code_watch_begin())
        return 77;
    for (int i = 0; !rc && i < 2; i++) {
        rc = hmreg_open(&config, &lib);
        if (rc == -EOPNOTSUPP)
            return 77;
        rc = rc ? rc : hmreg_close(lib);
    }
    return rc != 0;
}

static struct code_watch place_and_look(bool moves)
{
    static const char *const hooked[] = {"/libc.so", "/ld-linux", NULL};
    struct code_watch seen = {.files = hooked};
    int rc;
    pid_t child;

    if (FIXTURE_SANITIZED)
        test_skip("what the linker finds is the sanitizer's");
    fflush(NULL);
    child = fork();
    if (child == 0)
        _exit(place_and_remove(moves));
    rc = code_watch(child, &seen);
    if (rc == 77)
        test_skip("memhooks, filters or ptrace(2) cannot be used here");
    assert_int_equal(rc, 0);
    assert_true(seen.stops > 50);
    assert_int_equal(seen.left, 0);
    if (seen.other)
        fail_msg("writable and executable: %s", seen.line);
    return seen;
}

TEST(open_and_close__at_each_system_call__nothing_writable_and_executable)
{
    if (!code_moves())
        test_skip("this kernel lets no code be changed but writable code");
    assert_int_equal(place_and_look(true).code, 0);
}

TEST(open_and_close__code_must_be_writable__only_hooked_code_is)
{
    assert_true(place_and_look(false).code > 0);
}

TEST_MAIN()
