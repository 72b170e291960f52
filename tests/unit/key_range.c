/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The size and the range of a domain's keys (key_size, key_first, key_last), and HMREG_KEY_ANY.
 */
#include "tests/support/world.h"

#include <hmreg/job.h>

/* Pages of the system's memory. */
#define PAGE(number) (world.host + 4096 * (size_t)(number))
/* The caller chooses keys. */
#define CALLERS .mr_mode = HMREG_MR_VIRT_ADDR
#define KEYS(bytes, first, last)                                                                   \
    .domain = {.key_size = (bytes), .key_first = (first), .key_last = (last)}

TEST(domain_open__keys_that_the_fabric_lacks__inval_with_the_accepted_ones)
{
    world_open(CALLERS);
    world_add(CALLERS, .key_size = 2, KEYS(2, 0, 0xffff));
    world_add(CALLERS, .key_size = 2, KEYS(1, 0, 99));
    world_add(CALLERS, KEYS(0, 1, HMREG_KEY_ANY - 1));
    world_add(.mr_mode = HMREG_MR_RAW, .key_size = 16, KEYS(8, 0, 99));
#define REFUSED(words, ...) world_add_fails(-EINVAL, words, __VA_ARGS__)
    REFUSED("key_size is 3; accepted are 1 to 2", CALLERS, .key_size = 2, KEYS(3, 0, 0));
    REFUSED("key_size is 9; accepted are 1 to 8", .mr_mode = HMREG_MR_RAW, .key_size = 16,
            KEYS(9, 0, 0));
    REFUSED("accepted are 0 to 0xffff", CALLERS, .key_size = 2, KEYS(0, 0, 0x10000));
    REFUSED("accepted are 0 to 0xff", CALLERS, .key_size = 2, KEYS(1, 0, 0x100));
    REFUSED("key_first is 0x5 and key_last 0x4", CALLERS, .key_size = 2, KEYS(0, 5, 4));
    REFUSED("accepted are 0 to", CALLERS, KEYS(0, 0, HMREG_KEY_ANY));
    REFUSED("chooses keys itself", KEYS(4, 0, 0));
    REFUSED("it must be 0", KEYS(0, 0, 1));
}

TEST(group_open__keys_in_its_config__inval)
{
    const struct hmreg_domain_config keys = {.size = sizeof(keys), .key_last = 99};
    const struct hmreg_group_config config = {.size = sizeof(config), .domain = &keys};
    struct hmreg_domain *group = NULL;

    world_open();
    assert_fails(hmreg_group_open(world.lib, world.nic, 1, &config, &group), -EINVAL,
                 "each member has its own");
    assert_null(group);
}

static struct hmreg_mr *get(int page)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get(world.domain, PAGE(page), 8, HMREG_REMOTE_READ, &mr));
    return mr;
}

static struct hmreg_mr *reg(int page, uint64_t key)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_reg(world.domain, PAGE(page), 8, HMREG_REMOTE_READ, 0, key, 0, &mr, NULL));
    return mr;
}

TEST(domain__key_size__told_and_kept)
{
    struct hmreg_mr *mr = NULL;

    world_open(CALLERS, KEYS(2, 0, 0));
    assert_int_equal(test_domain_info(world.domain).key_size, 2);
    assert_fails(
        hmreg_mr_reg(world.domain, world.host, 8, HMREG_REMOTE_READ, 0, 0x10000, 0, &mr, NULL),
        -EKEYREJECTED, "takes 0 to 0xffff");
    for (int i = 0; i < 100; i++) {
        mr = get(i % 40);
        assert_in_range(hmreg_mr_key(mr), 0, 0xffff);
        hmreg_mr_put(mr);
        world_change(PAGE(i % 40), 1);
    }
}

/* A get, a registration without rights for peers, and one whose key may be any. */
TEST(library__chooses_from_the_range_only)
{
    struct hmreg_mr *mr[3];

    world_open(CALLERS, KEYS(0, 40, 42));
    mr[0] = get(0);
    mr[1] = reg(1, HMREG_KEY_ANY);
    mr[2] = reg(2, HMREG_KEY_ANY);
    for (int i = 0; i < 3; i++) {
        assert_in_range(hmreg_mr_key(mr[i]), 40, 42);
        assert_true(hmreg_mr_key(mr[i]) != hmreg_mr_key(mr[(i + 1) % 3]));
    }
    hmreg_mr_put(mr[0]);
    assert_ok(hmreg_mr_close(mr[1]));
    assert_ok(hmreg_mr_close(mr[2]));
}

/* Idle regions give their keys to gets; held ones do not. */
TEST(get__range_used_up__evicts_or_enokey)
{
    struct hmreg_mr *held[4], *mr = NULL;

    world_open(CALLERS, KEYS(0, 0, 3));
    for (int i = 0; i < 20; i++) {
        mr = get(i);
        assert_in_range(hmreg_mr_key(mr), 0, 3);
        hmreg_mr_put(mr);
    }
    assert_int_equal(world_stats().evicted_keys, 16);
    for (int i = 0; i < 4; i++)
        held[i] = get(30 + i);
    assert_fails(hmreg_mr_get(world.domain, PAGE(40), 8, HMREG_REMOTE_READ, &mr), -HMREG_ENOKEY,
                 "0 to 0x3, which");
    assert_ok(hmreg_mr_close(reg(40, 4)));
    for (int i = 0; i < 4; i++)
        hmreg_mr_put(held[i]);
}

TEST(key_any__group__each_rail_its_own)
{
    struct hmreg_mr *mr, *other;

    world_open(CALLERS, KEYS(0, 1, 9));
    world_add(CALLERS);
    assert_ok(hmreg_group_open(world.lib, world.nic, 2, NULL, &world.domain));
    mr = reg(0, HMREG_KEY_ANY);
    other = reg(1, HMREG_KEY_ANY);
    assert_in_range(hmreg_mr_key(hmreg_mr_rail(mr, 0)), 1, 9);
    assert_in_range(hmreg_mr_key(hmreg_mr_rail(other, 0)), 1, 9);
    assert_true(hmreg_mr_key(hmreg_mr_rail(mr, 1)) > UINT64_MAX / 2);
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_mr_close(other));
}

/* Nor is a piece's key the caller's zero. */
TEST(key_any__job__no_piece_is_key_zero)
{
    const struct hmreg_job_config config = {.size = sizeof(config), .piece_len = 4096};
    struct iovec iov;
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = HMREG_REMOTE_READ,
                                 .requested_key = HMREG_KEY_ANY};
    struct hmreg_piece_info piece = {.size = sizeof(piece)};
    struct hmreg_job *job = NULL;
    struct hmreg_mr *mr = NULL;

    world_open(CALLERS, KEYS(0, 100, 200));
    iov = (struct iovec){world.host, WORLD_BYTES};
    assert_ok(hmreg_job_start(world.domain, &attr, 0, &config, &job));
    assert_ok(hmreg_job_wait(job, -1, &mr));
    for (size_t i = 0; i < WORLD_BYTES / 4096; i++) {
        assert_ok(hmreg_mr_piece(mr, i, &piece));
        assert_in_range(piece.key, 100, 200);
    }
    hmreg_job_close(job);
    assert_ok(hmreg_mr_close(mr));
}

TEST_MAIN()
