/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * How the fabric registers one region: each fabric does what ordering, atomics, on_demand and iova
 * ask for, or refuses it with the accepted values. */
#include "tests/conformance/suite.h"
#include "tests/support/queries.h"

#define KEY   5
#define BYTES 64

/* What is paged on demand is reached at the beginning of a page: elsewhere in it Soft-RoCE moves
 * other bytes (Linux 7.2). */
#define BEFORE_PAGE (4096 - 5)

/* Attributes of a range of fixture->memory. */
struct wanted {
    struct iovec iov;
    struct hmreg_mr_attr attr;
};

static void begin(struct suite_fixture *fixture, size_t place, struct wanted *out)
{
    out->iov = (struct iovec){fixture->memory + place, BYTES};
    out->attr = (struct hmreg_mr_attr){.size = sizeof(out->attr),
                                       .iov = &out->iov,
                                       .iov_count = 1,
                                       .access = HMREG_ACCESS_REMOTE,
                                       .requested_key = suite_key(fixture, KEY)};
}

/* Registers; NULL: the fabric refused it with these words, which is noted. */
static struct hmreg_mr *reg(struct suite_fixture *fixture, const struct wanted *wanted,
                            const char *words)
{
    struct hmreg_mr *mr = NULL;
    int rc = hmreg_mr_regattr(fixture->domain, &wanted->attr, 0, &mr);

    if (rc) {
        assert_null(mr);
        assert_int_equal(rc, -EOPNOTSUPP);
        if (!strstr(hmreg_last_error()->text, words))
            fail_msg("\"%s\" is without \"%s\"", hmreg_last_error()->text, words);
        suite_impossible("refused: EOPNOTSUPP");
        return NULL;
    }
    suite_ready(fixture, fixture->domain, mr);
    return mr;
}

/* A permission is never refused. */
CASE(ordering__relaxed__bytes_arrive)
{
    struct wanted wanted;

    begin(fixture, 8, &wanted);
    wanted.attr.ordering = HMREG_ORDERING_RELAXED;
    suite_reach(fixture, reg(fixture, &wanted, "never"), 5, 7, fixture->memory + 8 + 5);
}

CASE(ordering__strict__done_or_refused)
{
    struct hmreg_mr *mr;
    struct wanted wanted;

    begin(fixture, 8, &wanted);
    wanted.attr.ordering = HMREG_ORDERING_STRICT;
    mr = reg(fixture, &wanted, "accepted: 0 (default), 2 (relaxed)");
    if (mr)
        suite_reach(fixture, mr, 5, 7, fixture->memory + 8 + 5);
}

CASE(on_demand__each_value__done_or_refused)
{
    struct hmreg_mr *mr;
    struct wanted wanted;

    begin(fixture, BEFORE_PAGE, &wanted);
    wanted.attr.on_demand = HMREG_CHOICE_OFF;
    mr = reg(fixture, &wanted, "on_demand is 1 (off), but");
    if (mr)
        suite_reach(fixture, mr, 5, 7, fixture->memory + BEFORE_PAGE + 5);
    wanted.attr.on_demand = HMREG_CHOICE_ON;
    mr = reg(fixture, &wanted, "on_demand is 2 (on), but");
    if (mr)
        suite_reach(fixture, mr, 5, 7, fixture->memory + BEFORE_PAGE + 5);
}

/* ---- atomics ---------------------------------------------------------------------------- */

/* Adds 1 to the first 8 bytes of the region. -EOPNOTSUPP: the fabric has no such operations. */
static int add(struct suite_fixture *fixture, struct hmreg_mr *mr)
{
    struct hmreg_remote *remote = suite_peer(fixture, mr);
    struct hmreg_mr *local = NULL;
    uint64_t addr = 0, key = 0;
    int rc = -EOPNOTSUPP;

    assert_ok(hmreg_remote_addr(remote, 0, 8, &addr, &key));
    assert_ok(hmreg_mr_reg(fixture->peer, fixture->local, 16, HMREG_READ | HMREG_WRITE, 0, 0, 0,
                           &local, NULL));
    suite_ready(fixture, fixture->peer, local);
    if (fixture->fabric->add)
        rc = fixture->fabric->add(fixture, false, (uint64_t *)(void *)fixture->local,
                                  hmreg_mr_desc(local), 1, addr, key);
    suite_close(fixture, local);
    hmreg_remote_close(remote);
    return rc;
}

