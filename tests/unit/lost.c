/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A lost domain: what gets return, which regions end when, and that no caller waits for a fabric
 * that does not return. The domain's own thread calls the fabric.
 */
#define FAILING_MALLOC
#include "tests/support/cache_fixture.h"
#include "tests/support/fabric_exit.h"
#include "tests/support/failing_allocation.h"
#include "tests/support/inside.h"
#include "tests/support/vendors.h"

#include <hmreg/group.h>
#include <hmreg/job.h>
#include <hmreg/loopback.h>
#include <hmreg/lost.h>
#include <hmreg/suspend.h>

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE   4096u
#define PAGES  8
#define RIGHTS HMREG_ACCESS_ALL

static struct hmreg_domain *lost;  /* on a fabric that any thread may call */
static struct hmreg_domain *alive; /* the same */
static char *host;
static sem_t entered, let_go; /* of a deregistration that hangs */
static pthread_t entered_by;

/* ---- the fabric ------------------------------------------------------------------------- */

static atomic_bool start_fails;
static atomic_uint starts;

int __real_pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg);

int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg)
{
    atomic_fetch_add(&starts, 1);
    return atomic_load(&start_fails) ? EAGAIN : __real_pthread_create(out, attr, run, arg);
}

static void hang(uint64_t key)
{
    entered_by = pthread_self();
    sem_post(&entered);
    while (sem_wait(&let_go))
        ;
}

static pthread_t caller;
static atomic_uint by_caller; /* deregistrations on its thread */

static void count_by_caller(uint64_t key)
{
    atomic_fetch_add(&by_caller, pthread_equal(caller, pthread_self()) != 0);
}

/* Closes a lost domain, whose thread is not through yet. */
static void close_lost(void)
{
    int rc;

    while ((rc = hmreg_domain_close(lost)) == -EBUSY)
        sched_yield();
    assert_ok(rc);
    lost = NULL;
}

static void end(void)
{
    atomic_store(&counter.dereg_hook, NULL);
    atomic_store(&start_fails, false);
    close_lost();
    assert_ok(hmreg_domain_close(alive));
    sem_destroy(&entered);
    sem_destroy(&let_go);
    free(host);
}

static void begin(void)
{
    fixture_open(fixture_monitor(), NULL);
    lost = counter_open_served(fixture.lib, NULL);
    alive = counter_open_served(fixture.lib, NULL);
    host = aligned_alloc(PAGE, PAGES * PAGE);
    memset(host, 'h', PAGES * PAGE);
    sem_init(&entered, 0, 0);
    sem_init(&let_go, 0, 0);
    atomic_store(&starts, 0);
    test_after(end);
}

static int get(struct hmreg_domain *domain, unsigned page, struct hmreg_mr **mr)
{
    return hmreg_mr_get(domain, host + page * PAGE, PAGE, RIGHTS, mr);
}

static struct hmreg_mr *got(struct hmreg_domain *domain, unsigned page)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(get(domain, page, &mr));
    return mr;
}

static struct hmreg_mr *registered(struct hmreg_domain *domain, unsigned page)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(
        hmreg_mr_reg(domain, host + page * PAGE, PAGE, RIGHTS, 0, HMREG_KEY_ANY, 0, &mr, NULL));
    return mr;
}

/* ---- hits and misses -------------------------------------------------------------------- */

TEST(lost__remembered_region__no_hit_and_the_reason)
{
    struct hmreg_mr *mr = (void *)1;
    unsigned regs;

    begin();
    hmreg_mr_put(got(lost, 0));
    hmreg_mr_put(got(lost, 0));
    regs = counter.regs;
    assert_ok(hmreg_domain_lost(lost, "port 1 of mlx5_7 was pulled"));
    assert_fails(get(lost, 0, &mr), -ENODEV, "port 1 of mlx5_7 was pulled");
    assert_fails(get(lost, 1, &mr), -ENODEV, "port 1 of mlx5_7 was pulled");
    assert_fails(hmreg_mr_reg(lost, host, PAGE, RIGHTS, 0, HMREG_KEY_ANY, 0, &mr, NULL), -ENODEV,
                 "pulled");
    assert_ptr_equal(mr, (void *)1);
    assert_int_equal(counter.regs, regs);
    hmreg_mr_put(got(alive, 0));
}

static sem_t remembers, told;

