/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A signal handler changes memory while its thread holds locks of the library, or is about to:
 * noticing the change takes no lock, so nothing hangs, and no hit anywhere is stale. Run with each
 * monitor that notices by itself: see fixture_monitor().
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/hook_holder.h"
#include "tests/support/inside.h"
#include "tests/support/steps.h"

#include <hmreg/hmreg.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>

static void close_domain(const struct fixture *of)
{
    assert_ok(hmreg_domain_close(of->domain));
}

#define RENEWALS 5000

/* ---- a change inside a lock ------------------------------------------------------------- */

static struct {
    char *memory;
    unsigned changes, inside; /* changes by the handler; inside a lock */
} inner;

/* Locks that this thread holds, is about to take or has just released. */
static _Thread_local unsigned locks;

static void change_in_handler(int signal_number)
{
    int before = errno;

    inner.inside += locks != 0;
    inner.changes++;
    munmap(inner.memory, fixture_page());
    if (!fixture_map_at(inner.memory, 1))
        abort();
    *inner.memory = 1;
    errno = before;
}

static void handle_signals(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};

    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
}

/* Raises the signal with the lock of the domain's caches held. */
static void change_inside(const struct fixture *of)
{
    handle_signals(change_in_handler);
    pthread_mutex_lock(inside_lock(of->domain));
    raise(SIGUSR1);
    pthread_mutex_unlock(inside_lock(of->domain));
    handle_signals(SIG_DFL);
}

struct asker {
    const struct fixture *fixture;
    sem_t go_on, asked;
    uint64_t keys[3];
};

static void *ask_twice(void *arg)
{
    struct asker *asker = arg;

    asker->keys[0] = fixture_key_in(asker->fixture, inner.memory, 10);
    sem_post(&asker->asked);
    while (sem_wait(&asker->go_on))
        ;
    asker->keys[1] = fixture_key_in(asker->fixture, inner.memory, 10);
    asker->keys[2] = fixture_key_in(asker->fixture, inner.memory, 10);
    sem_post(&asker->asked);
    return NULL;
}

static void await(sem_t *semaphore)
{
    while (sem_wait(semaphore))
        ;
}

/* Its hits take the fast path until another thread changes the memory. */
TEST(hit__of_another_thread_after_a_change_inside_a_lock__registered_anew)
{
    struct asker asker;
    pthread_t thread;

    inner.memory = fixture_map(1);
    fixture_open(fixture_monitor(), NULL);
    asker.fixture = &fixture;
    sem_init(&asker.go_on, 0, 0);
    sem_init(&asker.asked, 0, 0);
    assert_int_equal(fixture_key(inner.memory, 10), 1);
    assert_int_equal(pthread_create(&thread, NULL, ask_twice, &asker), 0);
    await(&asker.asked);
    change_inside(&fixture);
    sem_post(&asker.go_on);
    await(&asker.asked);
    pthread_join(thread, NULL);
    assert_int_equal(asker.keys[0], 1);
    assert_int_equal(asker.keys[1], 2);
    assert_int_equal(asker.keys[2], 2); /* the gate is open again */
    assert_int_equal(fixture_key(inner.memory, 10), 2);
    munmap(inner.memory, fixture_page());
}

/* Each domain has a gate and reads the queue on its own; if the application reports changes, the
 * domain ignores other sources. */
TEST(hit__of_each_domain_after_a_change_inside_a_lock__registered_anew)
{
    struct fixture one, two, other, imported;

    inner.memory = fixture_map(1);
    fixture_open_in(&one, fixture_monitor(), NULL);
    fixture_open_in(&other, fixture_monitor(), NULL);
    fixture_open_in(&imported, HMREG_MONITOR_IMPORT, NULL);
    two = (struct fixture){one.lib, counter_open(one.lib, NULL)};
    assert_int_equal(fixture_key_in(&one, inner.memory, 10), 1);
    assert_int_equal(fixture_key_in(&two, inner.memory, 10), 2);
    assert_int_equal(fixture_key_in(&other, inner.memory, 10), 3);
    assert_int_equal(fixture_key_in(&imported, inner.memory, 10), 4);
    change_inside(&one);
    assert_int_equal(fixture_key_in(&imported, inner.memory, 10), 4);
    assert_int_equal(fixture_key_in(&two, inner.memory, 10), 5);
    assert_int_equal(fixture_key_in(&other, inner.memory, 10), 6);
    assert_int_equal(fixture_key_in(&one, inner.memory, 10), 7);
    assert_int_equal(fixture_key_in(&one, inner.memory, 10), 7);
    assert_int_equal(fixture_key_in(&two, inner.memory, 10), 5);
    munmap(inner.memory, fixture_page());
    close_domain(&two);
    close_domain(&imported);
    assert_ok(hmreg_close(imported.lib));
    close_domain(&other);
    assert_ok(hmreg_close(other.lib));
    fixture_close_in(&one);
}

