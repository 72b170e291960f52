/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Ended regions are deregistered without a further call by the application: by the library's thread
 * if the fabric permits calls on any thread, else by the application's own calls. The cases check
 * only that the awaited events come. Run with each monitor that notices by itself: see
 * fixture_monitor().
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/fabric_exit.h"
#include "tests/support/inside.h"
#include "tests/support/vendors.h"

#include <hmreg/loopback.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

static _Thread_local bool is_tests_thread;

/* Deregistrations on the test's own thread, and on others. */
static atomic_uint on_own, on_others;

static void count_threads(uint64_t key)
{
    atomic_fetch_add(is_tests_thread ? &on_own : &on_others, 1);
}

static void open_counted(bool any_thread, const struct hmreg_domain_config *config)
{
    struct hmreg_domain *(*open)(struct hmreg *, const struct hmreg_domain_config *) =
        any_thread ? counter_open_served : counter_open;

    fixture_open(fixture_monitor(), NULL);
    assert_ok(hmreg_domain_close(fixture.domain));
    fixture.domain = open(fixture.lib, config);
    is_tests_thread = true;
    atomic_store(&on_own, 0);
    atomic_store(&on_others, 0);
    counter.dereg_hook = count_threads;
}

/* Waits without a call of the library. */
static void await_count(const atomic_uint *word, unsigned value)
{
    test_wait_until(atomic_load(word) == value);
}

/* ---- the reaper's sleep ------------------------------------------------------------------ */

#define REST_NS 3000000 /* its pause before a round, which is no sleep */

static atomic_uint sleeps; /* begun */
static atomic_bool sleeping;

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __real_syscall(long number, long a, long b, long c, long d, long e, long f);

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    const struct timespec *most = (const struct timespec *)d;
    long rc;

    if (number != SYS_futex || b != FUTEX_WAIT_PRIVATE || (most && most->tv_nsec == REST_NS))
        return __real_syscall(number, a, b, c, d, e, f);
    atomic_fetch_add(&sleeps, 1);
    atomic_store(&sleeping, true);
    rc = __real_syscall(number, a, b, c, d, e, f);
    atomic_store(&sleeping, false);
    return rc;
}

static void remember_each(char *memory, size_t pages)
{
    for (size_t i = 0; i < pages; i++)
        fixture_key(memory + i * fixture_page(), 10);
}

/* ---- fabrics of any thread -------------------------------------------------------------- */

TEST(munmap__nothing_is_called_any_more__deregistered)
{
    char *memory = fixture_map(40);

    open_counted(true, NULL);
    remember_each(memory, 40);
    munmap(memory, 30 * fixture_page());
    await_count(&counter.regions, 10);
    munmap(memory + 30 * fixture_page(), 10 * fixture_page());
    await_count(&counter.regions, 0);
    assert_int_equal(atomic_load(&on_own), 0);
}

TEST(invalidate__nothing_is_called_any_more__deregistered)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_IMPORT};
    char *memory = fixture_map(1);

    assert_ok(hmreg_open(&config, &fixture.lib));
    fixture.domain = counter_open_served(fixture.lib, NULL);
    fixture_key(memory, 10);
    assert_ok(hmreg_invalidate(fixture.lib, memory, 10));
    await_count(&counter.regions, 0);
    fixture_close();
    munmap(memory, fixture_page());
}

static sem_t inside, leave;

/* The reaper waits in the fabric until the test releases it. */
static void stand_in_fabric(uint64_t key)
{
    count_threads(key);
    if (is_tests_thread || atomic_load(&on_others) > 1)
        return;
    sem_post(&inside);
    while (sem_wait(&leave))
        ;
}

static void stop_reaper(char *memory, size_t pages)
{
    sem_init(&inside, 0, 0);
    sem_init(&leave, 0, 0);
    counter.dereg_hook = stand_in_fabric;
    munmap(memory, pages * fixture_page());
    while (sem_wait(&inside))
        ;
}

static void *close_domain(void *unused)
{
    is_tests_thread = true;
    assert_ok(hmreg_domain_close(fixture.domain));
    return NULL;
}

/* Regions that the reaper has in hand are neither leaked nor deregistered twice. It goes on for
 * another domain. */
