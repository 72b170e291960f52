/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * No get or put does more than CACHE_WORK_MOST steps, whatever has ended and however many regions
 * there are. The reaper is paused, so that what is left over is these calls'. The steps are those
 * that core/base/work.h counts, in debug builds.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/inside.h"

#define MANY (8 * INSIDE_WORK_MOST)
#define LEN  64

static char *memory;        /* of MANY regions, and one more */
static unsigned long worst; /* steps of a call */

static unsigned long steps(void)
{
    unsigned long steps = 0;

    if (!inside_steps(&steps))
        test_skip("a release build does not count steps");
    return steps;
}

static void close_resumed(void)
{
    print_message("%lu steps\n", worst);
    assert_in_range(worst, 0, INSIDE_WORK_MOST);
    inside_resume(fixture.domain);
    fixture_close();
    free(memory);
}

static void open_paused(const struct hmreg_domain_config *config)
{
    steps();
    memory = aligned_alloc(LEN, (MANY + 1) * LEN);
    assert_non_null(memory);
    fixture_open(HMREG_MONITOR_IMPORT, config);
    fixture_key(&memory[MANY * LEN], LEN); /* starts the reaper */
    inside_pause(fixture.domain);
    test_after(close_resumed);
    worst = 0;
}

static void count_since(unsigned long before)
{
    worst = steps() - before > worst ? steps() - before : worst;
}

static struct hmreg_mr *get(const void *addr, size_t len, uint64_t access)
{
    unsigned long before = steps();
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get(fixture.domain, addr, len, access, &mr));
    count_since(before);
    return mr;
}

static void put(struct hmreg_mr *mr)
{
    unsigned long before = steps();

    hmreg_mr_put(mr);
    count_since(before);
}

/* The key tells whether a region is the same. */
static uint64_t key(size_t region)
{
    struct hmreg_mr *mr = get(&memory[region * LEN], LEN, HMREG_REMOTE_READ);
    uint64_t result = hmreg_mr_key(mr);

    put(mr);
    return result;
}

/* Does a get register the region anew? */
static bool is_new(size_t region)
{
    unsigned before = atomic_load(&counter.regs);

    key(region);
    return atomic_load(&counter.regs) > before;
}

/* The steps until now do not count: a case of their own has them. */
static void fill(void)
{
    for (size_t i = 0; i < MANY; i++)
        key(i);
    worst = 0;
}

static bool is_shut(void)
{
    return inside_has_changes(fixture.domain);
}

static struct hmreg_domain_config unlimited(void)
{
    return (struct hmreg_domain_config){.size = sizeof(struct hmreg_domain_config),
                                        .max_regions = HMREG_LIMIT_NONE,
                                        .max_bytes = HMREG_LIMIT_NONE};
}

/* ---- changes ---------------------------------------------------------------------------- */

/* Of the entries that are left none serves, and all others do. */
TEST(change__all_memory_of_many_entries__each_get_ends_some)
{
    struct hmreg_domain_config config = unlimited();
    uint64_t before, other, gets = 0;

    open_paused(&config);
    fill();
    other = key(MANY);
    assert_ok(hmreg_invalidate(fixture.lib, memory, MANY * LEN));
    assert_int_equal(key(MANY), other);
    assert_true(is_new(0));
    before = key(0);
    while (is_shut()) {
        assert_int_equal(key(MANY), other);
        assert_int_equal(key(0), before);
        gets += 2;
    }
    assert_in_range(gets, MANY / INSIDE_WORK_MOST, MANY);
    assert_true(is_new(MANY / 2));
    assert_int_equal(fixture_stats().uncached, 0);
}

/* More wide changes than can be cut at a time: none of the entries serves, cut or not. */
TEST(change__many_wide_ones__none_is_stale)
{
    struct hmreg_domain_config config = unlimited();
    uint64_t other, each = MANY / (4 * INSIDE_CUTS);

    open_paused(&config);
    fill();
    other = key(MANY);
    for (size_t i = 0; i < MANY; i += each)
        assert_ok(hmreg_invalidate(fixture.lib, &memory[i * LEN], each * LEN));
    assert_true(is_new(MANY - 1));
    while (is_shut())
        key(MANY);
    assert_int_equal(key(MANY), other);
    assert_int_equal(fixture_stats().invalidations, MANY);
}

/* A get that cannot read all of them uses nothing that it finds. */
TEST(change__thousands_between_two_gets__none_is_stale)
{
    struct hmreg_domain_config config = unlimited();

    open_paused(&config);
    fill();
    for (size_t turn = 0; turn < 4; turn++) {
        size_t changes = turn == 3 ? 2 * INSIDE_CHANGES : INSIDE_CHANGES / 2, at = turn % 2;

        key(changes - 1);
        for (size_t i = 0; i < changes; i++)
            assert_ok(hmreg_invalidate(fixture.lib, &memory[i * LEN], LEN));
        assert_true(is_new(changes - 1));
        while (is_shut())
            key(at);
    }
}

