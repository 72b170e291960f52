/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The monitor's userfaultfd as a descriptor: how it is opened if filters forbid the system call,
 * and what happens if the program closes it, or if a child made without fork handlers inherits it.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/code_filters.h"

#include "core/monitor/userfaultfd/uffd.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/userfaultfd.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#ifndef UFFD_FEATURE_EXACT_ADDRESS
#define UFFD_FEATURE_EXACT_ADDRESS (1 << 11)
#endif

static void open_fixture(const struct hmreg_domain_config *config)
{
    fixture_open(HMREG_MONITOR_USERFAULTFD, config);
}

/* A domain whose hits make no system call. */
static void open_trusting(void)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .check = {HMREG_CHECK_NOTICE}};

    open_fixture(&config);
}

/* ---- how it is opened ------------------------------------------------------------------- */

TEST(exact__by_what_the_kernel_says)
{
    assert_true(uffd_is_exact(UFFD_FEATURE_EXACT_ADDRESS, "5.14.0-362.el9.x86_64"));
    assert_true(uffd_is_exact(0, "5.15.0-91-generic"));
    assert_true(uffd_is_exact(0, "6.1.0"));
    assert_false(uffd_is_exact(0, "5.14.21"));
    assert_false(uffd_is_exact(0, "5.4.0"));
    assert_false(uffd_is_exact(0, "4.20"));
    assert_false(uffd_is_exact(0, "unknown"));
}

#define OPENED 100 /* an exit status, and no error */

static bool has_file(void)
{
    int fd = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* Opens it under a filter, in a child. OPENED, or the result of uffd_open(). */
static int open_filtered(uint32_t call, uint32_t file, bool by_name)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        struct owned_fd fd;

        if (!code_filter_userfaultfd(call, file))
            _exit(77);
        _exit(uffd_open(by_name, &fd) ? -hmreg_last_error()->code : OPENED);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        test_skip("this kernel has no seccomp filters");
    return WEXITSTATUS(status) == OPENED ? OPENED : -WEXITSTATUS(status);
}

/* Docker's default profile. */
TEST(open__call_refused__by_the_device_file)
{
    if (!has_file())
        test_skip("/dev/userfaultfd is not to be opened");
    assert_int_equal(open_filtered(SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW, false), OPENED);
    assert_int_equal(open_filtered(SECCOMP_RET_ERRNO | ENOSYS, SECCOMP_RET_ALLOW, true), OPENED);
}

/* By the call where that is permitted; where the file can be opened as well it is not, or one of
 * two descriptors would be lost. */
TEST(open__unfiltered__one_descriptor)
{
    int before = test_count_fds();
    struct owned_fd fd;

    if (uffd_open(true, &fd))
        test_skip("%s", hmreg_last_error()->text);
    assert_int_equal(test_count_fds(), before + 1);
    owned_fd_close(&fd);
    assert_int_equal(test_count_fds(), before);
}

TEST(open__filter_kills__not_called_unless_by_name)
{
    int permitted = has_file() ? OPENED : -EPERM;

    assert_int_equal(open_filtered(SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW, false), permitted);
    assert_int_equal(open_filtered(SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ERRNO | EPERM, false),
                     -EPERM);
    /* A filter that permits the call looks like one that kills, so the result is the same. */
    assert_int_equal(open_filtered(SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | EPERM, false), -EPERM);
}

TEST(open__both_refused__eperm)
{
    assert_int_equal(open_filtered(SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ERRNO | EPERM, true),
                     -EPERM);
}

TEST(open__filtered_and_by_name__called)
{
    struct owned_fd fd;
    int rc = uffd_open(true, &fd);

    if (rc)
        test_skip("%s", hmreg_last_error()->text);
    owned_fd_close(&fd);
    assert_int_equal(open_filtered(SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | EPERM, true), OPENED);
}

/* ---- the program closes it -------------------------------------------------------------- */

static int find_userfaultfd(void)
{
    for (int fd = 0; fd < 1024; fd++) {
        char path[64], target[64] = "";

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (readlink(path, target, sizeof(target) - 1) > 0 && strstr(target, "userfaultfd"))
            return fd;
    }
    return -1;
}

/* As closefrom(3) and an open(2) after it do. */
static void put_another_file_there(int fd)
{
    int other = open("/dev/null", O_RDWR | O_CLOEXEC);

    assert_true(other >= 0);
    assert_int_equal(dup3(other, fd, O_CLOEXEC), fd);
    close(other);
}

/* Closing what a thread polls is a race, and ThreadSanitizer does not survive its own report. */
static void need_races(void)
{
    if (TEST_TSAN)
        test_skip("the program closes what the library polls: a race, on purpose");
}

TEST(descriptor__closed_by_the_program__noticed_at_the_next_miss)
{
    size_t page = fixture_page();
    char *memory = fixture_map(1), *other = fixture_map(1);
    struct hmreg_mr *mr;
    int fd;

    need_races();
    open_trusting();
    assert_int_equal(fixture_key(memory, page), 1);
    assert_int_equal(fixture_key(memory, page), 1);
    fd = find_userfaultfd();
    assert_true(fd >= 0);
    put_another_file_there(fd);
    mr = fixture_get(other, page);
    assert_false(fixture_is_cached(mr));
    hmreg_mr_put(mr);
    assert_int_equal(fixture_key(memory, page), 3);
    assert_int_equal(fixture_key(memory, page), 4);
    munmap(memory, page);
    munmap(other, page);
    fixture_close();
    assert_int_equal(close(fd), 0); /* the library has not closed it */
}

