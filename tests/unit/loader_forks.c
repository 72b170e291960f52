/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Forks while a thread reads the dynamic linker's list, for a runtime or for memhooks: fork(2)
 * waits for it; a child that did not wait does not read the list, since the linker's lock stays
 * that thread's for ever. And reads in the program's own dl_iterate_phdr(3), whose lock a thread of
 * the library waits for: neither that thread nor a fork may be waited for. */

/* A thread that stops while it reads the linker's list: no call of the library reads only that. */
#include "hmem/loader.h"

#include "core/base/linker_list.h"
#include "core/patch/modules.h"

#include "tests/support/test.h"

#include <hmreg/hmreg.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

typedef int reader(struct dl_phdr_info *, size_t, void *);

int __real_dl_iterate_phdr(reader *read, void *arg);
int __wrap_dl_iterate_phdr(reader *read, void *arg);

int __real_nanosleep(const struct timespec *time, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *time, struct timespec *rest);

static pthread_t stops;     /* this thread stops while it reads, if armed */
static atomic_bool hurried; /* nanosleep(2) returns at once */
static sem_t stopped, may_go, forking, begun;
static atomic_bool armed, inside;

struct call {
    reader *read;
    void *arg;
};

/* Called with the linker's lock held. */
static int stop_once(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct call *call = arg;

    if (atomic_exchange(&armed, false)) {
        atomic_store(&inside, true);
        sem_post(&stopped);
        sem_wait(&may_go);
        atomic_store(&inside, false);
    }
    return call->read(info, size, call->arg);
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *rest)
{
    return atomic_load(&hurried) ? 0 : __real_nanosleep(time, rest);
}

int __wrap_dl_iterate_phdr(reader *read, void *arg)
{
    struct call call = {read, arg};

    sem_post(&begun);
    return pthread_equal(pthread_self(), stops) ? __real_dl_iterate_phdr(stop_once, &call)
                                                : __real_dl_iterate_phdr(read, arg);
}

static void *count_and_stop(void *arg)
{
    stops = pthread_self();
    atomic_store(&armed, true);
    loader_count();
    return NULL;
}

/* The module's search reads the list once more, within. */
static int find_text(const struct module *module, void *found)
{
    struct module_text text;

    *(bool *)found |= module_text((uintptr_t)find_text, &text);
    return 0;
}

static void *search_and_stop(void *found)
{
    stops = pthread_self();
    atomic_store(&armed, true);
    modules_each(find_text, found);
    return NULL;
}

static pthread_t start_reading(void *(*read)(void *), void *arg)
{
    pthread_t thread;

    assert_int_equal(sem_init(&stopped, 0, 0) || sem_init(&may_go, 0, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, read, arg), 0);
    sem_wait(&stopped);
    return thread;
}

static void end_reading(pthread_t thread)
{
    sem_post(&may_go);
    pthread_join(thread, NULL);
}

static int status_of(pid_t child)
{
    int status = -1;

    return waitpid(child, &status, 0) == child ? status : -1;
}

/* The count is the one that was read last; no library is found, and a query does not hang. */
static int in_bare_child(uint64_t count)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_DISABLED};
    struct hmreg_mem_info info = {.size = sizeof(info)};
    struct modules_count now;
    struct hmreg *lib = NULL;
    int here = 0;

    if (loader_count() != count || loader_is_loaded("libc.so.6") || modules_are_settled(&now))
        return 1;
    if (hmreg_open(&config, &lib) || hmreg_query(lib, &here, sizeof(here), &info))
        return 2;
    return info.iface == HMREG_IFACE_SYSTEM && !hmreg_close(lib) ? 0 : 3;
}

TEST(child__without_handlers_while_a_thread_reads__does_not_wait_for_it)
{
    uint64_t count = loader_count();
    pthread_t thread = start_reading(count_and_stop, NULL);
    pid_t parent = getpid(), child;

    assert_true(count > 0);
    child = _Fork();
    if (child == 0) {
        test_end_with(parent);
        _exit(in_bare_child(count));
    }
    assert_int_equal(status_of(child), 0);
    end_reading(thread);
    assert_true(loader_is_loaded("libc.so.6"));
}

/* ---- fork(2) ---------------------------------------------------------------------------- */

static atomic_bool watching, forked_while_inside;

/* Registered before the library's handlers, and so called after them. */
static void after_theirs(void)
{
    if (atomic_load(&watching))
        atomic_store(&forked_while_inside, atomic_load(&inside));
}

/* Registered after the library's. */
static void before_theirs(void)
{
    if (atomic_load(&watching))
        sem_post(&forking);
}

static void *fork_and_read(void *status)
{
    pid_t child = test_fork();

    if (child == 0)
        _exit(loader_is_loaded("libc.so.6") ? 0 : 1);
    *(int *)status = status_of(child);
    return NULL;
}

