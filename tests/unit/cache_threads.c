/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Threads that meet in the cache: hooks hold and release them at the critical places, so nothing
 * here depends on time.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/vendors.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

#define LEN     4096
#define THREADS 4

static char memory[8][LEN];

/* ---- threads that get ------------------------------------------------------------------- */

struct getter {
    char *addr;
    size_t len;
    pthread_t thread;
    struct hmreg_mr *mr;
    int rc;
    int vendor_code; /* as a vendor's error has */
};

static void *get_it(void *arg)
{
    struct getter *getter = arg;

    getter->rc =
        hmreg_mr_get(fixture.domain, getter->addr, getter->len, HMREG_ACCESS_REMOTE, &getter->mr);
    getter->vendor_code = (int)hmreg_last_error()->vendor_code;
    return NULL;
}

static void start(struct getter *getter, void *addr, size_t len)
{
    *getter = (struct getter){.addr = addr, .len = len};
    assert_int_equal(pthread_create(&getter->thread, NULL, get_it, getter), 0);
}

static void finish(struct getter *getter)
{
    pthread_join(getter->thread, NULL);
    hmreg_mr_put(getter->mr);
}

/* ---- registrations that hooks hold ------------------------------------------------------ */

static sem_t reached, go_on;
static atomic_int stops;

static void stop_here(const struct provider_request *request)
{
    if (atomic_fetch_sub(&stops, 1) <= 0)
        return;
    sem_post(&reached);
    sem_wait(&go_on);
}

static void open_fixture(enum hmreg_monitor monitor, const struct hmreg_domain_config *config,
                         int stop)
{
    vendors_reset();
    fixture_open(monitor, config);
    sem_init(&reached, 0, 0);
    sem_init(&go_on, 0, 0);
    atomic_store(&stops, stop);
    counter.reg_hook = stop_here;
}

/* Waits until so many threads wait for another's registration. */
static void await_waiting(unsigned threads)
{
    while (fixture_stats().waiting != threads)
        sched_yield();
}

/* ---- the same range --------------------------------------------------------------------- */

TEST(get__same_range_on_four_threads__registered_once)
{
    struct getter getters[THREADS];

    open_fixture(HMREG_MONITOR_IMPORT, NULL, 1);
    start(&getters[0], memory, LEN);
    sem_wait(&reached);
    for (int i = 1; i < THREADS; i++)
        start(&getters[i], memory[0] + i, LEN - 10); /* parts of it */
    await_waiting(THREADS - 1);
    sem_post(&go_on);
    for (int i = 0; i < THREADS; i++) {
        finish(&getters[i]);
        assert_int_equal(getters[i].rc, 0);
        assert_ptr_equal(getters[i].mr, getters[0].mr);
    }
    assert_int_equal(fixture_stats().waits, THREADS - 1);
    assert_int_equal(fixture_stats().waiting, 0);
    assert_int_equal(atomic_load(&counter.regs), 1);
    assert_int_equal(fixture_stats().misses, 1);
    assert_int_equal(fixture_stats().hits, THREADS - 1);
}

TEST(get__first_of_four_fails__the_others_register_for_themselves)
{
    struct getter getters[THREADS];

    open_fixture(HMREG_MONITOR_IMPORT, NULL, 1);
    atomic_store(&counter.reg_code, -EINVAL);
    atomic_store(&counter.reg_times, 1);
    start(&getters[0], memory, LEN);
    sem_wait(&reached);
    for (int i = 1; i < THREADS; i++)
        start(&getters[i], memory, LEN);
    await_waiting(THREADS - 1);
    sem_post(&go_on);
    for (int i = 0; i < THREADS; i++)
        finish(&getters[i]);
    assert_int_equal(getters[0].rc, -EINVAL);
    for (int i = 1; i < THREADS; i++)
        assert_int_equal(getters[i].rc, 0);
    assert_int_equal(atomic_load(&counter.regs), 2); /* one of the others, for all of them */
}

TEST(get__another_range_while_one_registers__does_not_wait)
{
    struct getter slow;

    open_fixture(HMREG_MONITOR_IMPORT, NULL, 1);
    start(&slow, memory[0], LEN);
    sem_wait(&reached);
    assert_int_equal(fixture_key(memory[1], LEN), 2);
    assert_int_equal(fixture_key(memory[1], LEN), 2); /* nor a hit */
    sem_post(&go_on);
    finish(&slow);
    assert_int_equal(fixture_key(memory[0], LEN), 1);
}

/* ---- changes during a registration ------------------------------------------------------ */

TEST(invalidate__while_it_is_registered__not_used)
{
    struct getter getter;

    open_fixture(HMREG_MONITOR_IMPORT, NULL, 1);
    start(&getter, memory[0], LEN);
    sem_wait(&reached);
    assert_ok(hmreg_invalidate(fixture.lib, memory[0], 1));
    sem_post(&go_on);
    pthread_join(getter.thread, NULL);
    assert_int_equal(getter.rc, 0);
    assert_int_equal(hmreg_mr_key(getter.mr), 2);
    assert_true(fixture_is_cached(getter.mr));
    hmreg_mr_put(getter.mr);
    assert_int_equal(atomic_load(&counter.regions), 1);
    assert_int_equal(fixture_key(memory[0], LEN), 2);
}

static struct hmreg *library;
static void *to_forget;

static void forget_it(const struct provider_request *request)
{
    hmreg_invalidate(library, to_forget, 1);
}

