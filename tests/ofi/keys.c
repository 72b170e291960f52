/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Keys that callers choose, on all fabrics without HMREG_MR_PROV_KEY, which libfabric's verbs has.
 */
#include "tests/ofi/fixture.h"

TEST(rma__mr_mode_scalable__the_peer_need_not_know)
{
    fixture_in_old_mode(HMREG_MR_SCALABLE, 0);
}

TEST(reg__key_in_use__enokey)
{
    struct hmreg_mr *first, *second = (void *)1;
    struct fixture fixture;

    fixture_open_lonely(&fixture);
    assert_ok(hmreg_mr_reg(fixture.fabric.domain, fixture.memory, 10, HMREG_REMOTE_READ, 0,
                           FIXTURE_KEY, 0, &first, NULL));
    assert_int_equal(hmreg_mr_key(first), FIXTURE_KEY);
    assert_fails(hmreg_mr_reg(fixture.fabric.domain, fixture.memory + 10, 10, HMREG_REMOTE_READ, 0,
                              FIXTURE_KEY, 0, &second, NULL),
                 -HMREG_ENOKEY, "in use");
    assert_ptr_equal(second, (void *)1);
    assert_ok(hmreg_mr_close(first));
    assert_ok(hmreg_mr_reg(fixture.fabric.domain, fixture.memory + 10, 10, HMREG_REMOTE_READ, 0,
                           FIXTURE_KEY, 0, &second, NULL));
    fixture.mr = second;
    fixture_close(&fixture);
}

/* A key that was registered without hmreg. */
TEST(reg__key_known_to_the_fabric_only__enokey)
{
    struct hmreg_mr *mr = NULL;
    struct fid_mr *foreign;
    struct fixture fixture;

    fixture_open_lonely(&fixture);
    assert_int_equal(fi_mr_reg(fixture.fabric.endpoint.domain, fixture.memory, 10, FI_REMOTE_READ,
                               0, FIXTURE_KEY, 0, &foreign, NULL),
                     0);
    assert_fails(hmreg_mr_reg(fixture.fabric.domain, fixture.memory, 10, HMREG_REMOTE_READ, 0,
                              FIXTURE_KEY, 0, &mr, NULL),
                 -HMREG_ENOKEY, "fi_mr_regattr");
    assert_string_equal(hmreg_last_error()->source, "ofi");
    assert_int_equal(hmreg_last_error()->vendor_code, -HMREG_ENOKEY);
    assert_null(mr);
    assert_int_equal(fi_close(&foreign->fid), 0);
    fixture_close(&fixture);
}

/* Of a get's region, and one that the library chose. */
TEST(reg__key_of_a_cached_region__enokey)
{
    struct hmreg_mr *cached, *mr = NULL;
    struct fixture fixture;

    fixture_open_lonely(&fixture);
    assert_ok(hmreg_mr_get(fixture.fabric.domain, fixture.memory, 10, HMREG_REMOTE_READ, &cached));
    assert_int_equal(hmreg_mr_reg(fixture.fabric.domain, fixture.memory, 10, HMREG_REMOTE_READ, 0,
                                  hmreg_mr_key(cached), 0, &mr, NULL),
                     -HMREG_ENOKEY);
    assert_null(mr);
    hmreg_mr_put(cached);
    fixture_close(&fixture);
}

FABRIC_TEST_MAIN()
