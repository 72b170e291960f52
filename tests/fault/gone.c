/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A NIC that goes in the middle of each call. A sequence of calls on a domain, or on a group of it
 * and a loopback domain, is repeated: each call of the device in turn is the first that fails, or
 * the first that does not return before the case lets it. Then the domain is lost: every later call
 * has its answer, none waits for the device, and nothing is left at the end.
 */
#include "tests/fault/gone.h"
#include "tests/fault/faults.h"
#include "tests/support/test.h"
#include "tests/support/vendors.h"

#include <hmreg/group.h>
#include <hmreg/job.h>
#include <hmreg/loopback.h>
#include <hmreg/lost.h>
#include <hmreg/remote.h>
#include <hmreg/suspend.h>

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define LEN    4096u
#define PLACES 32
#define NEVER  UINT_MAX
#define WHY    "the test has pulled it"

static _Alignas(4096) char memory[PLACES * LEN];

static char *place(unsigned i)
{
    return memory + i * LEN;
}

/* ---- the device ------------------------------------------------------------------------- */

static atomic_uint until;    /* calls of the device, until the one at which it goes; 0: none */
static atomic_bool hangs;    /* ... or does not return */
static atomic_bool is_gone;  /* calls fail */
static atomic_bool is_stuck; /* calls do not return */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t unstuck = PTHREAD_COND_INITIALIZER;
static sem_t event; /* a call hangs, or the thread has ended */

static void wait_inside(void)
{
    pthread_mutex_lock(&lock);
    while (atomic_load(&is_stuck))
        pthread_cond_wait(&unstuck, &lock);
    pthread_mutex_unlock(&lock);
}

static void let_go(void)
{
    pthread_mutex_lock(&lock);
    atomic_store(&is_stuck, false);
    pthread_cond_broadcast(&unstuck);
    pthread_mutex_unlock(&lock);
}

bool gone_asked(void)
{
    unsigned left = atomic_load(&until);
    bool now;

    while (left && !atomic_compare_exchange_weak(&until, &left, left - 1))
        ;
    now = left == 1;
    if (now && hangs) {
        atomic_store(&is_stuck, true);
        sem_post(&event);
    } else if (now) {
        gone_vanish();
        atomic_store(&is_gone, true);
    }
    if (atomic_load(&is_stuck))
        wait_inside();
    return atomic_load(&is_gone);
}

static bool has_happened(void)
{
    return atomic_load(&is_gone) || atomic_load(&is_stuck);
}

/* ---- a sequence of calls ---------------------------------------------------------------- */

enum { IS_DOMAIN, IS_GROUP };

/* What a thread does on a domain or a group, and what it has. */
struct way {
    struct hmreg *lib;
    struct hmreg_domain *target;
    struct hmreg_mr *held, *explicit, *list;
    struct hmreg_remote *remotes[2];
    const char *_Atomic doing;
    int failed;
};

#define DO(way, call) (atomic_store(&(way)->doing, #call), (way)->failed = (call), !(way)->failed)

static int job(struct way *way, unsigned at)
{
    struct hmreg_job_config config = {.size = sizeof(config), .workers = 1, .piece_len = LEN};
    struct hmreg_mr *mr = NULL;
    int rc = hmreg_mr_reg_large(way->target, place(at), 2 * LEN, HMREG_ACCESS_REMOTE, &config, &mr);
    int closed = hmreg_mr_close(mr);

    return rc ? rc : closed;
}

static int get(struct way *way, unsigned at, struct hmreg_mr **mr)
{
    return hmreg_mr_get(way->target, place(at), LEN, HMREG_ACCESS_ALL, mr);
}

static int get_and_put(struct way *way, unsigned at)
{
    struct hmreg_mr *mr = NULL;
    int rc = get(way, at, &mr);

    hmreg_mr_put(mr);
    return rc;
}

static int reg(struct way *way, unsigned at, struct hmreg_mr **mr)
{
    return hmreg_mr_reg(way->target, place(at), LEN, HMREG_ACCESS_ALL, 0, HMREG_KEY_ANY, 0, mr,
                        NULL);
}

static int reg_list(struct way *way, unsigned at, struct hmreg_mr **mr)
{
    struct hmreg_segment segments[2] = {{.u.memory = {place(at), LEN}},
                                        {.u.memory = {place(at + 2), LEN}}};

    return hmreg_mr_regsgl(way->target, segments, 2, HMREG_ACCESS_REMOTE, 0, HMREG_KEY_ANY,
                           HMREG_REG_PARTS, mr, NULL);
}