TEST(close__reaper_is_in_the_fabric__waits_for_it)
{
    char *memory = fixture_map(40), *others = fixture_map(1);
    pthread_t closer;
    struct fixture other;

    open_counted(true, NULL);
    other = (struct fixture){fixture.lib, counter_open_more(fixture.lib, NULL)};
    fixture_key_in(&other, others, 10);
    remember_each(memory, 40);
    stop_reaper(memory, 40);
    assert_int_equal(pthread_create(&closer, NULL, close_domain, NULL), 0);
    test_wait_until_others_sleep();
    sem_post(&leave);
    pthread_join(closer, NULL);
    assert_int_equal(atomic_load(&counter.regions), 1);
    assert_int_equal(atomic_load(&counter.deregs), 40);
    fixture = other;
    fixture_close();
    munmap(others, fixture_page());
}

/* ---- fabrics of the application's threads ------------------------------------------------ */

/* Waits until the reaper, which drains such a domain too, has found the dead regions. */
static void await_examined(unsigned dead)
{
    await_count(inside_to_free(fixture.domain), dead);
}

TEST(munmap__fabric_of_the_applications_threads__left_to_its_calls)
{
    char *memory = fixture_map(40);

    open_counted(false, NULL);
    remember_each(memory, 40);
    munmap(memory, 40 * fixture_page());
    await_examined(40);
    assert_int_equal(atomic_load(&counter.regions), 40);
    assert_ok(hmreg_domain_progress(fixture.domain));
    assert_int_equal(atomic_load(&counter.regions), 0);
    assert_int_equal(atomic_load(&on_own), 40);
    assert_int_equal(atomic_load(&on_others), 0);
}

/* Eight per hit that asks the kernel, once the reaper has retired them. */
TEST(munmap__fabric_of_the_applications_threads__hits_deregister_a_few_each)
{
    size_t page = fixture_page();
    char *freed = fixture_map(10), *kept = fixture_map(1);

    fixture_open(HMREG_MONITOR_USERFAULTFD, NULL);
    fixture_key(kept, page);
    remember_each(freed, 10);
    munmap(freed, 10 * page);
    assert_int_equal(fixture_stats().regions, 1);
    test_wait_until((fixture_key(kept, page), atomic_load(&counter.regions) == 1));
    munmap(kept, page);
}

/* ---- loopback, whose registrations are addresses ---------------------------------------- */

struct peer {
    struct hmreg_domain *domain;
    struct hmreg_mr *mr, *local;
    struct hmreg_remote *remote;
    uint64_t addr, key;
    char byte;
};

static void peer_open(struct peer *peer, char *memory, uint32_t mr_mode)
{
    struct hmreg_loopback_config config = {.size = sizeof(config), .mr_mode = mr_mode};
    char token[4096];
    size_t size = sizeof(token);

    assert_ok(hmreg_domain_open_loopback(fixture.lib, &config, NULL, &peer->domain));
    assert_ok(hmreg_mr_get(peer->domain, memory, 10, HMREG_ACCESS_REMOTE | HMREG_READ, &peer->mr));
    assert_ok(hmreg_mr_reg(peer->domain, &peer->byte, 1, HMREG_WRITE | HMREG_READ, 0, 7, 0,
                           &peer->local, NULL));
    assert_ok(hmreg_mr_pack(peer->mr, token, &size));
    assert_ok(hmreg_remote_open(peer->domain, token, size, &peer->remote));
    assert_ok(hmreg_remote_addr(peer->remote, 0, 1, &peer->addr, &peer->key));
}

static int peer_write(struct peer *peer, char byte)
{
    peer->byte = byte;
    return hmreg_loopback_write(peer->remote, &peer->byte, 1, hmreg_mr_desc(peer->local),
                                peer->addr, peer->key);
}

static void peer_close(struct peer *peer)
{
    assert_ok(hmreg_mr_close(peer->local));
    hmreg_remote_close(peer->remote);
    assert_ok(hmreg_domain_close(peer->domain));
}

