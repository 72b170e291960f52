/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The library has threads only while they have something to do, so that a program can make a user
 * namespace, which the kernel permits to a process with one thread. Seen from outside, by
 * /proc/self/task and unshare(2), with each monitor, and in the guest
 * (HMREG_TEST_MONITOR=counter) with counter, which has one; and inside: what ends the thread by
 * itself, and what happens when none can be started.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/inside.h"
#include "tests/support/kernel_monitor.h"

#include <hmreg/loopback.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/wait.h>

static atomic_int failing; /* so many calls of pthread_create() fail */
static atomic_uint created;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg);
/* The linker has loopback's library use it, too. */
int __attribute__((visibility("default")))
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                      void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg)
{
    int rc;

    if (atomic_load(&failing) && atomic_fetch_sub(&failing, 1))
        return EAGAIN;
    rc = __real_pthread_create(thread, attr, run, arg);
    atomic_fetch_add(&created, !rc);
    return rc;
}

/* Includes a sanitizer's. */
static unsigned tasks_before;

static unsigned library_tasks(void)
{
    return test_threads() - tasks_before;
}

/* ---- from outside ------------------------------------------------------------------------ */

#define LEN 4096

/* In a child, whose failures its exit status tells. */
static void need_at(bool holds, const char *what, int line)
{
    if (holds)
        return;
    fprintf(stderr, "lone.c:%d: not so: %s\n", line, what);
    _exit(1);
}
#define need(what) need_at(what, #what, __LINE__)

static struct hmreg *open_lib(enum hmreg_monitor monitor)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = monitor};
    struct hmreg *lib = NULL;

    need(hmreg_open(&config, &lib) == 0);
    return lib;
}

static struct hmreg_domain *open_loopback(struct hmreg *lib)
{
    struct hmreg_loopback_config config = {.size = sizeof(config)};
    struct hmreg_domain *domain = NULL;

    need(hmreg_domain_open_loopback(lib, &config, NULL, &domain) == 0);
    return domain;
}

static void get_and_put(struct hmreg_domain *domain, const void *addr)
{
    struct hmreg_mr *mr = NULL;

    need(hmreg_mr_get(domain, addr, LEN, HMREG_ACCESS_LOCAL, &mr) == 0);
    hmreg_mr_put(mr);
}

static uint64_t cached(struct hmreg_domain *domain)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};

    need(hmreg_domain_stats(domain, &stats) == 0);
    return stats.regions;
}

static char *map_page(void)
{
    char *page = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    need(page != MAP_FAILED);
    return page;
}

static bool makes_namespace(void)
{
    return unshare(CLONE_NEWUSER) == 0;
}

/* Only what the test asks for differs between the program that may and the one that may not. */
static void skip_without_namespaces(void)
{
    test_in_child_or_skip(makes_namespace() ? 0 : 77, "new user namespaces are not permitted here");
}

static bool has_userfaultfd(void)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_USERFAULTFD};
    struct hmreg *lib;

    return !hmreg_open(&config, &lib) && !hmreg_close(lib);
}

static int open_only(enum hmreg_monitor monitor)
{
    tasks_before = test_threads() - 1;
    open_loopback(open_lib(monitor));
    need(library_tasks() == 1);
    return makes_namespace() ? 0 : 1;
}

TEST(open__no_region_yet__no_thread_and_a_user_namespace)
{
    skip_without_namespaces();
    test_in_child(open_only(HMREG_MONITOR_MEMHOOKS));
    test_in_child(open_only(HMREG_MONITOR_IMPORT));
    test_in_child(open_only(HMREG_MONITOR_DEFAULT));
    if (has_userfaultfd())
        test_in_child(open_only(HMREG_MONITOR_USERFAULTFD));
    if (kernel_monitor() == HMREG_MONITOR_COUNTER)
        test_in_child(open_only(HMREG_MONITOR_COUNTER));
}

/* With a region cached: the program's, the reaper, and the monitor's. */
static unsigned most_tasks(enum hmreg_monitor monitor)
{
    return monitor == HMREG_MONITOR_COUNTER || monitor == HMREG_MONITOR_USERFAULTFD ? 3 : 2;
}

