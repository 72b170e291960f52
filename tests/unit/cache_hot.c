/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Thread caches and pins: tables that grow, entries that are reused, threads that end, domains
 * without a slot in the thread, kernels without membarrier(2).
 */
#include "tests/support/code_filters.h"
#include "tests/unit/hits.h"

#include <sys/syscall.h>
#include <time.h>

/* ---- barriers --------------------------------------------------------------------------- */

static _Thread_local unsigned barriers; /* the test thread's only: the reaper has its own */
static atomic_bool refused;             /* as a sandbox does */
static _Thread_local bool is_test;
/* The reaper stays in its next barrier until the test has asked and waits. */
static atomic_bool hold_reaper, reaper_is_held, test_asks;

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __real_syscall(long number, long a, long b, long c, long d, long e, long f);

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    if (number == SYS_membarrier) {
        barriers++;
        if (!is_test && atomic_exchange(&hold_reaper, false)) {
            atomic_store(&reaper_is_held, true);
            test_wait_until(atomic_load(&test_asks));
            test_wait_until_others_sleep();
        }
    }
    if (number == SYS_membarrier && atomic_load(&refused)) {
        errno = EPERM;
        return -1;
    }
    return __real_syscall(number, a, b, c, d, e, f);
}

/* Everything that removes entries of thread caches needs a barrier; entries in none do not. */
TEST(barrier__before_pins_are_added_up__once_for_many)
{
    open_fixture(32);
    if (inside_is_fenced(fixture.domain))
        test_skip("this system has no membarrier(2)");
    for (unsigned i = 0; i < 32; i++)
        fixture_key(memory[i], LEN);
    barriers = 0;
    fixture_key(memory[32], LEN); /* evicts */
    assert_int_equal(barriers, 1);
    for (unsigned i = 33; i < 36; i++)
        fixture_key(memory[i], LEN);
    assert_int_equal(barriers, 1);
    assert_ok(hmreg_invalidate(fixture.lib, memory[20], LEN));
    assert_int_equal(barriers, 1); /* the caller must not be held up */
    fixture_key(memory[21], LEN);
    assert_in_range(barriers, 1, 2);
    assert_ok(hmreg_domain_flush(fixture.domain));
    assert_in_range(barriers, 2, 4);
    assert_int_equal(atomic_load(&counter.regions), 0);
}

/* Statistics include entries that the reaper has in hand. */
TEST(stats__the_reaper_examines_a_held_region__retired)
{
    struct hmreg_mr *held;

    open_fixture(32);
    if (inside_is_fenced(fixture.domain))
        test_skip("this system has no membarrier(2)");
    is_test = true;
    held = fixture_get(memory[0], LEN);
    hmreg_mr_put(fixture_get(memory[0], LEN)); /* a hit: pinned in the thread's slot */
    atomic_store(&hold_reaper, true);
    assert_ok(hmreg_invalidate(fixture.lib, memory[0], LEN));
    test_wait_until(atomic_load(&reaper_is_held));
    atomic_store(&test_asks, true);
    assert_int_equal(fixture_stats().retired, 1);
    hmreg_mr_put(held);
}

static _Thread_local long slept_ns; /* at the thread's request */

int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __real_nanosleep(const struct timespec *time, struct timespec *left);

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    slept_ns += time->tv_nsec;
    return __real_nanosleep(time, left);
}

/* Ends a region that its thread may hit without a fence. */
static void assert_waits(void)
{
    fixture_key(memory[0], LEN);
    fixture_key(memory[0], LEN);
    slept_ns = 0;
    assert_ok(hmreg_domain_flush(fixture.domain));
    assert_true(slept_ns >= 10000000);
    assert_int_equal(atomic_load(&counter.regions), 0);
}

/* No call fences the other threads any more, and hits that began before do not fence: their pins
 * are certain only after a delay. Hits of a domain opened later fence, which does not help the
 * others. */
TEST(barrier__refused_after_opening__waits_until_stores_are_visible)
{
    struct fixture later;
    uint64_t key;

    open_fixture(32);
    if (inside_is_fenced(fixture.domain))
        test_skip("this system has no membarrier(2)");
    atomic_store(&refused, true);
    assert_waits();
    later = (struct fixture){fixture.lib, counter_open_more(fixture.lib, NULL)};
    assert_true(inside_is_fenced(later.domain));
    key = fixture_key_in(&later, memory[0], LEN);
    assert_int_equal(fixture_key_in(&later, memory[0], LEN), key);
    assert_ok(hmreg_domain_close(later.domain));
    assert_waits();
    atomic_store(&refused, false);
}

/* ---- tables ----------------------------------------------------------------------------- */

TEST(table__more_requests_than_it_has_slots__grows)
{
    size_t size;

    open_fixture(HMREG_LIMIT_NONE);
    for (int round = 0; round < 3; round++)
        for (unsigned i = 0; i < MANY; i++)
            assert_int_equal(fixture_key(memory[i], LEN), i + 1);
    assert_int_equal(fixture_stats().hits, 2 * MANY);
    size = inside_table_size(fixture.domain);
    assert_in_range(inside_table_used(fixture.domain), MANY, size);
    assert_in_range(size, MANY, 8 * MANY);
}