TEST(invalidate__at_each_registration__uncached_in_the_end)
{
    struct hmreg_mr *mr;

    open_fixture(HMREG_MONITOR_IMPORT, NULL, 0);
    library = fixture.lib;
    to_forget = memory[0];
    counter.reg_hook = forget_it;
    mr = fixture_get(memory[0], LEN);
    assert_false(fixture_is_cached(mr));
    assert_int_equal(atomic_load(&counter.regs), 3);
    assert_int_equal(atomic_load(&counter.regions), 1);
    hmreg_mr_put(mr);
}

static void forget_it_first(const struct provider_request *request)
{
    if (!atomic_load(&counter.regions))
        forget_it(request);
}

/* As where libibverbs sets memory apart for a fork: its first registration alone changes the
 * mapping. A fabric that has no room for two ends the first before it tries again. */
TEST(invalidate__at_a_registration_beside_no_other__cached_where_there_is_room_for_two)
{
    for (unsigned room = 0; room < 2; room++) {
        struct hmreg_mr *mr;

        open_fixture(HMREG_MONITOR_IMPORT, NULL, 0);
        library = fixture.lib;
        to_forget = memory[0];
        counter.reg_hook = forget_it_first;
        counter.room = room;
        mr = fixture_get(memory[0], LEN);
        assert_int_equal(fixture_is_cached(mr), room == 0);
        if (!room)
            assert_int_equal(atomic_load(&counter.regs), 2);
        assert_int_equal(atomic_load(&counter.regions), 1);
        hmreg_mr_put(mr);
        fixture_close();
    }
}

/* ---- limits while others register ------------------------------------------------------- */

/* Takes the remaining room while another thread registers. */
static void take_room_meanwhile(bool hold, uint64_t evictions, uint64_t uncached)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .max_regions = 1};
    struct getter getter;
    struct hmreg_mr *mr;

    open_fixture(HMREG_MONITOR_IMPORT, &config, 1);
    start(&getter, memory[0], LEN);
    sem_wait(&reached);
    mr = fixture_get(memory[1], LEN);
    assert_true(fixture_is_cached(mr));
    if (!hold)
        hmreg_mr_put(mr);
    sem_post(&go_on);
    finish(&getter);
    assert_int_equal(fixture_stats().regions, 1);
    assert_int_equal(fixture_stats().evictions, evictions);
    assert_int_equal(fixture_stats().uncached, uncached);
    if (hold)
        hmreg_mr_put(mr);
    fixture_close();
}

TEST(limit__reached_while_one_registers__counted_when_it_is_published)
{
    take_room_meanwhile(false, 1, 0);
    take_room_meanwhile(true, 0, 1);
}

/* Two threads wait for one registration, which finds no room. They do not wait for each other's. */
TEST(limit__no_room_for_what_others_wait_for__each_has_its_own)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .max_regions = 1};
    struct getter getters[3];
    struct hmreg_mr *held;

    open_fixture(HMREG_MONITOR_IMPORT, &config, 0);
    held = fixture_get(memory[1], LEN);
    atomic_store(&stops, 2);
    start(&getters[0], memory[0], LEN);
    sem_wait(&reached);
    start(&getters[1], memory[0], LEN);
    start(&getters[2], memory[0], LEN);
    await_waiting(2);
    sem_post(&go_on);
    sem_wait(&reached); /* one of the two is held in its registration */
    while (atomic_load(&counter.regs) < 4)
        sched_yield();
    sem_post(&go_on);
    for (int i = 0; i < 3; i++)
        finish(&getters[i]);
    assert_int_equal(fixture_stats().uncached, 3);
    assert_int_equal(fixture_stats().waits, 2);
    hmreg_mr_put(held);
}

/* ---- callbacks -------------------------------------------------------------------------- */

static struct fixture *inner;

/* The fabric, or an allocator's hook below it, may call the library. */
static void get_within(uint64_t key)
{
    counter.dereg_hook = NULL;
    fixture_key_in(inner, memory[5], LEN);
    hmreg_invalidate(inner->lib, memory[5], LEN);
}

TEST(put__deregistration_calls_the_library__no_deadlock)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .max_regions = 1};

    open_fixture(HMREG_MONITOR_IMPORT, &config, 0);
    inner = &fixture;
    fixture_key(memory[0], LEN);
    counter.dereg_hook = get_within;
    fixture_key(memory[1], LEN);
    assert_null(counter.dereg_hook);
    assert_in_range(fixture_stats().regions, 0, 1);
}

/* A vendor's hook frees and registers host memory, as allocators below it do. */
static void call_within(const char *call, uint64_t addr, size_t len)
{
    vendors[HMREG_IFACE_CUDA].hook = NULL;
    hmreg_invalidate(inner->lib, (void *)(uintptr_t)addr, len);
    fixture_key_in(inner, memory[6], LEN);
}

TEST(get__identity_calls_the_library__no_deadlock)
{
    struct vendor_claim *claim;

    open_fixture(HMREG_MONITOR_IMPORT, NULL, 0);
    inner = &fixture;
    claim = vendor_claim(HMREG_IFACE_CUDA, memory[4], LEN, HMREG_MEM_DEVICE, 0);
    assert_int_equal(fixture_key(memory[4], LEN), 1);
    vendors[HMREG_IFACE_CUDA].hook = call_within;
    fixture_key(memory[4], LEN); /* it was valid at the call */
    assert_null(vendors[HMREG_IFACE_CUDA].hook);
    assert_int_equal(fixture_key(memory[4], LEN), 3);
    assert_non_null(claim);
}

TEST_MAIN()
