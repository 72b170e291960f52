/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg_mr_try_get() and hmreg_mr_try_put(): what they serve, that they serve nothing stale, and
 * that they do nothing that may take long, whatever other threads do. Here each call with them
 * checks that: neither locks, allocations, changes that are read, nor a question to a vendor.
 */
#define FAILING_MALLOC
#include "tests/support/cache_fixture.h"
#include "tests/support/failing_allocation.h"
#include "tests/support/inside.h"
#include "tests/support/vendors.h"
#include "tests/unit/slow_steps.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>

#define LEN    4096
#define MANY   64
#define RIGHTS HMREG_ACCESS_REMOTE

static char memory[MANY][LEN] __attribute__((aligned(LEN)));

/* ---- what may take long ----------------------------------------------------------------- */

static unsigned questions(void)
{
    const struct vendor *cuda = &vendors[HMREG_IFACE_CUDA];

    return atomic_load(&cuda->identities) + atomic_load(&cuda->resolves);
}

static unsigned slow_steps(void)
{
    return locks + drains + questions() + allocations;
}

static int try_on(struct hmreg_domain *domain, const void *addr, size_t len, uint64_t access,
                  struct hmreg_mr **mr)
{
    unsigned before = slow_steps(), regs = atomic_load(&counter.regs);
    int rc = hmreg_mr_try_get(domain, addr, len, access, mr);

    assert_int_equal(slow_steps(), before);
    assert_int_equal(atomic_load(&counter.regs), regs);
    return rc;
}

/* NULL: nothing at once. */
static struct hmreg_mr *try_get(const void *addr, size_t len)
{
    struct hmreg_mr *mr = NULL;
    int rc = try_on(fixture.domain, addr, len, RIGHTS, &mr);

    assert_int_equal(rc, mr ? 0 : -EAGAIN);
    return mr;
}

/* True: the region is given back. */
static bool try_put(struct hmreg_mr *mr)
{
    unsigned before = slow_steps(), deregs = atomic_load(&counter.deregs);
    int rc = hmreg_mr_try_put(mr);

    assert_int_equal(slow_steps(), before);
    assert_int_equal(atomic_load(&counter.deregs), deregs);
    assert_true(rc == 0 || rc == -EAGAIN);
    return rc == 0;
}

/* A hit, whose region is given back. */
static void assert_hit(const void *addr, size_t len, uint64_t key)
{
    struct hmreg_mr *mr = try_get(addr, len);

    assert_non_null(mr);
    assert_int_equal(hmreg_mr_key(mr), key);
    assert_true(try_put(mr));
}

static void open_with(struct hmreg_domain_config config)
{
    config.size = sizeof(config);
    vendors_reset();
    fixture_open(HMREG_MONITOR_IMPORT, &config);
}

static void open_fixture(void)
{
    open_with((struct hmreg_domain_config){0});
}

static void skip_if_fenced(void)
{
    if (inside_is_fenced(fixture.domain))
        test_skip("no membarrier(2) here: every put takes the other path");
}

/* ---- hits ------------------------------------------------------------------------------- */

TEST(try__region_that_this_thread_has_had__served_and_given_back)
{
    open_fixture();
    skip_if_fenced();
    assert_null(try_get(memory[0], LEN));
    assert_int_equal(fixture_key(memory[0], LEN), 1);
    for (int i = 0; i < 5; i++)
        assert_hit(memory[0], LEN, 1);
    assert_int_equal(fixture_stats().hits, 5);
    assert_int_equal(fixture_stats().misses, 1);
    assert_null(try_get(memory[0], LEN + 1));
    assert_null(try_get(memory[1], LEN));
    assert_ok(hmreg_domain_flush(fixture.domain)); /* nothing holds it */
    assert_int_equal(atomic_load(&counter.regions), 0);
    assert_null(try_get(memory[0], LEN));
}

