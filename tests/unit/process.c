/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The process's epoch: the same for all threads, another in every child, however it was forked. */
#include "core/base/process.h"

#include "tests/support/test.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <hmreg/hmreg.h>

static int status_of(pid_t child)
{
    int status = -1;

    if (waitpid(child, &status, 0) != child)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
}

/* 0: a child detects that it is not the parent, before and after it starts its own epoch. */
static int child_check(uint64_t parents)
{
    uint64_t own;

    if (process_is(parents))
        return 1;
    own = process_epoch_start();
    if (!own || own == parents)
        return 2;
    if (process_is(parents) || !process_is(own))
        return 3;
    return process_epoch_start() == own ? 0 : 4;
}

TEST(epoch_start__again__the_same)
{
    uint64_t epoch = process_epoch_start();

    assert_int_not_equal(epoch, 0);
    assert_true(process_is(epoch));
    assert_false(process_is(epoch + 1));
    assert_int_equal(process_epoch_start(), epoch);
}

TEST(fork__child_has_another_epoch)
{
    uint64_t epoch = process_epoch_start();

    test_in_child(child_check(epoch));
    assert_true(process_is(epoch));
}

static int grandchild_check(uint64_t grandparents)
{
    uint64_t parents = process_epoch_start();
    pid_t child = fork();

    if (child == 0)
        _exit(process_is(grandparents) ? 10 : child_check(parents));
    return status_of(child);
}

TEST(fork__grandchild_has_a_third)
{
    uint64_t epoch = process_epoch_start();

    test_in_child(grandchild_check(epoch));
}

/* No fork handler runs here. */
TEST(clone__without_libc__child_has_another_epoch)
{
    uint64_t epoch = process_epoch_start();
    long child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

    if (child == 0)
        syscall(SYS_exit_group, process_is(epoch) ? 1 : 0);
    assert_int_equal(status_of((pid_t)child), 0);
}

#define THREADS 8

static void *start(void *arg)
{
    pthread_barrier_wait(arg);
    return (void *)(uintptr_t)process_epoch_start();
}

/* In a process without an epoch. */
static int threads_check(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_t barrier;
    void *first = NULL, *other = NULL;
    int rc = 0;

    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, start, &barrier);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], i ? &other : &first);
        if (!first || (i && other != first))
            rc = 1;
    }
    return rc;
}

TEST(epoch_start__threads_at_once__one_epoch)
{
    process_epoch_start();
    for (int i = 0; i < 20; i++) {
        test_in_child(threads_check());
    }
}

static atomic_bool stop;
static atomic_uint starts;

static void *start_for_ever(void *arg)
{
    for (; !atomic_load(&stop); atomic_fetch_add(&starts, 1))
        process_epoch_start();
    return NULL;
}

/* A lock that another thread holds at the fork would stay held in the child. */
TEST(fork__while_a_thread_starts_the_epoch__child_does_not_hang)
{
    uint64_t epoch = process_epoch_start();
    pthread_t thread;

    atomic_store(&stop, false);
    assert_int_equal(pthread_create(&thread, NULL, start_for_ever, NULL), 0);
    for (int i = 0; i < 200; i++) {
        unsigned before = atomic_load(&starts);

        test_wait_until(atomic_load(&starts) != before);
        test_in_child(child_check(epoch));
    }
    atomic_store(&stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* The first process of a new pid namespace writes its epoch into the pipe. */
static uint64_t epoch_of_pid_1(void)
{
    uint64_t epoch = 0;
    int ends[2];
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWPID))
            _exit(errno == EPERM || errno == ENOSYS ? 77 : 1);
        child = fork();
        if (child)
            _exit(status_of(child));
        epoch = getpid() == 1 ? process_epoch_start() : 0;
        _exit(write(ends[1], &epoch, sizeof(epoch)) == sizeof(epoch) ? 0 : 1);
    }
    close(ends[1]);
    if (read(ends[0], &epoch, sizeof(epoch)) != sizeof(epoch))
        epoch = 0;
    close(ends[0]);
    if (status_of(child) == 77)
        test_skip("new pid namespaces are not permitted here");
    return epoch;
}

/* Two containers on one machine, or a program started again: the pid proves nothing. */
TEST(epoch__processes_with_the_same_pid__differ)
{
    uint64_t first = epoch_of_pid_1(), second = epoch_of_pid_1();

    assert_int_not_equal(first, 0);
    assert_int_not_equal(second, 0);
    assert_int_equal(first >> 32, second >> 32);
    assert_int_not_equal(first, second);
}

