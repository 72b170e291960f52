/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * HMREG_DEBUG=puts: a put without a get is reported and has no effect; valid ones work as usual.
 */
#include "core/cache/put_check.h"

#include "core/base/error.h"
#include "core/cache/cache_pool.h"
#include "tests/support/cache_fixture.h"

#define LEN 4096

static char memory[4][LEN];

static void forget_error(void)
{
    hmreg_error_restore(&(struct hmreg_error){.source = "hmreg"});
}

static void open_fixture(uint64_t max_regions)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .max_regions = max_regions};

    setenv("HMREG_DEBUG", "puts", 1);
    fixture_open(HMREG_MONITOR_IMPORT, &config);
    unsetenv("HMREG_DEBUG");
    forget_error();
}

static void expect_found(struct hmreg_mr *mr, const char *words)
{
    forget_error();
    hmreg_mr_put(mr);
    assert_int_equal(hmreg_last_error()->code, -EINVAL);
    if (!strstr(hmreg_last_error()->text, words))
        fail_msg("\"%s\" is not in \"%s\"", words, hmreg_last_error()->text);
}

TEST(put__twice__found_and_the_region_serves_on)
{
    struct hmreg_mr *mr;

    open_fixture(0);
    mr = fixture_get(memory[0], LEN);
    hmreg_mr_put(mr);
    assert_int_equal(hmreg_last_error()->code, 0);
    expect_found(mr, "no get holds it");
    expect_found(mr, "+4096");
    assert_int_equal(fixture_stats().wrong_puts, 2);
    assert_int_equal(fixture_key(memory[0], LEN), 1);
    assert_int_equal(atomic_load(&counter.deregs), 0);
}

/* No other region uses its entry yet. */
TEST(put__of_an_evicted_region__found)
{
    struct hmreg_mr *mr, *held, *uncached;

    open_fixture(1);
    mr = fixture_get(memory[0], LEN);
    hmreg_mr_put(mr);
    held = fixture_get(memory[1], LEN);
    uncached = fixture_get(memory[2], LEN);
    expect_found(mr, "no get holds it");
    assert_int_equal(atomic_load(&counter.regions), 2);
    hmreg_mr_put(uncached);
    hmreg_mr_put(held);
    forget_error();
    fixture_key(memory[3], LEN);
    assert_int_equal(hmreg_last_error()->code, 0);
    assert_int_equal(fixture_stats().wrong_puts, 1);
}

TEST(put__of_an_explicit_region__found)
{
    struct hmreg_mr *mr = NULL;

    open_fixture(0);
    assert_ok(hmreg_mr_reg(fixture.domain, memory[0], LEN, HMREG_SEND, 0, 0, 0, &mr, NULL));
    expect_found(mr, "hmreg_mr_close()");
    assert_ok(hmreg_mr_close(mr));
}

TEST(put__after_everything_was_closed__found)
{
    struct hmreg_mr *mr;

    open_fixture(0);
    mr = fixture_get(memory[0], LEN);
    hmreg_mr_put(mr);
    fixture_close();
    expect_found(mr, "its domain was closed");
}

/* More than a quarantine holds: entries are reused. */
TEST(put__right_ones__nothing_is_found)
{
    struct hmreg_mr *first, *second;

    open_fixture(1);
    for (unsigned i = 0; i < CACHE_QUARANTINE + 1000; i++)
        fixture_key(memory[i % 2], LEN);
    first = fixture_get(memory[0], LEN);
    second = fixture_get(memory[0], LEN);
    assert_ptr_equal(first, second);
    hmreg_mr_put(first);
    hmreg_mr_put(second);
    assert_int_equal(hmreg_last_error()->code, 0);
    assert_int_equal(fixture_stats().wrong_puts, 0);
}

TEST(open__wrong_value__einval)
{
    struct hmreg *lib = NULL;

    test_setenv("HMREG_DEBUG", "put");
    assert_fails(hmreg_open(NULL, &lib), -EINVAL, "HMREG_DEBUG=put: accepted are puts");
}

TEST_MAIN()
