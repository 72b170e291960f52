/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See fixture.h.
 */
#include "tests/ofi/fixture.h"
#include "tests/support/queries.h"

uint64_t fixture_key(const struct fixture *fixture, uint64_t key)
{
    struct hmreg_domain_info info = {.size = sizeof(info)};

    assert_ok(hmreg_domain_query(fixture->fabric.domain, &info));
    return info.mr_mode & HMREG_MR_PROV_KEY ? 0 : key;
}

void fixture_open_lonely(struct fixture *fixture)
{
    fabric_open(&fixture->fabric, NULL);
    fixture->memory = calloc(1, FIXTURE_BYTES);
    fixture->mr = NULL;
}

void fixture_open(struct fixture *fixture, const struct endpoint_hints *hints, uint64_t access)
{
    fabric_open_pair(&fixture->fabric, hints);
    fixture->memory = calloc(1, FIXTURE_BYTES);
    assert_ok(hmreg_mr_reg(fixture->fabric.domain, fixture->memory, FIXTURE_BYTES, access, 0,
                           fixture_key(fixture, FIXTURE_KEY), 0, &fixture->mr, NULL));
    assert_ok(peer_take_region(&fixture->fabric, fixture->mr));
}

void fixture_close(struct fixture *fixture)
{
    assert_ok(hmreg_mr_close(fixture->mr));
    fabric_close(&fixture->fabric);
    free(fixture->memory);
}

void fixture_assert_only(const struct fixture *fixture, size_t offset, size_t len, unsigned seed)
{
    for (size_t i = 0; i < FIXTURE_BYTES; i++) {
        bool inside = i >= offset && i - offset < len;
        unsigned char wanted = inside ? fabric_byte(seed, i - offset) : 0;

        if (fixture->memory[i] != wanted)
            fail_msg("byte %zu is %#x, not %#x; the peer wrote %zu bytes at %zu", i,
                     fixture->memory[i], wanted, len, offset);
    }
}

/* A read first: net completes writes before they arrive. */
void fixture_write_and_read(struct fixture *fixture)
{
    static const struct {
        size_t offset, len;
    } places[] = {{0, 1}, {1, 1}, {4097, 777}, {4095, 5001}, {333, 200001}, {FIXTURE_BYTES - 1, 1}};

    for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        memset(fixture->memory, 0, FIXTURE_BYTES);
        assert_ok(peer_write(&fixture->fabric, places[i].offset, places[i].len, i));
        assert_ok(peer_read(&fixture->fabric, places[i].offset, places[i].len, i));
        fixture_assert_only(fixture, places[i].offset, places[i].len, i);
    }
}

void fixture_in_old_mode(int mode, uint32_t becomes)
{
    struct endpoint_hints hints = {.old_mr_mode = mode};
    struct fixture fixture;

    fixture_open(&fixture, &hints, HMREG_ACCESS_ALL);
    assert_int_equal(test_domain_info(fixture.fabric.domain).mr_mode &
                         (HMREG_MR_VIRT_ADDR | HMREG_MR_PROV_KEY),
                     becomes);
    fixture_write_and_read(&fixture);
    fixture_close(&fixture);
}
