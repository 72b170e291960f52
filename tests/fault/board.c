/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A library that cannot publish its counters, or not all of them, works, counts, and reports that.
 */
#include "tests/fault/faults.h"
#include "tests/support/test.h"
#include "tests/support/vendors.h"

#include "core/stats/cache_stats.h"

#include <hmreg/loopback.h>
#include <sys/mman.h>
#include <sys/resource.h>

static char memory[4096];

static const struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_IMPORT};

/* The number of caches published by a library in which one miss was counted. */
static uint64_t shown_in(struct hmreg *lib)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};
    struct hmreg_domain *domain;
    struct hmreg_mr *mr;

    assert_ok(hmreg_domain_open_loopback(lib, NULL, NULL, &domain));
    assert_ok(hmreg_mr_get(domain, memory, sizeof(memory), HMREG_SEND, &mr));
    hmreg_mr_put(mr);
    assert_ok(hmreg_domain_stats(domain, &stats));
    assert_int_equal(stats.misses, 1);
    assert_true(stats.caches > 0);
    assert_ok(hmreg_domain_close(domain));
    return stats.shown;
}

/* Opens with the nth call failing. NULL: fewer calls were made. */
static const char *open_with(unsigned nth, struct hmreg **lib)
{
    const char *fired;
    int rc;

    faults_arm(nth);
    rc = hmreg_open(&config, lib);
    fired = faults_fired();
    faults_arm(0);
    if (rc)
        *lib = NULL;
    return fired;
}

TEST(page__cannot_be_had__works_and_is_not_shown)
{
    static const char *const calls[] = {"memfd_create", "fallocate", "mmap", "fcntl(F_ADD_SEALS)"};
    unsigned unseen[4] = {0};
    const char *fired;

    vendors_reset();
    for (unsigned nth = 1;; nth++) {
        struct hmreg *lib;
        long mappings = faults_mappings();

        fired = open_with(nth, &lib);
        if (lib && fired)
            for (int i = 0; i < 4; i++)
                unseen[i] += !strcmp(fired, calls[i]) && !shown_in(lib);
        assert_ok(hmreg_close(lib));
        if (!fired)
            break;
        assert_true(faults_mappings() <=
                    mappings + 3); /* the epoch, gates, and the reaper's page stay */
    }
    for (int i = 0; i < 4; i++)
        if (!unseen[i])
            fail_msg("no failure of %s left the page away", calls[i]);
}

TEST(page__no_descriptor_left__works_and_is_not_shown)
{
    struct rlimit before, none;
    struct hmreg *lib;
    int fd = dup(STDERR_FILENO);

    close(fd); /* the next free descriptor */
    vendors_reset();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = (rlim_t)fd;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_ok(hmreg_open(&config, &lib));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(shown_in(lib), 0);
    assert_ok(hmreg_close(lib));
}

TEST(page__longer_than_files_may_be__works_and_is_not_shown)
{
    struct rlimit before, little;
    struct hmreg *lib;

    vendors_reset();
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    little = before;
    little.rlim_cur = sizeof(struct stats_layout) - 1;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    assert_ok(hmreg_open(&config, &lib)); /* SIGXFSZ would end the test */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(shown_in(lib), 0);
    assert_ok(hmreg_close(lib));
}

/* A process that locks all its memory and may lock little. 77: it has no such limit. */
static int locked(void)
{
    struct rlimit little = {1 << 16, 1 << 16};
    struct hmreg *lib;
    void *probe;

    if (setrlimit(RLIMIT_MEMLOCK, &little) || (geteuid() == 0 && seteuid(65534)) ||
        mlockall(MCL_FUTURE))
        return 77;
    probe = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (probe != MAP_FAILED)
        return 77;
    if (hmreg_open(&config, &lib))
        return 1;
    return hmreg_close(lib) ? 2 : 0;
}

TEST(page__memory_locked_up_to_the_limit__opens_all_the_same)
{
    vendors_reset();
    test_in_child_or_skip(locked(), "this process may lock all the memory there is");
}

TEST(row__no_memory__the_caller_counts)
{
    static struct stats_page none;
    struct cache_stats stats;

    cache_stats_open(&stats, &none, NULL, HMREG_IFACE_SYSTEM, -1);
    faults_arm(1);
    assert_null(cache_stats_join(&stats));
    faults_arm(0);
    cache_stats_leave(&stats, NULL);
    cache_stats_close(&stats);
}

TEST_MAIN()