/* Two domains and another library; then again, which no namespace hinders. */
static int flush_all(enum hmreg_monitor monitor)
{
    struct hmreg *lib = open_lib(monitor);
    struct hmreg_domain *one = open_loopback(lib), *two = open_loopback(lib);
    struct hmreg_domain *other = open_loopback(open_lib(HMREG_MONITOR_IMPORT));
    char *page = map_page();

    tasks_before = test_threads() - 1;
    get_and_put(one, page);
    get_and_put(two, page);
    get_and_put(other, page);
    need(library_tasks() == most_tasks(monitor));
    need(!makes_namespace());
    need(hmreg_domain_flush(one) == 0);
    need(hmreg_domain_flush(other) == 0);
    need(library_tasks() == most_tasks(monitor)); /* `two` has a region */
    need(hmreg_domain_flush(two) == 0);
    need(library_tasks() == 1);
    need(makes_namespace());
    get_and_put(one, page);
    need(cached(one) == 1);
    need(library_tasks() == most_tasks(monitor));
    if (monitor == HMREG_MONITOR_IMPORT)
        hmreg_invalidate(lib, page, LEN);
    munmap(page, LEN);
    test_wait_until(!inside_entries(one)); /* without a call of the library */
    return cached(one) ? 1 : 0;
}

TEST(flush__nothing_is_cached_any_more__no_thread_until_a_region_is)
{
    skip_without_namespaces();
    test_in_child(flush_all(HMREG_MONITOR_MEMHOOKS));
    test_in_child(flush_all(HMREG_MONITOR_IMPORT));
    if (has_userfaultfd())
        test_in_child(flush_all(HMREG_MONITOR_USERFAULTFD));
    if (kernel_monitor() == HMREG_MONITOR_COUNTER)
        test_in_child(flush_all(HMREG_MONITOR_COUNTER));
}

static int flush_often(enum hmreg_monitor monitor, int times)
{
    struct hmreg_domain *domain = open_loopback(open_lib(monitor));
    char *page = map_page();

    tasks_before = test_threads() - 1;
    for (int i = 0; i < times; i++) {
        get_and_put(domain, page);
        need(cached(domain) == 1);
        need(library_tasks() == most_tasks(monitor));
        need(hmreg_domain_flush(domain) == 0);
        need(!inside_thread_runs());
        need(library_tasks() == 1); /* the kernel's task has ended, too */
    }
    return 0;
}

TEST(flush__again_and_again__no_task_is_left_each_time)
{
    test_forks_with_threads(); /* its runtime has a thread of its own */
    test_in_child(flush_often(HMREG_MONITOR_IMPORT, 300));
    if (has_userfaultfd())
        test_in_child(flush_often(HMREG_MONITOR_USERFAULTFD, 30));
    if (kernel_monitor() == HMREG_MONITOR_COUNTER)
        test_in_child(flush_often(HMREG_MONITOR_COUNTER, 30));
}

static int flush_with_held(void)
{
    struct hmreg_domain *domain = open_loopback(open_lib(HMREG_MONITOR_IMPORT));
    char *page = map_page();
    struct hmreg_mr *mr = NULL;

    tasks_before = test_threads() - 1;
    need(hmreg_mr_get(domain, page, LEN, HMREG_ACCESS_LOCAL, &mr) == 0);
    need(hmreg_domain_flush(domain) == 0);
    need(library_tasks() == 2);
    hmreg_mr_put(mr);
    need(hmreg_domain_flush(domain) == 0);
    need(library_tasks() == 1);
    return 0;
}

TEST(flush__a_region_is_held__the_thread_stays)
{
    test_forks_with_threads();
    test_in_child(flush_with_held());
}

#define STACK ((size_t)320 << 10) /* less than the reaper's */

static void *measure_stack(void *out)
{
    pthread_attr_t attr;
    void *base;

    need(!pthread_getattr_np(pthread_self(), &attr));
    need(!pthread_attr_getstack(&attr, &base, out));
    pthread_attr_destroy(&attr);
    return NULL;
}

static int start_own_after(void)
{
    struct hmreg_domain *domain = open_loopback(open_lib(HMREG_MONITOR_IMPORT));
    pthread_attr_t attr;
    pthread_t thread;
    size_t size = 0;

    get_and_put(domain, map_page());
    need(hmreg_domain_flush(domain) == 0);
    pthread_attr_init(&attr);
    need(!pthread_attr_setstacksize(&attr, STACK));
    need(!pthread_create(&thread, &attr, measure_stack, &size));
    pthread_join(thread, NULL);
    need(size == STACK);
    return 0;
}

/* libc keeps the stack of a thread that has ended, if it is libc's, for the program's next one. */
TEST(flush__program_starts_a_thread__its_stack_is_as_large_as_it_asked)
{
    test_forks_with_threads();
    test_in_child(start_own_after());
}

/* What is not cached needs no thread. */
static int register_file(void)
{
    struct hmreg_domain *domain = open_loopback(open_lib(HMREG_MONITOR_MEMHOOKS));
    int fd = memfd_create("lone", MFD_CLOEXEC);
    char *page;

    tasks_before = test_threads() - 1;
    need(fd >= 0 && ftruncate(fd, LEN) == 0);
    page = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    need(page != MAP_FAILED);
    get_and_put(domain, page);
    need(cached(domain) == 0);
    need(library_tasks() == 1);
    return 0;
}

