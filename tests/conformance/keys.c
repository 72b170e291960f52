/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Keys: the caller's or the provider's, unique, in range, free again after their region. */
#include "tests/conformance/suite.h"

#define KEY 77

static int reg(struct suite_fixture *fixture, uint64_t access, uint64_t key, struct hmreg_mr **mr)
{
    return hmreg_mr_reg(fixture->domain, fixture->memory, 64, access, 0, key, 0, mr, NULL);
}

CASE(requested_key__is_the_regions_key)
{
    struct hmreg_mr *mr = NULL;

    if (suite_has(fixture, HMREG_MR_PROV_KEY)) {
        assert_fails(reg(fixture, HMREG_REMOTE_READ, KEY, &mr), -EKEYREJECTED,
                     "chooses keys itself");
        assert_null(mr);
        suite_impossible("the provider chooses keys (HMREG_MR_PROV_KEY): EKEYREJECTED");
        return;
    }
    assert_ok(reg(fixture, HMREG_REMOTE_READ, KEY, &mr));
    assert_true(hmreg_mr_key(mr) == (suite_has(fixture, HMREG_MR_RAW) ? HMREG_KEY_NOTAVAIL : KEY));
    assert_ok(hmreg_mr_close(mr));
}

CASE(requested_key__in_use__enokey)
{
    const struct hmreg_segment segment = {.u.memory = {fixture->memory, 8}};
    struct hmreg_mr *first = NULL, *second = (void *)1;

    if (suite_has(fixture, HMREG_MR_PROV_KEY)) {
        suite_impossible("the provider chooses keys (HMREG_MR_PROV_KEY): EKEYREJECTED");
        return;
    }
    assert_ok(reg(fixture, HMREG_REMOTE_READ, KEY, &first));
    assert_fails(reg(fixture, HMREG_REMOTE_WRITE, KEY, &second), -HMREG_ENOKEY,
                 "requested_key 0x4d");
    assert_fails(
        hmreg_mr_regsgl(fixture->domain, &segment, 1, HMREG_REMOTE_READ, 0, KEY, 0, &second, NULL),
        -HMREG_ENOKEY, "in use");
    assert_ptr_equal(second, (void *)1);
    suite_refused(fixture, "the key again", fixture->memory, 64, HMREG_REMOTE_WRITE, 0, KEY, 0);
    assert_ok(hmreg_mr_close(first));
}

CASE(requested_key__free_again_after_close)
{
    uint64_t key = suite_key(fixture, KEY);
    struct hmreg_mr *mr;

    for (int i = 0; i < 3; i++) {
        mr = suite_reg(fixture, fixture->memory + 1, 64, HMREG_ACCESS_REMOTE, key);
        suite_reach(fixture, mr, 0, 64, fixture->memory + 1);
    }
}

/* All keys of one byte: the caller's 256, or the provider's choice of all but 0. */
CASE(key__all_in_use__enokey)
{
    bool chosen = suite_has(fixture, HMREG_MR_PROV_KEY);
    struct hmreg_mr *mrs[256], *none = (void *)1;
    unsigned char seen[256] = {0};
    unsigned first = chosen ? 1 : 0;
    uint64_t freed;

    if (fixture->info.key_size != 1) {
        suite_not_applicable();
        return;
    }
    for (unsigned i = first; i < 256; i++) {
        assert_ok(reg(fixture, HMREG_REMOTE_READ, suite_key(fixture, i), &mrs[i]));
        assert_true(hmreg_mr_key(mrs[i]) < 256);
        assert_int_equal(seen[hmreg_mr_key(mrs[i])]++, 0);
    }
    assert_fails(reg(fixture, HMREG_REMOTE_READ, 0, &none), -HMREG_ENOKEY,
                 chosen ? "all keys of this domain" : "in use");
    assert_fails(hmreg_mr_get(fixture->domain, fixture->memory, 8, HMREG_REMOTE_READ, &none),
                 -HMREG_ENOKEY, "0xff");
    for (unsigned i = 1; i < 256; i += 51) {
        freed = hmreg_mr_key(mrs[i]);
        assert_ok(hmreg_mr_close(mrs[i]));
        assert_ok(reg(fixture, HMREG_REMOTE_READ, suite_key(fixture, freed), &mrs[i]));
        assert_int_equal(hmreg_mr_key(mrs[i]), freed);
    }
    assert_ptr_equal(none, (void *)1);
    for (unsigned i = first; i < 256; i++)
        assert_ok(hmreg_mr_close(mrs[i]));
}

/* The largest key, and one more, for each call that takes a key; of 8 bytes that is HMREG_KEY_ANY.
 */
CASE(requested_key__largest__reaches_its_region)
{
    const struct hmreg_segment segment = {.u.memory = {fixture->memory, 8}};
    uint64_t largest = HMREG_KEY_NOTAVAIL - 1;
    struct hmreg_mr *mr = (void *)1;

    if (fixture->info.key_size < 8)
        largest = (UINT64_C(1) << 8 * fixture->info.key_size) - 1;
    if (largest + 1 != HMREG_KEY_ANY) {
        assert_fails(reg(fixture, HMREG_REMOTE_READ, largest + 1, &mr), -EKEYREJECTED,
                     "requested_key");
        assert_fails(hmreg_mr_regsgl(fixture->domain, &segment, 1, HMREG_REMOTE_READ, 0,
                                     largest + 1, 0, &mr, NULL),
                     -EKEYREJECTED, "requested_key");
    }
    assert_ptr_equal(mr, (void *)1);
    mr = suite_reg(fixture, fixture->memory + 1, 64, HMREG_ACCESS_REMOTE, largest);
    suite_reach(fixture, mr, 0, 64, fixture->memory + 1);
}

