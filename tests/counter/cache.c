/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The monitor counter on the real module: after each kind of change, by whatever means, no hit is
 * stale, of any memory; and what it does where descriptors, slots or the module are not there.
 */
#include "core/base/maps.h"
#include "core/context/domain.h"
#include "kernel/counter/hmreg_counter.h"
#include "tests/counter/kinds.h"
#include "tests/support/cache_fixture.h"
#include "tests/support/queries.h"
#include "tests/support/walks.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define PARAMETERS "/sys/module/hmreg_counter/parameters/"

/* ---- changes ----------------------------------------------------------------------------- */

static uint64_t get_twice(const struct kind *kind, const char *memory, size_t size)
{
    uint64_t key = fixture_key(memory, size);

    if (fixture_key(memory, size) != key)
        fail_msg("%s: the memory is not cached", kind->name);
    return key;
}

static void takes_pages(const struct kind *kind, void *unused)
{
    size_t size;
    char *memory = kind_make(kind, &size);
    uint64_t key = get_twice(kind, memory, size);

    kind_change(kind);
    if (fixture_key(memory, size) == key)
        fail_msg("%s: a stale hit", kind->name);
    kind_end();
}

static void leaves_pages(const struct kind *kind, void *unused)
{
    size_t size;
    char *memory = kind_make(kind, &size);
    uint64_t key = get_twice(kind, memory, size);

    kind_change(kind);
    if (fixture_key(memory, size) != key)
        fail_msg("%s: registered anew", kind->name);
    kind_end();
}

TEST(change__takes_pages_away__no_hit_is_stale)
{
    fixture_open(HMREG_MONITOR_COUNTER, NULL);
    kinds_each_that_takes_pages(takes_pages, NULL);
}

TEST(change__leaves_the_pages__still_a_hit)
{
    fixture_open(HMREG_MONITOR_COUNTER, NULL);
    kinds_each_that_leaves_pages(leaves_pages, NULL);
}

TEST(hit__asks_no_kernel)
{
    char *memory = fixture_map(1);
    struct hmreg_mr *mr;

    fixture_open(HMREG_MONITOR_COUNTER, NULL);
    mr = fixture_get(memory, 10);
    assert_int_equal(test_info_of(mr).cached, 1);
    assert_int_equal(test_info_of(mr).asks, 0);
    hmreg_mr_put(mr);
    munmap(memory, fixture_page());
}

TEST(memory__unmapped_and_no_further_call__deregistered)
{
    char *memory = fixture_map(1);

    fixture_open(HMREG_MONITOR_COUNTER, NULL);
    assert_ok(hmreg_domain_close(fixture.domain));
    fixture.domain = counter_open_served(fixture.lib, NULL);
    fixture_key(memory, 10);
    assert_int_equal(atomic_load(&counter.regions), 1);
    munmap(memory, fixture_page());
    test_wait_until(atomic_load(&counter.regions) == 0);
}

/* ---- a miss ------------------------------------------------------------------------------ */

/* The pages are pinned after they are watched: what the process cannot write is refused then. */
TEST(miss__fabric_pins_what_it_writes__mappings_not_asked_for)
{
    struct hmreg_domain *domain;
    char *memory = fixture_map(2);
    struct hmreg_mr *mr;

    fixture_open(HMREG_MONITOR_COUNTER, NULL);
    domain = counter_open_allocated(fixture.lib);
    fixture_key(memory, 10); /* the monitor is there */
    for (int pins = 0; pins < 2; pins++) {
        domain->caps.pins = pins;
        walks = 0;
        assert_ok(hmreg_mr_get(domain, memory + pins * fixture_page(), 10, HMREG_RECV, &mr));
        hmreg_mr_put(mr);
        assert_int_equal(walks, pins ? 0 : 1);
        walks = 0;
        assert_ok(hmreg_mr_get(domain, memory + pins * fixture_page(), 10, HMREG_RECV, &mr));
        hmreg_mr_put(mr);
        assert_int_equal(walks, 0); /* cached */
    }
    assert_ok(hmreg_domain_close(domain));
    munmap(memory, 2 * fixture_page());
}

