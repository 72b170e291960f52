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

/* ---- the application's own registrations beside hmreg's ---------------------------------- */

static struct hmreg_domain *open_ranged(struct fixture *fixture, uint64_t first, uint64_t last)
{
    const struct hmreg_domain_config config = {
        .size = sizeof(config), .key_first = first, .key_last = last};
    struct hmreg_domain *domain = NULL;

    assert_ok(hmreg_domain_open_ofi(fixture->fabric.lib, fixture->fabric.endpoint.domain,
                                    fixture->fabric.endpoint.info, &config, &domain));
    return domain;
}

static struct fid_mr *own(struct fixture *fixture, uint64_t key)
{
    struct fid_mr *mr = NULL;

    assert_int_equal(fi_mr_reg(fixture->fabric.endpoint.domain, fixture->memory, 10, FI_REMOTE_READ,
                               0, key, 0, &mr, NULL),
                     0);
    return mr;
}

/* The fabric refuses a key that is in use, and the library then takes another one. */
TEST(get__own_keys_in_its_range__another_key)
{
    struct fid_mr *owned[10];
    struct hmreg_domain *domain;
    struct fixture fixture;
    struct hmreg_mr *mr;

    fixture_open_lonely(&fixture);
    domain = open_ranged(&fixture, 10, 20);
    for (uint64_t i = 0; i < 10; i++)
        owned[i] = own(&fixture, 10 + i);
    assert_ok(hmreg_mr_get(domain, fixture.memory, 10, HMREG_REMOTE_READ, &mr));
    assert_int_equal(hmreg_mr_key(mr), 20);
    hmreg_mr_put(mr);
    for (int i = 0; i < 10; i++)
        assert_int_equal(fi_close(&owned[i]->fid), 0);
    assert_ok(hmreg_domain_close(domain));
    fixture_close(&fixture);
}

/* Two domains of hmreg on one fid_domain have keys of their own: the same rule keeps them apart. */
TEST(get__two_domains_on_one_fid_domain__keys_differ)
{
    struct hmreg_domain *domains[2];
    struct hmreg_mr *mrs[2][4];
    struct fixture fixture;
    uint64_t seen = 0;

    fixture_open_lonely(&fixture);
    for (int i = 0; i < 2; i++)
        domains[i] = open_ranged(&fixture, 0, 7);
    for (int i = 0; i < 8; i++) {
        struct hmreg_mr **mr = &mrs[i % 2][i / 2];

        assert_ok(
            hmreg_mr_get(domains[i % 2], fixture.memory + 100 * i, 10, HMREG_REMOTE_READ, mr));
        assert_in_range(hmreg_mr_key(*mr), 0, 7);
        assert_int_equal(seen & UINT64_C(1) << hmreg_mr_key(*mr), 0);
        seen |= UINT64_C(1) << hmreg_mr_key(*mr);
    }
    for (int i = 0; i < 8; i++)
        hmreg_mr_put(mrs[i % 2][i / 2]);
    for (int i = 0; i < 2; i++)
        assert_ok(hmreg_domain_close(domains[i]));
    fixture_close(&fixture);
}

/* A program that keeps to other keys than the library's range is never refused one. */
TEST(own_keys__outside_the_librarys_range__all_free)
{
    struct hmreg_mr *mrs[200];
    struct fid_mr *owned[100];
    struct hmreg_domain *domain;
    struct fixture fixture;

    fixture_open_lonely(&fixture);
    domain = open_ranged(&fixture, 100, 65535);
    for (int i = 0; i < 200; i++) {
        assert_ok(hmreg_mr_get(domain, fixture.memory + 100 * i, 10, HMREG_REMOTE_READ, &mrs[i]));
        assert_in_range(hmreg_mr_key(mrs[i]), 100, 65535);
    }
    for (uint64_t key = 0; key < 100; key++)
        owned[key] = own(&fixture, key);
    for (int i = 0; i < 100; i++)
        assert_int_equal(fi_close(&owned[i]->fid), 0);
    for (int i = 0; i < 200; i++)
        hmreg_mr_put(mrs[i]);
    assert_ok(hmreg_domain_close(domain));
    fixture_close(&fixture);
}

FABRIC_TEST_MAIN()
