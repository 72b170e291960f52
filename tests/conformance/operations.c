/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Uses of regions besides RMA: messages, by the rights to send and to receive, and atomic
 * operations, for which the remote write right suffices. */
#include "tests/conformance/suite.h"

#define KEY   5
#define BYTES 100

/* ---- messages --------------------------------------------------------------------------- */

/* From the initiator's local bytes into the target's memory, each through a region with one right.
 */
static int send_message(struct suite_fixture *fixture, bool tagged, uint64_t from, uint64_t to)
{
    struct hmreg_mr *source = NULL, *target = NULL;
    int rc;

    memset(fixture->local, tagged ? 't' : 'm', BYTES);
    assert_ok(hmreg_mr_reg(fixture->peer, fixture->local, BYTES, from, 0, 0, 0, &source, NULL));
    assert_ok(
        hmreg_mr_reg(fixture->domain, fixture->memory + 8, BYTES, to, 0, 0, 0, &target, NULL));
    rc = fixture->fabric->message(fixture, tagged, fixture->local, hmreg_mr_desc(source),
                                  fixture->memory + 8, hmreg_mr_desc(target), BYTES);
    assert_ok(hmreg_mr_close(source));
    assert_ok(hmreg_mr_close(target));
    return rc;
}

CASE(message__rights_to_send_and_to_receive__serve_it)
{
    for (int tagged = 0; tagged < 2; tagged++) {
        int rc = fixture->fabric->message ? send_message(fixture, tagged, HMREG_SEND, HMREG_RECV)
                                          : -EOPNOTSUPP;

        if (rc == -EOPNOTSUPP) {
            if (!tagged)
                suite_not_applicable();
            return;
        }
        assert_int_equal(rc, 0);
        assert_memory_equal(fixture->memory + 8, fixture->local, BYTES);
        assert_int_equal(fixture->memory[7] | fixture->memory[8 + BYTES], 0);
    }
}

/* Where local buffers need no region, local rights are not checked. */
CASE(message__into_a_region_for_sends__denied_where_regions_are_needed)
{
    if (!fixture->fabric->message || !suite_has(fixture, HMREG_MR_LOCAL)) {
        suite_not_applicable();
        return;
    }
    assert_int_not_equal(send_message(fixture, false, HMREG_SEND, HMREG_SEND), 0);
    fixture->fabric->recover(fixture);
    for (int i = 0; i < BYTES; i++)
        assert_int_equal(fixture->memory[8 + i], 0);
}

/* ---- atomic operations ------------------------------------------------------------------ */

#define START  UINT64_C(0x1122334455667788)
#define AMOUNT 0x100

/* Adds, through a region with these rights, to the 8 bytes at memory + 64; local: the old value. */
static int add(struct suite_fixture *fixture, bool fetch, uint64_t access)
{
    struct hmreg_mr *mr = suite_reg(fixture, fixture->memory + 64, 64, access, KEY), *local = NULL;
    struct hmreg_remote *remote = suite_peer(fixture, mr);
    uint64_t addr = 0, key = 0, start = START, sum = START + AMOUNT;
    int rc;

    memcpy(fixture->memory + 64, &start, sizeof(start));
    assert_ok(hmreg_remote_addr(remote, 0, 8, &addr, &key));
    assert_ok(hmreg_mr_reg(fixture->peer, fixture->local, 16, HMREG_READ | HMREG_WRITE, 0, 0, 0,
                           &local, NULL));
    suite_ready(fixture, fixture->peer, local);
    rc = fixture->fabric->add(fixture, fetch, (uint64_t *)(void *)fixture->local,
                              hmreg_mr_desc(local), AMOUNT, addr, key);
    if (!rc && (access & HMREG_REMOTE_WRITE))
        suite_check_arrived(fixture, fixture->memory + 64, &sum, sizeof(sum));
    suite_close(fixture, local);
    suite_end(fixture, remote, mr);
    return rc;
}

/* Adds, if the fabric has atomics; else notes that, and returns false. */
static bool added(struct suite_fixture *fixture, bool fetch, uint64_t access)
{
    int rc = fixture->fabric->add ? add(fixture, fetch, access) : -EOPNOTSUPP;

    if (rc == -EOPNOTSUPP) {
        suite_not_applicable();
        return false;
    }
    assert_int_equal(rc, 0);
    return true;
}

CASE(atomic__right_to_be_written__covers_it)
{
    added(fixture, false, HMREG_REMOTE_WRITE);
}

CASE(atomic__that_fetches__returns_the_old_value)
{
    uint64_t start = START;

    if (added(fixture, true, HMREG_ACCESS_REMOTE))
        assert_memory_equal(fixture->local, &start, sizeof(start));
}

CASE(atomic__right_to_be_read__denied)
{
    uint64_t start = START;
    int rc = -EOPNOTSUPP;

    fixture->expects_denial = true;
    if (fixture->fabric->add)
        rc = add(fixture, false, HMREG_REMOTE_READ);
    fixture->expects_denial = false;
    if (rc == -EOPNOTSUPP) {
        suite_not_applicable();
        return;
    }
    fixture->fabric->recover(fixture);
    assert_memory_equal(fixture->memory + 64, &start, sizeof(start));
    suite_check_report(fixture, rc, -EACCES);
}