/* ---- what is not there ------------------------------------------------------------------- */

TEST(open__default_where_the_module_is__counter)
{
    char *memory = fixture_map(1);

    fixture_open(HMREG_MONITOR_DEFAULT, NULL);
    fixture_key(memory, 10);
    assert_int_equal(test_monitor_info(fixture.lib).active, HMREG_MONITOR_COUNTER);
    assert_string_equal(test_monitor_info(fixture.lib).why, "");
    munmap(memory, fixture_page());
}

static int wait_for(int (*f)(void *), void *arg)
{
    int status = -1;
    pid_t child = test_fork();

    if (!child)
        _exit(f(arg));
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static atomic_bool enough;

static void ignore(int number)
{
    (void)number;
}

static void *send_signals(void *thread)
{
    while (!atomic_load(&enough))
        pthread_kill(*(pthread_t *)thread, SIGUSR1);
    return NULL;
}

/* Registering with the kernel is interrupted by them. */
TEST(open__while_signals_come__opens)
{
    struct sigaction action = {.sa_handler = ignore};
    pthread_t self = pthread_self(), thread;

    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, send_signals, &self), 0);
    for (unsigned i = 0; i < 3; i++) {
        fixture_open(HMREG_MONITOR_COUNTER, NULL);
        fixture_close();
    }
    atomic_store(&enough, true);
    pthread_join(thread, NULL);
}

static int open_as_nobody(void *arg)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_COUNTER};

    (void)arg;
    return setuid(65534) || hmreg_open(&config, &fixture.lib) != -EACCES ||
           !strstr(hmreg_last_error()->text, "/dev/hmreg");
}

/* The monitor's thread watches its stop page, by its first update, only after that was changed. */
static struct {
    atomic_bool wanted;
    sem_t begins, changed;
} late_watch;
static _Thread_local bool is_tests_thread; /* which watches its own ranges */

static uint32_t most_slots; /* not 0: that SETUP charges, as the modules before 0.3.0 did */

static bool exceeds_quota(unsigned long request, const struct hmreg_counter_setup *setup)
{
    return request == HMREG_COUNTER_SETUP && most_slots && setup->slots > most_slots;
}

int __real_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
    if (request == HMREG_COUNTER_UPDATE && !is_tests_thread &&
        atomic_exchange(&late_watch.wanted, false)) {
        sem_post(&late_watch.begins);
        sem_wait(&late_watch.changed);
    }
    if (exceeds_quota(request, arg)) {
        errno = EDQUOT;
        return -1;
    }
    return __real_ioctl(fd, request, arg);
}

int __real_madvise(void *memory, size_t size, int advice);
int __wrap_madvise(void *memory, size_t size, int advice);
int __wrap_madvise(void *memory, size_t size, int advice)
{
    int rc = __real_madvise(memory, size, advice);

    if (advice == MADV_DONTNEED)
        sem_post(&late_watch.changed);
    return rc;
}

TEST(close__before_the_thread_could_be_woken__ends_it)
{
    char *memory = fixture_map(1);

    sem_init(&late_watch.begins, 0, 0);
    sem_init(&late_watch.changed, 0, 0);
    is_tests_thread = true;
    atomic_store(&late_watch.wanted, true);
    fixture_open(HMREG_MONITOR_COUNTER, NULL);
    fixture_key(memory, 10); /* starts the thread */
    sem_wait(&late_watch.begins);
    fixture_close();
    munmap(memory, fixture_page());
}

TEST(open__device_of_other_users__eacces)
{
    assert_int_equal(chmod("/dev/hmreg", 0600), 0);
    assert_int_equal(wait_for(open_as_nobody, NULL), 0);
    assert_int_equal(chmod("/dev/hmreg", 0666), 0);
}