TEST(get__file__no_thread)
{
    test_forks_with_threads();
    test_in_child(register_file());
}

/* ---- by itself --------------------------------------------------------------------------- */

static void open_served(int64_t idle_ns)
{
    inside_set_idle(idle_ns);
    fixture_open(HMREG_MONITOR_IMPORT, NULL);
    assert_ok(hmreg_domain_close(fixture.domain));
    fixture.domain = counter_open_served(fixture.lib, NULL);
}

static int reapers(void)
{
    return fixture_threads_named("hmreg-reaper", NULL, 0);
}

static void evict_all(void)
{
    assert_int_equal(inside_flush(fixture.domain), 0); /* does not end the thread */
}

TEST(thread__nothing_is_cached__ends_after_its_idle_time)
{
    char *memory = fixture_map(1);

    open_served(1000000);
    for (int i = 0; i < 5; i++) {
        fixture_key(memory, 10);
        assert_true(inside_thread_runs());
        evict_all();
        test_wait_until(!inside_thread_runs() && !reapers());
    }
    fixture_key(memory, 10); /* the thread that ended is joined */
    assert_ok(hmreg_invalidate(fixture.lib, memory, 10));
    test_wait_until(!atomic_load(&counter.regions));
    munmap(memory, fixture_page());
}

TEST(thread__cached_and_evicted_again_and_again__is_one)
{
    char *memory = fixture_map(1);

    open_served(INSIDE_IDLE_NS);
    atomic_store(&created, 0);
    for (int i = 0; i < 100; i++) {
        fixture_key(memory, 10);
        evict_all();
    }
    assert_int_equal(atomic_load(&created), 1);
    munmap(memory, fixture_page());
}

/* A region that ends with its last put wakes no thread. */
TEST(thread__regions_end_with_their_last_put__ends_after_its_idle_time)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .policy = HMREG_POLICY_LAST_PUT};
    char *memory = fixture_map(2);
    struct hmreg_mr *mr;

    open_served(1000000);
    assert_ok(hmreg_domain_close(fixture.domain));
    fixture.domain = counter_open_served(fixture.lib, &config);
    mr = fixture_get(memory, 10);
    usleep(20000); /* it sleeps without a limit by then, or the case shows less */
    assert_true(inside_thread_runs());
    hmreg_mr_put(mr);
    test_wait_until(!inside_thread_runs() && !reapers());
    munmap(memory, 2 * fixture_page());
}

/* Only a thread that is inside its call can tell. */
TEST(thread__cached_region__stays)
{
    char *memory = fixture_map(1);

    open_served(1000000);
    fixture_key(memory, 10);
    usleep(50000);
    assert_true(inside_thread_runs());
    assert_int_equal(reapers(), 1);
    munmap(memory, fixture_page());
}

static struct {
    atomic_bool goes_on;
    atomic_uint gets;
} race;

static void *get_and_flush(void *memory)
{
    while (atomic_load(&race.goes_on)) {
        fixture_key(memory, 10);
        atomic_fetch_add(&race.gets, 1);
        assert_ok(hmreg_domain_flush(fixture.domain));
    }
    return NULL;
}

/* Whatever the others flush, what is cached last is reaped. */
TEST(flush__while_others_flush_and_get__each_region_is_reaped)
{
    char *memory = fixture_map(3);
    pthread_t threads[2];

    open_served(1000000);
    atomic_store(&race.goes_on, true);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, get_and_flush, memory + i * fixture_page()), 0);
    for (int i = 0; i < 200; i++) {
        fixture_key(memory + 2 * fixture_page(), 10);
        if (i % 3 == 0)
            sched_yield();
    }
    test_wait_until(atomic_load(&race.gets) > 200);
    atomic_store(&race.goes_on, false);
    for (size_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < 3; i++)
        fixture_key(memory + i * fixture_page(), 10);
    assert_ok(hmreg_invalidate(fixture.lib, memory, 3 * fixture_page()));
    test_wait_until(!atomic_load(&counter.regions));
    munmap(memory, 3 * fixture_page());
}

/* A flush in a callback is forbidden, and yet no deadlock. */
static atomic_bool flushed;

static void flush_inside(uint64_t key)
{
    if (atomic_exchange(&flushed, true))
        return;
    inside_thread_rest();
}

TEST(rest__on_the_reapers_thread__does_nothing)
{
    char *memory = fixture_map(1);

    open_served(INSIDE_IDLE_NS);
    atomic_store(&flushed, false);
    counter.dereg_hook = flush_inside;
    fixture_key(memory, 10);
    assert_ok(hmreg_invalidate(fixture.lib, memory, 10));
    test_wait_until(!atomic_load(&counter.regions));
    assert_true(atomic_load(&flushed));
    munmap(memory, fixture_page());
}