/* Each reaches from before the change into it. */
TEST(change__of_an_end_that_many_share__none_is_stale)
{
    struct hmreg_domain_config config = unlimited();
    char *end;

    open_paused(&config);
    end = &memory[MANY * LEN];
    for (size_t i = 0; i < MANY; i++)
        put(get(end - LEN - i, LEN + i, HMREG_REMOTE_READ));
    assert_ok(hmreg_invalidate(fixture.lib, end - 1, 1));
    assert_true(is_new(MANY - 1));
    while (is_shut())
        key(0);
    assert_int_equal(fixture_stats().invalidations, MANY);
}

/* ---- look-ups and puts ------------------------------------------------------------------ */

TEST(get__many_entries_around_the_range_have_other_rights__looks_at_a_few)
{
    struct hmreg_domain_config config = unlimited();

    open_paused(&config);
    for (size_t i = 0; i < MANY; i++)
        put(get(memory, LEN + i, HMREG_REMOTE_READ));
    put(get(memory, LEN, HMREG_SEND));
}

/* Others were deregistered before, and are not free yet. */
TEST(put__last_of_an_ended_entry_after_many__frees_a_few)
{
    struct hmreg_domain_config config = unlimited();
    struct hmreg_mr *held;

    open_paused(&config);
    fill();
    held = get(memory, LEN, HMREG_REMOTE_READ);
    assert_ok(hmreg_invalidate(fixture.lib, memory, MANY * LEN));
    assert_ok(hmreg_domain_progress(fixture.domain));
    assert_int_equal(fixture_stats().retired, 1);
    put(held);
    assert_int_equal(fixture_stats().retired, 0);
}

/* ---- growth ----------------------------------------------------------------------------- */

/* Also when the hand of the clock is anywhere. */
TEST(miss__tables_and_lists_grow__in_parts)
{
    struct hmreg_domain_config config = unlimited();

    open_paused(&config);
    for (size_t i = 0; i < MANY / 2; i++)
        key(i);
    assert_ok(hmreg_invalidate(fixture.lib, memory, MANY / 4 * LEN));
    while (is_shut())
        key(MANY);
    for (size_t i = 0; i < 2 * MANY; i++) /* also in the tables that have grown */
        key(i % MANY);
    assert_int_equal(fixture_stats().misses, MANY + MANY / 4 + 2);
}

/* ---- eviction --------------------------------------------------------------------------- */

TEST(limit__all_of_many_entries_were_used__evicts_after_a_few)
{
    struct hmreg_domain_config config = unlimited();

    config.max_regions = MANY;
    open_paused(&config);
    for (size_t i = 0; i < MANY; i++)
        key(i);
    fill();
    key(MANY);
    assert_int_equal(fixture_stats().evictions, 2);
}

TEST(limit__all_of_many_entries_are_held__uncached_after_a_few)
{
    struct hmreg_domain_config config = unlimited();
    struct hmreg_mr **held = calloc(MANY, sizeof(*held));

    assert_non_null(held);
    config.max_regions = MANY;
    open_paused(&config);
    for (size_t i = 0; i < MANY; i++)
        held[i] = get(&memory[i * LEN], LEN, HMREG_REMOTE_READ);
    key(MANY);
    for (size_t i = 0; i < MANY; i++)
        put(held[i]);
    free(held);
}

/* Such gets soon give up at once; the first search that finds an idle entry ends that. */
TEST(limit__many_gets_while_all_are_held__few_steps_each)
{
    struct hmreg_domain_config config = unlimited();
    struct hmreg_mr **held = calloc(MANY, sizeof(*held));

    assert_non_null(held);
    config.max_regions = MANY / 8;
    open_paused(&config);
    for (size_t i = 0; i < MANY / 8; i++)
        held[i] = get(&memory[i * LEN], LEN, HMREG_REMOTE_READ);
    for (size_t i = MANY / 8; i < MANY / 8 + 10; i++)
        key(i);
    worst = 0;
    for (size_t i = MANY / 8; i < MANY / 8 + 100; i++)
        assert_true(is_new(i));
    assert_in_range(worst, 1, 64);
    for (size_t i = 0; i < MANY / 8; i++)
        put(held[i]);
    for (size_t i = 0; i < 4; i++) /* the hand withdraws entries first, or stands among used ones */
        key(MANY);
    assert_false(is_new(MANY));
    free(held);
}

TEST(limit__one_region_instead_of_many__not_by_the_get)
{
    struct hmreg_domain_config config = unlimited();

    config.max_bytes = MANY * LEN;
    open_paused(&config);
    fill();
    put(get(memory, MANY * LEN, HMREG_REMOTE_READ));
}

TEST_MAIN()
