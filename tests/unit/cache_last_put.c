/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Regions that end with their last put, where the model of tests/model does not go: callers'
 * dmabufs, threads at once, what is not done for such regions.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/inside.h"
#include "tests/support/queries.h"
#include "tests/support/vendors.h"

#include <hmreg/loopback.h>
#include <pthread.h>
#include <sys/mman.h>

#define LEN  4096
#define MANY 64

static char memory[MANY][LEN] __attribute__((aligned(LEN)));

static void open_fixture(enum hmreg_policy policy, uint64_t max_regions)
{
    struct hmreg_domain_config config = {
        .size = sizeof(config), .max_regions = max_regions, .policy = policy};

    vendors_reset();
    fixture_open(HMREG_MONITOR_IMPORT, &config);
}

static struct hmreg_mr *get_by(void *addr, enum hmreg_policy policy)
{
    struct iovec iov = {addr, LEN};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = HMREG_ACCESS_REMOTE,
                                 .policy = policy};
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get_attr(fixture.domain, &attr, 0, &mr));
    return mr;
}

static unsigned regions(void)
{
    return atomic_load(&counter.regions);
}

/* ---- sharing ---------------------------------------------------------------------------- */

static struct hmreg_mr *got;

static void *get_thrice(void *unused)
{
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(fixture_get(memory[0], LEN), got);
    return NULL;
}

/* A put too many takes no hold away from a later get. */
TEST(last_put__and_one_more__no_effect)
{
    open_fixture(HMREG_POLICY_LAST_PUT, 0);
    got = fixture_get(memory[0], LEN);
    hmreg_mr_put(got);
    hmreg_mr_put(got);
    assert_ptr_equal(fixture_get(memory[0], LEN), got); /* the slot is reused */
    assert_int_equal(regions(), 1);
    hmreg_mr_put(got);
    assert_int_equal(regions(), 0);
}

/* A request that reaches the region's slot in a thread's table pins it before it sees that the
 * region does not serve; its thread may be stopped right then. */
TEST(last_put__another_thread_pins_in_passing__deregistered_all_the_same)
{
    atomic_uint *pins;

    open_fixture(HMREG_POLICY_LAST_PUT, 0);
    got = fixture_get(memory[0], LEN);
    pins = inside_pins(fixture.domain, got);
    atomic_fetch_add(pins, 1);
    hmreg_mr_put(got);
    assert_int_equal(regions(), 0);
    atomic_fetch_sub(pins, 1);
    got = fixture_get(memory[1], LEN);
    hmreg_mr_put(got);
    assert_int_equal(regions(), 0);
}

/* ---- host memory, which nothing watches -------------------------------------------------------
 */

static void open_unwatched(void)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .policy = HMREG_POLICY_LAST_PUT};

    vendors_reset();
    fixture_open(HMREG_MONITOR_DEFAULT, &config);
}

/* No monitor is chosen, so no code is patched; no thread is started, no clock is read, and the
 * region has no place among those that may be evicted. */
TEST(host__held__shared_without_a_monitor_or_a_thread)
{
    struct hmreg_monitor_info monitor = {.size = sizeof(monitor)};

    open_unwatched();
    got = fixture_get(memory[0], LEN);
    assert_true(fixture_is_cached(got));
    assert_int_equal(test_info_of(got).asks, 0);
    assert_int_equal(test_info_of(got).policy, HMREG_POLICY_LAST_PUT);
    assert_int_equal(test_why_of(got).policy, HMREG_POLICY_LAST_PUT);
    get_thrice(NULL);
    test_on_a_thread(get_thrice, NULL);
    assert_int_equal(inside_evictable(fixture.domain), 0);
    assert_int_equal(inside_stats_of(fixture.domain, HMREG_IFACE_SYSTEM, -1).regions, 1);
    for (int i = 0; i < 7; i++)
        hmreg_mr_put(got);
    assert_int_equal(regions(), 0);
    assert_ok(hmreg_monitor_query(fixture.lib, &monitor));
    assert_int_equal(monitor.active, HMREG_MONITOR_DEFAULT);
    assert_false(inside_thread_runs());
    assert_int_equal(fixture_stats().reg_ns, 0);
    assert_int_equal(fixture_stats().hits, 6);
}