TEST(open__user_watches_as_much_as_permitted__edquot)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_COUNTER};

    assert_true(kinds_write_file(PARAMETERS "max_user_slots", "256"));
    assert_int_equal(hmreg_open(&config, &fixture.lib), -EDQUOT);
    assert_true(kinds_write_file(PARAMETERS "max_user_slots", "1048576"));
}

TEST(open__earlier_module_charges_all_slots__has_what_is_left)
{
    char *memory = fixture_map(1);

    most_slots = 1024;
    fixture_open(HMREG_MONITOR_COUNTER, NULL);
    most_slots = 0;
    assert_int_equal(fixture_key(memory, 10), fixture_key(memory, 10));
    munmap(memory, fixture_page());
}

static bool is_of_a_later_module;

void *__real_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    struct hmreg_counter_page *page;

    if (!is_of_a_later_module || !(flags & MAP_SHARED))
        return __real_mmap(at, size, protection, flags, fd, offset);
    page = __real_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page->version = HMREG_COUNTER_VERSION + 1;
    return page;
}

/* A default takes the next monitor; the reason stays. */
TEST(open__module_of_another_interface__says_both_numbers)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_COUNTER};
    char *memory = fixture_map(1);

    is_of_a_later_module = true;
    assert_int_equal(hmreg_open(&config, &fixture.lib), -EOPNOTSUPP);
    assert_non_null(strstr(hmreg_last_error()->text, "has interface 2, but this library knows 1"));
    fixture_open(HMREG_MONITOR_DEFAULT, NULL);
    fixture_key(memory, 10);
    is_of_a_later_module = false;
    assert_int_equal(test_monitor_info(fixture.lib).active, HMREG_MONITOR_MEMHOOKS);
    munmap(memory, fixture_page());
}

static int close_all(void *arg)
{
    char *memory = fixture_map(2);

    (void)arg;
    fixture_open(HMREG_MONITOR_COUNTER, NULL);
    fixture_key(memory, 10);
    closefrom(3);
    if (fixture_key(memory + fixture_page(), 10) == 1)
        return 2;
    munmap(memory, 2 * fixture_page());
    if (fixture_map_at(memory, 2) != memory || fixture_key(memory, 10) == 1)
        return 3;
    if (test_monitor_info(fixture.lib).active != HMREG_MONITOR_DISABLED ||
        !strstr(test_monitor_info(fixture.lib).why,
                "closed the monitor's descriptor of /dev/hmreg"))
        return 4;
    fixture_close();
    return 0;
}

TEST(descriptor__closed_by_the_program__told_and_nothing_stale)
{
    assert_int_equal(wait_for(close_all, NULL), 0);
}

/* The monitor's thread rests after a change until the descriptor's number is another file's. */
static struct {
    atomic_bool wanted;
    sem_t rests, replaced;
} long_rest;

int __real_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    if (!atomic_exchange(&long_rest.wanted, false))
        return __real_nanosleep(time, left);
    sem_post(&long_rest.rests);
    return sem_wait(&long_rest.replaced);
}

static int replace_all(void *unused)
{
    char *memory = fixture_map(1);
    int ends[2];

    sem_init(&long_rest.rests, 0, 0);
    sem_init(&long_rest.replaced, 0, 0);
    fixture_open(HMREG_MONITOR_COUNTER, NULL);
    fixture_key(memory, 10);
    atomic_store(&long_rest.wanted, true);
    munmap(memory, fixture_page());
    sem_wait(&long_rest.rests);
    if (pipe(ends))
        return 2;
    for (int fd = 3; fd < ends[0]; fd++)
        dup2(ends[0], fd);
    sem_post(&long_rest.replaced);
    test_wait_until_others_sleep(); /* a thread that polls the other file does now */
    fixture_close();
    return 0;
}

TEST(descriptor__replaced_while_the_thread_rests__close_ends_it)
{
    assert_int_equal(wait_for(replace_all, NULL), 0);
}

