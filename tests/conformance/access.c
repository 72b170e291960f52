/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Access rights: the fabric grants the requested ones, and no others. */
#include "tests/conformance/suite.h"
#include "tests/support/queries.h"

static void check_rights(struct suite_fixture *fixture, uint64_t access)
{
    struct hmreg_mr *mr = suite_reg(fixture, fixture->memory + 8, 64, access, 5);
    struct hmreg_remote *remote;

    assert_true(test_info_of(mr).access == access);
    if (access & HMREG_ACCESS_REMOTE) {
        remote = suite_peer(fixture, mr);
        if (access & HMREG_REMOTE_WRITE)
            suite_put(fixture, remote, 3, 9, fixture->memory + 8 + 3);
        else
            suite_denied_at(fixture, remote, true, -EACCES);
        if (access & HMREG_REMOTE_READ)
            suite_get(fixture, remote, 3, 9, fixture->memory + 8 + 3);
        else
            suite_denied_at(fixture, remote, false, -EACCES);
        hmreg_remote_close(remote);
    }
    suite_close(fixture, mr);
}

CASE(right__alone__grants_nothing_else)
{
    for (uint64_t right = HMREG_READ; right <= HMREG_REMOTE_WRITE; right <<= 1)
        check_rights(fixture, right);
}

CASE(rights__combined__grant_their_sum)
{
    uint64_t step = fixture->fabric->exact_errors
                        ? 1
                        : 16; /* all remote rights, or one in 16 where denials take time */

    for (uint64_t rights = step; rights < 64; rights += step)
        check_rights(fixture, rights << 8);
}

CASE(range__over_the_end__denied)
{
    struct hmreg_mr *mr = suite_reg(fixture, fixture->memory + 100, 50, HMREG_ACCESS_REMOTE, 5);
    struct hmreg_remote *remote = suite_peer(fixture, mr);
    uint64_t addr, key;

    suite_put(fixture, remote, 49, 1, fixture->memory + 149);
    assert_fails(hmreg_remote_addr(remote, 49, 2, &addr, &key), -ERANGE, "outside");
    assert_ok(hmreg_remote_addr(remote, 49, 1, &addr, &key));
    suite_denied(fixture, remote, true, addr, key, 2, -ERANGE);
    suite_end(fixture, remote, mr);
}

CASE(range__before_the_start__denied)
{
    struct hmreg_mr *mr = suite_reg(fixture, fixture->memory + 100, 50, HMREG_ACCESS_REMOTE, 5);
    struct hmreg_remote *remote = suite_peer(fixture, mr);
    uint64_t addr, key;

    assert_ok(hmreg_remote_addr(remote, 0, 1, &addr, &key));
    suite_denied(fixture, remote, true, addr - 1, key, 2, -ERANGE);
    suite_end(fixture, remote, mr);
}

/* The initiator's side: rights of the region whose desc goes with the operation. */
CASE(local_rights__of_the_initiators_region)
{
    struct hmreg_mr *mr = suite_reg(fixture, fixture->memory, 64, HMREG_ACCESS_REMOTE, 5),
                    *local = NULL;
    struct hmreg_remote *remote = suite_peer(fixture, mr);
    uint64_t addr, key;
    int rc;

    assert_ok(hmreg_remote_addr(remote, 0, 8, &addr, &key));
    assert_ok(hmreg_mr_reg(fixture->peer, fixture->local, 8, HMREG_READ, 0, 0, 0, &local, NULL));
    suite_ready(fixture, fixture->peer, local);
    rc = fixture->fabric->rma(fixture, remote, true, fixture->local, 8, hmreg_mr_desc(local), addr,
                              key);
    if (fixture->fabric->exact_errors && suite_has(fixture, HMREG_MR_LOCAL | HMREG_MR_HMEM))
        assert_int_equal(rc, -EINVAL);
    else
        assert_int_equal(rc, 0); /* the mode requires no registration */
    suite_close(fixture, local);
    suite_end(fixture, remote, mr);
}
