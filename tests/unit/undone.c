/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Registrations that a failed call undoes while the fabric is busy with them (-EBUSY): the domain
 * keeps them with their keys, later calls try again, and none is lost or freed before.
 */
#define FAILING_MALLOC
#include "tests/support/failing_allocation.h"
#include "tests/support/world.h"

#include <hmreg/job.h>
#include <hmreg/suspend.h>

#define MEMBERS 3
#define PIECES  6
#define PAGE    4096u

static void open_group(uint32_t flags)
{
    world_open(.nics = MEMBERS, .group = true, .groups.flags = flags, .mr_mode = HMREG_MR_VIRT_ADDR,
               .iov_limit = 1 /* segments of host memory are pieces */);
}

/* Registration `nth` fails, and that of number `busy` cannot be deregistered. */
static void fail_while_busy(unsigned nth, unsigned busy)
{
    world_fail("reg", nth, 0, -EIO);
    world.busy = busy;
}

static int reg_pieces(struct hmreg_domain *domain, struct hmreg_mr **mr)
{
    struct hmreg_segment segments[PIECES] = {{.kind = HMREG_SEGMENT_MEMORY}};

    for (size_t i = 0; i < PIECES; i++)
        segments[i].u.memory = (struct iovec){world.host + i * PAGE, PAGE};
    return hmreg_mr_regsgl(domain, segments, PIECES, HMREG_ACCESS_ALL, 0, 5, 0, mr, NULL);
}

static int reg_one(struct hmreg_domain *domain, uint64_t key)
{
    struct hmreg_mr *mr = NULL;
    int rc = hmreg_mr_reg(domain, world.host, PAGE, HMREG_ACCESS_ALL, 0, key, 0, &mr, NULL);

    return rc ? rc : hmreg_mr_close(mr);
}

/* ---- who keeps what --------------------------------------------------------------------- */

TEST(composite__a_piece_busy__kept_with_its_key_until_a_later_call)
{
    struct hmreg_mr *mr = (void *)1;

    open_group(0);
    fail_while_busy(3, 1);
    assert_fails(reg_pieces(world.nic[0], &mr), -EIO, "nic0.reg was asked to fail");
    assert_ptr_equal(mr, (void *)1);
    assert_int_equal(world_live(WORLD_EACH), 1);
    assert_int_equal(world_live(0), 1);
    assert_fails(hmreg_suspend(world.lib, world.host, PAGE), -EBUSY, "a failed call");
    assert_ok(hmreg_resume(world.lib, world.host, PAGE, NULL));
    assert_ok(hmreg_suspend(world.lib, world.host + PAGE, PAGE)); /* of which nothing is kept */
    assert_ok(hmreg_resume(world.lib, world.host + PAGE, PAGE, NULL));
    assert_fails(reg_one(world.nic[0], 5), -HMREG_ENOKEY, "key");
    assert_ok(reg_one(world.nic[0], 6));
    assert_int_equal(world_live(WORLD_EACH), 1);
    world_heal();
    assert_ok(reg_one(world.nic[0], 5));
    assert_int_equal(world_live(0), 0);
}

/* Each member keeps its own, also where a rail is a composite. */
TEST(group__rails_busy__each_member_keeps_its_own)
{
    struct hmreg_mr *mr = NULL;

    open_group(0);
    fail_while_busy(MEMBERS * PIECES, WORLD_EACH); /* the last piece of the last rail */
    assert_fails(reg_pieces(world.domain, &mr), -EIO, "rail 2");
    assert_int_equal(world_live(0), PIECES);
    assert_int_equal(world_live(1), PIECES);
    assert_int_equal(world_live(2), PIECES - 1);
    world_heal();
    assert_ok(reg_one(world.domain, 6));
    assert_int_equal(world_live(0), PIECES - 2); /* by the call and its close */
    assert_int_equal(world_live(1), PIECES - 2);
    assert_int_equal(world_live(2), PIECES - 3);
    assert_ok(hmreg_domain_flush(world.domain));
    assert_int_equal(world_live(WORLD_EACH), 0);
}

