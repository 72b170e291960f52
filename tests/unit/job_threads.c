/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Jobs of several threads, on a NIC whose registrations a case holds. job.c has the cases that need
 * no threads.
 */
#include "tests/support/world.h"

#include <hmreg/job.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#define PIECE  4096u
#define PIECES 64u

static unsigned threads, failing; /* pthread_create(): calls; from which one on all fail, from 1 */
static pthread_t started[2];      /* the last ones */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg)
{
    int rc = EAGAIN;

    if (++threads < failing || !failing)
        rc = __real_pthread_create(thread, attr, run, arg);
    if (!rc)
        started[threads % 2] = *thread;
    return rc;
}

/* ---- the registrations ------------------------------------------------------------------ */

static struct fabric {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned order[4 * PIECES], count; /* the pieces in the order of their registrations */
    unsigned inside, most;             /* calls of reg now, and at most */
    unsigned meet;                     /* calls of reg wait until so many are inside; 0: none */
    unsigned held;                     /* calls of reg wait once so many have been made... */
    bool hold;                         /* ...while this is set */
    uint64_t fail;                     /* bit i: piece i fails */
    int wrong_signals;                 /* threads that do not block all signals */
} fabric = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void check_thread(void)
{
    sigset_t blocked;

    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    if (!sigismember(&blocked, SIGUSR1))
        fabric.wrong_signals++;
}

static _Alignas(PIECE) char memory[PIECES * PIECE];

static int on_call(const struct world_call *call)
{
    size_t piece = (size_t)((const char *)call->addr - memory) / PIECE;

    if (!world_is(call, "reg"))
        return 0;
    pthread_mutex_lock(&fabric.lock);
    fabric.order[fabric.count++] = (unsigned)piece;
    fabric.inside++;
    if (fabric.inside > fabric.most)
        fabric.most = fabric.inside;
    check_thread();
    pthread_cond_broadcast(&fabric.changed);
    while (fabric.most < fabric.meet || (fabric.hold && fabric.count > fabric.held))
        pthread_cond_wait(&fabric.changed, &fabric.lock);
    fabric.inside--;
    pthread_mutex_unlock(&fabric.lock);
    return piece < PIECES && (fabric.fail & UINT64_C(1) << piece) ? -EIO : 0;
}

/* ---- the fixture ------------------------------------------------------------------------ */

static struct fixture {
    struct hmreg_job_config config;
    struct hmreg_mr_attr attr;
    struct iovec range;
} fixture;

static void check_signals(void)
{
    assert_int_equal(fabric.wrong_signals, 0);
}

static void open_fixture(unsigned workers)
{
    fixture = (struct fixture){
        .config = {.size = sizeof(fixture.config), .workers = workers, .piece_len = PIECE},
        .range = {memory, sizeof(memory)}};
    fixture.attr = (struct hmreg_mr_attr){
        .size = sizeof(fixture.attr), .iov = &fixture.range, .iov_count = 1, .access = HMREG_READ};
    world_open(.mr_mode = HMREG_MR_VIRT_ADDR, .iov_limit = 1, .any_thread = true);
    test_after(check_signals);
    world.cannot[HMREG_PATH_PEERMEM] = -EOPNOTSUPP;
    world.on_call = on_call;
    fabric.count = fabric.inside = fabric.most = fabric.meet = fabric.held = 0;
    fabric.hold = false;
    fabric.fail = 0;
    fabric.wrong_signals = 0;
    threads = failing = 0;
}

static int start(struct hmreg_job **job)
{
    return hmreg_job_start(world.nic[0], &fixture.attr, 0, &fixture.config, job);
}

static void set_hold(bool hold, unsigned held)
{
    pthread_mutex_lock(&fabric.lock);
    fabric.hold = hold;
    fabric.held = held;
    pthread_cond_broadcast(&fabric.changed);
    pthread_mutex_unlock(&fabric.lock);
}

static void await_calls(unsigned count)
{
    pthread_mutex_lock(&fabric.lock);
    while (fabric.count < count)
        pthread_cond_wait(&fabric.changed, &fabric.lock);
    pthread_mutex_unlock(&fabric.lock);
}

/* Each piece was registered once, and none before one that lies `workers` pieces lower. */
static void check_order(unsigned workers)
{
    uint64_t seen = 0;

    assert_int_equal(fabric.count, PIECES);
    for (unsigned i = 0; i < PIECES; i++) {
        assert_false(seen & UINT64_C(1) << fabric.order[i]);
        seen |= UINT64_C(1) << fabric.order[i];
        assert_true(fabric.order[i] < i + workers);
    }
    assert_int_equal(seen, UINT64_MAX);
}

