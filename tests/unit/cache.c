/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The cache's behaviour: which requests a cached region serves, limits and the order of eviction,
 * counters, and argument checks. The application is the monitor here, so that nothing depends on a
 * kernel.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/queries.h"

#define LEN 4096

static char memory[64][LEN];

static void open_fixture(uint32_t flags, uint64_t max_regions, uint64_t max_bytes)
{
    struct hmreg_domain_config config = {
        .size = sizeof(config), .flags = flags, .max_regions = max_regions, .max_bytes = max_bytes};

    fixture_open(HMREG_MONITOR_IMPORT, &config);
}

static void invalidate(const void *addr, size_t len)
{
    assert_ok(hmreg_invalidate(fixture.lib, addr, len));
}

/* ---- which region serves a request ------------------------------------------------------ */

TEST(get__same_again__same_region)
{
    struct hmreg_mr *first, *second;

    open_fixture(0, 0, 0);
    first = fixture_get(memory[0], LEN);
    second = fixture_get(memory[0], LEN);
    assert_ptr_equal(first, second);
    assert_true(fixture_is_cached(first));
    hmreg_mr_put(first);
    hmreg_mr_put(second);
    assert_int_equal(atomic_load(&counter.regs), 1);
    assert_int_equal(fixture_stats().hits, 1);
    assert_int_equal(fixture_stats().misses, 1);
}

TEST(get__contained_range__the_larger_region)
{
    struct hmreg_mr *whole, *part;

    open_fixture(0, 0, 0);
    whole = fixture_get(memory[0], 3 * LEN);
    part = fixture_get(memory[0] + 1, 2 * LEN);
    assert_ptr_equal(whole, part);
    assert_int_equal(test_info_of(part).addr, (uintptr_t)memory[0]);
    assert_int_equal(test_info_of(part).len, 3 * LEN);
    hmreg_mr_put(whole);
    hmreg_mr_put(part);
}

TEST(get__a_byte_beyond__registered)
{
    open_fixture(0, 0, 0);
    assert_int_equal(fixture_key(memory[1], LEN), 1);
    assert_int_equal(fixture_key(&memory[0][LEN - 1], LEN), 2);
    assert_int_equal(fixture_key(memory[1] + 1, LEN), 3);
    assert_int_equal(fixture_key(memory[1], LEN), 1);
    assert_int_equal(fixture_stats().regions, 3);
}

TEST(get__exact_domain__contained_range_is_registered)
{
    open_fixture(HMREG_DOMAIN_EXACT, 0, 0);
    assert_int_equal(fixture_key(memory[0], 3 * LEN), 1);
    assert_int_equal(fixture_key(memory[0], LEN), 2);
    assert_int_equal(fixture_key(memory[0], 3 * LEN), 1);
    assert_int_equal(fixture_key(memory[0], LEN), 2);
}

TEST(get__no_cache_domain__registered_each_time_deregistered_at_put)
{
    struct hmreg_mr *first, *second;

    open_fixture(HMREG_DOMAIN_NO_CACHE, 0, 0);
    first = fixture_get(memory[0], LEN);
    second = fixture_get(memory[0], LEN);
    assert_ptr_not_equal(first, second);
    assert_false(fixture_is_cached(first));
    hmreg_mr_put(first);
    assert_int_equal(atomic_load(&counter.regions), 1);
    hmreg_mr_put(second);
    assert_int_equal(atomic_load(&counter.regions), 0);
    assert_int_equal(fixture_stats().uncached, 2);
    assert_int_equal(fixture_stats().misses, 0);
}

TEST(get__max_count_0_in_the_environment__not_cached)
{
    setenv("FI_MR_CACHE_MAX_COUNT", "0", 1);
    open_fixture(0, 0, 0);
    unsetenv("FI_MR_CACHE_MAX_COUNT");
    fixture_key(memory[0], LEN);
    fixture_key(memory[0], LEN);
    assert_int_equal(atomic_load(&counter.regs), 2);
    assert_int_equal(atomic_load(&counter.regions), 0);
}

TEST(get__monitor_disabled__host_memory_is_not_cached)
{
    fixture_open(HMREG_MONITOR_DISABLED, NULL);
    fixture_key(memory[0], LEN);
    fixture_key(memory[0], LEN);
    assert_int_equal(atomic_load(&counter.regs), 2);
    assert_int_equal(fixture_stats().uncached, 2);
}