/* Bits that a slot compares with an entry's sequence are not access rights either. */
TEST(get__rights_that_look_like_a_sequence__refused)
{
    struct hmreg_mr *mr = NULL;
    uint32_t remembered;

    open_fixture(0);
    mr = fixture_get(memory[0], LEN);
    remembered = inside_sequence(mr);
    hmreg_mr_put(mr);
    assert_ok(hmreg_invalidate(fixture.lib, memory[0], LEN));
    assert_ok(hmreg_domain_flush(fixture.domain));
    remembered ^= inside_sequence(mr); /* the current one, without a region */
    mr = NULL;
    assert_true(remembered);
    assert_fails(
        hmreg_mr_get(fixture.domain, memory[0], LEN, HMREG_ACCESS_REMOTE ^ remembered, &mr),
        -EINVAL, "unknown bits");
    assert_null(mr);
}

/* ---- sequences -------------------------------------------------------------------------- */

#define FULL 32

/* Another thread may still remember its first use. */
TEST(sequence__used_up__not_in_thread_caches_again)
{
    struct hmreg_mr *worn;

    open_fixture(FULL);
    fixture_key(memory[0], LEN);
    worn = fixture_get(memory[1], LEN);
    hmreg_mr_put(worn);
    inside_use_last_sequence(worn);
    for (unsigned i = 2; i < FULL; i++)
        fixture_key(memory[i], LEN);
    fixture_key(memory[FULL], LEN); /* evicts 0, removes 1 from the threads' tables */
    assert_int_equal(inside_sequence(worn), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(fixture_key(memory[1], LEN), 2); /* it still serves */
    assert_int_equal(inside_sequence(worn), 0);
    assert_ok(hmreg_domain_flush(fixture.domain));
    for (unsigned i = 0; i < FULL; i++) {
        struct hmreg_mr *mr = fixture_get(memory[i], LEN);

        assert_ptr_not_equal(mr, worn);
        hmreg_mr_put(mr);
    }
}

/* ---- threads ---------------------------------------------------------------------------- */

#define HELD 100

static struct hmreg_mr *held[HELD];

static void *put_them(void *arg)
{
    for (int i = 0; i < HELD; i++)
        hmreg_mr_put(held[i]);
    return NULL;
}

static void *get_them(void *arg)
{
    for (int i = 0; i < HELD; i++)
        held[i] = fixture_get_in(arg, memory[i % 3], LEN);
    return NULL;
}

static void *get_and_put(void *arg)
{
    get_them(arg);
    return put_them(NULL);
}

TEST(thread_after_thread__one_part_for_all)
{
    open_fixture(0);
    for (int i = 0; i < 50; i++)
        test_on_a_thread(get_and_put, &fixture);
    assert_int_equal(inside_tables(fixture.domain), 1);
    assert_int_equal(fixture_stats().hits, 50 * HELD - 3);
}

/* ---- domains ---------------------------------------------------------------------------- */

TEST(domains__more_than_a_thread_has_at_hand__each_its_own_hits)
{
    enum { DOMAINS = 2 * INSIDE_VIEWS + 1 };
    struct hmreg_domain *domains[DOMAINS];
    struct hmreg_mr *mr;

    open_fixture(0);
    for (unsigned i = 0; i < DOMAINS; i++)
        domains[i] = counter_open_more(fixture.lib, NULL);
    for (int round = 0; round < 5; round++)
        for (unsigned i = 0; i < DOMAINS; i++) {
            assert_ok(hmreg_mr_get(domains[i], memory[0], LEN, HMREG_ACCESS_REMOTE, &mr));
            assert_int_equal(hmreg_mr_key(mr), i + 1);
            hmreg_mr_put(mr);
        }
    for (unsigned i = 0; i < DOMAINS; i++)
        assert_ok(hmreg_domain_close(domains[i]));
}

/* ---- without membarrier(2) -------------------------------------------------------------- */

/* 0, or the step that failed. */
static int without_membarrier(void)
{
    if (!code_filter_refuse(SYS_membarrier, ENOSYS))
        return 77;
    open_fixture(4);
    if (!inside_is_fenced(fixture.domain))
        return 1;
    for (unsigned i = 0; i < 40; i++)
        if (fixture_key(memory[i], LEN) != i + 1 || fixture_key(memory[i], LEN) != i + 1)
            return 2;
    if (fixture_stats().hits != 40 || atomic_load(&counter.most) != 5)
        return 3;
    test_on_a_thread(get_and_put, &fixture);
    if (hmreg_invalidate(fixture.lib, memory, sizeof(memory)) || fixture_stats().retired)
        return 4;
    fixture_close();
    return 0;
}

TEST(membarrier__refused__threads_fence_for_themselves)
{
    test_in_child_or_skip(without_membarrier(), "this system has no seccomp filters");
}

TEST_MAIN()
