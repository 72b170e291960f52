/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Raw keys: usable with any region of any domain, needed where the mode says so. */
#include "tests/conformance/suite.h"

#define KEY 5

CASE(raw_attr__returns_size_base_and_key)
{
    struct hmreg_mr *mr = suite_reg(fixture, fixture->memory + 7, 64, HMREG_ACCESS_REMOTE, KEY);
    uint64_t base = 1, plain = 0;
    uint8_t raw[256] = {0};
    size_t size = 0;

    assert_fails(hmreg_mr_raw_attr(mr, &base, NULL, &size, 0), -HMREG_ETOOSMALL, "takes");
    assert_true(size >= 8 && size <= sizeof(raw));
    assert_int_equal(base, 1); /* outputs change only on success */
    assert_ok(hmreg_mr_raw_attr(mr, &base, raw, &size, 0));
    assert_true(base ==
                (suite_has(fixture, HMREG_MR_VIRT_ADDR) ? (uintptr_t)fixture->memory + 7 : 0));
    for (int i = 0; i < 8; i++)
        plain |= (uint64_t)raw[i] << 8 * i;
    if (suite_has(fixture, HMREG_MR_RAW))
        assert_true(hmreg_mr_key(mr) == HMREG_KEY_NOTAVAIL && size == fixture->info.key_size);
    else
        assert_true(plain == hmreg_mr_key(mr) && size == 8);
    assert_ok(hmreg_mr_raw_attr(mr, NULL, raw, &size, 0));
    assert_fails(hmreg_mr_raw_attr(mr, &base, NULL, &size, 0), -EINVAL, "raw_key is NULL");
    assert_fails(hmreg_mr_raw_attr(mr, &base, raw, NULL, 0), -EINVAL, "key_size is NULL");
    assert_fails(hmreg_mr_raw_attr(mr, &base, raw, &size, 1), -HMREG_EBADFLAGS, "flags");
    suite_close(fixture, mr);
}

CASE(map_raw__key_works_at_the_peer_until_unmapped)
{
    struct hmreg_mr *mr = suite_reg(fixture, fixture->memory, 64, HMREG_ACCESS_REMOTE, KEY);
    struct hmreg_remote *remote = suite_peer(fixture, mr);
    uint64_t base = 0, mapped = 0;
    uint8_t raw[256];
    size_t size = sizeof(raw);

    assert_ok(hmreg_mr_raw_attr(mr, &base, raw, &size, 0));
    assert_ok(hmreg_domain_map_raw(fixture->peer, base, raw, size, &mapped, 0));
    memset(fixture->local, 'r', 8);
    assert_int_equal(suite_rma(fixture, remote, true, base + 3, mapped, 8), 0);
    assert_fails(hmreg_domain_close(fixture->peer), -EBUSY, "open");
    assert_ok(hmreg_domain_unmap_raw(fixture->peer, mapped));
    assert_fails(hmreg_domain_unmap_raw(fixture->peer, mapped), -EINVAL, "not mapped");
    if (suite_has(fixture, HMREG_MR_RAW)) {
        suite_denied(fixture, remote, true, base, mapped, 8, -EKEYREJECTED);
        raw[size - 1] ^= 1; /* a forged key */
        assert_ok(hmreg_domain_map_raw(fixture->peer, base, raw, size, &mapped, 0));
        suite_denied(fixture, remote, true, base, mapped, 8, -EKEYREJECTED);
        assert_ok(hmreg_domain_unmap_raw(fixture->peer, mapped));
        assert_fails(hmreg_domain_map_raw(fixture->peer, base, raw, 8, &mapped, 0), -EINVAL,
                     "bytes");
    } else {
        assert_true(mapped == hmreg_mr_key(mr));
    }
    suite_end(fixture, remote, mr);
}

CASE(map_raw__wrong_arguments__refused)
{
    uint8_t raw[256] = {0};
    uint64_t key = 1;

    assert_fails(hmreg_domain_map_raw(fixture->domain, 0, NULL, 8, &key, 0), -EINVAL,
                 "raw_key is NULL");
    assert_fails(hmreg_domain_map_raw(fixture->domain, 0, raw, 8, NULL, 0), -EINVAL, "key is NULL");
    assert_fails(hmreg_domain_map_raw(fixture->domain, 0, raw, 3, &key, 0), -EINVAL,
                 "key_size is 3");
    assert_fails(hmreg_domain_map_raw(fixture->domain, 0, raw, 8, &key, 1), -HMREG_EBADFLAGS,
                 "flags");
    assert_fails(hmreg_domain_unmap_raw(fixture->domain, 1), -EINVAL, "not mapped");
    assert_int_equal(key, 1);
}