/* Held or not, the region must not reach the new memory at its address. */
static void write_to_other_memory(bool held)
{
    char *memory = fixture_map(1);
    struct peer peer;
    void *desc;

    fixture_open(fixture_monitor(), NULL);
    for (int i = 0; i < 50; i++) {
        peer_open(&peer, memory, held ? HMREG_MR_LOCAL : 0);
        assert_ok(peer_write(&peer, 'x'));
        assert_int_equal(memory[0], 'x');
        desc = hmreg_mr_desc(peer.mr);
        if (!held)
            hmreg_mr_put(peer.mr);
        inside_pause(peer.domain); /* it would revoke and deregister in time */
        assert_int_equal(munmap(memory, fixture_page()), 0);
        assert_ptr_equal(fixture_map_at(memory, 1), memory);
        if (held) /* its desc names other memory, too */
            assert_fails(hmreg_loopback_read(peer.remote, memory, 1, desc, peer.addr, peer.key),
                         -EINVAL, "desc is not of an open");
        assert_fails(peer_write(&peer, 'y'), -EKEYREJECTED, "no enabled region with key");
        assert_int_equal(memory[0], 0);
        inside_resume(peer.domain);
        if (held)
            hmreg_mr_put(peer.mr);
        peer_close(&peer);
    }
    munmap(memory, fixture_page());
    fixture_close();
}

TEST(rma__cached_region_whose_memory_ended__refused_at_once)
{
    write_to_other_memory(false);
}

TEST(rma__held_region_whose_memory_ended__refused_at_once)
{
    write_to_other_memory(true);
}

static struct hmreg_domain *closing;
static struct gate *its_gate;

/* As a peer of loopback on another thread may, until the provider has waited for it. */
static void ask_while_closing(void)
{
    inside_settle(closing);
    assert_true(inside_is_noticed(its_gate));
}

TEST(close__provider_asks_the_caches_until_it_is_destroyed__they_are_there)
{
    fixture_open(fixture_monitor(), NULL);
    closing = counter_open_more(fixture.lib, NULL);
    its_gate = inside_gate(closing);
    counter.destroy_hook = ask_while_closing;
    assert_ok(hmreg_domain_close(closing));
    counter.destroy_hook = NULL;
    assert_false(inside_is_noticed(its_gate)); /* gates are never freed */
}

/* ---- the thread ------------------------------------------------------------------------- */

static int threads_named(const char *name)
{
    return fixture_threads_named(name, NULL, 0);
}

#define STEPS 60

/* Each step of its tidying makes work due. */
static struct {
    atomic_uint steps;
    atomic_bool due;
    unsigned sleeps_before, sleeps_after; /* the first step and the last */
} sweeper;

static bool is_sweeper_due(void)
{
    return atomic_load(&sweeper.due);
}

static bool examine_sweeper(void)
{
    atomic_store(&sweeper.due, false);
    return false;
}

static bool step(void)
{
    unsigned steps = atomic_load(&sweeper.steps);

    if (!steps)
        sweeper.sleeps_before = atomic_load(&sleeps);
    if (steps < STEPS) {
        sweeper.sleeps_after = atomic_load(&sleeps);
        atomic_store(&sweeper.steps, steps + 1);
        atomic_store(&sweeper.due, true);
        inside_thread_wake();
    }
    return steps + 1 < STEPS;
}

/* The reaper does not sleep between two steps. */
TEST(tidy__makes_work_due__goes_on_after_it)
{
    static const struct inside_client client = {
        .is_due = is_sweeper_due, .examine = examine_sweeper, .tidy = step};

    inside_set_idle(1000000);
    assert_true(inside_join(&client, false));
    await_count(&sweeper.steps, STEPS);
    assert_int_equal(sweeper.sleeps_after, sweeper.sleeps_before);
    inside_leave();
}

static atomic_uint recurred; /* times that recur() was called */

static bool is_always(void)
{
    return true;
}

static bool recur(void)
{
    return atomic_fetch_add(&recurred, 1) % 2; /* two steps each time */
}

TEST(recurs__while_other_work_is_always_due__done_all_the_same)
{
    static const struct inside_client client = {
        .is_due = is_always, .recurs = is_always, .recur = recur};

    inside_set_idle(1000000);
    assert_true(inside_join(&client, false));
    test_wait_until(atomic_load(&recurred) >= 6);
    inside_leave();
}

static int childs_part(void)
{
    char *memory = fixture_map(1);

    if (threads_named("hmreg-reaper"))
        return 1;
    open_counted(true, NULL);
    fixture_key(memory, 10);
    munmap(memory, fixture_page());
    await_count(&counter.regions, 0);
    fixture_close();
    return 0;
}