/* A domain closed with pending changes leaves its gate to the next, to which they do not apply. */
TEST(domain_open__where_one_was_closed_with_changes_pending__has_hits)
{
    inner.memory = fixture_map(1);
    fixture_open(fixture_monitor(), NULL);
    assert_int_equal(fixture_key(inner.memory, 10), 1);
    change_inside(&fixture);
    close_domain(&fixture);
    fixture.domain = counter_open(fixture.lib, NULL);
    assert_int_equal(fixture_key(inner.memory, 10), 1);
    assert_int_equal(fixture_key(inner.memory, 10), 1);
    munmap(inner.memory, fixture_page());
}

/* ---- domains opened and closed while a thread is in a hook ------------------------------ */

struct comer {
    struct fixture fixture;
    char *memory;
    uint64_t key;
};

static void *open_and_get(void *arg)
{
    struct comer *comer = arg;

    comer->fixture.domain = counter_open_more(comer->fixture.lib, NULL);
    comer->key = fixture_key_in(&comer->fixture, comer->memory, 10);
    close_domain(&comer->fixture);
    return NULL;
}

/* A hook is about to push its change; another thread opens and closes a domain. */
TEST(domain_open_and_close__while_a_thread_is_in_a_hook__both_end)
{
    char *held = fixture_map(1);
    struct hook_holder holder;
    struct comer comer;
    pthread_t comes;

    comer.memory = fixture_map(1);
    fixture_open_hooked();
    comer.fixture.lib = fixture.lib;
    fixture_key(held, 10);
    fixture_key(comer.memory, 10);
    hook_holder_start(&holder, held);
    assert_int_equal(pthread_create(&comes, NULL, open_and_get, &comer), 0);
    assert_int_equal(fixture_key(comer.memory, 10), 2); /* hits continue */
    hook_holder_go_on(&holder);
    pthread_join(comes, NULL);
    hook_holder_end(&holder);
    assert_int_equal(comer.key, 3);
    assert_int_equal(fixture_stats().invalidations, 1);
    munmap(comer.memory, fixture_page());
}

/* ---- a handler at each step of each lock ------------------------------------------------ */

/* The test interposes the library's lock and unlock calls: before and after each, on the test's
 * thread, is a moment; the handler changes the memory at one of them. */
static struct {
    bool counting;
    unsigned count, at; /* moments */
} moments;

static _Thread_local bool is_tests_thread;

static void come_by(void)
{
    if (!is_tests_thread || !moments.counting || moments.count++ != moments.at)
        return;
    moments.counting = false;
    raise(SIGUSR1);
    moments.counting = true;
}

#define STEP(function, before, after)                                                              \
    int __real_##function(pthread_mutex_t *lock);                                                  \
    int __wrap_##function(pthread_mutex_t *lock);                                                  \
    int __wrap_##function(pthread_mutex_t *lock)                                                   \
    {                                                                                              \
        int rc;                                                                                    \
                                                                                                   \
        locks += before;                                                                           \
        come_by();                                                                                 \
        rc = __real_##function(lock);                                                              \
        come_by();                                                                                 \
        locks -= after;                                                                            \
        return rc;                                                                                 \
    }

STEP(pthread_mutex_lock, 1, 0)
STEP(pthread_mutex_unlock, 0, 1)

static struct {
    struct fixture fixtures[2];
    uint64_t keys[2];
    unsigned seen;
} watch;