/* A region's token, as a peer opens it. */
static int reach(struct way *way, struct hmreg_mr *mr, size_t rails)
{
    char token[4096];
    size_t size = sizeof(token);
    int rc = hmreg_mr_pack(mr, token, &size);

    return rc ? rc : hmreg_remote_open_rails(way->target, token, size, way->remotes, rails);
}

static int suspend(struct way *way, unsigned at)
{
    return hmreg_suspend(way->lib, place(at), LEN);
}

static int resume(struct way *way, unsigned at)
{
    return hmreg_resume(way->lib, place(at), LEN, NULL);
}

static bool is_suspending(const struct way *way)
{
    const char *doing = atomic_load(&way->doing);

    return doing && (strstr(doing, "suspend") || strstr(doing, "resume"));
}

/* Goes on until a call fails. */
static void go(struct way *way, int what)
{
    bool ok = DO(way, get(way, 0, &way->held)) && DO(way, get_and_put(way, 0)) &&
              DO(way, get_and_put(way, 1)) && DO(way, reg(way, 2, &way->explicit)) &&
              DO(way, reg_list(way, 3, &way->list)) && DO(way, job(way, 6)) &&
              DO(way, reach(way, way->explicit, what == IS_GROUP ? 2 : 1));

    if (ok && what == IS_DOMAIN)
        ok = DO(way, gone_calls(way->target, place(9), LEN));
    ok = ok && DO(way, suspend(way, 2)) && DO(way, resume(way, 2)) &&
         DO(way, hmreg_domain_flush(way->target)) && DO(way, hmreg_domain_progress(way->target));
}

static void end(struct way *way)
{
    int rc;

    for (int i = 0; i < 2; i++)
        hmreg_remote_close(way->remotes[i]);
    hmreg_mr_put(way->held);
    assert_ok(hmreg_mr_close(way->explicit));
    assert_ok(hmreg_mr_close(way->list));
    gone_rest();
    rc = resume(way, 2); /* if its suspension was the call that failed */
    assert_true(!rc || rc == -ENOENT);
    *way = (struct way){.lib = way->lib, .target = way->target};
}

/* ---- afterwards ------------------------------------------------------------------------- */

/* Regions made before the device went. */
struct before {
    struct hmreg_mr *held, *idle, *explicit;
    void *object;
};

static void make_before(struct way *way, struct before *out, bool objects)
{
    assert_ok(get(way, 20, &out->held));
    assert_ok(get(way, 21, &out->idle));
    hmreg_mr_put(out->idle);
    assert_ok(reg(way, 22, &out->explicit));
    out->object = objects ? gone_object(way->target, out->explicit, place(22), LEN) : NULL;
}

static void no_call_of_the_domain(struct way *way, const struct before *before)
{
    struct hmreg_mr *mr = (void *)1;
    size_t size = 0;

    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(get(way, i, &mr), -ENODEV);
    assert_int_equal(get(way, 20, &mr), -ENODEV);
    assert_int_equal(get(way, 21, &mr), -ENODEV);
    assert_int_equal(reg(way, 24, &mr), -ENODEV);
    assert_int_equal(reg_list(way, 25, &mr), -ENODEV);
    assert_ptr_equal(mr, (void *)1);
    assert_int_equal(job(way, 28), -ENODEV);
    assert_int_equal(hmreg_mr_pack(before->explicit, NULL, &size), -ENODEV);
    assert_non_null(strstr(hmreg_last_error()->text, "lost"));
    gone_after(way->target, before->explicit, before->object, place(22), LEN);
}

static void calls_of_the_group(struct way *way)
{
    struct hmreg_mr *mr = NULL;

    for (unsigned i = 0; i < 2; i++) {
        assert_ok(get(way, i, &mr));
        assert_null(hmreg_mr_rail(mr, 0));
        assert_non_null(hmreg_mr_rail(mr, 1));
        hmreg_mr_put(mr);
    }
    assert_ok(reg(way, 24, &mr));
    assert_null(hmreg_mr_rail(mr, 0));
    assert_ok(hmreg_mr_close(mr));
    assert_ok(reg_list(way, 25, &mr));
    assert_ok(hmreg_mr_close(mr));
    assert_ok(job(way, 28));
}