static void *get_before_and_after(void *out)
{
    struct hmreg_mr *mr = NULL;

    hmreg_mr_put(got(lost, 0));
    hmreg_mr_put(got(lost, 0));
    sem_post(&remembers);
    while (sem_wait(&told))
        ;
    *(int *)out = get(lost, 0, &mr);
    return NULL;
}

TEST(lost__another_threads_cache__no_hit)
{
    pthread_t thread;
    int rc = 0;

    begin();
    sem_init(&remembers, 0, 0);
    sem_init(&told, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, get_before_and_after, &rc), 0);
    while (sem_wait(&remembers))
        ;
    assert_ok(hmreg_domain_lost(lost, "gone"));
    sem_post(&told);
    pthread_join(thread, NULL);
    assert_int_equal(rc, -ENODEV);
    sem_destroy(&remembers);
    sem_destroy(&told);
}

/* The gate alone, before the regions have ended. */
TEST(lost__marked_and_not_settled__no_hit)
{
    struct hmreg_mr *held, *mr = NULL;

    begin();
    held = got(lost, 0);
    hmreg_mr_put(got(lost, 0));
    inside_mark_lost(lost, "gone");
    assert_fails(get(lost, 0, &mr), -ENODEV, "gone");
    hmreg_mr_put(held);
    assert_ok(hmreg_domain_lost(lost, "again"));
}

/* ---- what one may say ------------------------------------------------------------------- */

TEST(lost__query_and_stats__say_so)
{
    struct hmreg_domain_info info = {.size = sizeof(info)};

    begin();
    assert_ok(hmreg_domain_query(lost, &info));
    assert_string_equal(info.lost, "");
    assert_int_equal(inside_shows_lost(lost), 0);
    assert_ok(hmreg_domain_lost(lost, "port 1 is down"));
    assert_ok(hmreg_domain_query(lost, &info));
    assert_string_equal(info.lost, "port 1 is down");
    assert_int_equal(inside_shows_lost(lost), 1);
    assert_int_equal(inside_shows_lost(alive), 0);
}

/* ---- ends ------------------------------------------------------------------------------- */

TEST(lost__composite_of_device_memory__each_part_ends)
{
    char *there[2];
    struct hmreg_segment segments[2] = {{.kind = HMREG_SEGMENT_MEMORY}};
    struct hmreg_mr *mr = NULL;

    vendors_reset();
    begin();
    for (size_t i = 0; i < 2; i++) {
        there[i] = vendor_memory(HMREG_IFACE_CUDA, 0, HMREG_MEM_DEVICE, PAGE);
        segments[i].u.memory = (struct iovec){there[i], PAGE};
    }
    assert_ok(hmreg_mr_regsgl(lost, segments, 2, RIGHTS, 0, HMREG_KEY_ANY, 0, &mr, NULL));
    assert_int_equal(counter.regions, 2);
    assert_ok(hmreg_domain_lost(lost, "gone"));
    assert_int_equal(counter.regions, 2);
    caller = pthread_self();
    atomic_store(&by_caller, 0);
    atomic_store(&counter.dereg_hook, count_by_caller);
    assert_ok(hmreg_mr_close(mr));
    close_lost();
    assert_int_equal(counter.regions, 0);
    assert_int_equal(by_caller, 0);
    vendor_memory_free(there[0]);
    vendor_memory_free(there[1]);
}

/* The fabric does not return: only the domain's own thread is in there. */
TEST(lost__deregistration_hangs__nobody_waits)
{
    struct hmreg_mr *held, *explicit;

    begin();
    hmreg_mr_put(got(lost, 0));
    held = got(lost, 1);
    explicit = registered(lost, 2);
    atomic_store(&counter.dereg_hook, hang);
    assert_ok(hmreg_domain_lost(lost, "it does not answer"));
    while (sem_wait(&entered))
        ;
    assert_false(pthread_equal(entered_by, pthread_self()));
    atomic_store(&counter.dereg_hook, NULL);
    hmreg_mr_put(held);
    assert_ok(hmreg_mr_close(explicit));
    assert_ok(hmreg_domain_flush(lost));
    hmreg_mr_put(got(alive, 0));
    assert_ok(hmreg_mr_close(registered(alive, 1)));
    assert_fails(hmreg_domain_close(lost), -EBUSY,
                 "the domain is lost (it does not answer), and 3 of its registrations");
    assert_fails(hmreg_domain_close(lost), -EBUSY, "has not returned");
    sem_post(&let_go);
    close_lost();
}

