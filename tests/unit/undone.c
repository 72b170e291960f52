/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Registrations that a failed call undoes while the fabric is busy with them (-EBUSY): the domain
 * keeps them with their keys, later calls try again, and none is lost or freed before.
 */
#define FAILING_MALLOC
#include "tests/support/failing_allocation.h"
#include "tests/support/script.h"
#include "tests/support/vendors.h"

#include "core/mr/region.h"

#include <hmreg/group.h>
#include <hmreg/job.h>
#include <hmreg/suspend.h>

#define MEMBERS 3
#define PIECES  6
#define PAGE    4096u

static const enum hmreg_path SYSTEM = HMREG_PATH_SYSTEM;

static struct fixture {
    struct script_fixture script; /* its domain is member 0 */
    struct hmreg_domain *members[MEMBERS], *group;
    char *host;
} fixture;

static void close_fixture(void)
{
    assert_int_equal(script.live, 0);
    assert_ok(hmreg_domain_close(fixture.group));
    for (size_t i = 1; i < MEMBERS; i++)
        assert_ok(hmreg_domain_close(fixture.members[i]));
    script.destroys = 0;
    free(fixture.host);
    script_close(&fixture.script);
}

static void open_fixture(uint32_t flags)
{
    struct hmreg_group_config config = {.size = sizeof(config), .flags = flags};
    struct provider_caps caps = script_caps;

    caps.iov_limit = 1; /* segments of host memory are pieces */
    fixture = (struct fixture){.host = NULL};
    script_open(&fixture.script, &caps, NULL);
    fixture.members[0] = fixture.script.domain;
    for (size_t i = 1; i < MEMBERS; i++)
        assert_ok(hmreg_domain_create(fixture.script.lib, &script_ops, &caps, NULL, NULL,
                                      &fixture.members[i]));
    assert_ok(
        hmreg_group_open(fixture.script.lib, fixture.members, MEMBERS, &config, &fixture.group));
    fixture.host = aligned_alloc(PAGE, PIECES * PAGE);
    memset(fixture.host, 'h', PIECES * PAGE);
    test_after(close_fixture);
}

/* Registration `failing` fails, and that of number `busy` (0: each) cannot be deregistered. */
static void script_fail(unsigned nth, size_t busy)
{
    script.count = 0;
    script.fail[SYSTEM] = -EIO;
    script.fail_index = nth;
    script.dereg = -EBUSY;
    script.dereg_index = busy;
}

static void relax(void)
{
    script.fail[SYSTEM] = 0;
    script.dereg = 0;
}

static int reg_pieces(struct hmreg_domain *domain, struct hmreg_mr **mr)
{
    struct hmreg_segment segments[PIECES] = {{.kind = HMREG_SEGMENT_MEMORY}};

    for (size_t i = 0; i < PIECES; i++)
        segments[i].u.memory = (struct iovec){fixture.host + i * PAGE, PAGE};
    return hmreg_mr_regsgl(domain, segments, PIECES, HMREG_ACCESS_ALL, 0, 5, 0, mr, NULL);
}

static int reg_one(struct hmreg_domain *domain, uint64_t key)
{
    struct hmreg_mr *mr = NULL;
    int rc = hmreg_mr_reg(domain, fixture.host, PAGE, HMREG_ACCESS_ALL, 0, key, 0, &mr, NULL);

    return rc ? rc : hmreg_mr_close(mr);
}

/* ---- who keeps what --------------------------------------------------------------------- */

TEST(composite__a_piece_busy__kept_with_its_key_until_a_later_call)
{
    struct hmreg_mr *mr = (void *)1;
    struct hmreg *lib;

    open_fixture(0);
    lib = fixture.script.lib;
    script_fail(3, 1);
    assert_fails(reg_pieces(fixture.members[0], &mr), -EIO, "script: system failed");
    assert_ptr_equal(mr, (void *)1);
    assert_int_equal(script.live, 1);
    assert_int_equal(undone_left(fixture.members[0]), 1);
    assert_fails(hmreg_suspend(lib, fixture.host, PAGE), -EBUSY, "a call that failed");
    assert_ok(hmreg_resume(lib, fixture.host, PAGE, NULL));
    assert_ok(hmreg_suspend(lib, fixture.host + PAGE, PAGE)); /* of which nothing is kept */
    assert_ok(hmreg_resume(lib, fixture.host + PAGE, PAGE, NULL));
    script.fail[SYSTEM] = 0;
    assert_fails(reg_one(fixture.members[0], 5), -HMREG_ENOKEY, "key");
    assert_ok(reg_one(fixture.members[0], 6));
    assert_int_equal(script.live, 1);
    relax();
    assert_ok(reg_one(fixture.members[0], 5));
    assert_int_equal(undone_left(fixture.members[0]), 0);
}

