/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Closing regions and domains: what makes it fail with EBUSY, that a refusal has no effect, and
 * that later accesses are denied. */
#include "tests/conformance/suite.h"

#define KEY 5

CASE(close__later_access__denied)
{
    struct hmreg_mr *mr = suite_reg(fixture, fixture->memory, 64, HMREG_ACCESS_REMOTE, KEY);
    struct hmreg_remote *remote = suite_peer(fixture, mr);

    assert_int_equal(suite_move(fixture, remote, true, 0, 8), 0);
    suite_close(fixture, mr);
    suite_denied_at(fixture, remote, true, -EKEYREJECTED);
    hmreg_remote_close(remote);
}

/* After a denied late access the target's endpoint still serves other initiators. */
CASE(close__later_access__others_are_served)
{
    struct hmreg_mr *gone = suite_reg(fixture, fixture->memory, 64, HMREG_ACCESS_REMOTE, KEY);
    struct hmreg_mr *mr =
        suite_reg(fixture, fixture->memory + 101, 64, HMREG_ACCESS_REMOTE, KEY + 1);
    struct hmreg_remote *late = suite_peer(fixture, gone), *remote = suite_peer(fixture, mr);

    suite_close(fixture, gone);
    fixture->expects_denial = true;
    (void)suite_move(fixture, late, true, 0, 8);
    fixture->expects_denial = false;
    if (fixture->fabric->replace) {
        fixture->fabric->replace(fixture);
    } else {
        suite_impossible("the refusal stops both ends of the connection it came by");
        fixture->fabric->recover(fixture);
    }
    suite_put(fixture, remote, 0, 64, fixture->memory + 101);
    suite_get(fixture, remote, 0, 64, fixture->memory + 101);
    assert_int_equal(fixture->memory[0], 0);
    hmreg_remote_close(remote);
    suite_end(fixture, late, mr);
}

CASE(close__of_a_cached_region__inval)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get(fixture->domain, fixture->memory, 64, HMREG_SEND, &mr));
    assert_fails(hmreg_mr_close(mr), -EINVAL, "hmreg_mr_put()");
    hmreg_mr_put(mr);
}

CASE(close__while_an_endpoint_is_bound__busy)
{
    struct hmreg_mr *mr = suite_reg(fixture, fixture->memory + 1, 64, HMREG_ACCESS_REMOTE, KEY);
    struct hmreg_remote *remote = suite_peer(fixture, mr);

    if (suite_has(fixture, HMREG_MR_ENDPOINT)) {
        assert_fails(hmreg_mr_close(mr), -EBUSY, "bound");
        suite_put(fixture, remote, 0, 8, fixture->memory + 1); /* restores the byte */
    } else {
        suite_not_applicable();
    }
    suite_end(fixture, remote, mr);
}

CASE(domain_close__region_open__busy_without_effect)
{
    struct hmreg_mr *mr = suite_reg(fixture, fixture->memory + 1, 64, HMREG_ACCESS_REMOTE, KEY);
    struct hmreg_remote *remote = suite_peer(fixture, mr);

    assert_fails(hmreg_domain_close(fixture->domain), -EBUSY, "1 regions");
    assert_fails(hmreg_domain_close(fixture->peer), -EBUSY, "1 remotes");
    assert_fails(hmreg_close(fixture->lib), -EBUSY, "2 domains");
    suite_put(fixture, remote, 0, 8, fixture->memory + 1);
    suite_end(fixture, remote, mr);
}