/* No call of the library follows until memory changes. */
TEST(descriptor__closed_by_the_program__noticed_at_the_next_change)
{
    size_t page = fixture_page();
    char *memory = fixture_map(1), *changed = fixture_map(1);
    struct hmreg_stats stats = {.size = sizeof(stats)};

    need_races();
    open_trusting();
    assert_int_equal(fixture_key(memory, page), 1);
    assert_int_equal(fixture_key(changed, page), 2);
    assert_int_equal(close(find_userfaultfd()), 0);
    munmap(changed, page);
    do { /* the thread reports it when it runs */
        fixture_key(memory, page);
        assert_ok(hmreg_domain_stats(fixture.domain, &stats));
    } while (stats.regions);
    munmap(memory, page);
}

/* The monitor's thread, which first names itself, begins only when its descriptor is another file.
 */
static struct {
    atomic_bool wanted;
    sem_t replaced;
} late_begin;

void __real_thread_name(const char *name);
void __wrap_thread_name(const char *name);
void __wrap_thread_name(const char *name)
{
    if (strcmp(name, "hmreg-monitor") == 0 && atomic_exchange(&late_begin.wanted, false))
        sem_wait(&late_begin.replaced);
    __real_thread_name(name);
}

TEST(descriptor__replaced_before_the_thread_begins__close_returns)
{
    int fd, ends[2];

    need_races();
    sem_init(&late_begin.replaced, 0, 0);
    atomic_store(&late_begin.wanted, true);
    open_fixture(NULL);
    fd = find_userfaultfd();
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[0], fd), fd);
    sem_post(&late_begin.replaced);
    fixture_close();
    close(fd);
    close(ends[0]);
    close(ends[1]);
}

/* ---- a child made without fork handlers ------------------------------------------------- */

static int childs_part(void)
{
    size_t page = fixture_page();
    char *memory;

    open_trusting();
    memory = fixture_map(1);
    if (fixture_key(memory, page) != 1 || fixture_key(memory, page) != 1)
        return 1;
    munmap(memory, page);
    if (fixture_map_at(memory, 1) != memory || fixture_key(memory, page) != 2)
        return 2;
    fixture_close();
    return 0;
}

TEST(child__without_handlers__watches_for_itself)
{
    char *memory = fixture_map(1);
    pid_t child;

    if (TEST_TSAN)
        test_skip("ThreadSanitizer forbids threads in a forked child");
    open_fixture(NULL);
    assert_int_equal(fixture_key(memory, 10), 1);
    child = _Fork();
    if (child == 0)
        _exit(childs_part());
    test_await(child);
    munmap(memory, fixture_page()); /* would hang without the thread that reads */
    assert_int_equal(fixture_stats().invalidations, 1);
}

/* The child's descriptor keeps the userfaultfd alive without its thread: it must watch nothing any
 * more. */
TEST(child__has_the_descriptor__parents_memory_is_its_own_after_closing)
{
    size_t page = fixture_page(), pages = ((size_t)4 << 20) / page;
    char *memory = fixture_reserve(9), *target = fixture_reserve(8), *large = fixture_map(pages);
    pid_t child;

    assert_non_null(fixture_map_at(memory, 4));
    open_fixture(NULL);
    fixture_key(memory, 10);
    fixture_key(large, 10);
    child = _Fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    assert_ptr_equal(mremap(memory, 4 * page, 8 * page, 0), memory);
    assert_ptr_equal(mremap(memory, 8 * page, 8 * page, MREMAP_MAYMOVE | MREMAP_FIXED, target),
                     target);
    fixture_close();
    munmap(target, 8 * page);
    munmap(large, pages * page);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* ---- the monitor's own memory --------------------------------------------------------------- */

/* The monitor's own mapping: the only watched one without a region. */
static char *monitors_own(char **out_end)
{
    uint64_t start = 0, end = 0;
    FILE *smaps = fopen("/proc/self/smaps", "re");
    bool found = false;
    char line[512];

    assert_non_null(smaps);
    while (!found && fgets(line, sizeof(line), smaps)) {
        uint64_t from, to;

        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &from, &to) == 2) {
            start = from;
            end = to;
        }
        found = !strncmp(line, "VmFlags:", 8) && strstr(line, " uw");
    }
    fclose(smaps);
    assert_true(found);
    *out_end = (char *)(uintptr_t)end;
    return (char *)(uintptr_t)start;
}

/* Makes a hole that just fits the monitor's own memory, the highest one, below a page that can be
 * mapped again: the kernel places that memory there. */
static char *make_hole(size_t size)
{
    char *area = mmap(NULL, size + fixture_page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(area, MAP_FAILED);
    munmap(area, size);
    return area + size;
}

/* The monitor's page is adjacent to a region's memory. Were it unwatched with it, the library could
 * not stop the thread. */
TEST(close__after_memory_beside_the_monitors_was_watched_and_left__returns)
{
    char *memory = make_hole(((size_t)128 << 10) + fixture_page());
    char *start, *end, *again;

    open_fixture(NULL);
    start = monitors_own(&end);
    munmap(memory, fixture_page());
    if (end != memory || !fixture_map_at(memory, 1)) {
        fixture_close();
        test_skip("the kernel has the monitor's own memory elsewhere");
    }
    fixture_key(memory, fixture_page());
    assert_ok(hmreg_domain_flush(fixture.domain));
    assert_ptr_equal(monitors_own(&again), start);
    assert_ptr_equal(again, end);
    munmap(memory, fixture_page());
}

TEST_MAIN()
