/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The size and the range of a domain's keys (key_size, key_first, key_last), and HMREG_KEY_ANY.
 */
#include "tests/support/script.h"

#include <hmreg/group.h>
#include <hmreg/job.h>

static struct script_fixture fixture;
static char host[64][4096] __attribute__((aligned(4096)));

static int open_with(const struct provider_caps *caps, uint32_t size, uint64_t first, uint64_t last)
{
    const struct hmreg_domain_config config = {
        .size = sizeof(config), .key_size = size, .key_first = first, .key_last = last};
    struct hmreg_domain *domain = NULL;
    int rc = hmreg_domain_create(fixture.lib, &script_ops, caps, NULL, &config, &domain);

    script.destroys = 0;
    if (rc)
        assert_null(domain);
    else
        assert_ok(hmreg_domain_close(domain));
    script.destroys = 0;
    return rc;
}

TEST(domain_open__keys_that_the_fabric_lacks__inval_with_the_accepted_ones)
{
    struct provider_caps small = script_caps, chooses = script_caps, raw = script_caps;

    small.key_size = 2;
    chooses.mr_mode |= HMREG_MR_PROV_KEY;
    raw.mr_mode |= HMREG_MR_RAW;
    raw.key_size = 16;
    script_open(&fixture, NULL, NULL);
    assert_ok(open_with(&small, 2, 0, 0xffff));
    assert_ok(open_with(&small, 1, 0, 99));
    assert_ok(open_with(&script_caps, 0, 1, HMREG_KEY_ANY - 1));
    assert_ok(open_with(&raw, 8, 0, 99));
    assert_fails(open_with(&small, 3, 0, 0), -EINVAL, "key_size is 3; accepted are 1 to 2");
    assert_fails(open_with(&raw, 9, 0, 0), -EINVAL, "key_size is 9; accepted are 1 to 8");
    assert_fails(open_with(&small, 0, 0, 0x10000), -EINVAL, "accepted are 0 to 0xffff");
    assert_fails(open_with(&small, 1, 0, 0x100), -EINVAL, "accepted are 0 to 0xff");
    assert_fails(open_with(&small, 0, 5, 4), -EINVAL, "key_first is 0x5 and key_last 0x4");
    assert_fails(open_with(&script_caps, 0, 0, HMREG_KEY_ANY), -EINVAL, "accepted are 0 to");
    assert_fails(open_with(&chooses, 4, 0, 0), -EINVAL, "chooses keys itself");
    assert_fails(open_with(&chooses, 0, 0, 1), -EINVAL, "accepted is 0");
    script.destroys = 0;
}

TEST(group_open__keys_in_its_config__inval)
{
    const struct hmreg_domain_config keys = {.size = sizeof(keys), .key_last = 99};
    const struct hmreg_group_config config = {.size = sizeof(config), .domain = &keys};
    struct hmreg_domain *group = NULL;

    script_open(&fixture, NULL, NULL);
    assert_fails(hmreg_group_open(fixture.lib, &fixture.domain, 1, &config, &group), -EINVAL,
                 "each member has its own");
    assert_null(group);
}

static void open_ranged(uint32_t size, uint64_t first, uint64_t last)
{
    const struct hmreg_domain_config config = {
        .size = sizeof(config), .key_size = size, .key_first = first, .key_last = last};

    script_open(&fixture, NULL, &config);
}

TEST(domain__key_size__told_and_kept)
{
    struct hmreg_domain_info info = {.size = sizeof(info)};
    struct hmreg_mr *mr = NULL;

    open_ranged(2, 0, 0);
    assert_ok(hmreg_domain_query(fixture.domain, &info));
    assert_int_equal(info.key_size, 2);
    assert_fails(hmreg_mr_reg(fixture.domain, host, 8, HMREG_REMOTE_READ, 0, 0x10000, 0, &mr, NULL),
                 -EKEYREJECTED, "takes 0 to 0xffff");
    for (int i = 0; i < 100; i++) {
        assert_ok(hmreg_mr_get(fixture.domain, host[i % 64] + i, 8, HMREG_REMOTE_READ, &mr));
        assert_in_range(hmreg_mr_key(mr), 0, 0xffff);
        hmreg_mr_put(mr);
    }
}