TEST(fork__child_has_a_reaper_of_its_own)
{
    char *memory = fixture_map(1);

    test_forks_while_threads_allocate(); /* as a new thread does */
    open_counted(true, NULL);
    fixture_key(memory, 10);
    test_in_child(childs_part());
    munmap(memory, fixture_page());
    await_count(&counter.regions, 0);
}

/* A polling real-time thread has its CPU for itself; the library's thread must not depend on it. */
TEST(threads__started_by_one_that_is_bound__all_cpus_and_the_normal_class)
{
    static const char *const names[] = {"hmreg-reaper", "hmreg-monitor"};
    struct hmreg_monitor_info monitor = {.size = sizeof(monitor)};
    struct sched_param real_time = {.sched_priority = 1}, normal = {.sched_priority = 0};
    cpu_set_t before, one;
    char *memory = fixture_map(1);

    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; !CPU_COUNT(&one); cpu++)
        if (CPU_ISSET(cpu, &before))
            CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    (void)sched_setscheduler(0, SCHED_FIFO, &real_time); /* if permitted */
    open_counted(true, NULL);
    fixture_key(memory, 10);
    (void)sched_setscheduler(0, SCHED_OTHER, &normal);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    assert_ok(hmreg_monitor_query(fixture.lib, &monitor));
    for (size_t i = 0; i < (monitor.userfaultfd ? 2 : 1); i++) { /* memhooks need no thread */
        pid_t thread = 0;
        cpu_set_t its;

        test_wait_until(fixture_threads_named(names[i], &thread, 1));
        assert_int_equal(sched_getaffinity(thread, sizeof(its), &its), 0);
        assert_true(CPU_COUNT(&its) >= CPU_COUNT(&before));
        assert_int_equal(sched_getscheduler(thread), SCHED_OTHER);
    }
    munmap(memory, fixture_page());
}

/* ---- exit ------------------------------------------------------------------------------- */

/* The reaper, if it still runs, has time to go on to its end. */
static void give_time(void)
{
    test_wait_until(atomic_load(&sleeping) || !threads_named("hmreg-reaper"));
}

static void call_fabric(uint64_t key)
{
    call_exiting_fabric();
}

static void end_much(void)
{
    char *memory = fixture_map(64);

    open_counted(true, NULL);
    counter.dereg_hook = call_fabric;
    remember_each(memory, 64);
    munmap(memory, 64 * fixture_page());
    test_wait_until(atomic_load(&counter.deregs));
    fabric_has_time = give_time;
    atomic_store(&fabric_exits, true);
}

TEST(exit__much_is_dead__the_fabric_is_not_called_after_its_end)
{
    test_forks_with_threads();
    exit_in_child(end_much);
}

/* A thread of the program that continues while others exit. */
static struct {
    struct fixture fixture;
    pthread_t thread;
    atomic_bool goes_on;
    atomic_uint rounds; /* relaxed, so that ThreadSanitizer sees no order by it */
} beside;

/* Each round starts and stops the reaper. */
static void *open_and_close(void *arg)
{
    while (atomic_load(&beside.goes_on)) {
        struct fixture own = {beside.fixture.lib, counter_open_more(beside.fixture.lib, NULL)};

        fixture_key_in(&own, &beside, 4);
        assert_ok(hmreg_domain_close(own.domain));
        atomic_fetch_add_explicit(&beside.rounds, 1, memory_order_relaxed);
    }
    return arg;
}

/* After the exit handlers, including the library's. */
static void __attribute__((destructor)) end_beside(void)
{
    if (atomic_exchange(&beside.goes_on, false))
        pthread_join(beside.thread, NULL);
}

/* Its exit leaves the library open. */
static void come_and_go(void)
{
    fixture_open_in(&beside.fixture, HMREG_MONITOR_IMPORT, NULL);
    atomic_store(&beside.goes_on, true);
    assert_int_equal(pthread_create(&beside.thread, NULL, open_and_close, NULL), 0);
    while (atomic_load_explicit(&beside.rounds, memory_order_relaxed) < 10)
        sched_yield();
}

/* ThreadSanitizer supports this fork, of a process with one thread. */
TEST(exit__another_thread_opens_and_closes_domains__ends)
{
    exit_in_child(come_and_go);
}

TEST_MAIN()