TEST(child__parents_library__perm_and_the_parents_pid)
{
    pid_t parent = getpid(), child;
    struct hmreg *lib;
    char words[32];

    assert_ok(hmreg_open(NULL, &lib));
    snprintf(words, sizeof(words), "process %d;", (int)parent);
    child = fork();
    if (child == 0) {
        /* No monitor, which would be a thread: ThreadSanitizer does not support those in a child.
         */
        struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_DISABLED};
        struct hmreg *own = NULL;

        if (hmreg_close(lib) != -EPERM || !strstr(hmreg_last_error()->text, words))
            _exit(1);
        if (hmreg_open(&config, &own) || hmreg_close(lib) != -EPERM || hmreg_close(own))
            _exit(2);
        _exit(0);
    }
    assert_int_equal(status_of(child), 0);
    assert_ok(hmreg_close(lib));
}

/* ---- pages ------------------------------------------------------------------------------ */

static bool does_not_wipe; /* the kernel, or a filter of system calls refuses it */

int __real_madvise(void *addr, size_t len, int advice);
int __wrap_madvise(void *addr, size_t len, int advice);

int __wrap_madvise(void *addr, size_t len, int advice)
{
    if (does_not_wipe && advice == MADV_WIPEONFORK) {
        errno = EINVAL;
        return -1;
    }
    return __real_madvise(addr, len, advice);
}

static bool is_mapped(void *page)
{
    unsigned char resident;

    return !mincore(page, 1, &resident);
}

/* Frees the page in the middle of the list, the first and the last: one is left. */
static int pages_check(void)
{
    unsigned char *pages[4], *shared = process_page();
    pid_t child;

    process_page_free(shared);
    does_not_wipe = true;
    while (process_wiped(1)) /* of the mapping that was made when the kernel did */
        continue;
    if (errno != EINVAL)
        return 1;
    for (int i = 0; i < 4; i++) {
        pages[i] = process_page();
        if (!pages[i] || pages[i][0])
            return 2;
        pages[i][0] = pages[i][100] = 1;
    }
    process_page_free(pages[1]);
    process_page_free(pages[3]);
    process_page_free(pages[0]);
    if (!is_mapped(shared) || is_mapped(pages[0]) || is_mapped(pages[1]) || is_mapped(pages[3]))
        return 3;
    child = fork();
    if (child == 0) {
        child = test_fork(); /* what the first fork locked is unlocked */
        if (child == 0)
            _exit(0);
        _exit(status_of(child) || pages[2][0] || pages[2][100]);
    }
    return status_of(child) ? 4 : !pages[2][0];
}

TEST(page_free__kernel_does_not_wipe__others_still_wiped)
{
    test_in_child(pages_check());
}

/* ---- once -------------------------------------------------------------------------------- */

static struct {
    atomic_int who, made, at_it;
    int failures;
} once;

static bool make_at_last(void)
{
    atomic_fetch_add(&once.made, 1);
    return once.failures-- <= 0;
}

TEST(once__fails_at_first__tried_again_until_it_is_done)
{
    memset(&once, 0, sizeof(once));
    once.failures = 2;
    assert_false(process_once(&once.who, make_at_last));
    assert_false(process_once(&once.who, make_at_last));
    for (int i = 0; i < 3; i++)
        assert_true(process_once(&once.who, make_at_last));
    assert_int_equal(atomic_load(&once.made), 3);
}

/* Slow enough for all the others to arrive. */
static bool make_while_others_wait(void)
{
    atomic_fetch_add(&once.made, 1);
    while (atomic_load(&once.at_it) < THREADS)
        sched_yield();
    return true;
}

static void *make_once(void *arg)
{
    atomic_fetch_add(&once.at_it, 1);
    return (void *)(uintptr_t)process_once(&once.who, make_while_others_wait);
}

TEST(once__threads_at_once__made_by_one)
{
    pthread_t threads[THREADS];
    void *done;

    memset(&once, 0, sizeof(once));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_once, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &done);
        assert_non_null(done);
    }
    assert_int_equal(atomic_load(&once.made), 1);
}

TEST(once__fork_while_a_thread_is_at_it__child_makes_its_own)
{
    pthread_t thread;
    pid_t child;

    memset(&once, 0, sizeof(once));
    assert_int_equal(pthread_create(&thread, NULL, make_once, NULL), 0);
    while (!atomic_load(&once.made))
        sched_yield();
    child = test_fork();
    if (child == 0) {
        atomic_store(&once.at_it, THREADS);
        _exit(process_once(&once.who, make_while_others_wait) ? atomic_load(&once.made) : 0);
    }
    assert_int_equal(status_of(child), 2);
    atomic_store(&once.at_it, THREADS);
    pthread_join(thread, NULL);
    assert_true(process_once(&once.who, make_while_others_wait));
    assert_int_equal(atomic_load(&once.made), 1);
}

TEST_MAIN()