CASE(atomics__on__granted_or_refused)
{
    const uint64_t one = 1;
    struct hmreg_mr *mr;
    struct wanted wanted;
    int rc;

    begin(fixture, 64, &wanted);
    wanted.attr.atomics = HMREG_CHOICE_ON;
    mr = reg(fixture, &wanted, "accepted: 0 (default), 1 (off)");
    if (!mr)
        return;
    rc = add(fixture, mr);
    assert_true(rc == 0 || rc == -EOPNOTSUPP);
    if (!rc)
        suite_check_arrived(fixture, fixture->memory + 64, &one, sizeof(one));
    suite_close(fixture, mr);
    wanted.attr.access = HMREG_REMOTE_READ;
    mr = NULL;
    assert_fails(hmreg_mr_regattr(fixture->domain, &wanted.attr, 0, &mr), -EINVAL,
                 "lacks HMREG_REMOTE_WRITE");
    assert_null(mr);
}

CASE(choices__if_possible__never_refused)
{
    struct wanted wanted;

    begin(fixture, BEFORE_PAGE, &wanted);
    wanted.attr.atomics = HMREG_CHOICE_IF_POSSIBLE;
    wanted.attr.on_demand = HMREG_CHOICE_IF_POSSIBLE;
    suite_reach(fixture, reg(fixture, &wanted, "never"), 5, 7, fixture->memory + BEFORE_PAGE + 5);
}

CASE(atomics__off__denied_or_refused)
{
    struct hmreg_mr *mr;
    struct wanted wanted;
    int rc;

    begin(fixture, 64, &wanted);
    wanted.attr.atomics = HMREG_CHOICE_OFF;
    mr = reg(fixture, &wanted, "accepted: 0 (default), 2 (on)");
    if (!mr)
        return;
    fixture->expects_denial = true;
    rc = add(fixture, mr);
    fixture->expects_denial = false;
    assert_int_not_equal(rc, 0);
    for (int i = 0; i < 8; i++)
        assert_int_equal(fixture->memory[64 + i], 0);
    if (rc != -EOPNOTSUPP)
        fixture->fabric->recover(fixture);
    suite_close(fixture, mr);
}

/* ---- iova ------------------------------------------------------------------------------- */

/* Does the fabric take iova as the address? If not, asserts the refusal of both, and notes it. */
static bool takes_iova(struct suite_fixture *fixture, struct wanted *wanted)
{
    struct hmreg_mr *mr = NULL;

    wanted->attr.set_iova = 1;
    wanted->attr.iova = 0x7000000 + ((uintptr_t)wanted->iov.iov_base & 4095);
    if (!suite_has(fixture, HMREG_MR_VIRT_ADDR)) {
        assert_fails(hmreg_mr_regattr(fixture->domain, &wanted->attr, 0, &mr), -EOPNOTSUPP,
                     "lacks HMREG_MR_VIRT_ADDR); accepted is 0");
        suite_not_applicable();
        return false;
    }
    mr = reg(fixture, wanted, "base_addr chooses it");
    if (mr)
        suite_close(fixture, mr);
    return mr;
}

static void assert_base(struct suite_fixture *fixture, const struct hmreg_mr *mr, uint64_t expected)
{
    uint64_t base = 1;
    uint8_t raw[64];
    size_t size = sizeof(raw);

    assert_ok(hmreg_mr_raw_attr(mr, &base, raw, &size, 0));
    assert_true(base == expected);
}

CASE(iova__callers__peers_address_the_bytes_by_it)
{
    struct hmreg_remote *remote;
    uint64_t addr = 0, key = 0;
    struct hmreg_mr *mr;
    struct wanted wanted;

    begin(fixture, 5000, &wanted);
    if (!takes_iova(fixture, &wanted))
        return;
    mr = reg(fixture, &wanted, "");
    remote = suite_peer(fixture, mr);
    assert_base(fixture, mr, wanted.attr.iova);
    assert_true(test_info_of(mr).addr == (uintptr_t)fixture->memory + 5000 &&
                test_info_of(mr).len == BYTES);
    assert_ok(hmreg_remote_addr(remote, 30, 4, &addr, &key));
    assert_true(addr == wanted.attr.iova + 30);
    suite_put(fixture, remote, 0, BYTES, fixture->memory + 5000);
    suite_get(fixture, remote, 30, 4, fixture->memory + 5030);
    assert_ok(hmreg_mr_refresh(mr, &(struct iovec){fixture->memory + 5010, 20}, 1, 0));
    suite_put(fixture, remote, 11, 3, fixture->memory + 5011);
    suite_denied(fixture, remote, true, wanted.attr.iova + BYTES, key, 1, -ERANGE);
    suite_denied(fixture, remote, true, wanted.attr.iova - 1, key, 1, -ERANGE);
    suite_denied(fixture, remote, true, (uintptr_t)fixture->memory + 5000, key, 1, -ERANGE);
    suite_end(fixture, remote, mr);
}