static void on_reg_of_whole(const struct provider_request *request)
{
    atomic_store(&counter.reg_hook, NULL);
    got = fixture_get(memory[0], LEN);
}

TEST(host__part_while_the_whole_is_registered__own_region)
{
    struct hmreg_mr *whole;

    open_unwatched();
    atomic_store(&counter.reg_hook, on_reg_of_whole);
    whole = fixture_get(memory[0], 2 * LEN);
    assert_ptr_not_equal(whole, got);
    assert_int_equal(regions(), 2);
    hmreg_mr_put(got);
    hmreg_mr_put(whole);
    assert_int_equal(regions(), 0);
}

/* ---- both policies ---------------------------------------------------------------------- */

static void on_reg(const struct provider_request *request)
{
    atomic_store(&counter.reg_hook, NULL);
    got = get_by(memory[0], HMREG_POLICY_LAST_PUT);
}

/* The region that is kept is still being registered. */
TEST(policies__meet_while_one_is_registered__last_put_for_both)
{
    struct hmreg_mr *mr;

    open_fixture(HMREG_POLICY_KEEP, 0);
    atomic_store(&counter.reg_hook, on_reg);
    mr = fixture_get(memory[0], LEN);
    assert_ptr_equal(mr, got);
    hmreg_mr_put(got);
    assert_int_equal(regions(), 1);
    hmreg_mr_put(mr);
    assert_int_equal(regions(), 0);
}

TEST(policy__unknown__inval)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .policy = 3};
    struct iovec iov = {memory[0], LEN};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = HMREG_ACCESS_REMOTE,
                                 .policy = 3};
    struct hmreg_domain *domain = NULL;
    struct hmreg_mr *mr = NULL;

    open_fixture(HMREG_POLICY_DEFAULT, 0);
    assert_fails(hmreg_mr_get_attr(fixture.domain, &attr, 0, &mr), -EINVAL, "policy is 3");
    attr.policy = HMREG_POLICY_LAST_PUT;
    assert_fails(hmreg_mr_regattr(fixture.domain, &attr, 0, &mr), -EINVAL, "policy is 2");
    assert_fails(hmreg_domain_open_loopback(fixture.lib, NULL, &config, &domain), -EINVAL,
                 "config->policy is 3");
    assert_null(mr);
}

/* ---- other ends ------------------------------------------------------------------------- */

/* Whether the change unpublishes each region, or cuts all of them from the tree at once. */
TEST(last_put__memory_changed_while_held__deregistered_by_the_put)
{
    struct hmreg_mr *held[MANY], *again;

    open_fixture(HMREG_POLICY_LAST_PUT, 0);
    for (unsigned i = 0; i < MANY; i++)
        held[i] = fixture_get(memory[i], LEN);
    assert_ok(hmreg_invalidate(fixture.lib, memory[0], LEN));
    again = fixture_get(memory[0], LEN);
    assert_ptr_not_equal(again, held[0]);
    hmreg_mr_put(held[0]);
    assert_int_equal(regions(), MANY);
    held[0] = again;
    assert_ok(hmreg_invalidate(fixture.lib, memory[0], sizeof(memory)));
    inside_drain(fixture.domain); /* so far as one call does */
    for (unsigned i = MANY; i--;) {
        hmreg_mr_put(held[i]);
        assert_int_equal(regions(), i);
    }
    assert_int_equal(fixture_stats().invalidations, MANY + 1);
    assert_int_equal(fixture_stats().regions, 0);
}

/* ---- the caller's dmabuf ---------------------------------------------------------------- */

