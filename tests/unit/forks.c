/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Before a fork, domains whose fabric pins host memory give back their idle regions of it, on the
 * reaper's thread; a fork waits for that, but for nothing else, whatever the forking thread holds.
 * Run with each monitor that notices by itself: see fixture_monitor().
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/inside.h"
#include "tests/support/vendors.h"

#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define REGIONS 8

static char *memory;

static char *page_at(size_t i)
{
    return memory + i * fixture_page();
}

/* max: NULL: the default. */
static void open_pinning(const char *max, bool any_thread, bool pins)
{
    test_setenv("HMREG_FORK_MAX_SIZE", max);
    fixture_open(fixture_monitor(), NULL);
    assert_ok(hmreg_domain_close(fixture.domain));
    fixture.domain =
        any_thread ? counter_open_served(fixture.lib, NULL) : counter_open_more(fixture.lib, NULL);
    inside_set_pinning(fixture.domain, pins);
    memory = fixture_map(REGIONS);
}

static void end(void)
{
    munmap(memory, REGIONS * fixture_page());
}

/* ---- a fork's clock and waits ------------------------------------------------------------- */

/* Of a thread that forks: its clock stands, but for a wait that it gives up, which takes no time.
 * Other waits have no limit. */
static _Thread_local bool forks_here, gives_up;
static _Thread_local sem_t *steps_to; /* each wait lets the reaper do a step, and takes its time */
#define STEP_NS INT64_C(100000000)
static _Thread_local int64_t clock_ns;
static _Atomic int64_t first_wait; /* the limit of the last fork's first wait; 0: it did not wait */

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
int __real_clock_gettime(clockid_t clock, struct timespec *out);

int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    if (!forks_here)
        return __real_clock_gettime(clock, out);
    *out = (struct timespec){clock_ns / 1000000000, clock_ns % 1000000000};
    return 0;
}

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    const struct timespec *most = (const struct timespec *)d;
    int64_t ns;

    if (!forks_here || number != SYS_futex || b != FUTEX_WAIT_PRIVATE)
        return __real_syscall(number, a, b, c, d, e, f);
    ns = most->tv_sec * INT64_C(1000000000) + most->tv_nsec;
    if (!first_wait)
        first_wait = ns;
    if (steps_to) {
        sem_post(steps_to);
        clock_ns += STEP_NS;
    }
    if (!gives_up)
        return __real_syscall(number, a, b, c, 0, e, f);
    clock_ns += ns;
    return -1;
}

/* The child's memory is as at the fork: how many regions were registered then. */
static unsigned registered_at_fork(void)
{
    int status;
    pid_t child;

    first_wait = 0;
    forks_here = true;
    child = fork();
    if (!child)
        _exit((int)atomic_load(&counter.regions));
    forks_here = false;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return (unsigned)WEXITSTATUS(status);
}

static unsigned fork_and_give_up(void)
{
    unsigned registered;

    gives_up = true;
    registered = registered_at_fork();
    gives_up = false;
    return registered;
}

static void make_idle(size_t count)
{
    for (size_t i = 0; i < count; i++)
        fixture_key(page_at(i), fixture_page());
}

/* ---- what is given back ------------------------------------------------------------------ */

TEST(fork__idle_regions_of_a_fabric_that_pins__given_back_before)
{
    struct hmreg_mr *held;
    uint64_t key;

    test_forks_with_threads();
    open_pinning("0", true, true);
    make_idle(REGIONS);
    held = fixture_get(page_at(3), fixture_page());
    key = hmreg_mr_key(held);
    assert_int_equal(registered_at_fork(), 1);
    assert_int_equal(fixture_key(page_at(3), fixture_page()), key);
    assert_int_equal(fixture_stats().evictions, REGIONS - 1);
    hmreg_mr_put(held);
    make_idle(REGIONS);
    assert_int_equal(registered_at_fork(), 0);
    assert_int_equal(registered_at_fork(), 0);
    end();
}

/* More than the size, or nothing. */
TEST(fork__no_more_bytes_than_the_size__kept)
{
    char size[32];

    test_forks_with_threads();
    snprintf(size, sizeof(size), "%zu", 3 * fixture_page());
    open_pinning(size, true, true);
    make_idle(3);
    assert_int_equal(registered_at_fork(), 3);
    make_idle(4);
    assert_int_equal(registered_at_fork(), 0);
    end();
}

