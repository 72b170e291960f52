/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The keys of a domain: unique, within the fabric's size, all of them usable and reusable. And the
 * limits of all caches together, which gets of several domains charge at once.
 */

/* Millions of keys, and threads that take and give nothing else: no registration is as quick. */
#include "core/context/keys.h"
#include "core/context/quota.h"

#include "tests/support/test.h"

#include <hmreg/hmreg.h>
#include <pthread.h>
#include <search.h>

/* ---- the trees -------------------------------------------------------------------------- */

/* Whose trees are used by a call now, and how often that was; NULL: those of any. */
static struct keys *guarded;
static unsigned uses, unlocked;

static void count_use(void)
{
    if (!guarded)
        return;
    uses++;
    if (pthread_mutex_trylock(&guarded->lock))
        return;
    unlocked++;
    pthread_mutex_unlock(&guarded->lock);
}

void *__real_tsearch(const void *key, void **root, __compar_fn_t compare);
void *__wrap_tsearch(const void *key, void **root, __compar_fn_t compare);
void *__wrap_tsearch(const void *key, void **root, __compar_fn_t compare)
{
    count_use();
    return __real_tsearch(key, root, compare);
}

void *__real_tfind(const void *key, void *const *root, __compar_fn_t compare);
void *__wrap_tfind(const void *key, void *const *root, __compar_fn_t compare);
void *__wrap_tfind(const void *key, void *const *root, __compar_fn_t compare)
{
    count_use();
    return __real_tfind(key, root, compare);
}

void *__real_tdelete(const void *key, void **root, __compar_fn_t compare);
void *__wrap_tdelete(const void *key, void **root, __compar_fn_t compare);
void *__wrap_tdelete(const void *key, void **root, __compar_fn_t compare)
{
    count_use();
    return __real_tdelete(key, root, compare);
}

TEST(call__each__uses_the_trees_under_the_lock)
{
    uint64_t key = 0;
    struct keys keys;

    keys_init(&keys, 8, 0, 0);
    guarded = &keys;
    assert_ok(keys_take(&keys, 7));
    assert_ok(keys_take_any(&keys, &key));
    keys_give(&keys, 7);
    assert_ok(keys_map(&keys, 5));
    assert_ok(keys_unmap(&keys, 5));
    guarded = NULL;
    assert_int_equal(uses, 8);
    assert_int_equal(unlocked, 0);
    keys_destroy(&keys);
}

/* ---- keys -------------------------------------------------------------------------------- */

TEST(take__largest_key_of_each_size__is_the_limit)
{
    for (uint32_t size = 1; size <= 8; size++) {
        uint64_t max = size == 8 ? UINT64_MAX - 1 : (UINT64_C(1) << (8 * size)) - 1;
        struct keys keys;

        keys_init(&keys, size, 0, 0);
        assert_ok(keys_take(&keys, max));
        assert_ok(keys_take(&keys, 0));
        assert_fails(keys_take(&keys, max + 1), -EKEYREJECTED, "too large");
        keys_destroy(&keys);
    }
}

TEST(take__in_use__enokey_until_given_back)
{
    struct keys keys;

    keys_init(&keys, 8, 0, 0);
    assert_ok(keys_take(&keys, 7));
    assert_fails(keys_take(&keys, 7), -HMREG_ENOKEY, "0x7");
    keys_give(&keys, 7);
    assert_ok(keys_take(&keys, 7));
    keys_destroy(&keys);
}

TEST(take_any__one_byte__all_256_then_enokey)
{
    unsigned char seen[256] = {0};
    uint64_t key = 12345;
    struct keys keys;

    keys_init(&keys, 1, 0, 0);
    for (int i = 0; i < 256; i++) {
        assert_ok(keys_take_any(&keys, &key));
        assert_true(key < 256);
        assert_int_equal(seen[key]++, 0);
    }
    key = 12345;
    assert_fails(keys_take_any(&keys, &key), -HMREG_ENOKEY, "may choose in this domain");
    assert_int_equal(key, 12345);
    keys_destroy(&keys);
}

/* The allocator finds any single free key, whatever was allocated and freed before. */
TEST(take_any__one_free_key_anywhere__is_found)
{
    uint64_t key = 0;
    struct keys keys;

    keys_init(&keys, 1, 0, 0);
    for (int i = 0; i < 256; i++)
        assert_ok(keys_take_any(&keys, &key));
    for (uint64_t hole = 0; hole < 256; hole++) {
        keys_give(&keys, hole);
        assert_ok(keys_take_any(&keys, &key));
        assert_int_equal(key, hole);
        assert_fails(keys_take_any(&keys, &key), -HMREG_ENOKEY, "in use");
    }
    keys_destroy(&keys);
}

/* Many long-lived keys in a row must not cause a failure when the counter wraps around. */
TEST(take_any__behind_a_long_row_of_keys__is_found)
{
    uint64_t key = 0;
    struct keys keys;

    keys_init(&keys, 2, 0, 0);
    for (uint64_t used = 0x8000; used < 0x8000 + 20000; used++)
        assert_ok(keys_take(&keys, used));
    for (int i = 0; i < 0x8000 - 20000; i++) {
        assert_ok(keys_take_any(&keys, &key));
        assert_true(key >= 0x8000 + 20000);
    }
    assert_ok(keys_take_any(&keys, &key));
    assert_true(key < 0x8000);
    keys_destroy(&keys);
}

