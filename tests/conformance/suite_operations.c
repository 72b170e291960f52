/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * What regions are for besides RMA: messages, by the rights to send and to receive, and atomic
 * operations, which the right to be written covers. */
#include "tests/conformance/suite.h"

#define KEY   5
#define BYTES 100

/* ---- messages --------------------------------------------------------------------------- */

/* From the initiator's local bytes into the target's memory, each by a region with one right. */
static int send_message(struct suite_bed *bed, bool tagged, uint64_t from, uint64_t to)
{
    struct hmreg_mr *source = NULL, *target = NULL;
    int rc;

    memset(bed->local, tagged ? 't' : 'm', BYTES);
    assert_ok(hmreg_mr_reg(bed->peer, bed->local, BYTES, from, 0, 0, 0, &source, NULL));
    assert_ok(hmreg_mr_reg(bed->domain, bed->memory + 8, BYTES, to, 0, 0, 0, &target, NULL));
    rc = bed->fabric->message(bed, tagged, bed->local, hmreg_mr_desc(source), bed->memory + 8,
                              hmreg_mr_desc(target), BYTES);
    assert_ok(hmreg_mr_close(source));
    assert_ok(hmreg_mr_close(target));
    return rc;
}

CASE(message__rights_to_send_and_to_receive__serve_it)
{
    for (int tagged = 0; tagged < 2; tagged++) {
        int rc =
            bed->fabric->message ? send_message(bed, tagged, HMREG_SEND, HMREG_RECV) : -EOPNOTSUPP;

        if (rc == -EOPNOTSUPP) {
            if (!tagged)
                suite_not_asked();
            return;
        }
        assert_int_equal(rc, 0);
        assert_memory_equal(bed->memory + 8, bed->local, BYTES);
        assert_int_equal(bed->memory[7] | bed->memory[8 + BYTES], 0);
    }
}

/* Where local buffers need no region nobody looks at its rights. */
CASE(message__into_a_region_for_sends__denied_where_regions_are_needed)
{
    if (!bed->fabric->message || !suite_has(bed, HMREG_MR_LOCAL)) {
        suite_not_asked();
        return;
    }
    assert_int_not_equal(send_message(bed, false, HMREG_SEND, HMREG_SEND), 0);
    bed->fabric->recover(bed);
    for (int i = 0; i < BYTES; i++)
        assert_int_equal(bed->memory[8 + i], 0);
}

/* ---- atomic operations ------------------------------------------------------------------ */

#define START  UINT64_C(0x1122334455667788)
#define AMOUNT 0x100

/* Adds to a region with these rights, of the 8 bytes at memory + 64; local: what was fetched. */
static int add(struct suite_bed *bed, bool fetch, uint64_t access)
{
    struct hmreg_mr *mr = suite_reg(bed, bed->memory + 64, 64, access, KEY), *local = NULL;
    struct hmreg_remote *remote = suite_peer(bed, mr);
    uint64_t addr = 0, key = 0, start = START, sum = START + AMOUNT;
    int rc;

    memcpy(bed->memory + 64, &start, sizeof(start));
    assert_ok(hmreg_remote_addr(remote, 0, 8, &addr, &key));
    assert_ok(
        hmreg_mr_reg(bed->peer, bed->local, 16, HMREG_READ | HMREG_WRITE, 0, 0, 0, &local, NULL));
    suite_ready(bed, bed->peer, local);
    rc = bed->fabric->add(bed, fetch, (uint64_t *)(void *)bed->local, hmreg_mr_desc(local), AMOUNT,
                          addr, key);
    if (!rc && (access & HMREG_REMOTE_WRITE))
        suite_await(bed, bed->memory + 64, &sum, sizeof(sum));
    suite_close(bed, local);
    hmreg_remote_close(remote);
    suite_close(bed, mr);
    return rc;
}

/* Adds, where the fabric has that; false: it has not, which is noted. */
static bool added(struct suite_bed *bed, bool fetch, uint64_t access)
{
    int rc = bed->fabric->add ? add(bed, fetch, access) : -EOPNOTSUPP;

    if (rc == -EOPNOTSUPP) {
        suite_not_asked();
        return false;
    }
    assert_int_equal(rc, 0);
    return true;
}

CASE(atomic__right_to_be_written__covers_it)
{
    added(bed, false, HMREG_REMOTE_WRITE);
}

CASE(atomic__that_fetches__brings_what_was_there)
{
    uint64_t start = START;

    if (added(bed, true, HMREG_ACCESS_REMOTE))
        assert_memory_equal(bed->local, &start, sizeof(start));
}

CASE(atomic__right_to_be_read__denied)
{
    uint64_t start = START;
    int rc = -EOPNOTSUPP;

    bed->hurry = true;
    if (bed->fabric->add)
        rc = add(bed, false, HMREG_REMOTE_READ);
    bed->hurry = false;
    if (rc == -EOPNOTSUPP) {
        suite_not_asked();
        return;
    }
    bed->fabric->recover(bed);
    assert_memory_equal(bed->memory + 64, &start, sizeof(start));
    suite_told(bed, rc, -EACCES);
}

SUITE_CASES(suite_operations, TEST(message__rights_to_send_and_to_receive__serve_it),
            TEST(message__into_a_region_for_sends__denied_where_regions_are_needed),
            TEST(atomic__right_to_be_written__covers_it),
            TEST(atomic__that_fetches__brings_what_was_there),
            TEST(atomic__right_to_be_read__denied));