TEST(lost__fabric_is_busy__tried_again_at_close)
{
    begin();
    hmreg_mr_put(got(lost, 0));
    atomic_store(&counter.dereg_code, -EBUSY);
    atomic_store(&counter.dereg_times, 1);
    assert_ok(hmreg_domain_lost(lost, "gone"));
    close_lost();
    assert_int_equal(counter.regions, 0);
}

TEST(lost__fabric_fails__given_up)
{
    begin();
    hmreg_mr_put(got(lost, 0));
    atomic_store(&counter.dereg_code, -EIO);
    atomic_store(&counter.dereg_times, 1);
    assert_ok(hmreg_domain_lost(lost, "gone"));
    close_lost();
}

TEST(lost__no_thread__kept_until_one_starts)
{
    struct hmreg_mr *explicit;

    begin();
    explicit = registered(lost, 0);
    atomic_store(&start_fails, true);
    assert_ok(hmreg_domain_lost(lost, "gone"));
    assert_ok(hmreg_mr_close(explicit));
    assert_fails(hmreg_domain_close(lost), -EBUSY, ", and 1 of its registrations");
    assert_int_equal(counter.regions, 1);
    atomic_store(&start_fails, false);
    close_lost();
    assert_int_equal(counter.regions, 0);
}

TEST(lost__no_memory_to_keep_it__busy)
{
    struct hmreg_mr *explicit;
    int rc;

    begin();
    explicit = registered(lost, 0);
    assert_ok(hmreg_domain_lost(lost, "gone"));
    allocations = 0;
    failing = 1;
    rc = hmreg_mr_close(explicit);
    failing = 0;
    assert_int_equal(rc, -EBUSY);
    assert_int_equal(counter.deregs, 0);
    assert_ok(hmreg_mr_close(explicit));
    close_lost();
    assert_int_equal(counter.deregs, 1);
}

/* ---- others ----------------------------------------------------------------------------- */

TEST(lost__suspended_regions__stay_so_and_others_resume)
{
    struct hmreg_mr *gone, *there;
    int rc;

    begin();
    gone = registered(lost, 0);
    there = registered(alive, 0);
    assert_ok(hmreg_suspend(fixture.lib, host, PAGE));
    assert_ok(hmreg_domain_lost(lost, "gone"));
    assert_ok(hmreg_resume(fixture.lib, host, PAGE, NULL));
    assert_true(hmreg_mr_key(there) != HMREG_KEY_NOTAVAIL);
    assert_true(hmreg_mr_key(gone) == HMREG_KEY_NOTAVAIL);
    assert_ok(hmreg_mr_close(gone));
    gone = registered(alive, 1);
    assert_ok(hmreg_mr_close(gone));
    while ((rc = hmreg_suspend(fixture.lib, host, PAGE)) == -EBUSY)
        sched_yield();
    assert_ok(rc);
    assert_ok(hmreg_resume(fixture.lib, host, PAGE, NULL));
    assert_ok(hmreg_mr_close(there));
}

TEST(lost__suspend_while_it_hangs__busy_and_says_why)
{
    struct hmreg_mr *held;

    begin();
    held = registered(lost, 0);
    atomic_store(&counter.dereg_hook, hang);
    assert_ok(hmreg_domain_lost(lost, "it does not answer"));
    hmreg_mr_put(got(alive, 1));
    assert_fails(hmreg_suspend(fixture.lib, host, PAGE), -EBUSY, "it does not answer");
    assert_ok(hmreg_mr_close(held));
    sem_post(&let_go);
    atomic_store(&counter.dereg_hook, NULL);
    assert_ok(hmreg_resume(fixture.lib, host, PAGE, NULL));
}

static void lose_at_the_third(struct hmreg_job *job, uint64_t done, uint64_t total, void *context)
{
    if (done >= 2 * PAGE)
        assert_ok(hmreg_domain_lost(lost, "in the middle"));
}

TEST(lost__job__fails_at_its_next_part)
{
    struct hmreg_job_config config = {
        .size = sizeof(config), .workers = 1, .piece_len = PAGE, .progress = lose_at_the_third};
    struct hmreg_mr *mr = (void *)1;

    begin();
    assert_fails(hmreg_mr_reg_large(lost, host, PAGES * PAGE, RIGHTS, &config, &mr), -ENODEV,
                 "in the middle");
    assert_ptr_equal(mr, (void *)1);
    assert_true(counter.regs < PAGES);
    close_lost();
    assert_int_equal(counter.regions, 0);
}