/* Each member keeps its own, also where a rail is a composite. */
TEST(group__rails_busy__each_member_keeps_its_own)
{
    struct hmreg_mr *mr = NULL;

    open_fixture(0);
    script_fail(MEMBERS * PIECES, 0); /* the last piece of the last rail */
    assert_fails(reg_pieces(fixture.group, &mr), -EIO, "rail 2");
    assert_int_equal(undone_left(fixture.members[0]), PIECES);
    assert_int_equal(undone_left(fixture.members[1]), PIECES);
    assert_int_equal(undone_left(fixture.members[2]), PIECES - 1);
    relax();
    assert_ok(reg_one(fixture.group, 6));
    assert_int_equal(undone_left(fixture.members[0]), PIECES - 2); /* by the call and its close */
    assert_int_equal(undone_left(fixture.members[1]), PIECES - 2);
    assert_int_equal(undone_left(fixture.members[2]), PIECES - 3);
    assert_ok(hmreg_domain_flush(fixture.group));
    assert_int_equal(script.live, 0);
}

TEST(job__pieces_busy__kept_after_the_job)
{
    struct hmreg_job_config config = {.size = sizeof(config), .workers = 1, .piece_len = PAGE};
    struct iovec range;
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .iov = &range, .iov_count = 1, .access = HMREG_ACCESS_ALL};
    struct hmreg_job *job = NULL;
    struct hmreg_mr *mr = (void *)1;

    open_fixture(0);
    script_fail(3, 0);
    assert_fails(hmreg_mr_reg_large(fixture.members[0], fixture.host, PIECES * PAGE,
                                    HMREG_ACCESS_ALL, &config, &mr),
                 -EIO, "piece 2 of 6");
    assert_ptr_equal(mr, (void *)1);
    assert_int_equal(undone_left(fixture.members[0]), 2);
    relax();
    range = (struct iovec){fixture.host, PIECES * PAGE};
    assert_ok(hmreg_job_start(fixture.members[0], &attr, 0, &config, &job)); /* tries one */
    assert_int_equal(undone_left(fixture.members[0]), 1);
    assert_ok(hmreg_job_close(job));
    assert_ok(hmreg_domain_flush(fixture.members[0]));
}

/* A rail that the region does without was registered in part. */
TEST(job__on_a_partial_group__what_a_missing_rail_leaves_is_kept)
{
    struct hmreg_job_config config = {.size = sizeof(config), .workers = 1, .piece_len = PAGE};
    struct hmreg_mr *mr = NULL;

    open_fixture(HMREG_GROUP_PARTIAL);
    script_fail(MEMBERS + 2, 2); /* piece 1 on rail 1; piece 0 there is busy */
    assert_ok(hmreg_mr_reg_large(fixture.group, fixture.host, PIECES * PAGE, HMREG_ACCESS_ALL,
                                 &config, &mr));
    assert_null(hmreg_mr_rail(mr, 1));
    assert_int_equal(undone_left(fixture.members[1]), 1);
    relax();
    assert_ok(hmreg_mr_close(mr));
    assert_int_equal(script.live, 0);
}

/* ---- ends ------------------------------------------------------------------------------- */

TEST(domain_close__registrations_left__busy_until_they_go)
{
    struct hmreg_domain *domain;
    struct hmreg_mr *mr = NULL;

    open_fixture(0);
    assert_ok(hmreg_domain_close(fixture.group));
    domain = fixture.members[1];
    script_fail(2, 1);
    assert_fails(reg_pieces(domain, &mr), -EIO, "script");
    assert_fails(hmreg_domain_close(domain), -EBUSY, "1 registrations of calls that failed");
    assert_ok(reg_one(domain, 6)); /* it goes on working */
    relax();
    assert_ok(hmreg_domain_close(domain));
    assert_int_equal(script.live, 0);
    fixture.members[1] = NULL;
    fixture.group = NULL;
}

/* A region of the cache with another key than requested needs memory after its registration. If
 * there is none, one that the fabric is busy with is taken without the key that it asked for. */
TEST(get__no_memory_for_the_fabrics_key_and_busy__nothing_is_lost)
{
    unsigned most = 1;

    for (unsigned each = 1; each <= most; each++) {
        struct hmreg_mr *mr = NULL;
        int rc;

        open_fixture(0);
        script.given_key = 77;
        script.dereg = -EBUSY;
        allocations = 0;
        failing = each;
        rc = hmreg_mr_get(fixture.members[0], fixture.host, PAGE, HMREG_ACCESS_ALL, &mr);
        failing = 0;
        assert_int_equal(script.live, !rc);
        assert_true(!rc || rc == -ENOMEM);
        most = allocations > most ? allocations : most;
        relax();
        hmreg_mr_put(mr);
        assert_ok(hmreg_domain_flush(fixture.members[0]));
        test_finish();
    }
    assert_in_range(most, 4, 24);
}

TEST_MAIN()