TEST(get__two_domains__a_cache_each)
{
    struct hmreg_domain *other;
    struct hmreg_mr *mr;

    open_fixture(0, 0, 0);
    other = counter_open_more(fixture.lib, NULL);
    assert_int_equal(fixture_key(memory[0], LEN), 1);
    assert_ok(hmreg_mr_get(other, memory[0], LEN, HMREG_ACCESS_REMOTE, &mr));
    assert_int_equal(hmreg_mr_key(mr), 2);
    hmreg_mr_put(mr);
    invalidate(memory[0], 1);
    assert_int_equal(fixture_key(memory[0], LEN), 3);
    assert_ok(hmreg_mr_get(other, memory[0], LEN, HMREG_ACCESS_REMOTE, &mr));
    assert_int_equal(hmreg_mr_key(mr), 4);
    hmreg_mr_put(mr);
    assert_ok(hmreg_domain_close(other));
}

/* ---- limits ----------------------------------------------------------------------------- */

static void touch(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        fixture_key(memory[i], LEN);
}

TEST(limit__working_set_of_exactly_the_limit__never_misses)
{
    open_fixture(0, 8, 8 * LEN);
    for (int round = 0; round < 10; round++)
        touch(8);
    assert_int_equal(atomic_load(&counter.regs), 8);
    assert_int_equal(fixture_stats().regions, 8);
    assert_int_equal(fixture_stats().bytes, 8 * LEN);
    assert_int_equal(fixture_stats().evictions, 0);
    assert_int_equal(fixture_stats().hits, 72);
}

TEST(limit__one_region_more__what_was_not_used_goes)
{
    open_fixture(0, 3, 0);
    touch(3);
    assert_int_equal(fixture_key(memory[0], LEN), 1); /* a hit */
    assert_int_equal(fixture_key(memory[3], LEN), 4); /* spares 0, evicts 1 */
    assert_int_equal(fixture_key(memory[0], LEN), 1);
    assert_int_equal(fixture_key(memory[2], LEN), 3);
    assert_int_equal(fixture_key(memory[1], LEN), 5); /* it was evicted; this evicts 3 */
    assert_int_equal(fixture_stats().evictions, 2);
    assert_int_equal(fixture_stats().regions, 3);
    assert_int_equal(atomic_load(&counter.most), 4); /* the fourth evicts after it is registered */
    assert_int_equal(fixture_key(memory[0], LEN), 1);
    assert_int_equal(fixture_key(memory[2], LEN), 3);
}

/* Used twice, then not during a whole turn of the clock. */
TEST(limit__not_used_for_a_turn__goes)
{
    open_fixture(0, 8, 0);
    touch(8);
    touch(8);
    for (unsigned i = 8; i < 16; i++)
        fixture_key(memory[i], LEN);
    assert_int_equal(fixture_stats().evictions, 8);
    for (unsigned i = 8; i < 16; i++)
        assert_int_equal(fixture_key(memory[i], LEN), i + 1);
}

/* An error that eviction cannot cure evicts nothing, neither one region nor all. */
TEST(limit__registration_fails_for_good__nothing_is_evicted)
{
    struct hmreg_mr *mr = NULL;

    open_fixture(0, 8, 8 * LEN);
    touch(8);
    atomic_store(&counter.reg_code, -EINVAL);
    atomic_store(&counter.reg_times, -1);
    for (size_t len = LEN; len <= 8 * LEN; len += LEN)
        assert_fails(hmreg_mr_get(fixture.domain, memory[20], len, HMREG_ACCESS_REMOTE, &mr),
                     -EINVAL, "asked to fail");
    atomic_store(&counter.reg_times, 0);
    touch(8);
    assert_int_equal(fixture_stats().hits, 8);
    assert_int_equal(fixture_stats().evictions, 0);
    assert_int_equal(atomic_load(&counter.deregs), 0);
}

TEST(limit__of_bytes__holds_exactly)
{
    open_fixture(0, 0, 4 * LEN);
    touch(4);
    assert_int_equal(fixture_stats().evictions, 0);
    fixture_key(memory[10], LEN + 1); /* evicts two of them */
    assert_int_equal(fixture_stats().evictions, 2);
    assert_int_equal(fixture_stats().bytes, 3 * LEN + 1);
    assert_int_equal(fixture_key(memory[2], LEN), 3);
}