/* Its regions give no room to others, who would wait for its fabric. */
TEST(lost__another_domain_has_no_room__does_not_wait)
{
    struct hmreg_mr *held, *mr = NULL;

    begin();
    hmreg_mr_put(got(lost, 0));
    held = got(lost, 1);
    atomic_store(&counter.dereg_hook, hang);
    assert_ok(hmreg_domain_lost(lost, "it does not answer"));
    while (sem_wait(&entered))
        ;
    atomic_store(&counter.dereg_hook, NULL);
    counter.room = 2;
    assert_int_equal(get(alive, 2, &mr), -ENOMEM);
    counter.room = 0;
    sem_post(&let_go);
    hmreg_mr_put(held);
}

/* Nor before the domain's regions have ended. */
TEST(lost__marked_and_another_has_no_room__its_regions_stay)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};
    struct hmreg_mr *mr = NULL;

    begin();
    inside_set_names(lost, NULL, "nic0"); /* so that its regions would be of use */
    inside_set_names(alive, NULL, "nic0");
    hmreg_mr_put(got(lost, 0));
    inside_mark_lost(lost, "gone");
    counter.room = 1;
    assert_int_equal(get(alive, 2, &mr), -ENOMEM);
    counter.room = 0;
    assert_ok(hmreg_domain_stats(lost, &stats));
    assert_int_equal(stats.regions, 1);
    assert_ok(hmreg_domain_lost(lost, "again"));
}

/* ---- a registration under way ----------------------------------------------------------- */

static void hang_in_reg(const struct provider_request *request)
{
    hang(0);
}

struct getter {
    struct hmreg_domain *domain;
    struct hmreg_mr *mr;
    int rc;
    pthread_t thread;
};

static void *get_first(void *arg)
{
    struct getter *getter = arg;

    getter->rc = get(getter->domain, 0, &getter->mr);
    return NULL;
}

static void start_getter(struct getter *getter, struct hmreg_domain *domain)
{
    *getter = (struct getter){.domain = domain};
    assert_int_equal(pthread_create(&getter->thread, NULL, get_first, getter), 0);
}

static void await_waiting(struct hmreg_domain *domain)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};

    do {
        assert_ok(hmreg_domain_stats(domain, &stats));
        sched_yield();
    } while (!stats.waiting);
}

TEST(lost__registration_hangs__gets_of_its_range_go_on)
{
    struct getter inside, waits;

    begin();
    atomic_store(&counter.reg_hook, hang_in_reg);
    start_getter(&inside, lost);
    while (sem_wait(&entered))
        ;
    atomic_store(&counter.reg_hook, NULL);
    start_getter(&waits, lost);
    await_waiting(lost);
    assert_ok(hmreg_domain_lost(lost, "it does not answer"));
    pthread_join(waits.thread, NULL);
    assert_int_equal(waits.rc, -ENODEV);
    assert_fails(hmreg_domain_close(lost), -EBUSY, "held");
    sem_post(&let_go);
    pthread_join(inside.thread, NULL);
    assert_int_equal(inside.rc, -ENODEV);
    close_lost();
    assert_int_equal(counter.regions, 0);
}

/* The group's other member serves them. */
TEST(lost__registration_of_a_group_hangs__gets_of_its_range_go_on)
{
    struct hmreg_domain *group = NULL;
    struct getter inside, waits;

    begin();
    assert_ok(
        hmreg_group_open(fixture.lib, (struct hmreg_domain *[]){lost, alive}, 2, NULL, &group));
    atomic_store(&counter.reg_hook, hang_in_reg);
    start_getter(&inside, group);
    while (sem_wait(&entered))
        ;
    atomic_store(&counter.reg_hook, NULL);
    start_getter(&waits, group);
    await_waiting(group);
    assert_ok(hmreg_domain_lost(lost, "it does not answer"));
    pthread_join(waits.thread, NULL);
    assert_ok(waits.rc);
    assert_null(hmreg_mr_rail(waits.mr, 0));
    assert_non_null(hmreg_mr_rail(waits.mr, 1));
    assert_fails(hmreg_suspend(fixture.lib, host, PAGE), -EBUSY, "for a second");
    assert_ok(hmreg_resume(fixture.lib, host, PAGE, NULL));
    sem_post(&let_go);
    pthread_join(inside.thread, NULL);
    assert_true(!inside.rc || inside.rc == -ENODEV || inside.rc == -EAGAIN);
    hmreg_mr_put(inside.mr);
    hmreg_mr_put(waits.mr);
    assert_ok(hmreg_domain_close(group));
}

