/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Threads that start and end, and the regions that they hold: a region stays until each get has
 * been put, by any thread, even after its getter ended; thousands of threads leak nothing; a child
 * forked while other threads hold locks does not hang. And limits: of one region, of exactly the
 * working set, one less.
 */
#include "tests/support/pinning.h"
#include "tests/support/queries.h"

#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>

#define LEN    4096
#define RANGES 64
#if TEST_TSAN || TEST_ASAN
#define COUNTS false /* a sanitizer's own memory would be counted */
#else
#define COUNTS true
#endif
#define MANY 4000 /* threads, one after the other */

static char memory[RANGES][LEN] __attribute__((aligned(65536)));

static struct hmreg *lib;
static struct hmreg_domain *domain;

static void close_all(void)
{
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_close(lib));
    assert_int_equal(atomic_load(&pinning.alive), 0);
    assert_string_equal(pinning_complaint(), "");
}

static void open_all(const struct hmreg_domain_config *config)
{
    struct hmreg_config library = {.size = sizeof(library), .monitor = HMREG_MONITOR_IMPORT};

    pinning_reset();
    assert_ok(hmreg_open(&library, &lib));
    assert_ok(pinning_open(lib, config, &domain));
    test_after(close_all);
}

static struct hmreg_mr *get(unsigned range)
{
    struct hmreg_mr *mr = NULL;

    if (hmreg_mr_get(domain, memory[range], LEN, HMREG_ACCESS_REMOTE, &mr))
        pinning_complain("get: %s", hmreg_last_error()->text);
    return mr;
}

/* ---- gets and puts ----------------------------------------------------------------------- */

static void *get_first(void *out)
{
    *(struct hmreg_mr **)out = get(0);
    return NULL;
}

static void *put_it(void *mr)
{
    hmreg_mr_put(mr);
    return NULL;
}

static void forget_all(void)
{
    assert_ok(hmreg_invalidate(lib, memory, sizeof(memory)));
    assert_ok(hmreg_domain_flush(domain));
}

/* An invalidated region stays until its last put. */
static void assert_held_until(struct hmreg_mr *mr, bool by_another)
{
    struct pinned *region = pinned_of(mr);

    pinned_use(region);
    forget_all();
    assert_int_equal(atomic_load(&pinning.alive), 1);
    assert_int_equal(test_stats_of(domain).retired, 1);
    pinned_unuse(region);
    if (by_another)
        test_on_a_thread(put_it, mr);
    else
        hmreg_mr_put(mr);
    assert_int_equal(atomic_load(&pinning.alive), 0);
    assert_int_equal(test_stats_of(domain).retired, 0);
}

TEST(put__by_a_thread_that_never_got__ends_it)
{
    open_all(NULL);
    assert_held_until(get(0), true);
}

TEST(put__after_the_getter_has_ended__ends_it)
{
    struct hmreg_mr *mr = NULL;

    open_all(NULL);
    test_on_a_thread(get_first, &mr);
    assert_held_until(mr, false);
    test_on_a_thread(get_first, &mr);
    assert_held_until(mr, true);
}

/* A region's pins are the sum over ended threads, running threads, and puts of others. */
TEST(put__gets_and_puts_of_many_threads__the_last_ends_it)
{
    struct hmreg_mr *held[20];

    open_all(NULL);
    for (int i = 0; i < 20; i++) {
        if (i % 2)
            test_on_a_thread(get_first, &held[i]);
        else
            held[i] = get(0);
    }
    assert_int_equal(atomic_load(&pinning.regs), 1);
    pinned_use(pinned_of(held[19]));
    for (int i = 0; i < 19; i++) {
        if (i % 3)
            test_on_a_thread(put_it, held[i]);
        else
            hmreg_mr_put(held[i]);
        if (i == 9)
            forget_all();
        assert_int_equal(atomic_load(&pinning.alive), 1);
        assert_int_equal(hmreg_domain_close(domain), -EBUSY);
    }
    pinned_unuse(pinned_of(held[19]));
    test_on_a_thread(put_it, held[19]);
    assert_int_equal(atomic_load(&pinning.alive), 0);
}