/* Of all others: they have no need of the device. */
static void calls_of_both(struct way *way, const struct before *before)
{
    struct hmreg_domain_info info = {.size = sizeof(info)};
    struct hmreg_stats stats = {.size = sizeof(stats)};

    assert_ok(hmreg_domain_query(way->target, &info));
    assert_ok(hmreg_domain_stats(way->target, &stats));
    assert_ok(hmreg_domain_progress(way->target));
    assert_ok(hmreg_domain_flush(way->target));
    hmreg_mr_put(before->held);
    assert_ok(hmreg_mr_close(before->explicit));
}

/* A range in which nothing is registered, and one whose region the device may not have ended. */
static void suspend_and_resume(struct way *way)
{
    int rc;

    assert_ok(suspend(way, 31));
    assert_ok(resume(way, 31));
    rc = suspend(way, 22);
    if (rc && rc != -EBUSY)
        fail_msg("hmreg_suspend() of a lost domain's region: %d: %s", rc, hmreg_last_error()->text);
    assert_ok(resume(way, 22));
}

static void close_domain(struct hmreg_domain *domain)
{
    int rc;

    while ((rc = hmreg_domain_close(domain)) == -EBUSY)
        sched_yield();
    assert_ok(rc);
}

/* ---- a whole run ------------------------------------------------------------------------ */

struct run {
    struct hmreg *lib;
    struct hmreg_domain *domain, *other, *spare, *group;
    int what;
    struct way main, thread;
    struct before before;
};

struct scales {
    long blocks, mappings;
    int fds;
};

static struct scales weigh(void)
{
    return (struct scales){faults_blocks(), faults_mappings(), test_count_fds()};
}

static void fail_late(int number)
{
    static const char text[] = "gone: a call waits for the device\n";

    (void)!write(2, text, sizeof(text) - 1);
    abort();
}

static int open_run(struct run *run)
{
    struct hmreg_domain *members[2];
    int rc = gone_open(run->lib, &run->domain);

    if (!rc && run->what == IS_GROUP) {
        assert_ok(hmreg_domain_open_loopback(run->lib, NULL, NULL, &run->other));
        assert_ok(hmreg_domain_open_loopback(run->lib, NULL, NULL, &run->spare));
        members[0] = run->domain;
        members[1] = run->other;
        assert_ok(hmreg_group_open(run->lib, members, 2, NULL, &run->group));
    }
    run->main.lib = run->thread.lib = run->lib;
    run->main.target = run->thread.target = run->group ? run->group : run->domain;
    return rc;
}

static void begin(struct run *run, int what)
{
    *run = (struct run){.what = what};
    vendors_reset();
    gone_begin();
    atomic_store(&is_gone, false);
    sem_init(&event, 0, 0);
    assert_ok(hmreg_open(NULL, &run->lib));
}

static void close_run(struct run *run)
{
    assert_ok(hmreg_domain_close(run->group));
    assert_ok(hmreg_domain_close(run->spare));
    assert_ok(hmreg_domain_close(run->other));
    close_domain(run->domain);
    assert_ok(hmreg_close(run->lib));
    gone_end();
    sem_destroy(&event);
}

/* The group gets another member in the place of the lost one. */
static void replace(struct run *run)
{
    struct hmreg_group_member info = {.size = sizeof(info)};
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_group_replace(run->group, 0, run->spare));
    do {
        assert_ok(hmreg_group_query(run->group, 0, &info));
        sched_yield();
    } while (info.state == HMREG_MEMBER_REPLACING);
    assert_ok(get(&run->main, 0, &mr));
    assert_non_null(hmreg_mr_rail(mr, 0));
    hmreg_mr_put(mr);
}

static void lose(struct run *run)
{
    assert_ok(hmreg_domain_lost(run->domain, WHY));
    if (run->what == IS_DOMAIN)
        no_call_of_the_domain(&run->main, &run->before);
    else
        calls_of_the_group(&run->main);
    if (run->what == IS_GROUP)
        replace(run);
    if (!is_suspending(&run->thread))
        suspend_and_resume(&run->main);
    calls_of_both(&run->main, &run->before);
}