/* Another domain's fabric that hangs does not stop a flush, and what it holds is not lost. */
static sem_t inside, leave;

static void hang(uint64_t key)
{
    sem_post(&inside);
    while (sem_wait(&leave))
        ;
}

TEST(flush__reaper_is_in_another_domains_fabric__does_not_wait)
{
    char *memory = fixture_map(2);
    struct fixture other;

    open_served(INSIDE_IDLE_NS);
    other = (struct fixture){fixture.lib, counter_open_more(fixture.lib, NULL)};
    sem_init(&inside, 0, 0);
    sem_init(&leave, 0, 0);
    counter.dereg_hook = hang;
    fixture_key(memory, 10);
    assert_ok(hmreg_invalidate(fixture.lib, memory, 10));
    while (sem_wait(&inside))
        ;
    counter.dereg_hook = NULL;
    fixture_key_in(&other, memory + fixture_page(), 10);
    assert_ok(hmreg_domain_flush(other.domain));
    assert_true(inside_thread_runs());
    sem_post(&leave);
    test_wait_until(!atomic_load(&counter.regions));
    assert_ok(hmreg_domain_flush(fixture.domain));
    assert_false(inside_thread_runs());
    assert_ok(hmreg_domain_close(other.domain));
    munmap(memory, 2 * fixture_page());
}

/* ---- pauses ------------------------------------------------------------------------------ */

static bool is_due_now(void)
{
    return true;
}

static atomic_uint examined;

static bool examine(void)
{
    atomic_fetch_add(&examined, 1);
    return false;
}

TEST(pause__client_joins_before_the_resume__is_served_after_it)
{
    static const struct inside_client client = {.is_due = is_due_now, .examine = examine};

    assert_true(inside_join(&client, true));
    usleep(10000);
    assert_int_equal(atomic_load(&examined), 0);
    inside_resume_client();
    test_wait_until(atomic_load(&examined));
    inside_leave();
    assert_false(inside_thread_runs());
}

/* ---- no thread can be started ------------------------------------------------------------ */

static char logged[4096];

static void keep_log(enum hmreg_log_level level, const char *text, void *context)
{
    snprintf(logged + strlen(logged), sizeof(logged) - strlen(logged), "%s\n", text);
}

static unsigned count_logged(const char *what)
{
    unsigned count = 0;

    for (const char *at = logged; (at = strstr(at, what)); at++)
        count++;
    return count;
}

/* The first failures are of the attempts of thread_start(): with attributes, and without. */
TEST(get__no_thread_can_be_started__cached_and_freed_by_calls)
{
    struct hmreg_config config = {
        .size = sizeof(config), .monitor = HMREG_MONITOR_IMPORT, .log = keep_log};
    char *memory = fixture_map(2);

    assert_ok(hmreg_open(&config, &fixture.lib));
    fixture.domain = counter_open_served(fixture.lib, NULL);
    atomic_store(&failing, 1000);
    for (int i = 0; i < 3; i++) {
        fixture_key(memory, 10);
        assert_false(inside_thread_runs());
        assert_int_equal(fixture_stats().regions, 1);
        assert_ok(hmreg_invalidate(fixture.lib, memory, 10));
    }
    fixture_key(memory + fixture_page(), 10); /* the get frees what has ended */
    assert_int_equal(atomic_load(&counter.regions), 1);
    assert_true(atomic_load(&failing) >= 1000 - 2); /* it does not try each time */
    assert_int_equal(count_logged("stay registered until the next call"), 1);
    atomic_store(&failing, 0);
    inside_may_retry(fixture.domain);
    fixture_key(memory, 10);
    assert_true(inside_thread_runs());
    assert_ok(hmreg_invalidate(fixture.lib, memory, 2 * fixture_page()));
    test_wait_until(!atomic_load(&counter.regions));
    fixture_close();
    munmap(memory, 2 * fixture_page());
}

/* The second start fails: what the reaper would have freed, calls free. */
TEST(get__no_thread_can_be_started_any_more__freed_by_calls)
{
    char *memory = fixture_map(2);

    open_served(INSIDE_IDLE_NS);
    fixture_key(memory, 10);
    assert_ok(hmreg_domain_flush(fixture.domain));
    assert_false(inside_thread_runs());
    atomic_store(&failing, 1000);
    fixture_key(memory, 10);
    assert_ok(hmreg_invalidate(fixture.lib, memory, 10));
    fixture_key(memory + fixture_page(), 10);
    assert_int_equal(atomic_load(&counter.regions), 1);
    atomic_store(&failing, 0);
    munmap(memory, 2 * fixture_page());
}

TEST_MAIN()
