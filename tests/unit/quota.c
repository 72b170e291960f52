/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The limits of all caches together, which gets of several domains charge at once.
 */
#include "core/context/quota.h"
#include "tests/support/test.h"

#include <hmreg/hmreg.h>

#define THREADS 4
#define ROUNDS  200000
#define BYTES   10

/* Takes by each call that changes the counts, and gives all back. */
static void *take_and_give(void *arg)
{
    struct quota *quota = arg;

    for (int i = 0; i < ROUNDS; i++) {
        if (quota_take(quota, BYTES) != QUOTA_TAKEN)
            abort();
        quota_give(quota, 1, BYTES);
    }
    return NULL;
}

TEST(take__by_threads_at_once__none_is_lost)
{
    struct quota quota;

    quota_init(&quota, 2 * THREADS, UINT64_C(2) * THREADS * BYTES);
    test_on_threads(THREADS, take_and_give, &quota, 0);
    assert_int_equal(quota.regions, 0);
    assert_int_equal(quota.bytes, 0);
    quota_destroy(&quota);
    quota_init(&quota, 1, BYTES);
    assert_int_equal(quota_take(&quota, BYTES), QUOTA_TAKEN);
    assert_int_equal(quota_take(&quota, 0), QUOTA_FULL);
    quota_destroy(&quota);
}

TEST_MAIN()