TEST(limit__everything_pinned__served_uncached)
{
    struct hmreg_mr *held[3];

    open_fixture(0, 2, 0);
    for (int i = 0; i < 3; i++)
        held[i] = fixture_get(memory[i], LEN);
    assert_true(fixture_is_cached(held[1]));
    assert_false(fixture_is_cached(held[2]));
    assert_int_equal(fixture_stats().uncached, 1);
    assert_int_equal(fixture_stats().evictions, 0);
    for (int i = 0; i < 3; i++)
        hmreg_mr_put(held[i]);
    assert_int_equal(atomic_load(&counter.regions), 2);
}

TEST(limit__none__nothing_is_evicted)
{
    open_fixture(0, HMREG_LIMIT_NONE, HMREG_LIMIT_NONE);
    touch(64);
    touch(64);
    assert_int_equal(fixture_stats().regions, 64);
    assert_int_equal(atomic_load(&counter.regs), 64);
}

/* ---- invalidation and flush ------------------------------------------------------------- */

TEST(invalidate__each_region_that_touches_it__and_no_other)
{
    open_fixture(0, 0, 0);
    touch(4);
    invalidate(memory[1] + LEN - 1, 2); /* the last byte of 1, the first of 2 */
    assert_int_equal(fixture_stats().invalidations, 2);
    assert_int_equal(fixture_key(memory[0], LEN), 1);
    assert_int_equal(fixture_key(memory[3], LEN), 4);
    assert_int_equal(fixture_key(memory[1], LEN), 5);
    assert_int_equal(fixture_key(memory[2], LEN), 6);
}

TEST(invalidate__another_library__ends_none_of_this_one)
{
    struct hmreg *other = NULL;

    open_fixture(0, 0, 0);
    touch(1);
    assert_ok(hmreg_open(&(struct hmreg_config){.size = sizeof(struct hmreg_config),
                                                .monitor = HMREG_MONITOR_IMPORT},
                         &other));
    assert_ok(hmreg_invalidate(other, memory[0], LEN));
    assert_int_equal(fixture_key(memory[0], LEN), 1);
    assert_ok(hmreg_close(other));
}

TEST(invalidate__in_use__found_no_more_and_ends_with_the_last_put)
{
    struct hmreg_mr *first, *second, *anew;

    open_fixture(0, 0, 0);
    first = fixture_get(memory[0], LEN);
    second = fixture_get(memory[0], LEN);
    invalidate(memory[0], LEN);
    assert_int_equal(fixture_stats().retired, 1);
    anew = fixture_get(memory[0], LEN);
    assert_ptr_not_equal(anew, first);
    assert_int_equal(hmreg_mr_key(anew), 2);
    hmreg_mr_put(first);
    assert_int_equal(hmreg_mr_key(second), 1);
    assert_int_equal(atomic_load(&counter.deregs), 0);
    hmreg_mr_put(second);
    assert_int_equal(atomic_load(&counter.deregs), 1);
    assert_int_equal(fixture_stats().retired, 0);
    hmreg_mr_put(anew);
}

/* ---- deregistration that fails with EBUSY ----------------------------------------------- */

static void be_busy(int times)
{
    atomic_store(&counter.dereg_code, -EBUSY);
    atomic_store(&counter.dereg_times, times);
}

TEST(put__deregistration_busy__retired_until_a_later_call)
{
    open_fixture(HMREG_DOMAIN_NO_CACHE, 0, 0);
    be_busy(2);
    fixture_key(memory[0], LEN);
    assert_int_equal(fixture_stats().retired, 1);
    hmreg_mr_put(fixture_get(memory[1], LEN)); /* EBUSY once more, then success */
    assert_int_equal(fixture_stats().retired, 0);
    assert_int_equal(atomic_load(&counter.regions), 0);
}

TEST(flush__one_busy_among_many_idle__tried_once)
{
    open_fixture(0, 0, 0);
    touch(5);
    invalidate(memory[0], LEN);
    be_busy(1);
    fixture_key(memory[1], LEN);
    assert_int_equal(fixture_stats().retired, 1);
    be_busy(1);
    assert_ok(hmreg_domain_flush(fixture.domain));
    assert_int_equal(fixture_stats().retired, 1);
    assert_int_equal(atomic_load(&counter.deregs), 6);
}

