/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See test.h. Each case runs as a cmocka group of its own, so that its result is known exactly:
 * failed (cmocka counted it), passed (it came back), skipped (neither).
 */
#include "tests/support/test.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum outcome { PASSED, FAILED, SKIPPED };

static const struct test_case *current;
static int returned;

int test_count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    if (!dir)
        return -1;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

void test_skip(const char *format, ...)
{
    char why[512];
    va_list args;

    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    if (getenv("HMREG_TEST_NO_SKIP") && !strcmp(getenv("HMREG_TEST_NO_SKIP"), "1"))
        fail_msg("%s would be skipped, and skips are failures here: %s", current->name, why);
    print_message("SKIPPED because: %s\n", why);
    skip();
    abort(); /* skip() does not return */
}

void test_forks_with_threads(void)
{
#ifdef __SANITIZE_THREAD__
    test_skip("ThreadSanitizer does not follow forks of a process with threads");
#endif
}

unsigned long test_times(unsigned long usual)
{
    const char *value = getenv("HMREG_TEST_PART");
    unsigned long part = value ? strtoul(value, NULL, 0) : 1;

    if (part == 0)
        fail_msg("HMREG_TEST_PART is %s, not 1 or more", value);
    return usual < part ? 1 : usual / part;
}

/* The count once it is no more than before. Threads of a server or of a fabric close a connection
 * when they learn that the other side did, which may be a moment later; a leak stays. */
static int settled_fds(int before)
{
    const struct timespec moment = {.tv_nsec = 10000000};
    int count = test_count_fds();

    for (int i = 0; i < 200 && count > before; i++) {
        nanosleep(&moment, NULL);
        count = test_count_fds();
    }
    return count;
}

static void print_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        char target[256] = "";

        if (readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1) > 0)
            print_message("descriptor %s is %s\n", entry->d_name, target);
    }
    if (dir)
        closedir(dir);
}

static void run_current(void **state)
{
    int before = test_count_fds();
    int after;

    current->run(state);
    after = settled_fds(before);
    if (before != after) {
        print_fds();
        fail_msg("%s: %d descriptors open before, %d after", current->name, before, after);
    }
    returned = 1;
}

static enum outcome run_case(const struct test_case *test)
{
    const struct CMUnitTest unit[] = {{test->name, run_current, NULL, NULL, NULL}};

    current = test;
    returned = 0;
    if (cmocka_run_group_tests_name(test->name, unit, NULL, NULL))
        return FAILED;
    return returned ? PASSED : SKIPPED;
}

int test_main(int argc, char **argv, const struct test_case *cases, size_t count)
{
    unsigned results[3] = {0};

    /* Lazily opened descriptors of libc and sanitizers come before the first count. */
    (void)test_count_fds();
    for (size_t i = 0; i < count; i++) {
        if (argc > 1 && !strstr(cases[i].name, argv[1]))
            continue;
        results[run_case(&cases[i])]++;
    }
    printf("%u passed, %u failed, %u skipped\n", results[PASSED], results[FAILED],
           results[SKIPPED]);
    if (results[FAILED])
        return 1;
    if (results[PASSED])
        return 0;
    return results[SKIPPED] ? 77 : 1;
}