TEST(job__pieces_busy__kept_after_the_job)
{
    struct hmreg_job_config config = {.size = sizeof(config), .workers = 1, .piece_len = PAGE};
    struct iovec range;
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .iov = &range, .iov_count = 1, .access = HMREG_ACCESS_ALL};
    struct hmreg_job *job = NULL;
    struct hmreg_mr *mr = (void *)1;

    open_group(0);
    fail_while_busy(3, WORLD_EACH);
    assert_fails(
        hmreg_mr_reg_large(world.nic[0], world.host, PIECES * PAGE, HMREG_ACCESS_ALL, &config, &mr),
        -EIO, "piece 2 of 6");
    assert_ptr_equal(mr, (void *)1);
    assert_int_equal(world_live(0), 2);
    world_heal();
    world_clear();
    range = (struct iovec){world.host, PIECES * PAGE};
    assert_ok(hmreg_job_start(world.nic[0], &attr, 0, &config, &job)); /* tries one */
    assert_int_equal(world_calls("dereg"), 1);
    assert_ok(hmreg_job_close(job));
    assert_ok(hmreg_domain_flush(world.nic[0]));
}

/* A rail that the region does without was registered in part. */
TEST(job__on_a_partial_group__what_a_missing_rail_leaves_is_kept)
{
    struct hmreg_job_config config = {.size = sizeof(config), .workers = 1, .piece_len = PAGE};
    struct hmreg_mr *mr = NULL;

    open_group(HMREG_GROUP_PARTIAL);
    fail_while_busy(MEMBERS + 2, 2); /* piece 1 on rail 1; piece 0 there is busy */
    assert_ok(hmreg_mr_reg_large(world.domain, world.host, PIECES * PAGE, HMREG_ACCESS_ALL, &config,
                                 &mr));
    assert_null(hmreg_mr_rail(mr, 1));
    assert_int_equal(world_live(1), 1);
    world_heal();
    assert_ok(hmreg_mr_close(mr));
    assert_int_equal(world_live(WORLD_EACH), 0);
}

/* ---- ends ------------------------------------------------------------------------------- */

TEST(domain_close__registrations_left__busy_until_they_go)
{
    struct hmreg_domain *domain;
    struct hmreg_mr *mr = NULL;

    open_group(0);
    assert_ok(hmreg_domain_close(world.domain));
    world.domain = NULL;
    domain = world.nic[1];
    fail_while_busy(2, 1);
    assert_fails(reg_pieces(domain, &mr), -EIO, "asked to fail");
    assert_fails(hmreg_domain_close(domain), -EBUSY, "1 registrations of calls that failed");
    assert_ok(reg_one(domain, 6)); /* it goes on working */
    world_heal();
    assert_ok(hmreg_domain_close(domain));
    assert_int_equal(world_live(WORLD_EACH), 0);
    world.nic[1] = NULL;
}

/* A region of the cache with another key than requested needs memory after its registration. If
 * there is none, one that the fabric is busy with is taken without the key that it asked for. */
TEST(get__no_memory_for_the_fabrics_key_and_busy__nothing_is_lost)
{
    unsigned most = 1, after = 0;

    for (unsigned each = 1; each <= most; each++) {
        struct hmreg_mr *mr = NULL;
        int rc;

        open_group(0);
        world.key = 77;
        world.busy = WORLD_EACH;
        allocations = 0;
        failing = each;
        rc = hmreg_mr_get(world.nic[0], world.host, PAGE, HMREG_ACCESS_ALL, &mr);
        failing = 0;
        assert_int_equal(world_live(WORLD_EACH), !rc);
        assert_true(!rc || rc == -ENOMEM);
        after += world_calls("dereg") > 0;
        most = allocations > most ? allocations : most;
        world_heal();
        hmreg_mr_put(mr);
        assert_ok(hmreg_domain_flush(world.nic[0]));
        test_finish();
    }
    assert_in_range(most, 3, 24);
    assert_in_range(after, 1, most); /* the registration was made, and then there was none */
}

TEST_MAIN()