TEST(close__deregistration_busy__ebusy_then_closes)
{
    open_fixture(0, 0, 0);
    touch(2);
    be_busy(-1);
    assert_fails(hmreg_domain_close(fixture.domain), -EBUSY, "2 cached regions");
    assert_int_equal(atomic_load(&counter.regions), 2);
    be_busy(0);
}

/* ---- close ------------------------------------------------------------------------------ */

TEST(close__regions_held__ebusy_and_nothing_changed)
{
    struct hmreg_mr *held;

    open_fixture(0, 0, 0);
    touch(3);
    held = fixture_get(memory[0], LEN);
    assert_fails(hmreg_domain_close(fixture.domain), -EBUSY, "1 cached regions");
    assert_int_equal(atomic_load(&counter.deregs), 0);
    assert_int_equal(fixture_stats().regions, 3);
    hmreg_mr_put(held);
}

static void *put_it(void *mr)
{
    hmreg_mr_put(mr);
    return NULL;
}

TEST(put__from_another_thread)
{
    open_fixture(0, 0, 0);
    test_on_a_thread(put_it, fixture_get(memory[0], LEN));
    assert_int_equal(fixture_key(memory[0], LEN), 1);
}

TEST(put__null__nothing)
{
    hmreg_mr_put(NULL);
}

static int childs_part(struct hmreg_mr *held)
{
    struct hmreg_mr *mr;

    if (hmreg_mr_get(fixture.domain, memory[0], LEN, HMREG_SEND, &mr) != -EPERM)
        return 1;
    if (hmreg_invalidate(fixture.lib, memory[0], LEN) != -EPERM ||
        hmreg_domain_flush(fixture.domain) != -EPERM)
        return 2;
    hmreg_mr_put(held);
    return atomic_load(&counter.deregs) ? 3 : 0;
}

TEST(fork__the_child_deregisters_nothing)
{
    struct hmreg_mr *held;

    open_fixture(0, 0, 0);
    held = fixture_get(memory[0], LEN);
    test_in_child(childs_part(held));
    hmreg_mr_put(held);
}

/* ---- argument checks -------------------------------------------------------------------- */

TEST(get__wrong_arguments__refused_before_the_fabric)
{
    struct hmreg_mr *mr = (void *)1;

    open_fixture(0, 0, 0);
    assert_fails(hmreg_mr_get(NULL, memory, LEN, HMREG_SEND, &mr), -EINVAL, "domain is NULL");
    assert_fails(hmreg_mr_get(fixture.domain, NULL, LEN, HMREG_SEND, &mr), -EINVAL, "addr is NULL");
    assert_fails(hmreg_mr_get(fixture.domain, memory, 0, HMREG_SEND, &mr), -EINVAL, "len is 0");
    assert_fails(hmreg_mr_get(fixture.domain, memory, LEN, 0, &mr), -EINVAL, "access is 0");
    assert_fails(hmreg_mr_get(fixture.domain, memory, LEN, 1, &mr), -EINVAL, "unknown bits");
    assert_fails(hmreg_mr_get(fixture.domain, memory, LEN, HMREG_SEND, NULL), -EINVAL,
                 "mr is NULL");
    assert_fails(hmreg_mr_get(fixture.domain, (void *)4096, (1ull << 50) + 1, HMREG_SEND, &mr),
                 -EMSGSIZE, "longer than");
    assert_fails(hmreg_invalidate(NULL, memory, LEN), -EINVAL, "lib is NULL");
    assert_fails(hmreg_invalidate(fixture.lib, memory, 0), -EINVAL, "len is 0");
    assert_ptr_equal(mr, (void *)1);
    assert_int_equal(atomic_load(&counter.regs), 0);
}

TEST(get__success__leaves_the_last_error)
{
    struct hmreg_mr *mr;

    open_fixture(0, 1, 0);
    fixture_key(memory[0], LEN);
    atomic_store(&counter.dereg_code, -EIO);
    atomic_store(&counter.dereg_times, 1);
    assert_fails(hmreg_mr_get(fixture.domain, memory[0], 0, HMREG_SEND, &mr), -EINVAL, "len is 0");
    fixture_key(memory[1], LEN); /* evicts the other, whose deregistration fails */
    assert_int_equal(atomic_load(&counter.deregs), 1);
    assert_int_equal(hmreg_last_error()->code, -EINVAL);
}

TEST_MAIN()