TEST(try__rights_with_each_other_bit__eagain_and_nothing_changes)
{
    struct hmreg_mr *mr = (void *)1;

    open_fixture();
    fixture_key(memory[0], LEN);
    for (unsigned bit = 0; bit < 64; bit++)
        if (UINT64_C(1) << bit != HMREG_GET_HOST) /* a claim that holds */
            assert_int_equal(
                try_on(fixture.domain, memory[0], LEN, RIGHTS ^ (UINT64_C(1) << bit), &mr),
                -EAGAIN);
    assert_ptr_equal(mr, (void *)1);
}

/* Every request that is not in its first slot: parts, neighbours in the table, more rights. */
TEST(try__other_places_of_the_thread_s_table__served)
{
    struct hmreg_mr *mr = NULL;
    uint32_t used;

    open_with((struct hmreg_domain_config){.rights = HMREG_RIGHTS_ANY});
    skip_if_fenced();
    fixture_key(memory, sizeof(memory));
    fixture_key(memory[1], LEN); /* from now on parts are expected */
    used = inside_table_used(fixture.domain);
    for (unsigned i = 0; i < MANY; i++)
        assert_hit(memory[i] + 1, LEN - 2, 1);
    assert_int_equal(inside_table_used(fixture.domain), used); /* it does not grow */
    assert_ok(try_on(fixture.domain, memory[3], LEN, HMREG_REMOTE_READ, &mr));
    assert_int_equal(hmreg_mr_key(mr), 1);
    assert_true(try_put(mr));
}

TEST(try__requests_that_share_a_slot__each_served)
{
    char *one = test_map((size_t)64 << 20), *other = NULL;
    uint64_t keys[2];

    open_fixture();
    skip_if_fenced();
    keys[0] = fixture_key(one, LEN);
    for (size_t at = LEN; !other && at < (size_t)64 << 20; at += LEN)
        if (inside_shares_slot(fixture.domain, one, one + at))
            other = one + at;
    assert_non_null(other);
    keys[1] = fixture_key(other, LEN);
    for (int i = 0; i < 3; i++) {
        assert_hit(one, LEN, keys[0]);
        assert_hit(other, LEN, keys[1]);
    }
    munmap(one, (size_t)64 << 20);
}

TEST(try__more_domains_than_a_thread_has_at_hand__each_its_own)
{
    enum { DOMAINS = 2 * INSIDE_VIEWS + 1 };
    struct hmreg_domain *domains[DOMAINS];
    struct hmreg_mr *mr;

    open_fixture();
    for (unsigned i = 0; i < DOMAINS; i++) {
        domains[i] = counter_open_more(fixture.lib, NULL);
        assert_ok(hmreg_mr_get(domains[i], memory[0], LEN, RIGHTS, &mr));
        hmreg_mr_put(mr);
    }
    for (unsigned i = 0; i < DOMAINS; i++) {
        assert_ok(try_on(domains[i], memory[0], LEN, RIGHTS, &mr));
        assert_int_equal(hmreg_mr_key(mr), i + 1);
        hmreg_mr_put(mr);
    }
    for (unsigned i = 0; i < DOMAINS; i++)
        assert_ok(hmreg_domain_close(domains[i]));
}

/* ---- nothing at once -------------------------------------------------------------------- */

TEST(try__device_memory_whose_end_is_reported__served)
{
    open_fixture();
    skip_if_fenced();
    vendors[HMREG_IFACE_CUDA].reports = true;
    vendor_claim(HMREG_IFACE_CUDA, memory[0], LEN, HMREG_MEM_DEVICE, 0)->watched = true;
    assert_int_equal(fixture_key(memory[0], LEN), 1);
    assert_hit(memory[0], LEN, 1);
    assert_null(try_get(memory[0], LEN + 1));
}

