/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What is a process's or a thread's own. The epoch: the same for all threads, another in every
 * child, however it was forked. The library's threads do not inherit the program's settings;
 * neither in a program with more thread-local data than their stacks have room for, where libc
 * refuses such a stack. They may have descriptors of their own, and end without a trace. Places of
 * memory that the kernel may zero: each is taken once, and a child has its own.
 */

/* No call shows an epoch, or which place a thread's table has. */
#include "core/base/droppable.h"
#include "core/base/process.h"
#include "core/base/thread.h"

#include "tests/support/code_filters.h"
#include "tests/support/test.h"

#include <errno.h>
#include <hmreg/hmreg.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* ---- the epoch ------------------------------------------------------------------------------- */

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

/* ---- threads --------------------------------------------------------------------------------- */

static _Thread_local char much[2 << 20];

static void *count_cpus(void *arg)
{
    static int count;
    cpu_set_t cpus;

    much[sizeof(much) - 1] = 1;
    count = sched_getaffinity(0, sizeof(cpus), &cpus) ? 0 : CPU_COUNT(&cpus);
    return &count;
}

TEST(start__much_thread_local_data__all_cpus)
{
    static _Alignas(65536) char small[128 << 10];
    const struct thread_stack own = {small, sizeof(small)};
    const struct thread_stack *stacks[] = {NULL, &own};
    cpu_set_t before, one;
    pthread_t thread;
    void *count;

    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    if (CPU_COUNT(&before) < 2)
        test_skip("there is one CPU");
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_ok(thread_start(&thread, stacks[i], count_cpus, NULL, "to test"));
        assert_int_equal(pthread_join(thread, &count), 0);
        assert_in_range(*(int *)count, CPU_COUNT(&before), CPU_SETSIZE);
    }
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

/* Not the address of a variable: a sanitizer may have those elsewhere. */
static void *get_frame(void *arg)
{
    much[0] = 1;
    *(uintptr_t *)arg = (uintptr_t)__builtin_frame_address(0);
    return NULL;
}

TEST(start__stack_with_room__the_thread_is_on_it)
{
    static _Alignas(65536) char large[sizeof(much) + (1 << 20)];
    const struct thread_stack own = {large, sizeof(large)};
    uintptr_t frame = 0;
    pthread_t thread;

    assert_ok(thread_start(&thread, &own, get_frame, &frame, "to test"));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_in_range(frame, (uintptr_t)large, (uintptr_t)large + sizeof(large));
}

static void *get_slack(void *arg)
{
    *(int *)arg = prctl(PR_GET_TIMERSLACK);
    return NULL;
}

TEST(start__timer_slack_of_a_service__the_threads_is_normal)
{
    int before = prctl(PR_GET_TIMERSLACK), callers = 500000000, threads = 0;
    pthread_t thread;

    if (prctl(PR_SET_TIMERSLACK, callers) || prctl(PR_GET_TIMERSLACK) != callers)
        test_skip("the timer slack cannot be set: %s", strerror(errno));
    assert_ok(thread_start(&thread, NULL, get_slack, &threads, "to test"));
    assert_int_equal(prctl(PR_GET_TIMERSLACK), callers);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_in_range(threads, 1, 50000);
    assert_int_equal(prctl(PR_SET_TIMERSLACK, before), 0);
}

/* ---- descriptors ------------------------------------------------------------------------ */

struct keeping {
    int fd, other, foreign;
    bool done;
    bool has_fd, has_other, has_foreign, has_stderr;
};

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void *keep_only(void *arg)
{
    struct keeping *keeping = arg;

    keeping->done = thread_keep_only(keeping->fd, keeping->other);
    keeping->has_fd = is_open(keeping->fd);
    keeping->has_other = keeping->other >= 0 && is_open(keeping->other);
    keeping->has_foreign = is_open(keeping->foreign);
    keeping->has_stderr = is_open(2);
    return NULL;
}

static struct keeping keep_in_a_thread(int fd, int other, int foreign)
{
    struct keeping keeping = {.fd = fd, .other = other, .foreign = foreign};
    pthread_t thread;

    assert_ok(thread_start(&thread, NULL, keep_only, &keeping, "to test"));
    assert_int_equal(pthread_join(thread, NULL), 0);
    return keeping;
}