/* ---- while a thread ends ----------------------------------------------------------------- */

static pthread_key_t key;
static atomic_uint destroyed;

/* Runs before or after the library's own thread-exit handler. */
static void put_at_the_end(void *mr)
{
    hmreg_mr_put(mr);
    hmreg_mr_put(get(1));
    atomic_fetch_add(&destroyed, 1);
}

static void *leave_to_destructor(void *arg)
{
    pthread_setspecific(key, get(0));
    return NULL;
}

TEST(put__in_a_keys_destructor__nothing_is_left)
{
    atomic_store(&destroyed, 0);
    assert_int_equal(pthread_key_create(&key, put_at_the_end), 0); /* before the library's */
    open_all(NULL);
    for (int i = 0; i < 50; i++)
        test_on_a_thread(leave_to_destructor, NULL);
    pthread_key_delete(key);
    assert_int_equal(pthread_key_create(&key, put_at_the_end), 0); /* after it */
    for (int i = 0; i < 50; i++)
        test_on_a_thread(leave_to_destructor, NULL);
    pthread_key_delete(key);
    assert_int_equal(atomic_load(&destroyed), 100);
    assert_int_equal(atomic_load(&pinning.regs), 2);
    assert_int_equal(test_stats_of(domain).hits, 198);
    forget_all();
    assert_int_equal(atomic_load(&pinning.alive), 0);
}

/* ---- thousands of threads ---------------------------------------------------------------- */

static void *get_some(void *arg)
{
    for (unsigned i = 0; i < RANGES; i++)
        hmreg_mr_put(get(i));
    return NULL;
}

/* The process's memory: of malloc, and in mappings. */
struct had {
    size_t blocks, mapped;
};

static struct had had_now(void)
{
    struct had had = {.blocks = mallinfo2().uordblks};
    FILE *file = fopen("/proc/self/statm", "re");

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%zu", &had.mapped), 1);
    fclose(file);
    return had;
}

static void assert_not_grown(struct had before)
{
    struct had after = had_now();

    if (COUNTS) {
        assert_in_range(after.blocks, 0, before.blocks + 4096);
        assert_in_range(after.mapped, 0, before.mapped + 64); /* pages */
    }
}

TEST(threads__thousands_come_and_go__nothing_grows)
{
    struct had before;

    open_all(NULL);
    for (int i = 0; i < 200; i++)
        test_on_a_thread(get_some, NULL);
    before = had_now();
    for (int i = 0; i < MANY; i++)
        test_on_a_thread(get_some, NULL);
    assert_not_grown(before);
    assert_int_equal(atomic_load(&pinning.regs), RANGES);
    assert_int_equal(test_stats_of(domain).hits, (uint64_t)RANGES * (200 + MANY - 1));
}

/* All at once, each with a region held when it ends; more threads than any initial table has room
 * for. */
#define AT_ONCE 200

static pthread_barrier_t all_have;

static void *get_with_others(void *out)
{
    *(struct hmreg_mr **)out = get(0);
    pthread_barrier_wait(&all_have);
    return NULL;
}

TEST(threads__many_at_once__all_count)
{
    static struct hmreg_mr *held[AT_ONCE];

    open_all(NULL);
    pthread_barrier_init(&all_have, NULL, AT_ONCE);
    test_on_threads(AT_ONCE, get_with_others, held, sizeof(held[0]));
    pthread_barrier_destroy(&all_have);
    assert_int_equal(atomic_load(&pinning.regs), 1);
    forget_all();
    for (int i = 0; i < AT_ONCE; i++) {
        assert_int_equal(atomic_load(&pinning.alive), 1);
        hmreg_mr_put(held[i]);
    }
    assert_int_equal(atomic_load(&pinning.alive), 0);
}