static struct hmreg_mr *get_dmabuf(int fd, void *base, enum hmreg_policy policy)
{
    struct hmreg_mr_dmabuf dmabuf = {.fd = fd, .base_addr = base, .len = LEN};
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .access = HMREG_ACCESS_REMOTE, .dmabuf = &dmabuf, .policy = policy};
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get_attr(fixture.domain, &attr, HMREG_REG_DMABUF, &mr));
    return mr;
}

/* Without an address, or with one that no runtime knows. */
TEST(dmabuf__of_unknown_memory__not_kept_unless_asked)
{
    struct hmreg_mr *mr;
    int fd = memfd_create("hmreg-test", MFD_CLOEXEC);

    assert_int_equal(ftruncate(fd, LEN), 0);
    open_fixture(HMREG_POLICY_DEFAULT, 0);
    for (int foreign = 0; foreign <= 1; foreign++) {
        void *base = foreign ? memory[2] : NULL;

        mr = get_dmabuf(fd, base, HMREG_POLICY_DEFAULT);
        assert_true(fixture_is_cached(mr));
        assert_ptr_equal(get_dmabuf(fd, base, HMREG_POLICY_DEFAULT), mr);
        hmreg_mr_put(mr);
        assert_int_equal(regions(), 1);
        hmreg_mr_put(mr);
        assert_int_equal(regions(), 0);
        hmreg_mr_put(get_dmabuf(fd, base, HMREG_POLICY_KEEP));
        assert_int_equal(regions(), 1);
        assert_ok(hmreg_domain_flush(fixture.domain));
    }
    close(fd);
}

TEST(dmabuf__domain_says_keep_or_memory_is_known__kept)
{
    int fd = memfd_create("hmreg-test", MFD_CLOEXEC);

    assert_int_equal(ftruncate(fd, LEN), 0);
    for (int known = 0; known <= 1; known++) {
        open_fixture(known ? HMREG_POLICY_DEFAULT : HMREG_POLICY_KEEP, 0);
        if (known)
            vendor_claim(HMREG_IFACE_CUDA, memory[2], LEN, HMREG_MEM_DEVICE, 1);
        hmreg_mr_put(get_dmabuf(fd, memory[2], HMREG_POLICY_DEFAULT));
        assert_int_equal(regions(), 1);
        fixture_close();
    }
    close(fd);
}

/* ---- threads ---------------------------------------------------------------------------- */

#define THREADS 4
#define ROUNDS  4000
#define PLACES  3

static atomic_bool wrong;

struct worker {
    struct fixture *fixture;
    unsigned seed;
};

static void *get_and_put(void *arg)
{
    struct worker *worker = arg;
    unsigned random = worker->seed;

    for (int i = 0; i < ROUNDS; i++) {
        struct hmreg_mr_info info = {.size = sizeof(info)};
        struct hmreg_mr *mr;
        unsigned place;

        random = random * 1103515245 + 12345;
        place = random >> 16 & 3;
        if (place == PLACES) {
            assert_ok(hmreg_invalidate(worker->fixture->lib, memory[0], PLACES * LEN));
            continue;
        }
        mr = fixture_get_in(worker->fixture, memory[place], LEN);
        assert_ok(hmreg_mr_query(mr, &info)); /* its memory is still that of this region */
        if (info.addr != (uintptr_t)memory[place] || !inside_is_registered(mr))
            atomic_store(&wrong, true);
        hmreg_mr_put(mr);
    }
    return NULL;
}

/* Each region is registered as long as a thread holds it, and none is once all have put theirs. */
TEST(last_put__many_threads__registered_while_held_and_no_longer)
{
    struct worker workers[THREADS];
    pthread_t threads[THREADS];

    open_fixture(HMREG_POLICY_LAST_PUT, 0);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){&fixture, i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, get_and_put, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_false(atomic_load(&wrong));
    assert_int_equal(regions(), 0);
}

TEST_MAIN()
