/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A program whose own brk() precedes libc's: it enters the kernel itself, and not in the form
 * that can be hooked. The library must not miss such a function silently.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/code_filters.h"

#include <hmreg/hmreg.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
int brk(void *addr)
{
    int result;

    __asm__ volatile("nop\n\tsyscall" : "=a"(result) : "a"(12), "D"(addr) : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
int brk(void *addr)
{
    register long x8 __asm__("x8") = SYS_brk;
    register void *x0 __asm__("x0") = addr;

    __asm__ volatile("svc #1" : "+r"(x0) : "r"(x8) : "memory");
    return (int)(intptr_t)x0;
}
#endif

TEST(open__a_function_that_cannot_be_hooked__opnotsupp_and_which)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_MEMHOOKS};
    struct hmreg *lib = NULL;

    assert_fails(hmreg_open(&config, &lib), -EOPNOTSUPP, "memhooks");
    assert_null(lib);
#if defined(__x86_64__) || defined(__aarch64__)
    assert_non_null(strstr(hmreg_last_error()->text, "brk()"));
    assert_non_null(strstr(hmreg_last_error()->text, "userfaultfd"));
#endif
    config.monitor = HMREG_MONITOR_DEFAULT;
    setenv("FI_MR_CACHE_MONITOR", "memhooks", 1);
    assert_fails(hmreg_open(&config, &lib), -EOPNOTSUPP, "memhooks");
    unsetenv("FI_MR_CACHE_MONITOR");
    assert_ok(hmreg_open(&config, &lib)); /* refused only if the config requests hooks */
    assert_ok(hmreg_close(lib));
}

TEST(get__default_and_libc_cannot_be_hooked__userfaultfd_and_why)
{
    struct hmreg_monitor_info info = {.size = sizeof(info)};
    char *memory = fixture_map(1);
    struct rlimit before, none = {0};

    fixture_open(HMREG_MONITOR_USERFAULTFD, NULL); /* or skips */
    fixture_close();
    fixture_open(HMREG_MONITOR_DEFAULT, NULL);
    assert_ok(hmreg_monitor_query(fixture.lib, &info));
    assert_int_equal(info.active, HMREG_MONITOR_DEFAULT);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0); /* as long as no descriptor is left */
    assert_int_equal(fixture_key(memory, 10), 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_ok(hmreg_monitor_query(fixture.lib, &info));
    assert_int_equal(info.active, HMREG_MONITOR_DEFAULT);
    assert_int_equal(fixture_key(memory, 10), 2);
    assert_ok(hmreg_monitor_query(fixture.lib, &info));
    assert_int_equal(info.active, HMREG_MONITOR_USERFAULTFD);
    assert_int_equal(info.userfaultfd, 1);
    assert_ptr_equal(strstr(info.why, "memhooks: "), info.why);
    assert_null(strstr(info.why, "userfaultfd: "));
    munmap(memory, fixture_page());
    assert_non_null(fixture_map_at(memory, 1));
    assert_int_equal(fixture_key(memory, 10), 3);
    munmap(memory, fixture_page());
}

/* ---- without a monitor ------------------------------------------------------------------ */

/* Is the whole reason told of userfaultfd, and of the counter, which is last? */
static bool tells_each(const char *why)
{
    static const char absent[] = "; counter: there is no /dev/hmreg, the kernel module "
                                 "hmreg_counter is not loaded";
    const char *filtered = strstr(why, "; userfaultfd is not used: a seccomp filter might"),
               *file = strstr(why, "; and /dev/userfaultfd: "), *last = strstr(why, "; counter: ");

    return filtered && file && last && filtered < file && file < last &&
           (!access("/dev/hmreg", F_OK) || !strcmp(last, absent));
}

/* The stderr of a program that gets host memory twice. */
static int without_any_monitor(char *memory)
{
    struct hmreg_monitor_info info = {.size = sizeof(info)};

    if (!code_filter_userfaultfd(SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ERRNO | EPERM))
        return 77;
    fixture_open(HMREG_MONITOR_DEFAULT, NULL);
    if (fixture_key(memory, 10) != 1 || fixture_key(memory, 10) != 2)
        return 1;
    if (hmreg_monitor_query(fixture.lib, &info) || info.active != HMREG_MONITOR_DISABLED)
        return 2;
    if (!strstr(info.why, "memhooks: ") || !(FIXTURE_SANITIZED || strstr(info.why, "brk()")))
        return 3;
    if (!tells_each(info.why))
        return 4;
    fixture_close();
    return 0;
}

static void run_without_any(char *out, size_t size)
{
    char *memory = fixture_map(1);
    int ends[2];
    ssize_t len;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        _exit(without_any_monitor(memory));
    }
    close(ends[1]);
    test_await_or_skip(child, "this system has no seccomp filters");
    len = read(ends[0], out, size - 1);
    out[len < 0 ? 0 : len] = '\0';
    close(ends[0]);
    munmap(memory, fixture_page());
}

TEST(get__no_monitor_to_be_had__one_line_unless_it_is_not_wanted)
{
    char text[2048];

    unsetenv("HMREG_LOG");
    run_without_any(text, sizeof(text));
    assert_ptr_equal(strstr(text, "hmreg: error: each get registers host memory anew"), text);
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    setenv("HMREG_LOG", "off", 1);
    run_without_any(text, sizeof(text));
    assert_string_equal(text, "");
    unsetenv("HMREG_LOG");
}

TEST_MAIN()