/* The handler's change must be known, and nothing else be lost in the end. */
static void check_all(void)
{
    for (int i = 0; i < 2; i++) {
        uint64_t key = fixture_key_in(&watch.fixtures[i], inner.memory, 10);

        if (watch.seen != inner.changes)
            assert_int_not_equal(key, watch.keys[i]);
        watch.keys[i] = key;
        assert_int_equal(fixture_key_in(&watch.fixtures[i], inner.memory, 10), key);
    }
    watch.seen = inner.changes;
}

static void get_both(char *other)
{
    fixture_key_in(&watch.fixtures[0], inner.memory, 10);
    fixture_key_in(&watch.fixtures[1], other, 10);
    fixture_key_in(&watch.fixtures[1], inner.memory, 10);
}

static void get_and_unmap(char *other)
{
    fixture_key_in(&watch.fixtures[0], other, 10);
    munmap(other, fixture_page());
    assert_non_null(fixture_map_at(other, 1));
}

static void open_get_and_close(char *other)
{
    struct fixture more = {watch.fixtures[0].lib, counter_open_more(watch.fixtures[0].lib, NULL)};

    fixture_key_in(&more, inner.memory, 10);
    close_domain(&more);
}

static void invalidate_and_flush(char *other)
{
    assert_ok(hmreg_invalidate(watch.fixtures[0].lib, other, 10));
    fixture_key_in(&watch.fixtures[0], inner.memory, 10);
    assert_ok(hmreg_domain_flush(watch.fixtures[0].domain));
    fixture_stats_in(&watch.fixtures[1]);
}

static void evict(char *other)
{
    fixture_key_in(&watch.fixtures[1], other, 10);
    fixture_key_in(&watch.fixtures[1], inner.memory, 10);
}

static void open_watched(void)
{
    fixture_open_in(&watch.fixtures[0], fixture_monitor(), NULL);
    watch.fixtures[1] =
        (struct fixture){watch.fixtures[0].lib, counter_open(watch.fixtures[0].lib, NULL)};
    watch.seen = inner.changes;
    check_all();
}

/* Repeats the call with the change at the next moment each time, until there is none left. */
static unsigned do_with_changes(void (*deed)(char *), char *other)
{
    unsigned at = 0;

    do {
        moments.at = at++;
        moments.count = 0;
        moments.counting = true;
        deed(other);
        moments.counting = false;
        check_all();
    } while (moments.count > moments.at);
    return at - 1;
}

TEST(handler__changes_memory_beside_each_lock__no_hit_is_stale)
{
    static void (*const deeds[])(char *) = {get_both, get_and_unmap, open_get_and_close,
                                            invalidate_and_flush, evict};
    char *other = fixture_map(1);
    unsigned count = 0;

    is_tests_thread = true;
    inner.memory = fixture_map(1);
    inner.inside = 0;
    open_watched();
    handle_signals(change_in_handler);
    for (size_t i = 0; i < sizeof(deeds) / sizeof(deeds[0]); i++)
        count += do_with_changes(deeds[i], other);
    handle_signals(SIG_DFL);
    print_message("%u changes, %u inside locks\n", count, inner.inside);
    assert_in_range(inner.inside, 50, count);
    munmap(inner.memory, fixture_page());
    munmap(other, fixture_page());
    close_domain(&watch.fixtures[1]);
    fixture_close_in(&watch.fixtures[0]);
}

/* ---- a concurrent change on another thread ---------------------------------------------- */

static struct {
    const struct fixture *fixture;
    _Atomic uint64_t begun;      /* the generation being written */
    _Atomic uint64_t generation; /* of inner.memory, also in its first bytes */
    atomic_bool enough;
    atomic_uint hits;
    unsigned stale;
} race;