/* As a domain without HMREG_MR_VIRT_ADDR has it anyway. */
CASE(iova__0__peers_use_offsets)
{
    struct hmreg_remote *remote;
    uint64_t addr = 1, key = 0;
    struct hmreg_mr *mr;
    struct wanted wanted;

    begin(fixture, 0, &wanted);
    wanted.attr.set_iova = 1;
    mr = reg(fixture, &wanted, "set_iova is 1, iova 0, but");
    if (!mr)
        return;
    remote = suite_peer(fixture, mr);
    assert_ok(hmreg_remote_addr(remote, 9, 4, &addr, &key));
    assert_int_equal(addr, 9);
    suite_put(fixture, remote, 9, 4, fixture->memory + 9);
    suite_end(fixture, remote, mr);
}

/* The initiator's buffer has one; whether its operations use it, local_addr says. */
CASE(iova__of_the_initiators_region__local_addr_serves)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_mr *mr, *local = NULL;
    struct hmreg_remote *remote;
    uint64_t addr, key;
    struct wanted wanted;

    begin(fixture, 8, &wanted);
    if (!takes_iova(fixture, &wanted))
        return;
    mr = suite_reg(fixture, fixture->memory, BYTES, HMREG_ACCESS_REMOTE, KEY);
    remote = suite_peer(fixture, mr);
    wanted.iov.iov_base = fixture->local + 8;
    wanted.attr.access = HMREG_READ | HMREG_WRITE;
    assert_ok(hmreg_mr_regattr(fixture->peer, &wanted.attr, 0, &local));
    suite_ready(fixture, fixture->peer, local);
    assert_ok(hmreg_mr_query(local, &info));
    memset(fixture->local + 8, 'i', BYTES);
    assert_ok(hmreg_remote_addr(remote, 2, 16, &addr, &key));
    assert_ok(fixture->fabric->rma(fixture, remote, true, (void *)(uintptr_t)(info.local_addr + 1),
                                   16, hmreg_mr_desc(local), addr, key));
    suite_check_arrived(fixture, fixture->memory + 2, fixture->local + 9, 16);
    assert_int_equal(fixture->memory[1] | fixture->memory[18], 0);
    suite_close(fixture, local);
    suite_end(fixture, remote, mr);
}

/* One registration, or one for each segment. */
CASE(iova__of_segments__they_follow_each_other)
{
    const struct hmreg_segment segments[2] = {{.u.memory = {fixture->memory + 4096, 4096}},
                                              {.u.memory = {fixture->memory + 16384, 100}}};
    struct hmreg_piece_info piece = {.size = sizeof(piece)};
    struct hmreg_remote *remote;
    uint64_t addr = 0, key = 0;
    struct hmreg_mr *mr;
    struct wanted wanted;

    begin(fixture, 4096, &wanted);
    if (!takes_iova(fixture, &wanted))
        return;
    wanted.attr.iov = NULL;
    wanted.attr.iov_count = 0;
    wanted.attr.segments = segments;
    wanted.attr.segment_count = 2;
    wanted.attr.iova = UINT64_MAX - 4096 - 98; /* the last byte's address would be 0 */
    mr = NULL;
    assert_fails(hmreg_mr_regattr(fixture->domain, &wanted.attr, 0, &mr), -EINVAL, "would wrap");
    assert_null(mr);
    wanted.attr.iova = 0x7000000;
    mr = reg(fixture, &wanted, "");
    assert_ok(hmreg_mr_piece(mr, 1, &piece));
    assert_true(piece.local_addr == wanted.attr.iova + 4096 ||
                piece.local_addr == (uintptr_t)fixture->memory + 16384);
    remote = suite_peer(fixture, mr);
    assert_ok(hmreg_remote_addr(remote, 4096 + 7, 4, &addr, &key));
    assert_true(addr == wanted.attr.iova + 4096 + 7);
    suite_put(fixture, remote, 4096 + 7, 4, fixture->memory + 16384 + 7);
    suite_put(fixture, remote, 4090, 6, fixture->memory + 8192 - 6);
    suite_end(fixture, remote, mr);
}

CASE(optional_access__beyond_the_providers__badflags)
{
    struct hmreg_mr *mr = NULL;
    struct wanted wanted;

    begin(fixture, 8, &wanted);
    for (int bit = 0; bit < 64; bit++) {
        wanted.attr.optional_access = UINT64_C(1) << bit;
        if (fixture->fabric->optional_access & wanted.attr.optional_access) {
            suite_reach(fixture, reg(fixture, &wanted, ""), 5, 7, fixture->memory + 8 + 5);
            continue;
        }
        assert_fails(hmreg_mr_regattr(fixture->domain, &wanted.attr, 0, &mr), -HMREG_EBADFLAGS,
                     "optional_access has unknown bits");
        assert_null(mr);
    }
}