/* 0, or the line that failed. */
static int try_in_child(struct hmreg_mr *held)
{
    struct hmreg_mr *mr = (void *)1;

    if (hmreg_mr_try_get(fixture.domain, memory[0], LEN, RIGHTS, &mr) != -EAGAIN ||
        hmreg_mr_try_get(fixture.domain, memory[1], LEN, RIGHTS, &mr) != -EAGAIN)
        return __LINE__ % 100;
    if (mr != (void *)1)
        return __LINE__ % 100;
    (void)hmreg_mr_try_put(held); /* has no effect here, as any put of a parent's region */
    return hmreg_mr_get(fixture.domain, memory[0], LEN, RIGHTS, &mr) == -EPERM ? 0 : __LINE__ % 100;
}

TEST(try__forked_child__nothing)
{
    struct hmreg_mr *mr;

    open_fixture();
    mr = fixture_get(memory[0], LEN);
    assert_ptr_equal(fixture_get(memory[0], LEN), mr);
    test_in_child(try_in_child(mr));
    hmreg_mr_put(mr);
    hmreg_mr_put(mr);
}

/* ---- other threads ---------------------------------------------------------------------- */

static sem_t reached, go_on;

static void stop_here(const struct provider_request *request)
{
    atomic_store(&counter.reg_hook, NULL);
    sem_post(&reached);
    sem_wait(&go_on);
}

static void *get_last(void *unused)
{
    hmreg_mr_put(fixture_get(memory[MANY - 1], LEN));
    return NULL;
}

/* The fabric does not return; and a thread is stopped while it has the lock of the domain's caches,
 * which no other thread could take. */
TEST(try__others_register_or_hold_the_lock__does_not_wait)
{
    pthread_mutex_t *lock;
    pthread_t thread;

    open_fixture();
    skip_if_fenced();
    fixture_key(memory[0], LEN);
    sem_init(&reached, 0, 0);
    sem_init(&go_on, 0, 0);
    atomic_store(&counter.reg_hook, stop_here);
    assert_int_equal(pthread_create(&thread, NULL, get_last, NULL), 0);
    sem_wait(&reached);
    lock = inside_lock(fixture.domain);
    __real_pthread_mutex_lock(lock);
    assert_hit(memory[0], LEN, 1);
    assert_null(try_get(memory[1], LEN));
    assert_null(try_get(memory[MANY - 1], LEN)); /* what is being registered */
    assert_ok(hmreg_invalidate(fixture.lib, memory[2], 1));
    assert_null(try_get(memory[0], LEN));
    pthread_mutex_unlock(lock);
    sem_post(&go_on);
    pthread_join(thread, NULL);
}

/* ---- a pin in passing that turns out to be the last ----------------------------------------- */

static pthread_t test_thread;
static atomic_uint by_test; /* deregistrations on the test's thread */

static void count_by_test(uint64_t key)
{
    atomic_fetch_add(&by_test, pthread_equal(test_thread, pthread_self()) != 0);
}

/* Memory that a call touches when its thread has begun and not finished a pin: there the region
 * ends, as by another thread. */
static struct {
    char *page;
    struct hmreg_domain *domain;
} trap;

static void protect(int rights)
{
    assert_int_equal(mprotect(trap.page, fixture_page(), rights), 0);
}

static void on_touch(int signal, siginfo_t *info, void *unused)
{
    struct hmreg_domain *domain = trap.domain;

    if (!domain || (char *)info->si_addr < trap.page ||
        (char *)info->si_addr >= trap.page + fixture_page())
        abort();
    trap.domain = NULL;
    protect(PROT_READ | PROT_WRITE);
    assert_ok(hmreg_invalidate(fixture.lib, memory[0], LEN));
    assert_ok(hmreg_domain_flush(domain));
    assert_int_equal(atomic_load(&by_test), 0); /* it is pinned */
}