/* Replaces the pages at the same address, at once. */
static void renew_in_handler(int signal_number)
{
    int before = errno;
    uint64_t next = atomic_fetch_add(&race.begun, 1) + 1;

    if (mmap(inner.memory, fixture_page(), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != inner.memory)
        abort();
    atomic_store((_Atomic uint64_t *)inner.memory, next);
    atomic_store(&race.generation, next);
    inner.inside += locks != 0;
    errno = before;
}

/* A get while the pages are replaced is the caller's mistake, and may register the old ones between
 * hook and kernel: the test discards its result. Any other get must return a region registered when
 * the memory was as new as it is. */
static void *hit_and_compare(void *arg)
{
    while (!atomic_load(&race.enough)) {
        uint64_t then = atomic_load(&race.generation), seen;
        struct hmreg_mr *mr = NULL;

        if (atomic_load(&race.begun) != then)
            continue;
        if (hmreg_mr_get(race.fixture->domain, inner.memory, 8, HMREG_ACCESS_REMOTE, &mr)) {
            race.stale++;
            continue;
        }
        seen = counter_seen(mr);
        hmreg_mr_put(mr);
        if (atomic_load(&race.begun) != then) {
            hmreg_invalidate(race.fixture->lib, inner.memory, fixture_page());
            continue;
        }
        race.stale += seen != then;
        race.hits++;
    }
    return NULL;
}

TEST(hit__while_handlers_inside_locks_renew_the_memory__never_stale)
{
    char *other = fixture_map(1);
    pthread_t thread;

    if (FIXTURE_SANITIZED)
        test_skip("that the fabric looks at memory which is being renewed is a race, on purpose");
    is_tests_thread = true;
    inner.memory = fixture_map(1);
    inner.inside = 0;
    open_watched();
    counter.look = true;
    race.fixture = &watch.fixtures[0];
    atomic_store(&race.begun, 1);
    atomic_store(&race.generation, 1);
    atomic_store((_Atomic uint64_t *)inner.memory, 1);
    atomic_store(&race.enough, false);
    atomic_store(&race.hits, 0);
    race.stale = 0;
    handle_signals(renew_in_handler);
    assert_ok(hmreg_domain_flush(watch.fixtures[0].domain)); /* discards earlier entries */
    assert_int_equal(pthread_create(&thread, NULL, hit_and_compare, NULL), 0);
    for (unsigned i = 0; i < RENEWALS; i++) {
        if (i % 32 == 0) {
            unsigned before = atomic_load(&race.hits);

            test_wait_until(atomic_load(&race.hits) != before);
        }
        moments.at = i % 32;
        moments.count = 0;
        moments.counting = true;
        get_and_unmap(other);
        moments.counting = false;
    }
    atomic_store(&race.enough, true);
    pthread_join(thread, NULL);
    handle_signals(SIG_DFL);
    print_message("%u hits, %u changes inside locks\n", atomic_load(&race.hits), inner.inside);
    assert_int_equal(race.stale, 0);
    assert_in_range(inner.inside, 100, RENEWALS);
    counter.look = false;
    munmap(inner.memory, fixture_page());
    munmap(other, fixture_page());
    close_domain(&watch.fixtures[1]);
    fixture_close_in(&watch.fixtures[0]);
}

#if defined(__x86_64__)

/* ---- cost of a hit ---------------------------------------------------------------------- */

static void prepare_hits(void *monitor)
{
    struct hmreg_config config = {.size = sizeof(config)};
    struct hmreg_domain_config domain = {.size = sizeof(domain)};

    config.monitor = *(enum hmreg_monitor *)monitor;
    domain.check[HMREG_IFACE_SYSTEM] = HMREG_CHECK_NOTICE;
    if (hmreg_open(&config, &fixture.lib))
        _exit(77);
    fixture.domain = counter_open(fixture.lib, &domain);
    inner.memory = fixture_map(1);
    for (int i = 0; i < 3; i++)
        fixture_key(inner.memory, 10);
}

static void hit(void *monitor)
{
    fixture_key(inner.memory, 10);
}

/* Compared with a hit that relies on received events or, if the kernel reports none, on the
 * application: neither calls the kernel. */
TEST(hit__watched_by_memhooks__as_many_instructions_as_an_unvalidated_one)
{
    enum hmreg_monitor memhooks = HMREG_MONITOR_MEMHOOKS, beside = HMREG_MONITOR_IMPORT;
    unsigned of_memhooks, of_other;

    if (FIXTURE_SANITIZED)
        test_skip("a sanitizer's own instructions would be counted");
    fixture_open_hooked();
    if (fixture_has_kernel_events())
        beside = HMREG_MONITOR_USERFAULTFD;
    fixture_close();
    of_memhooks = steps_of(prepare_hits, hit, &memhooks);
    of_other = steps_of(prepare_hits, hit, &beside);
    print_message("a hit: %u instructions with memhooks, %u beside\n", of_memhooks, of_other);
    assert_int_equal(of_memhooks, of_other);
}
#endif

TEST_MAIN()