static bool has_device(void)
{
    char path[64], file[64] = "";
    bool found = false;

    for (int fd = 0; fd < 1024 && !found; fd++) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        memset(file, 0, sizeof(file));
        found = readlink(path, file, sizeof(file) - 1) > 0 && !strcmp(file, "/dev/hmreg");
    }
    return found;
}

static int use_own(void *arg)
{
    uint64_t key;

    if (has_device()) /* the parent's */
        return 3;
    fixture_open(HMREG_MONITOR_COUNTER, NULL);
    key = fixture_key(arg, 10);
    munmap(arg, fixture_page());
    if (!fixture_map_at(arg, 1) || fixture_key(arg, 10) == key)
        return 2;
    fixture_close();
    return 0;
}

TEST(child__of_fork__has_its_own_and_the_parents_goes_on)
{
    char *memory = fixture_map(1);
    uint64_t key;

    fixture_open(HMREG_MONITOR_COUNTER, NULL);
    key = fixture_key(memory, 10);
    assert_true(has_device());
    assert_int_equal(wait_for(use_own, memory), 0);
    assert_int_equal(fixture_key(memory, 10), key);
    munmap(memory, fixture_page());
    assert_non_null(fixture_map_at(memory, 1));
    assert_int_not_equal(fixture_key(memory, 10), key);
    munmap(memory, fixture_page());
}

/* The operator permits fewer slots than the library wants: more regions are not cached, which is
 * told until there is room. */
TEST(watch__no_slot_is_free__registered_uncached_and_told)
{
    const struct hmreg_domain_config config = {
        .size = sizeof(config), .max_regions = 2000, .max_bytes = 1u << 30};
    size_t page = fixture_page();
    char *memory = fixture_map(600);
    struct hmreg_mr *mr;

    assert_true(kinds_write_file(PARAMETERS "max_slots", "512"));
    fixture_open(HMREG_MONITOR_COUNTER, &config);
    assert_true(kinds_write_file(PARAMETERS "max_slots", "131072"));
    for (unsigned i = 0; i < 520; i++)
        fixture_key(memory + i * page, page);
    mr = fixture_get(memory + 520 * page, page);
    assert_false(fixture_is_cached(mr));
    hmreg_mr_put(mr);
    assert_non_null(strstr(test_monitor_info(fixture.lib).why, "permits no more watched ranges"));
    munmap(memory, 100 * page);
    assert_ok(hmreg_domain_progress(fixture.domain)); /* all their slots are free again */
    for (unsigned i = 520; i < 600; i++) {
        fixture_key(memory + i * page, page);
        mr = fixture_get(memory + i * page, page);
        assert_true(fixture_is_cached(mr));
        hmreg_mr_put(mr);
    }
    assert_string_equal(test_monitor_info(fixture.lib).why, "");
    munmap(memory + 100 * page, 500 * page);
}

/* All that a process has in any case is its minimum, where others of the user watch the rest. */
TEST(watch__users_quota_is_watched__registered_uncached_and_told)
{
    const struct hmreg_domain_config config = {
        .size = sizeof(config), .max_regions = 2000, .max_bytes = 1u << 30};
    size_t page = fixture_page();
    char *memory = fixture_map(600);

    assert_true(kinds_write_file(PARAMETERS "max_user_slots", "512"));
    fixture_open(HMREG_MONITOR_COUNTER, &config);
    for (unsigned i = 0; i < 600; i++)
        fixture_key(memory + i * page, page);
    assert_int_equal(fixture_stats().regions, 511); /* and the thread's own range */
    assert_non_null(strstr(test_monitor_info(fixture.lib).why, "max_user_slots"));
    assert_true(kinds_write_file(PARAMETERS "max_user_slots", "1048576"));
    fixture_key(memory + 599 * page, page);
    assert_int_equal(fixture_stats().regions, 512);
    munmap(memory, 600 * page);
}

TEST_MAIN()