TEST(fork__default__kept_up_to_16_MiB)
{
    size_t len = (size_t)16 << 20;

    test_forks_with_threads();
    open_pinning(NULL, true, true);
    end();
    memory = fixture_map(len / fixture_page() + 1);
    fixture_key(memory, len);
    assert_int_equal(registered_at_fork(), 1);
    fixture_key(memory + len, fixture_page());
    assert_int_equal(registered_at_fork(), 0);
    munmap(memory, len + fixture_page());
}

TEST(fork__never__kept)
{
    test_forks_with_threads();
    open_pinning("18446744073709551615", true, true);
    make_idle(REGIONS);
    assert_int_equal(registered_at_fork(), REGIONS);
    end();
}

TEST(fork__fabric_pins_nothing__kept)
{
    test_forks_with_threads();
    open_pinning("0", true, false);
    make_idle(REGIONS);
    assert_int_equal(registered_at_fork(), REGIONS);
    end();
}

/* There only calls of the domain may deregister: the application flushes. */
TEST(fork__fabric_not_of_any_thread__kept)
{
    test_forks_with_threads();
    open_pinning("0", false, true);
    make_idle(REGIONS);
    assert_int_equal(registered_at_fork(), REGIONS);
    make_idle(REGIONS);
    assert_int_equal(atomic_load(&counter.regs), REGIONS);
    assert_ok(hmreg_domain_flush(fixture.domain));
    assert_int_equal(registered_at_fork(), 0);
    end();
}

/* A device's memory is not copied. */
TEST(fork__device_memory__kept)
{
    void *device;

    test_forks_with_threads();
    vendors_reset();
    open_pinning("0", true, true);
    device = vendor_memory(HMREG_IFACE_CUDA, 0, HMREG_MEM_DEVICE, fixture_page());
    fixture_key(device, fixture_page());
    make_idle(REGIONS);
    assert_int_equal(registered_at_fork(), 1);
    vendor_memory_free(device);
    end();
}

/* Its fork handler is called before the reaper's, and holds its lock. */
TEST(fork__library_with_a_monitor_after_the_reaper__given_back)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_IMPORT};
    struct hmreg *first = NULL;
    struct hmreg_domain *domain;
    struct hmreg_mr *mr = NULL;

    test_forks_with_threads();
    assert_ok(hmreg_open(&config, &first));
    domain = counter_open_served(first, NULL);
    open_pinning("0", true, true);
    make_idle(REGIONS);
    assert_ok(hmreg_mr_get(domain, memory, 1, HMREG_SEND, &mr));
    hmreg_mr_put(mr);
    assert_int_equal(registered_at_fork(), 1); /* not in the first domain, which pins nothing */
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_close(first));
    end();
}

/* ---- what a fork waits for --------------------------------------------------------------- */

static pthread_mutex_t apps_lock = PTHREAD_MUTEX_INITIALIZER;

static void take_apps_lock(uint64_t key)
{
    pthread_mutex_lock(&apps_lock);
    pthread_mutex_unlock(&apps_lock);
}

static void give_up_once(int64_t patience)
{
    make_idle(REGIONS);
    assert_in_range(fork_and_give_up(), 2, 255);
    assert_int_equal(first_wait, patience);
}

/* As where an allocator's fork handler was called before, and the reaper frees memory. A fork that
 * follows one that was not served waits half as long. */
TEST(fork__forking_thread_holds_what_the_reaper_needs__goes_on)
{
    struct hmreg_mr *held;

    test_forks_with_threads();
    open_pinning("0", true, true);
    held = fixture_get(page_at(0), fixture_page()); /* so that each fork has a reason to wait */
    counter.dereg_hook = take_apps_lock;
    pthread_mutex_lock(&apps_lock);
    for (int64_t patience = 1000000000; patience > 100000000; patience /= 2)
        give_up_once(patience);
    pthread_mutex_unlock(&apps_lock);
    assert_int_equal(registered_at_fork(), 1);
    pthread_mutex_lock(&apps_lock);
    give_up_once(1000000000);
    pthread_mutex_unlock(&apps_lock);
    hmreg_mr_put(held);
    assert_int_equal(registered_at_fork(), 0);
    end();
}

/* A client whose work grows as fast as it is done, as where threads retire regions all the time. */
static struct {
    atomic_bool goes_on, sheds, by_steps;
    atomic_uint steps;
    sem_t step;
} endless;

static bool has_work(void)
{
    return atomic_load(&endless.goes_on);
}

static bool does_a_step(void)
{
    atomic_fetch_add(&endless.steps, 1);
    if (atomic_load(&endless.by_steps))
        sem_wait(&endless.step);
    return atomic_load(&endless.goes_on);
}