/* On every domain: the library or the fabric chooses, each time another key. */
CASE(requested_key__any__chosen_and_reaches_its_region)
{
    bool raw = suite_has(fixture, HMREG_MR_RAW);
    struct hmreg_mr *mr[3];

    for (int i = 0; i < 3; i++) {
        mr[i] = NULL;
        assert_ok(hmreg_mr_reg(fixture->domain, fixture->memory + 1 + 64 * i, 64,
                               HMREG_ACCESS_REMOTE, 0, HMREG_KEY_ANY, 0, &mr[i], NULL));
        suite_ready(fixture, fixture->domain, mr[i]);
        assert_true((hmreg_mr_key(mr[i]) == HMREG_KEY_NOTAVAIL) == raw);
        for (int j = 0; j < i && !raw; j++)
            assert_true(hmreg_mr_key(mr[i]) != hmreg_mr_key(mr[j]));
    }
    for (int i = 0; i < 3; i++)
        suite_reach(fixture, mr[i], 0, 64, fixture->memory + 1 + 64 * i);
}

CASE(key__of_a_region_without_remote_access__is_none)
{
    uint64_t key = suite_key(fixture, KEY);
    struct hmreg_mr *remote = NULL, *local[4];
    uint8_t raw[64];
    size_t size = sizeof(raw);

    assert_ok(reg(fixture, HMREG_REMOTE_READ, key, &remote));
    for (int i = 0; i < 4; i++) { /* their requested key is ignored, and does not collide */
        assert_ok(reg(fixture, HMREG_ACCESS_LOCAL, key, &local[i]));
        assert_true(hmreg_mr_key(local[i]) == HMREG_KEY_NOTAVAIL);
        assert_fails(hmreg_mr_pack(local[i], raw, &size), -EACCES, "remote access");
        assert_fails(hmreg_mr_raw_attr(local[i], NULL, raw, &size, 0), -EACCES, "remote access");
    }
    if (fixture->fabric->native && fixture->fabric->native(fixture, fixture->memory, 64, HMREG_SEND,
                                                           0, key, 0) == -HMREG_ENOKEY)
        suite_supplied("the fabric wants unique keys of these too");
    for (int i = 0; i < 4; i++)
        assert_ok(hmreg_mr_close(local[i]));
    assert_ok(hmreg_mr_close(remote));
}

CASE(key__each_region_has_its_own)
{
    struct hmreg_mr *mrs[50];
    uint8_t raw[50][64];
    size_t size[50];

    for (uint64_t i = 0; i < 50; i++) {
        size[i] = sizeof(raw[i]);
        memset(raw[i], 0, sizeof(raw[i]));
        assert_ok(reg(fixture, HMREG_REMOTE_READ, suite_key(fixture, i), &mrs[i]));
        assert_ok(hmreg_mr_raw_attr(mrs[i], NULL, raw[i], &size[i], 0));
        for (uint64_t k = 0; k < i; k++)
            assert_memory_not_equal(raw[i], raw[k], sizeof(raw[i]));
    }
    for (int i = 0; i < 50; i++)
        assert_ok(hmreg_mr_close(mrs[i]));
}

CASE(key__of_no_region__denied)
{
    struct hmreg_remote *remote;
    uint64_t addr, key;
    struct hmreg_mr *mr;

    mr = suite_reg(fixture, fixture->memory, 64, HMREG_ACCESS_REMOTE, KEY);
    remote = suite_peer(fixture, mr);
    assert_ok(hmreg_remote_addr(remote, 0, 64, &addr, &key));
    suite_denied(fixture, remote, true, addr, key + 1000, 64, -EKEYREJECTED);
    suite_end(fixture, remote, mr);
}

/* A key opens its region and no other of the domain. */
CASE(key__of_the_neighbour__opens_only_the_neighbour)
{
    struct hmreg_remote *remote, *neighbour;
    uint64_t addr, key, other;
    struct hmreg_mr *mr[2];

    mr[0] = suite_reg(fixture, fixture->memory, 64, HMREG_ACCESS_REMOTE, KEY);
    mr[1] = suite_reg(fixture, fixture->memory + 4096, 32, HMREG_ACCESS_REMOTE, KEY + 1);
    remote = suite_peer(fixture, mr[0]);
    neighbour = suite_peer(fixture, mr[1]);
    assert_ok(hmreg_remote_addr(remote, 40, 8, &addr, &key));
    assert_ok(hmreg_remote_addr(neighbour, 0, 1, &addr, &other));
    assert_ok(hmreg_remote_addr(remote, 40, 8, &addr, &key));
    suite_denied(fixture, remote, true, addr, other, 8, -ERANGE);
    hmreg_remote_close(neighbour);
    hmreg_remote_close(remote);
    suite_close(fixture, mr[1]);
    suite_close(fixture, mr[0]);
}