static void set_trap(const void *at, int rights, struct hmreg_domain *domain)
{
    struct sigaction action = {.sa_sigaction = on_touch, .sa_flags = SA_SIGINFO | SA_NODEFER};

    assert_int_equal(sigaction(SIGSEGV, &action, NULL), 0);
    test_thread = pthread_self();
    atomic_store(&by_test, 0);
    atomic_store(&counter.dereg_hook, count_by_test);
    trap.page = (char *)((uintptr_t)at & ~(fixture_page() - 1));
    trap.domain = domain;
    protect(rights);
}

static void assert_left(void)
{
    assert_null(trap.domain);
    assert_int_equal(signal(SIGSEGV, SIG_DFL) == SIG_ERR, 0);
    assert_int_equal(atomic_load(&by_test), 0);
}

/* The region ends when the put has looked whether it serves, and is about to take its pin back. */
static void put_what_ends(struct hmreg_domain *domain)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get(domain, memory[0], LEN, RIGHTS, &mr));
    hmreg_mr_put(mr);
    assert_ok(hmreg_mr_get(domain, memory[0], LEN, RIGHTS, &mr)); /* pinned in the thread's slot */
    set_trap(inside_pins(domain, mr), PROT_READ, domain);
    assert_int_equal(hmreg_mr_try_put(mr), 0);
    assert_left();
}

TEST(try_put__region_ends_meanwhile__the_domains_next_call_deregisters_it)
{
    open_fixture();
    skip_if_fenced();
    put_what_ends(fixture.domain);
    assert_int_equal(atomic_load(&counter.regions), 1);
    fixture_key(memory[3], LEN);
    assert_int_equal(atomic_load(&by_test), 1);
    assert_int_equal(atomic_load(&counter.regions), 1);
}

TEST(try_put__region_ends_meanwhile__the_reaper_deregisters_it)
{
    struct hmreg_domain *served;
    struct hmreg_mr *kept;

    open_fixture();
    skip_if_fenced();
    served = counter_open_served(fixture.lib, NULL);
    kept = fixture_get(memory[5], LEN); /* so the reaper's thread stays */
    put_what_ends(served);
    assert_true(inside_thread_runs());
    test_wait_until(atomic_load(&counter.regions) == 1);
    assert_int_equal(atomic_load(&by_test), 0);
    hmreg_mr_put(kept);
    assert_ok(hmreg_domain_close(served));
}

/* The flush has ended the reaper's thread, since nothing is cached any more. */
TEST(try_put__region_ends_meanwhile_without_a_reaper__the_domains_next_call_deregisters_it)
{
    struct hmreg_domain *served;
    struct hmreg_mr *mr = NULL;

    open_fixture();
    skip_if_fenced();
    served = counter_open_served(fixture.lib, NULL);
    put_what_ends(served);
    assert_false(inside_thread_runs());
    assert_int_equal(atomic_load(&counter.regions), 1);
    assert_ok(hmreg_mr_get(served, memory[3], LEN, RIGHTS, &mr));
    hmreg_mr_put(mr);
    assert_int_equal(atomic_load(&by_test), 1);
    assert_ok(hmreg_domain_close(served));
}

/* The region ends when the get has pinned it, and reads what the kernel has counted. */
TEST(try_get__region_ends_meanwhile__not_served_and_left)
{
    uint64_t *made;

    open_fixture();
    skip_if_fenced();
    fixture_key(memory[0], LEN);
    made = test_map(fixture_page());
    inside_count_by(fixture.domain, made);
    set_trap(made, PROT_NONE, fixture.domain);
    assert_int_equal(
        hmreg_mr_try_get(fixture.domain, memory[0], LEN, RIGHTS, &(struct hmreg_mr *){NULL}),
        -EAGAIN);
    assert_left();
    assert_int_equal(atomic_load(&counter.regions), 1);
    inside_count_by(fixture.domain, NULL);
    munmap(made, fixture_page());
    fixture_key(memory[3], LEN);
    assert_int_equal(atomic_load(&by_test), 1);
}

TEST_MAIN()