static bool sheds(void)
{
    return atomic_load(&endless.sheds);
}

static void join_endless(bool by_steps)
{
    static const struct inside_client client = {.is_due = has_work,
                                                .examine = has_work,
                                                .reap = does_a_step,
                                                .sheds = sheds,
                                                .shed = sheds};

    sem_init(&endless.step, 0, 0);
    atomic_store(&endless.goes_on, true);
    atomic_store(&endless.by_steps, by_steps);
    atomic_store(&endless.sheds, by_steps);
    assert_true(inside_join(&client, false));
    inside_thread_wake();
}

static void leave_endless(void)
{
    atomic_store(&endless.by_steps, false);
    atomic_store(&endless.goes_on, false);
    sem_post(&endless.step);
    inside_leave();
}

TEST(fork__other_work_has_no_end__served_before_it)
{
    test_forks_with_threads();
    open_pinning("0", true, true);
    make_idle(REGIONS);
    join_endless(false);
    test_wait_until(atomic_load(&endless.steps) > 0);
    assert_int_equal(registered_at_fork(), 0);
    leave_endless();
    end();
}

TEST(fork__what_is_given_back_has_no_end__goes_on)
{
    int64_t before;

    test_forks_with_threads();
    open_pinning("0", true, true);
    join_endless(true);
    steps_to = &endless.step;
    before = clock_ns;
    registered_at_fork();
    steps_to = NULL;
    assert_in_range(clock_ns - before, 1000000000, 6000000000);
    leave_endless();
    end();
}

static atomic_int registered_then;

static void fork_in_fabric(uint64_t key)
{
    if (atomic_load(&registered_then) < 0)
        atomic_store(&registered_then, (int)fork_and_give_up());
}

/* The reaper itself forks: in a callback, or in the fabric. */
TEST(fork__on_the_reapers_thread__waits_for_nothing)
{
    test_forks_with_threads();
    open_pinning("0", true, true);
    make_idle(REGIONS);
    atomic_store(&registered_then, -1);
    counter.dereg_hook = fork_in_fabric;
    assert_ok(hmreg_invalidate(fixture.lib, page_at(0), fixture_page()));
    test_wait_until(atomic_load(&registered_then) >= 0);
    assert_int_equal(first_wait, 0);
    assert_int_equal(registered_at_fork(), 0);
    end();
}

static sem_t inside, leave;
static atomic_bool stands;

static bool stand(void)
{
    if (!atomic_exchange(&stands, false))
        return false;
    sem_post(&inside);
    while (sem_wait(&leave))
        ;
    return false;
}

/* As where a signal handler forks that has stopped the thread that has the lock. */
TEST(fork__reapers_lock_is_held__goes_on)
{
    static const struct inside_client client = {.is_due = stand};

    test_forks_with_threads();
    sem_init(&inside, 0, 0);
    sem_init(&leave, 0, 0);
    open_pinning("0", true, true);
    make_idle(REGIONS);
    atomic_store(&stands, true);
    assert_true(inside_join(&client, false));
    sem_wait(&inside);
    assert_int_equal(fork_and_give_up(), REGIONS);
    sem_post(&leave);
    assert_int_equal(registered_at_fork(), 0);
    inside_leave();
    end();
}

/* ---- while others work -------------------------------------------------------------------- */

static atomic_bool stop_working;

static void *work(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;

    while (!atomic_load(&stop_working)) {
        struct hmreg_mr *mr = fixture_get(page_at((unsigned)rand_r(&seed) % REGIONS), 1);

        if (rand_r(&seed) % 2)
            free(malloc(1 + (size_t)rand_r(&seed) % 4096));
        hmreg_mr_put(mr);
    }
    return NULL;
}

static void *fork_often(void *arg)
{
    for (unsigned long i = test_times(300); i; i--)
        (void)registered_at_fork();
    return NULL;
}

TEST(fork__while_others_get_and_put__regions_stay_whole)
{
    pthread_t workers[3], forkers[2];

    test_forks_with_threads();
    open_pinning("0", true, true);
    atomic_store(&stop_working, false);
    for (uintptr_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&workers[i], NULL, work, (void *)(i + 1)), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&forkers[i], NULL, fork_often, NULL), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(forkers[i], NULL);
    atomic_store(&stop_working, true);
    for (int i = 0; i < 3; i++)
        pthread_join(workers[i], NULL);
    assert_int_equal(registered_at_fork(), 0);
    end();
}

TEST_MAIN()