/* ---- workers ---------------------------------------------------------------------------- */

TEST(workers__each_number__all_at_once_and_in_order)
{
    static const unsigned numbers[] = {1, 2, 3, 8, 64};
    struct hmreg_job *job = NULL;
    struct hmreg_mr *mr = NULL;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        open_fixture(numbers[i]);
        fabric.meet = numbers[i];
        assert_ok(start(&job));
        assert_ok(hmreg_job_wait(job, -1, &mr));
        assert_ok(hmreg_job_close(job));
        assert_int_equal(threads, numbers[i]);
        assert_int_equal(fabric.most, numbers[i]);
        check_order(numbers[i]);
        assert_ok(hmreg_mr_close(mr));
        test_finish();
    }
}

/* check_thread() would notice the calling thread if it did not block signals too. */
TEST(reg_large__the_caller_is_a_worker)
{
    struct hmreg_mr *mr = NULL;
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (unsigned workers = 1; workers < 4; workers++) {
        open_fixture(workers);
        fabric.meet = workers;
        assert_ok(hmreg_mr_reg_large(world.nic[0], fixture.range.iov_base, fixture.range.iov_len,
                                     HMREG_READ, &fixture.config, &mr));
        assert_int_equal(threads, workers - 1);
        assert_int_equal(fabric.most, workers);
        check_order(workers);
        assert_ok(hmreg_mr_close(mr));
        test_finish();
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void complain(struct hmreg_job *job, uint64_t done, uint64_t total, void *context)
{
    assert_fails(hmreg_mr_query(NULL, NULL), -EINVAL, "mr is NULL"); /* its own failure */
}

TEST(reg_large__workers_0__one_for_each_cpu)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned workers = cpus < 8 ? (unsigned)cpus : 8;
    struct hmreg_mr *mr = NULL;
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    open_fixture(0);
    fixture.config.progress = complain;
    world_old_error();
    assert_ok(hmreg_mr_reg_large(world.nic[0], fixture.range.iov_base, fixture.range.iov_len,
                                 HMREG_READ, &fixture.config, &mr));
    assert_true(world_error_is_old());
    assert_int_equal(threads, workers - 1);
    check_order(workers);
    assert_ok(hmreg_mr_close(mr));
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

TEST(reg_large__workers_0__registered_once)
{
    struct hmreg_mr *mr = (void *)1;
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    open_fixture(0);
    for (unsigned i = 0; i < 8; i++) {
        fabric.count = 0;
        fabric.fail = 1u << i;
        assert_fails(hmreg_mr_reg_large(world.nic[0], fixture.range.iov_base, fixture.range.iov_len,
                                        HMREG_READ, &fixture.config, &mr),
                     -EIO, "piece ");
        assert_ptr_equal(mr, (void *)1);
        assert_int_equal(world_live(WORLD_EACH), 0);
    }
    fabric.fail = fabric.count = 0;
    assert_ok(hmreg_mr_reg_large(world.nic[0], fixture.range.iov_base, fixture.range.iov_len,
                                 HMREG_READ, &fixture.config, &mr));
    check_order(8);
    assert_ok(hmreg_mr_close(mr));
    fabric.count = 0;
    fixture.range.iov_len = PIECE;
    assert_ok(hmreg_mr_reg_large(world.nic[0], fixture.range.iov_base, fixture.range.iov_len,
                                 HMREG_READ, &fixture.config, &mr));
    assert_int_equal(fabric.count, 1);
    assert_ok(hmreg_mr_close(mr));
    test_finish();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

TEST(threads__cannot_be_started__fewer_or_eagain)
{
    struct hmreg_job *job = NULL;
    struct hmreg_mr *mr = NULL;
    sigset_t all, before;

    open_fixture(4);
    failing = 1;
    world_old_error();
    assert_fails(start(&job), -EAGAIN, "could not start a thread to register pieces of a range");
    assert_null(job);
    assert_int_equal(fabric.count, 0);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    assert_ok(hmreg_mr_reg_large(world.nic[0], fixture.range.iov_base, fixture.range.iov_len,
                                 HMREG_READ, &fixture.config, &mr));
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    assert_ok(hmreg_mr_close(mr));
    threads = 0;
    failing = 3;
    world_old_error();
    assert_ok(start(&job));
    assert_true(world_error_is_old());
    assert_ok(hmreg_job_wait(job, -1, NULL));
    assert_ok(hmreg_job_close(job));
    failing = 0;
}

TEST(key__of_the_caller__its_piece_before_the_others)
{
    struct hmreg_job *job = NULL;
    struct hmreg_mr *mr = NULL;
    struct timespec begin, end;

    open_fixture(4);
    fixture.attr.access = HMREG_REMOTE_READ;
    fixture.attr.requested_key = UINT64_C(1) << 63; /* the first that the library would choose */
    set_hold(true, 0);
    assert_ok(start(&job));
    await_calls(1);
    test_wait_until_others_sleep();
    clock_gettime(CLOCK_MONOTONIC, &begin); /* the wait ends in another second */
    assert_fails(hmreg_job_wait(job, 999, NULL), -EINPROGRESS, "0 of ");
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_true((end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec >=
                999000000);
    pthread_mutex_lock(&fabric.lock);
    assert_int_equal(fabric.count, 1);
    pthread_mutex_unlock(&fabric.lock);
    set_hold(false, 0);
    assert_ok(hmreg_job_wait(job, -1, &mr));
    check_order(5);
    assert_ok(hmreg_job_close(job));
    assert_ok(hmreg_mr_close(mr));
}

/* ---- failures and cancellation ---------------------------------------------------------- */

TEST(cancel__while_pieces_are_registered__those_are_undone)
{
    struct hmreg_mr *mr = NULL;
    struct hmreg_job *job = NULL;

    for (unsigned at = 0; at < PIECES - 3; at += 7) {
        open_fixture(3);
        set_hold(true, at);
        assert_ok(start(&job));
        await_calls(at + 3);
        assert_fails(hmreg_job_wait(job, 0, &mr), -EINPROGRESS, "");
        assert_ok(hmreg_job_cancel(job));
        assert_fails(hmreg_job_wait(job, 1, &mr), -EINPROGRESS, "");
        set_hold(false, 0);
        assert_fails(hmreg_job_wait(job, -1, &mr), -ECANCELED, "of 262144 bytes");
        assert_int_equal(fabric.count, at + 3);
        assert_int_equal(world_live(WORLD_EACH), 0);
        assert_ok(hmreg_job_close(job));
        test_finish();
    }
    assert_null(mr);
}

/* ---- progress --------------------------------------------------------------------------- */

static struct {
    atomic_uint inside;
    uint64_t last; /* not atomic: calls follow each other */
    unsigned calls;
    bool cancels;
} seen;

static void progress(struct hmreg_job *job, uint64_t done, uint64_t total, void *context)
{
    struct hmreg_mr *mr;

    assert_int_equal(atomic_fetch_add(&seen.inside, 1), 0);
    assert_true(done > seen.last && done <= total && total == PIECES * PIECE);
    seen.last = done;
    seen.calls++;
    assert_fails(hmreg_job_wait(job, -1, NULL), -EDEADLK, "own progress");
    assert_ok(
        hmreg_mr_reg(world.nic[0], fixture.range.iov_base, 1, HMREG_READ, 0, 0, 0, &mr, NULL));
    assert_ok(hmreg_mr_close(mr));
    if (seen.cancels)
        assert_ok(hmreg_job_cancel(job));
    atomic_fetch_sub(&seen.inside, 1);
}

TEST(progress__of_several_workers__one_call_at_a_time)
{
    struct hmreg_job *job = NULL;
    int rc;

    memset(&seen, 0, sizeof(seen));
    open_fixture(4);
    fixture.config.progress = progress;
    fixture.config.progress_context = &fixture;
    assert_ok(start(&job));
    assert_ok(hmreg_job_wait(job, -1, NULL));
    assert_ok(hmreg_job_close(job));
    assert_int_equal(seen.last, PIECES * PIECE);
    assert_true(seen.calls >= 1 && seen.calls <= PIECES);
    memset(&seen, 0, sizeof(seen));
    seen.cancels = true;
    assert_ok(start(&job));
    rc = hmreg_job_wait(job, -1, NULL); /* 0: the callback was too late */
    assert_true(rc == 0 || rc == -ECANCELED);
    assert_ok(hmreg_job_close(job));
}

/* ---- waiting ---------------------------------------------------------------------------- */

static void *wait_in_a_thread(void *job)
{
    assert_ok(hmreg_job_wait(job, -1, NULL));
    return NULL;
}

TEST(wait__by_several_threads__all_return)
{
    struct hmreg_job *job = NULL;
    pthread_t waiter[3];

    open_fixture(2);
    set_hold(true, 3);
    assert_ok(start(&job));
    for (int i = 0; i < 3; i++)
        assert_int_equal(__real_pthread_create(&waiter[i], NULL, wait_in_a_thread, job), 0);
    set_hold(false, 0);
    for (int i = 0; i < 3; i++)
        pthread_join(waiter[i], NULL);
    assert_ok(hmreg_job_close(job));
}

TEST(fork__while_pieces_are_registered__the_parent_continues)
{
    struct hmreg_job *job = NULL;
    pid_t child;

    test_forks_with_threads();
    test_forks_wipe();
    open_fixture(2);
    set_hold(true, 5);
    assert_ok(start(&job));
    await_calls(7);
    child = fork();
    if (!child)
        _exit(!(hmreg_job_wait(job, 0, NULL) == -EPERM && hmreg_job_cancel(job) == -EPERM &&
                hmreg_job_close(job) == -EPERM));
    set_hold(false, 0);
    test_await(child);
    assert_ok(hmreg_job_wait(job, -1, NULL));
    assert_ok(hmreg_job_close(job));
}

static bool checks_at_exit; /* in a child */

/* A child, for its exit. The fabric is held while exit(3) waits, and no piece begins after. */
static void exit_with_a_job(void)
{
    struct hmreg_job *job = NULL;

    open_fixture(2);
    set_hold(true, 5);
    if (start(&job))
        _exit(1);
    await_calls(7);
    checks_at_exit = true;
    exit(0);
}

/* Runs after the library's handler, wherever that was registered. */
static __attribute__((destructor)) void check_at_exit(void)
{
    if (!checks_at_exit)
        return;
    set_hold(false, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(started[i], NULL);
    _exit(fabric.count != 7);
}

TEST(exit__while_pieces_are_registered__no_other_begins)
{
    pid_t child;

    test_forks_with_threads();
    child = fork();
    if (!child)
        exit_with_a_job();
    test_await(child);
}

/* ---- groups and devices ----------------------------------------------------------------- */

TEST(group__partial_and_a_rail_fails__the_others_stay)
{
    struct hmreg_group_config config = {.size = sizeof(config), .flags = HMREG_GROUP_PARTIAL};
    struct hmreg_job *job = NULL;
    struct hmreg_mr *mr = NULL;

    open_fixture(4);
    world_add(.mr_mode = HMREG_MR_VIRT_ADDR, .iov_limit = 1, .any_thread = true);
    assert_ok(hmreg_group_open(world.lib, world.nic, 2, &config, &world.domain));
    for (unsigned i = 0; i < 16; i++) {
        fabric.count = 0;
        assert_ok(hmreg_job_start(world.domain, &fixture.attr, 0, &fixture.config, &job));
        assert_ok(hmreg_job_wait(job, -1, &mr));
        assert_int_equal(world_live(WORLD_EACH), 2 * PIECES);
        assert_ok(hmreg_job_close(job));
        assert_ok(hmreg_mr_close(mr));
        fabric.count = 0;
        fabric.fail = UINT64_C(7) << i; /* on both rails */
        assert_ok(hmreg_job_start(world.domain, &fixture.attr, 0, &fixture.config, &job));
        assert_fails(hmreg_job_wait(job, -1, &mr), -EIO, "rail ");
        assert_int_equal(world_live(WORLD_EACH), 0);
        assert_ok(hmreg_job_close(job));
        fabric.fail = 0;
    }
}

TEST(device__several_workers__one_export)
{
    struct hmreg_job *job = NULL;
    struct hmreg_explanation why = {.size = sizeof(why)};

    open_fixture(8);
    fixture.range.iov_base = world_memory(HMREG_IFACE_CUDA, 0, HMREG_MEM_DEVICE, sizeof(memory));
    fabric.meet = 8;
    assert_ok(start(&job));
    assert_ok(hmreg_job_wait(job, -1, NULL));
    assert_int_equal(world_calls("cuda.export"), 1);
    assert_ok(hmreg_job_close(job));
    world_fail("cuda.export", 1, -1, -EOPNOTSUPP);
    assert_ok(start(&job));
    assert_fails(hmreg_job_wait(job, -1, NULL), -EOPNOTSUPP, "piece ");
    assert_ok(hmreg_mr_explain(NULL, &why)); /* of a thread of the job's */
    assert_int_equal(why.refused, 3);
    assert_int_equal(world_calls("cuda.export"), 2);
    assert_ok(hmreg_job_close(job));
}

TEST_MAIN()