static bool without_memory;

static void lose_inside(const struct provider_request *request)
{
    assert_ok(hmreg_domain_lost(lost, "meanwhile"));
    allocations = 0;
    failing = without_memory ? 2 : 0; /* the first is the test's fabric's */
}

/* The fabric registers it nevertheless. */
TEST(lost__registration_returns_afterwards__its_region_ends)
{
    struct hmreg_mr *mr = (void *)1;

    begin();
    without_memory = false;
    atomic_store(&counter.reg_hook, lose_inside);
    assert_fails(hmreg_mr_reg(lost, host, PAGE, RIGHTS, 0, HMREG_KEY_ANY, 0, &mr, NULL), -ENODEV,
                 "meanwhile");
    assert_ptr_equal(mr, (void *)1);
    assert_int_equal(counter.regs, 1);
    close_lost();
    assert_int_equal(counter.regions, 0);
}

TEST(lost__registration_returns_afterwards_and_no_memory__its_region_is_the_callers)
{
    struct hmreg_mr *mr = NULL;
    int rc;

    begin();
    without_memory = true;
    atomic_store(&counter.reg_hook, lose_inside);
    rc = hmreg_mr_reg(lost, host, PAGE, RIGHTS, 0, HMREG_KEY_ANY, 0, &mr, NULL);
    failing = 0;
    assert_ok(rc);
    assert_ok(hmreg_mr_close(mr));
    close_lost();
    assert_int_equal(counter.regions, 0);
}

/* ---- objects ---------------------------------------------------------------------------- */

TEST(lost__loopbacks_objects__no_new_ones)
{
    struct hmreg_loopback_counter *tally = (void *)1;
    struct hmreg_loopback_ep *ep, *none = (void *)1;
    struct hmreg_loopback_eq *eq;
    struct hmreg_domain *loop;

    begin();
    assert_ok(hmreg_domain_open_loopback(fixture.lib, NULL, NULL, &loop));
    assert_ok(hmreg_loopback_ep_open(loop, &ep));
    assert_ok(hmreg_loopback_eq_open(loop, &eq));
    assert_ok(hmreg_domain_lost(loop, "gone"));
    assert_fails(hmreg_loopback_ep_open(loop, &none), -ENODEV, "gone");
    assert_fails(hmreg_loopback_counter_open(loop, &tally), -ENODEV, "gone");
    assert_fails(hmreg_domain_bind(loop, eq, HMREG_BIND_REG_MR), -ENODEV, "gone");
    assert_ptr_equal(none, (void *)1);
    assert_ok(hmreg_loopback_ep_close(ep));
    assert_ok(hmreg_loopback_eq_close(eq));
    assert_ok(hmreg_domain_close(loop));
}

/* ---- exit ------------------------------------------------------------------------------- */

/* The domain's thread has time to go on. */
static void give_time(void)
{
    usleep(20000);
}

/* The first call is under way when the exit begins, and no other begins. */
static void call_fabric(uint64_t key)
{
    if (atomic_load(&fabric_is_awaited))
        _exit(9);
    sem_post(&entered);
    call_exiting_fabric();
}

static void lose_much(void)
{
    begin();
    for (unsigned i = 0; i < PAGES; i++)
        hmreg_mr_put(got(lost, i));
    atomic_store(&counter.dereg_hook, call_fabric);
    assert_ok(hmreg_domain_lost(lost, "gone"));
    while (sem_wait(&entered))
        ;
    fabric_has_time = give_time;
    atomic_store(&fabric_exits, true);
}

TEST(exit__much_is_to_be_ended__the_fabric_is_not_called_after_its_end)
{
    test_forks_with_threads();
    exit_in_child(lose_much);
}

static void lose_while_it_hangs(void)
{
    begin();
    hmreg_mr_put(got(lost, 0));
    atomic_store(&counter.dereg_hook, hang);
    assert_ok(hmreg_domain_lost(lost, "gone"));
    while (sem_wait(&entered))
        ;
}

TEST(exit__deregistration_never_returns__the_process_ends)
{
    test_forks_with_threads();
    exit_in_child(lose_while_it_hangs);
}

TEST_MAIN()