TEST(keep_only__two_descriptors__all_else_stays_the_programs_alone)
{
    int pipes[2][2];

    assert_int_equal(pipe(pipes[0]), 0);
    assert_int_equal(pipe(pipes[1]), 0);
    for (int i = 0; i < 4; i++) { /* beside each other or not, in either order; one; the lowest */
        int fd = i == 3 ? 0 : pipes[i % 2][0], other = i < 2 ? pipes[1 - i % 2][1 - i % 2] : -1;
        struct keeping keeping = keep_in_a_thread(fd, other, pipes[0][1]);

        if (!keeping.done)
            test_skip("this kernel has no close_range(2)");
        assert_true(keeping.has_fd);
        assert_int_equal(keeping.has_other, other >= 0);
        assert_int_equal(keeping.has_foreign, other == pipes[0][1]);
        assert_false(keeping.has_stderr);
        for (int fd_of_all = 0; fd_of_all < 4; fd_of_all++)
            assert_true(is_open(pipes[fd_of_all / 2][fd_of_all % 2]));
        assert_true(is_open(2));
    }
    for (int i = 0; i < 4; i++)
        close(pipes[i / 2][i % 2]);
}

static int keep_refused(void)
{
    if (!code_filter_refuse(SYS_close_range, EPERM))
        return 77;
    return keep_in_a_thread(2, -1, 1).done;
}

TEST(keep_only__close_range_refused__false)
{
    test_forks_with_threads();
    test_in_child_or_skip(keep_refused(), "this kernel has no seccomp filters");
}

/* ---- joining ---------------------------------------------------------------------------- */

static void *get_tid(void *arg)
{
    __atomic_store_n((pid_t *)arg, gettid(), __ATOMIC_RELEASE);
    return NULL;
}

/* pthread_join(3) alone lets one in some tries find it. */
TEST(join__the_kernel_does_not_count_it)
{
    for (int i = 0; i < 1000; i++) {
        pthread_t thread;
        pid_t tid = 0;

        assert_ok(thread_start(&thread, NULL, get_tid, &tid, "to test"));
        while (!__atomic_load_n(&tid, __ATOMIC_ACQUIRE))
            sched_yield();
        thread_join(thread, &tid);
        assert_int_equal(syscall(SYS_tgkill, getpid(), tid, 0), -1);
    }
}

/* ---- places that the kernel may zero --------------------------------------------------------- */

#define PLACES 20000
#define PLACE  500

static bool has_none; /* the kernel */
static char *places[PLACES];

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

    while (count < PLACES && (places[count] = droppable_take(bytes))) {
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
    static const char zeroes[PLACE];
    unsigned count;

    assert_true(droppable_give_back(take_or_skip(PLACE)));
    count = take_all(PLACE);
    assert_in_range(count, 14000, PLACES - 1);
    for (unsigned i = 0; i < count; i++)
        for (size_t byte = 0; byte < PLACE; byte += PLACE - 1)
            assert_int_equal(places[i][byte] & 255, i % 255 + 1);
    give_back_all(count);
    assert_int_equal(take_all(PLACE), count);
    give_back_all(count);
    assert_memory_equal(droppable_take(PLACE), zeroes, PLACE);
    assert_true(droppable_give_back(places[0]));
}

TEST(take__more_than_a_place_has__null)
{
    assert_true(droppable_give_back(take_or_skip(16000)));
    assert_null(droppable_take(17000));
}

TEST(give_back__other_memory__false)
{
    assert_true(droppable_give_back(take_or_skip(PLACE)));
    assert_false(droppable_give_back(places));
    assert_false(droppable_give_back(NULL));
}

/* 0: the parent's memory is zeroed, and no place is taken in the child. */
static int check_places(const char *parents, unsigned parents_count)
{
    if (*parents || droppable_give_back((void *)(uintptr_t)parents))
        return 1;
    return take_all(PLACE) == parents_count ? 0 : 2;
}

TEST(fork__child_has_its_own)
{
    unsigned count;

    assert_true(droppable_give_back(take_or_skip(PLACE)));
    count = take_all(PLACE);
    test_in_child(check_places(places[0], count));
    assert_int_equal(places[0][0], 1);
    give_back_all(count);
}

/* In a child, which has no mapping yet. */
static int check_none(void)
{
    has_none = true;
    return droppable_take(PLACE) || droppable_take(PLACE) || droppable_give_back(places);
}

TEST(take__kernel_has_none__null)
{
    test_in_child(check_none());
}

TEST_MAIN()
