/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Jobs of several threads, on a fabric of the test's own that records which pieces it registers and
 * lets a case hold them. job.c has the cases that need no threads.
 */
#include "core/base/error.h"
#include "core/contract/provider.h"
#include "tests/support/test.h"
#include "tests/support/vendors.h"

#include <hmreg/group.h>
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

/* ---- the fabric ------------------------------------------------------------------------- */

static struct fabric {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const char *base;
    unsigned order[4 * PIECES], count; /* the pieces in the order of their registrations */
    unsigned live, inside, most;       /* regions; calls of reg now, and at most */
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

static int reg(void *self, const struct provider_request *request, struct hmreg_mr_keys *out,
               struct hmreg_reason *why)
{
    unsigned piece = (unsigned)((const char *)request->iov[0].iov_base - fabric.base) / PIECE;
    bool fails;

    pthread_mutex_lock(&fabric.lock);
    fabric.order[fabric.count++] = piece;
    fabric.inside++;
    if (fabric.inside > fabric.most)
        fabric.most = fabric.inside;
    check_thread();
    pthread_cond_broadcast(&fabric.changed);
    while (fabric.most < fabric.meet || (fabric.hold && fabric.count > fabric.held))
        pthread_cond_wait(&fabric.changed, &fabric.lock);
    fabric.inside--;
    fails = piece < 64 && (fabric.fail & UINT64_C(1) << piece);
    fabric.live += !fails;
    pthread_mutex_unlock(&fabric.lock);
    if (fails)
        return hmreg_fail(-EIO, "the test's fabric fails");
    *out = (struct hmreg_mr_keys){.key = request->requested_key};
    return 0;
}

static int dereg(void *self, struct hmreg_mr_keys *mr)
{
    pthread_mutex_lock(&fabric.lock);
    fabric.live--;
    pthread_mutex_unlock(&fabric.lock);
    return 0;
}

static int can(void *self, enum hmreg_path path, enum hmreg_iface iface, int device,
               struct hmreg_reason *why)
{
    return path == HMREG_PATH_PEERMEM ? hmreg_refuse(why, -EOPNOTSUPP, "test-no", "no") : 0;
}

static const struct provider_ops ops = {.name = "test", .can = can, .reg = reg, .dereg = dereg};
static const struct provider_caps usual = {.fabric = "test",
                                           .mr_mode = HMREG_MR_VIRT_ADDR,
                                           .key_size = 8,
                                           .iov_limit = 1,
                                           .max_len = UINT64_C(1) << 40,
                                           .any_thread = true};

/* ---- the fixture ------------------------------------------------------------------------ */

static struct fixture {
    struct hmreg *lib;
    struct hmreg_domain *domain;
    struct hmreg_job_config config;
    struct hmreg_mr_attr attr;
    struct iovec range;
} fixture;

static void reset_fabric(void)
{
    fabric.count = fabric.live = fabric.inside = fabric.most = fabric.meet = fabric.held = 0;
    fabric.hold = false;
    fabric.fail = 0;
    fabric.wrong_signals = 0;
}

static void close_fixture(void)
{
    assert_ok(hmreg_domain_close(fixture.domain));
    assert_ok(hmreg_close(fixture.lib));
    assert_int_equal(fabric.live, 0);
    assert_int_equal(fabric.wrong_signals, 0);
    free((void *)(uintptr_t)fabric.base);
}

static void open_fixture(unsigned workers)
{
    test_after(close_fixture);
    fixture = (struct fixture){
        .config = {.size = sizeof(fixture.config), .workers = workers, .piece_len = PIECE}};
    vendors_reset();
    reset_fabric();
    threads = failing = 0;
    assert_ok(hmreg_open(NULL, &fixture.lib));
    assert_ok(hmreg_domain_create(fixture.lib, &ops, &usual, NULL, NULL, &fixture.domain));
    fixture.range = (struct iovec){aligned_alloc(PIECE, PIECES * PIECE), PIECES * PIECE};
    fabric.base = fixture.range.iov_base;
    fixture.attr = (struct hmreg_mr_attr){
        .size = sizeof(fixture.attr), .iov = &fixture.range, .iov_count = 1, .access = HMREG_READ};
}

static int start(struct hmreg_job **job)
{
    return hmreg_job_start(fixture.domain, &fixture.attr, 0, &fixture.config, job);
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
        assert_ok(hmreg_mr_reg_large(fixture.domain, fixture.range.iov_base, fixture.range.iov_len,
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
    hmreg_fail(-EIO, "the callback's own failure");
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
    hmreg_fail(-ENODATA, "before");
    assert_ok(hmreg_mr_reg_large(fixture.domain, fixture.range.iov_base, fixture.range.iov_len,
                                 HMREG_READ, &fixture.config, &mr));
    assert_int_equal(hmreg_last_error()->code, -ENODATA);
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
        assert_fails(hmreg_mr_reg_large(fixture.domain, fixture.range.iov_base,
                                        fixture.range.iov_len, HMREG_READ, &fixture.config, &mr),
                     -EIO, "piece ");
        assert_ptr_equal(mr, (void *)1);
        assert_int_equal(fabric.live, 0);
    }
    fabric.fail = fabric.count = 0;
    assert_ok(hmreg_mr_reg_large(fixture.domain, fixture.range.iov_base, fixture.range.iov_len,
                                 HMREG_READ, &fixture.config, &mr));
    check_order(8);
    assert_ok(hmreg_mr_close(mr));
    fabric.count = 0;
    fixture.range.iov_len = PIECE;
    assert_ok(hmreg_mr_reg_large(fixture.domain, fixture.range.iov_base, fixture.range.iov_len,
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
    hmreg_fail(-ENODATA, "before");
    assert_fails(start(&job), -EAGAIN, "could not start a thread to register pieces of a range");
    assert_null(job);
    assert_int_equal(fabric.count, 0);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    assert_ok(hmreg_mr_reg_large(fixture.domain, fixture.range.iov_base, fixture.range.iov_len,
                                 HMREG_READ, &fixture.config, &mr));
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    assert_ok(hmreg_mr_close(mr));
    threads = 0;
    failing = 3;
    hmreg_fail(-ENODATA, "before");
    assert_ok(start(&job));
    assert_int_equal(hmreg_last_error()->code, -ENODATA);
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
        assert_int_equal(fabric.live, 0);
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
        hmreg_mr_reg(fixture.domain, fixture.range.iov_base, 1, HMREG_READ, 0, 0, 0, &mr, NULL));
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
    struct hmreg_domain *members[2], *group;
    struct hmreg_job *job = NULL;
    struct hmreg_mr *mr = NULL;

    open_fixture(4);
    members[0] = fixture.domain;
    assert_ok(hmreg_domain_create(fixture.lib, &ops, &usual, NULL, NULL, &members[1]));
    assert_ok(hmreg_group_open(fixture.lib, members, 2, &config, &group));
    for (unsigned i = 0; i < 16; i++) {
        fabric.count = 0;
        assert_ok(hmreg_job_start(group, &fixture.attr, 0, &fixture.config, &job));
        assert_ok(hmreg_job_wait(job, -1, &mr));
        assert_int_equal(fabric.live, 2 * PIECES);
        assert_ok(hmreg_job_close(job));
        assert_ok(hmreg_mr_close(mr));
        fabric.count = 0;
        fabric.fail = UINT64_C(7) << i; /* on both rails */
        assert_ok(hmreg_job_start(group, &fixture.attr, 0, &fixture.config, &job));
        assert_fails(hmreg_job_wait(job, -1, &mr), -EIO, "rail ");
        assert_int_equal(fabric.live, 0);
        assert_ok(hmreg_job_close(job));
        fabric.fail = 0;
    }
    assert_ok(hmreg_domain_close(group));
    assert_ok(hmreg_domain_close(members[1]));
}

TEST(device__several_workers__one_export)
{
    struct hmreg_job *job = NULL;
    struct hmreg_explanation why = {.size = sizeof(why)};
    char *memory;

    open_fixture(8);
    memory = vendor_memory(HMREG_IFACE_CUDA, 0, HMREG_MEM_DEVICE, PIECES * PIECE);
    fixture.range.iov_base = memory;
    fabric.meet = 8;
    assert_ok(start(&job));
    assert_ok(hmreg_job_wait(job, -1, NULL));
    assert_int_equal(vendors[HMREG_IFACE_CUDA].exports, 1);
    assert_ok(hmreg_job_close(job));
    vendors[HMREG_IFACE_CUDA].export_code = -EOPNOTSUPP;
    assert_ok(start(&job));
    assert_fails(hmreg_job_wait(job, -1, NULL), -EOPNOTSUPP, "piece ");
    assert_ok(hmreg_mr_explain(NULL, &why)); /* of a thread of the job's */
    assert_int_equal(why.refused, 3);
    assert_int_equal(vendors[HMREG_IFACE_CUDA].exports, 2);
    assert_ok(hmreg_job_close(job));
    vendor_memory_free(memory);
}

TEST_MAIN()