/* A get, a registration without rights for peers, and one whose key may be any. */
TEST(library__chooses_from_the_range_only)
{
    struct hmreg_mr *mr[3];

    open_ranged(0, 40, 42);
    assert_ok(hmreg_mr_get(fixture.domain, host[0], 8, HMREG_REMOTE_READ, &mr[0]));
    for (int i = 1; i < 3; i++)
        assert_ok(hmreg_mr_reg(fixture.domain, host[i], 8, HMREG_REMOTE_READ, 0, HMREG_KEY_ANY, 0,
                               &mr[i], NULL));
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
    struct hmreg_stats stats = {.size = sizeof(stats)};
    struct hmreg_mr *held[4], *mr = NULL;

    open_ranged(0, 0, 3);
    for (int i = 0; i < 20; i++) {
        assert_ok(hmreg_mr_get(fixture.domain, host[i], 8, HMREG_REMOTE_READ, &mr));
        assert_in_range(hmreg_mr_key(mr), 0, 3);
        hmreg_mr_put(mr);
    }
    assert_ok(hmreg_domain_stats(fixture.domain, &stats));
    assert_int_equal(stats.evicted_keys, 16);
    for (int i = 0; i < 4; i++)
        assert_ok(hmreg_mr_get(fixture.domain, host[30 + i], 8, HMREG_REMOTE_READ, &held[i]));
    assert_fails(hmreg_mr_get(fixture.domain, host[40], 8, HMREG_REMOTE_READ, &mr), -HMREG_ENOKEY,
                 "0 to 0x3, are in use");
    assert_ok(hmreg_mr_reg(fixture.domain, host[40], 8, HMREG_REMOTE_READ, 0, 4, 0, &mr, NULL));
    assert_ok(hmreg_mr_close(mr));
    for (int i = 0; i < 4; i++)
        hmreg_mr_put(held[i]);
}

TEST(key_any__group__each_rail_its_own)
{
    struct hmreg_domain *members[2], *group = NULL;
    struct hmreg_mr *mr = NULL, *other = NULL;

    open_ranged(0, 1, 9);
    members[0] = fixture.domain;
    assert_ok(hmreg_domain_create(fixture.lib, &script_ops, &script_caps, NULL, NULL, &members[1]));
    assert_ok(hmreg_group_open(fixture.lib, members, 2, NULL, &group));
    assert_ok(hmreg_mr_reg(group, host[0], 8, HMREG_REMOTE_READ, 0, HMREG_KEY_ANY, 0, &mr, NULL));
    assert_ok(
        hmreg_mr_reg(group, host[1], 8, HMREG_REMOTE_READ, 0, HMREG_KEY_ANY, 0, &other, NULL));
    assert_in_range(hmreg_mr_key(hmreg_mr_rail(mr, 0)), 1, 9);
    assert_in_range(hmreg_mr_key(hmreg_mr_rail(other, 0)), 1, 9);
    assert_true(hmreg_mr_key(hmreg_mr_rail(mr, 1)) > UINT64_MAX / 2);
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_mr_close(other));
    assert_ok(hmreg_domain_close(group));
    assert_ok(hmreg_domain_close(members[1]));
    script.destroys = 0;
}

/* Nor is a piece's key the caller's zero. */
TEST(key_any__job__no_piece_is_key_zero)
{
    const struct hmreg_job_config config = {.size = sizeof(config), .piece_len = 4096};
    const struct iovec iov = {host, sizeof(host)};
    const struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                       .iov = &iov,
                                       .iov_count = 1,
                                       .access = HMREG_REMOTE_READ,
                                       .requested_key = HMREG_KEY_ANY};
    struct hmreg_piece_info piece = {.size = sizeof(piece)};
    struct hmreg_job *job = NULL;
    struct hmreg_mr *mr = NULL;

    open_ranged(0, 100, 200);
    assert_ok(hmreg_job_start(fixture.domain, &attr, 0, &config, &job));
    assert_ok(hmreg_job_wait(job, -1, &mr));
    for (size_t i = 0; i < 64; i++) {
        assert_ok(hmreg_mr_piece(mr, i, &piece));
        assert_in_range(piece.key, 100, 200);
    }
    hmreg_job_close(job);
    assert_ok(hmreg_mr_close(mr));
}

TEST_MAIN()