TEST(take_any__stays_clear_of_callers_keys_while_it_can)
{
    uint64_t key = 0;
    struct keys keys;

    keys_init(&keys, 2, 0, 0);
    for (int i = 0; i < 100000; i++) {
        assert_ok(keys_take_any(&keys, &key));
        assert_true(key >= 0x8000);
        keys_give(&keys, key);
    }
    keys_destroy(&keys);
}

/* Whatever else is free. */
TEST(take_any__of_a_range__all_of_it_and_nothing_else)
{
    static const uint64_t ranges[][2] = {{0, 99}, {7, 7}, {100, 0xffff}, {0, 0xffff}, {3, 4}};

    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        uint64_t first = ranges[i][0], last = ranges[i][1], key = 0;
        unsigned char *seen = calloc(0x10000, 1);
        struct keys keys;

        keys_init(&keys, 2, first, last);
        for (uint64_t taken = first; taken <= last; taken++) {
            assert_ok(keys_take_any(&keys, &key));
            assert_in_range(key, first, last);
            assert_int_equal(seen[key]++, 0);
        }
        assert_fails(keys_take_any(&keys, &key), -HMREG_ENOKEY, "which the library may choose");
        if (last < 0xffff)
            assert_ok(keys_take(&keys, last + 1));
        keys_give(&keys, first);
        assert_ok(keys_take_any(&keys, &key));
        assert_int_equal(key, first);
        keys_destroy(&keys);
        free(seen);
    }
}

TEST(take_any__of_a_range_of_8_bytes__within_it)
{
    const uint64_t first = UINT64_C(1) << 40, last = first + UINT32_MAX;
    uint64_t key = 0;
    struct keys keys;

    keys_init(&keys, 8, first, last);
    for (int i = 0; i < 1000; i++) {
        assert_ok(keys_take_any(&keys, &key));
        assert_true(key >= first && key <= last);
    }
    keys_destroy(&keys);
}

/* How many of 64 keys are near the one before; at random it is none. */
static int count_near(uint32_t key_size)
{
    uint64_t key = 0, before;
    struct keys keys;
    int near = 0;

    keys_init(&keys, key_size, 0, 0);
    assert_ok(keys_take_any(&keys, &before));
    for (int i = 0; i < 64; i++, before = key) {
        assert_ok(keys_take_any(&keys, &key));
        near += key - before + 1000 < 2000;
    }
    keys_destroy(&keys);
    return near;
}

/* An attacker that knows one key does not know the others, nor a domain's first. */
TEST(take_any__four_bytes_or_more__no_key_follows_another)
{
    for (uint32_t size = 4; size <= 8; size++)
        assert_in_range(count_near(size), 0, 2);
    assert_int_equal(count_near(3), 64);
}

#define THREADS    4
#define PER_THREAD 500

struct taker {
    struct keys *keys;
    uint64_t taken[PER_THREAD];
};

static void *take_many(void *arg)
{
    struct taker *taker = arg;

    for (int i = 0; i < PER_THREAD; i++)
        if (keys_take_any(taker->keys, &taker->taken[i]))
            return taker;
    return NULL;
}

TEST(take_any__four_threads__no_key_twice)
{
    static struct taker takers[THREADS];
    static unsigned char seen[65536];
    pthread_t threads[THREADS];
    struct keys keys;
    void *failed;

    keys_init(&keys, 2, 0, 0);
    for (int i = 0; i < THREADS; i++) {
        takers[i].keys = &keys;
        assert_int_equal(pthread_create(&threads[i], NULL, take_many, &takers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    for (int i = 0; i < THREADS; i++)
        for (int j = 0; j < PER_THREAD; j++)
            assert_int_equal(seen[takers[i].taken[j]]++, 0);
    keys_destroy(&keys);
}

TEST(map__counts_and_is_taken_back_as_often)
{
    struct keys keys;

    keys_init(&keys, 8, 0, 0);
    assert_ok(keys_map(&keys, 5));
    assert_ok(keys_map(&keys, 5));
    assert_ok(keys_unmap(&keys, 5));
    assert_ok(keys_unmap(&keys, 5));
    assert_fails(keys_unmap(&keys, 5), -EINVAL, "0x5 is not mapped");
    assert_ok(keys_map(&keys, 6));
    keys_destroy(&keys);
}

/* The upper half is for keys that the library chooses, as long as it has one. */
TEST(any__first_of_few__of_the_upper_half)
{
    for (int i = 0; i < 100; i++) {
        struct keys keys;
        uint64_t key = 0;

        keys_init(&keys, 1, 0, 0);
        keys.max = keys.first = keys.last = keys.low = 1;
        assert_ok(keys_take_any(&keys, &key));
        assert_int_equal(key, 1);
        keys_give(&keys, key);
        keys_destroy(&keys);
    }
}

/* ---- the limits of all caches ---------------------------------------------------------------- */

#define TAKERS 4
#define ROUNDS 200000
#define BYTES  10

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

    quota_init(&quota, 2 * TAKERS, UINT64_C(2) * TAKERS * BYTES);
    test_on_threads(TAKERS, take_and_give, &quota, 0);
    assert_int_equal(quota.regions, 0);
    assert_int_equal(quota.bytes, 0);
    quota_destroy(&quota);
    quota_init(&quota, 1, BYTES);
    assert_int_equal(quota_take(&quota, BYTES), QUOTA_TAKEN);
    assert_int_equal(quota_take(&quota, 0), QUOTA_FULL);
    quota_destroy(&quota);
}

TEST_MAIN()