static void fork_while(void *(*read)(void *), void *arg)
{
    pthread_t reading, forker;
    int status = -1;

    test_forks_with_threads();
    assert_int_equal(pthread_atfork(after_theirs, NULL, NULL), 0);
    loader_count();
    assert_int_equal(pthread_atfork(before_theirs, NULL, NULL), 0);
    assert_int_equal(sem_init(&forking, 0, 0), 0);
    reading = start_reading(read, arg);
    atomic_store(&watching, true);
    assert_int_equal(pthread_create(&forker, NULL, fork_and_read, &status), 0);
    sem_wait(&forking);
    test_wait_until_others_sleep(); /* the forking thread waits for the reading one */
    end_reading(reading);
    pthread_join(forker, NULL);
    atomic_store(&watching, false);
    assert_int_equal(status, 0);
    assert_false(atomic_load(&forked_while_inside));
}

TEST_FIRST(fork__while_a_thread_reads__waits_and_the_child_reads)
{
    fork_while(count_and_stop, NULL);
}

TEST_FIRST(fork__while_memhooks_reads__waits_and_the_child_reads)
{
    bool found = false;

    fork_while(search_and_stop, &found);
    assert_true(found);
}

/* ---- fork(2) in a signal handler -------------------------------------------------------- */

static pid_t child_of_handler;

static void fork_here(int signal)
{
    child_of_handler = test_fork();
}

/* The handler interrupts the first call, in which the linker's lock is held. */
static int fork_in_handler(struct dl_phdr_info *info, size_t size, void *arg)
{
    if (!atomic_exchange(&armed, false))
        return 0;
    raise(SIGUSR1);
    *(bool *)arg = child_of_handler != 0 || !loader_is_loaded("libc.so.6");
    return 1;
}

/* In the child the linker's lock belongs to a thread that the child does not have. */
TEST_FIRST(fork__in_a_handler_while_the_thread_reads__returns_and_the_child_does_not_hang)
{
    const struct sigaction forks = {.sa_handler = fork_here};
    struct sigaction before;
    uint64_t count = loader_count();
    bool well = false;

    assert_int_equal(sigaction(SIGUSR1, &forks, &before), 0);
    atomic_store(&armed, true);
    assert_int_equal(linker_list_read(fork_in_handler, &well), 1);
    if (child_of_handler == 0)
        _exit(well ? in_bare_child(count) : 4);
    assert_int_equal(status_of(child_of_handler), 0);
    assert_true(well);
    assert_true(loader_is_loaded("libc.so.6"));
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
}

/* ---- in the program's own dl_iterate_phdr(3) ---------------------------------------------- */

struct beside {
    struct hmreg *lib;
    pthread_t reading, forker;
    bool forks;
    int query, child; /* results */
};

static void *count_once(void *arg)
{
    loader_count();
    return NULL;
}

static void *fork_beside(void *arg)
{
    struct beside *beside = arg;
    pid_t child = test_fork();

    if (child == 0)
        _exit(loader_is_loaded("libc.so.6"));
    beside->child = status_of(child);
    return NULL;
}

/* Called with the linker's lock held, which the reading thread waits for, and the forking thread
 * for that one. */
static int query_beside(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct beside *beside = arg;
    struct hmreg_mem_info memory = {.size = sizeof(memory)};

    if (sem_init(&begun, 0, 0) || pthread_create(&beside->reading, NULL, count_once, NULL))
        return -1;
    sem_wait(&begun);
    if (beside->forks) {
        if (sem_init(&forking, 0, 0) || pthread_create(&beside->forker, NULL, fork_beside, beside))
            return -1;
        sem_wait(&forking);
    }
    beside->query = hmreg_query(beside->lib, beside, sizeof(*beside), &memory);
    if (beside->forks && pthread_join(beside->forker, NULL))
        return -1; /* joined here, so that the child is made while the lock is held */
    return 1;
}

static void read_beside(struct beside *beside)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_DISABLED};

    beside->query = beside->child = -1;
    assert_int_equal(hmreg_open(&config, &beside->lib), 0);
    assert_int_equal(__real_dl_iterate_phdr(query_beside, beside), 1);
    assert_int_equal(pthread_join(beside->reading, NULL), 0);
    assert_int_equal(beside->query, 0);
    assert_int_equal(hmreg_close(beside->lib), 0);
}

TEST_FIRST(query__in_dl_iterate_phdr_beside_a_thread_that_waits_to_read__returns)
{
    read_beside(&(struct beside){.forks = false});
}

static void sleep_again(void)
{
    atomic_store(&watching, false);
    atomic_store(&hurried, false);
}

/* The child has the program's lock of the linker held, and reads no list. */
TEST_FIRST(query__in_dl_iterate_phdr_beside_a_fork_that_waits_for_a_reader__both_go_on)
{
    struct beside beside = {.forks = true};

    test_forks_with_threads();
    loader_count();
    assert_int_equal(pthread_atfork(before_theirs, NULL, NULL), 0);
    test_after(sleep_again);
    atomic_store(&hurried, true);
    atomic_store(&watching, true);
    read_beside(&beside);
    assert_int_equal(beside.child, 0);
}

TEST_MAIN()
