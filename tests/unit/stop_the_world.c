/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A program that stops its other threads by a signal, wherever they are, and changes memory then,
 * as garbage collectors and checkpointers do. The stopped threads may hold any lock of the library:
 * the change must not wait for one. Run with each monitor that notices by itself, and with the
 * application's own notices, which such a program gives at the same moment. Not under
 * ThreadSanitizer: there a thread that waits for a mutex gets its signal only after it has the
 * mutex, whose owner may be stopped already.
 */
#include "tests/support/cache_fixture.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

enum { WORKERS = 4, PAGES = 16, STOPS = 2000 };

static struct {
    struct fixture fixture;
    char *memory;
    bool notices; /* the application's, instead of a monitor */
    pthread_t workers[WORKERS];
    sem_t stopped;
    atomic_uint resumed; /* incremented at each resume */
    atomic_uint gets;
    atomic_bool enough;
} world;

/* ---- stopping --------------------------------------------------------------------------- */

static void stop_here(int signal_number)
{
    static const struct timespec pause = {.tv_nsec = 50000};
    unsigned resumed = atomic_load(&world.resumed);
    int before = errno;

    sem_post(&world.stopped);
    while (atomic_load(&world.resumed) == resumed)
        nanosleep(&pause, NULL);
    errno = before;
}

static void stop_all(void)
{
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_kill(world.workers[i], SIGUSR2), 0);
    for (int i = 0; i < WORKERS; i++)
        while (sem_wait(&world.stopped))
            ;
}

static void resume_all(void)
{
    atomic_fetch_add(&world.resumed, 1);
}

/* ---- the program ------------------------------------------------------------------------ */

static char *page_at(unsigned index)
{
    return world.memory + (size_t)index * fixture_page();
}

static void open_and_close(void)
{
    struct hmreg_domain *domain = counter_open_more(world.fixture.lib, NULL);

    if (!domain || hmreg_domain_close(domain))
        abort();
}

static void *work(void *arg)
{
    unsigned number = (unsigned)(uintptr_t)arg, seed = number + 1;

    for (unsigned i = 0; !atomic_load(&world.enough); i++) {
        struct hmreg_mr *mr;

        if (hmreg_mr_get(world.fixture.domain, page_at((unsigned)rand_r(&seed) % PAGES), 10,
                         HMREG_ACCESS_REMOTE, &mr))
            abort();
        hmreg_mr_put(mr);
        atomic_fetch_add_explicit(&world.gets, 1, memory_order_relaxed);
        if (i % 64 == number && hmreg_domain_flush(world.fixture.domain))
            abort();
        if (i % 256 == 128 && number == 0)
            open_and_close();
        if (i % 16 == 8 && hmreg_invalidate(world.fixture.lib, page_at(i / 16 % PAGES), 1))
            abort();
    }
    return arg;
}

static void renew(unsigned index)
{
    char *page = page_at(index);

    if (world.notices && hmreg_invalidate(world.fixture.lib, page, fixture_page()))
        abort();
    if (munmap(page, fixture_page()) || !fixture_map_at(page, 1))
        abort();
    *page = 1;
}

static void begin(enum hmreg_monitor monitor)
{
    struct sigaction stop = {.sa_handler = stop_here, .sa_flags = SA_RESTART};

    if (TEST_TSAN)
        test_skip("ThreadSanitizer holds back signals of threads that wait for a mutex");
    fixture_open_in(&world.fixture, monitor, NULL);
    world.memory = fixture_map(PAGES);
    sem_init(&world.stopped, 0, 0);
    atomic_store(&world.enough, false);
    sigaction(SIGUSR2, &stop, NULL);
    for (uintptr_t i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&world.workers[i], NULL, work, (void *)i), 0);
}

static void end(void)
{
    void *result;

    atomic_store(&world.enough, true);
    for (uintptr_t i = 0; i < WORKERS; i++) {
        pthread_join(world.workers[i], &result);
        assert_ptr_equal(result, (void *)i);
    }
    munmap(world.memory, PAGES * fixture_page());
    fixture_close_in(&world.fixture);
}

static void change_while_stopped(enum hmreg_monitor monitor)
{
    static const struct timespec a_while = {.tv_nsec = 20000};
    uint64_t keys[PAGES];
    unsigned gets;

    begin(monitor);
    for (unsigned i = test_times(STOPS); i > 0; i--) {
        stop_all();
        for (unsigned j = 0; j < 4; j++)
            renew((i + j) % PAGES);
        gets = atomic_load(&world.gets);
        resume_all();
        while (atomic_load(&world.gets) == gets)
            nanosleep(&a_while, NULL);
    }
    for (unsigned i = 0; i < PAGES; i++)
        keys[i] = fixture_key_in(&world.fixture, page_at(i), 10);
    stop_all();
    for (unsigned i = 0; i < PAGES; i++)
        renew(i);
    resume_all();
    for (unsigned i = 0; i < PAGES; i++)
        assert_int_not_equal(fixture_key_in(&world.fixture, page_at(i), 10), keys[i]);
    end();
}

TEST(munmap__all_other_threads_are_stopped__returns)
{
    world.notices = false;
    change_while_stopped(fixture_monitor());
}

TEST(invalidate__all_other_threads_are_stopped__returns)
{
    world.notices = true;
    change_while_stopped(HMREG_MONITOR_IMPORT);
}

TEST_MAIN()