/* Libraries and domains close while threads that used them continue. */
TEST(threads__outlive_domains__nothing_grows)
{
    struct had before = {0};

    for (int i = 0; i < 300; i++) {
        open_all(NULL);
        for (unsigned range = 0; range < RANGES; range++)
            hmreg_mr_put(get(range));
        test_finish();
        if (i == 50)
            before = had_now();
    }
    assert_not_grown(before);
}

/* ---- forks ------------------------------------------------------------------------------- */

/* In the child. 0, or the step that failed. */
static int live_as_a_child(struct hmreg_mr *held)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_DEFAULT};
    struct hmreg_mr *mr = NULL;
    unsigned deregs = atomic_load(&pinning.deregs);

    pinning.reg_hook = NULL;
    if (hmreg_mr_get(domain, memory[0], LEN, HMREG_ACCESS_REMOTE, &mr) != -EPERM || mr)
        return 1;
    hmreg_mr_put(held);
    if (hmreg_domain_flush(domain) != -EPERM || hmreg_domain_close(domain) != -EPERM)
        return 2;
    if (hmreg_open(&config, &lib) || pinning_open(lib, NULL, &domain))
        return 3;
    for (unsigned i = 0; i < RANGES; i++)
        hmreg_mr_put(get(i));
    if (hmreg_domain_close(domain) || hmreg_close(lib) || *pinning_complaint())
        return 4;
    return atomic_load(&pinning.deregs) == deregs + RANGES ? 0 : 5;
}

static void fork_one(struct hmreg_mr *held)
{
    test_in_child(live_as_a_child(held));
}

static sem_t registering, go_on;

static void stop_here(const struct provider_request *request)
{
    sem_post(&registering);
    sem_wait(&go_on);
}

static void *get_range(void *range)
{
    hmreg_mr_put(get((unsigned)(uintptr_t)range));
    return NULL;
}

TEST(fork__while_one_registers_and_one_waits_for_it__child_continues)
{
    pthread_t threads[2];
    struct hmreg_mr *held;

    test_forks_with_threads();
    open_all(NULL);
    held = get(0);
    sem_init(&registering, 0, 0);
    sem_init(&go_on, 0, 0);
    pinning.reg_hook = stop_here;
    assert_int_equal(pthread_create(&threads[0], NULL, get_range, (void *)5), 0);
    sem_wait(&registering);
    assert_int_equal(pthread_create(&threads[1], NULL, get_range, (void *)5), 0);
    for (int i = 0; i < 10; i++)
        fork_one(held);
    sem_post(&go_on);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    hmreg_mr_put(held);
    assert_int_equal(atomic_load(&pinning.regs), 2);
}

static atomic_bool enough;

/* At the fork, each lock may be held by some thread. */
static void *do_everything(void *arg)
{
    for (unsigned i = 0; !atomic_load(&enough); i++) {
        struct hmreg_mr *mr = get(i * 7 % RANGES);

        if (i % 50 == 0)
            hmreg_invalidate(lib, memory[i % RANGES], LEN);
        if (i % 400 == 0)
            hmreg_domain_flush(domain);
        hmreg_mr_put(mr);
    }
    return NULL;
}

TEST(fork__while_threads_do_everything__child_continues)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .max_regions = RANGES / 2};
    struct hmreg_mr *held;
    pthread_t threads[3];

    test_forks_while_threads_allocate();
    open_all(&config);
    held = get(0);
    atomic_store(&enough, false);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, do_everything, NULL), 0);
    for (int i = 0; i < 150; i++)
        fork_one(held);
    atomic_store(&enough, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    hmreg_mr_put(held);
}

/* ---- limits ------------------------------------------------------------------------------ */