/* What is allocated once for the process is left by a first run, in which the device stays. */
static void check_scales(const char *doing, unsigned nth, struct scales before)
{
    struct scales after = weigh();

    if (nth == NEVER)
        return;
    if (after.blocks != before.blocks || after.mappings != before.mappings ||
        after.fds != before.fds)
        fail_msg("call %u of the device (in %s) left %ld blocks, %ld mappings, %d descriptors", nth,
                 doing, after.blocks - before.blocks, after.mappings - before.mappings,
                 after.fds - before.fds);
}

/* ---- the device goes -------------------------------------------------------------------- */

/* False: the sequence makes fewer calls. */
static bool goes(int what, unsigned nth)
{
    struct scales before;
    struct run run;
    bool happened;
    char doing[64];

    assert_int_equal(hmreg_open(NULL, NULL), -EINVAL); /* the thread's last error is allocated */
    faults_hook_libc();
    before = weigh();
    begin(&run, what);
    atomic_store(&until, nth);
    if (open_run(&run)) {
        assert_true(has_happened());
    } else {
        atomic_store(&until, 0);
        make_before(&run.main, &run.before, what == IS_DOMAIN);
        atomic_store(&until, nth);
        go(&run.thread, what);
    }
    happened = has_happened();
    snprintf(doing, sizeof(doing), "%s", run.thread.doing ? run.thread.doing : "open");
    if (run.thread.failed) {
        assert_true(happened);
        if (run.thread.failed != -ENODEV && run.thread.failed != -EIO &&
            !(run.thread.failed == -EBUSY && is_suspending(&run.thread)))
            fail_msg("call %u of the device (in %s) failed: %d", nth, doing, run.thread.failed);
    }
    atomic_store(&until, 0);
    if (run.domain)
        lose(&run);
    end(&run.thread);
    close_run(&run);
    check_scales(doing, nth, before);
    return happened;
}

static void each_call_goes(int what)
{
    unsigned nth = 1;

    atomic_store(&hangs, false);
    assert_false(goes(what, NEVER));
    while (goes(what, nth))
        nth++;
    print_message("%u calls of the device\n", nth - 1);
    assert_true(nth > 10);
}

TEST(device__goes_at_each_call__domain)
{
    each_call_goes(IS_DOMAIN);
}

TEST(device__goes_at_each_call__group)
{
    each_call_goes(IS_GROUP);
}

/* ---- the device hangs ------------------------------------------------------------------- */

static void *go_on_thread(void *arg)
{
    struct run *run = arg;

    go(&run->thread, run->what);
    sem_post(&event);
    return NULL;
}

static bool hangs_at(int what, unsigned nth)
{
    struct scales before;
    struct run run;
    pthread_t thread;
    bool happened;
    char doing[64];

    assert_int_equal(hmreg_open(NULL, NULL), -EINVAL);
    faults_hook_libc();
    before = weigh();
    begin(&run, what);
    assert_ok(open_run(&run));
    make_before(&run.main, &run.before, what == IS_DOMAIN);
    atomic_store(&until, nth);
    assert_int_equal(pthread_create(&thread, NULL, go_on_thread, &run), 0);
    while (sem_wait(&event))
        ;
    happened = atomic_load(&is_stuck);
    snprintf(doing, sizeof(doing), "%s", run.thread.doing ? run.thread.doing : "open");
    alarm(60);
    lose(&run);
    if (atomic_load(&is_stuck))
        assert_int_equal(hmreg_domain_close(run.domain), -EBUSY);
    alarm(0);
    atomic_store(&until, 0);
    let_go();
    pthread_join(thread, NULL);
    if (run.thread.failed && run.thread.failed != -ENODEV &&
        !(run.thread.failed == -EBUSY && is_suspending(&run.thread)))
        fail_msg("call %u of the device (in %s) hung, and then: %d", nth, doing, run.thread.failed);
    end(&run.thread);
    close_run(&run);
    check_scales(doing, nth, before);
    return happened;
}

static void each_call_hangs(int what)
{
    unsigned nth = 1;

    signal(SIGALRM, fail_late);
    atomic_store(&hangs, true);
    assert_false(hangs_at(what, NEVER));
    while (hangs_at(what, nth))
        nth++;
    print_message("%u calls of the device\n", nth - 1);
    assert_true(nth > 10);
}

TEST(device__hangs_at_each_call__domain)
{
    each_call_hangs(IS_DOMAIN);
}

TEST(device__hangs_at_each_call__group)
{
    each_call_hangs(IS_GROUP);
}

TEST_MAIN()