static void go_round(unsigned ranges, unsigned times)
{
    for (unsigned i = 0; i < ranges * times; i++) {
        hmreg_mr_put(get(i % ranges));
        assert_string_equal(pinning_complaint(), "");
    }
}

TEST(limits__exactly_what_is_worked_with__never_misses_again)
{
    for (unsigned ranges = 1; ranges <= RANGES; ranges *= 2) {
        struct hmreg_domain_config config = {
            .size = sizeof(config), .max_regions = ranges, .max_bytes = ranges * LEN};

        open_all(&config);
        go_round(ranges, 20);
        assert_int_equal(atomic_load(&pinning.regs), ranges);
        assert_int_equal(test_stats_of(domain).evictions, 0);
        assert_int_equal(test_stats_of(domain).regions, ranges);
        test_finish();
    }
}

/* Over the limit by the least: a region, a byte. */
static void exceed(uint64_t max_regions, uint64_t max_bytes)
{
    struct hmreg_domain_config config = {
        .size = sizeof(config), .max_regions = max_regions, .max_bytes = max_bytes};

    open_all(&config);
    for (unsigned i = 0; i < RANGES * 10; i++) {
        hmreg_mr_put(get(i % RANGES));
        assert_in_range(test_stats_of(domain).regions, 1,
                        max_regions < RANGES ? max_regions : RANGES - 1);
        assert_in_range(test_stats_of(domain).bytes, LEN,
                        max_bytes < RANGES * LEN ? max_bytes : RANGES * LEN);
    }
    assert_true(test_stats_of(domain).evictions >= RANGES);
    test_finish();
}

TEST(limits__one_less_than_what_is_worked_with__hold)
{
    exceed(RANGES - 1, HMREG_LIMIT_NONE);
    exceed(HMREG_LIMIT_NONE, RANGES * LEN - 1);
    exceed(2, HMREG_LIMIT_NONE);
    exceed(HMREG_LIMIT_NONE, 2 * LEN);
}

TEST(limits__of_one__the_last_is_kept)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .max_regions = 1};
    struct hmreg_mr *held, *other;

    open_all(&config);
    go_round(2, 5);
    assert_int_equal(atomic_load(&pinning.regs), 10);
    assert_int_equal(atomic_load(&pinning.alive), 1);
    held = get(0);
    other = get(1); /* there is no room for it */
    assert_int_equal(test_stats_of(domain).uncached, 1);
    assert_int_equal(atomic_load(&pinning.alive), 2);
    hmreg_mr_put(other);
    assert_int_equal(atomic_load(&pinning.alive), 1);
    hmreg_mr_put(held);
    assert_int_equal(test_stats_of(domain).regions, 1);
}

/* Regions that were in use at a failed search for room can be evicted later. */
TEST(limits__full_and_put_back__there_is_room_again)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .max_regions = 4};
    struct hmreg_mr *held[4];

    open_all(&config);
    for (unsigned i = 0; i < 4; i++)
        held[i] = get(i);
    hmreg_mr_put(get(4));
    assert_int_equal(test_stats_of(domain).uncached, 1);
    for (unsigned i = 0; i < 4; i++)
        hmreg_mr_put(held[i]);
    go_round(RANGES, 1);
    assert_int_equal(test_stats_of(domain).uncached, 1);
    assert_int_equal(test_stats_of(domain).misses, RANGES);
}

TEST(limits__a_range_beyond_them__evicts_nothing)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .max_bytes = 4 * LEN};
    struct hmreg_mr *mr = NULL;

    open_all(&config);
    go_round(4, 2);
    assert_ok(hmreg_mr_get(domain, memory[8], 4 * LEN + 1, HMREG_ACCESS_REMOTE, &mr));
    hmreg_mr_put(mr);
    go_round(4, 2);
    assert_int_equal(atomic_load(&pinning.regs), 5);
    assert_int_equal(test_stats_of(domain).evictions, 0);
}

TEST_MAIN()
