/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See bed.h.
 */
#include "tests/ofi/bed.h"

#include <stdlib.h>
#include <string.h>

uint64_t bed_key(const struct bed *bed, uint64_t key)
{
    struct hmreg_domain_info info = {.size = sizeof(info)};

    assert_ok(hmreg_domain_query(bed->fabric.domain, &info));
    return info.mr_mode & HMREG_MR_PROV_KEY ? 0 : key;
}

void bed_open_lonely(struct bed *bed)
{
    fabric_open(&bed->fabric, NULL);
    bed->memory = calloc(1, BED_BYTES);
    bed->mr = NULL;
}

void bed_open(struct bed *bed, const struct endpoint_hints *hints, uint64_t access)
{
    fabric_open_pair(&bed->fabric, hints);
    bed->memory = calloc(1, BED_BYTES);
    assert_ok(hmreg_mr_reg(bed->fabric.domain, bed->memory, BED_BYTES, access, 0,
                           bed_key(bed, BED_KEY), 0, &bed->mr, NULL));
    assert_ok(peer_take_region(&bed->fabric, bed->mr));
}

void bed_close(struct bed *bed)
{
    assert_ok(hmreg_mr_close(bed->mr));
    fabric_close(&bed->fabric);
    free(bed->memory);
}

void bed_assert_only(const struct bed *bed, size_t offset, size_t len, unsigned seed)
{
    for (size_t i = 0; i < BED_BYTES; i++) {
        bool inside = i >= offset && i - offset < len;
        unsigned char wanted = inside ? fabric_byte(seed, i - offset) : 0;

        if (bed->memory[i] != wanted)
            fail_msg("byte %zu is %#x, not %#x; the peer wrote %zu bytes at %zu", i, bed->memory[i],
                     wanted, len, offset);
    }
}

/* Reads before we look: net's writes are done before they arrive. */
void bed_write_and_read(struct bed *bed)
{
    static const struct {
        size_t offset, len;
    } places[] = {{0, 1}, {1, 1}, {4097, 777}, {4095, 5001}, {333, 200001}, {BED_BYTES - 1, 1}};

    for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        memset(bed->memory, 0, BED_BYTES);
        assert_ok(peer_write(&bed->fabric, places[i].offset, places[i].len, i));
        assert_ok(peer_read(&bed->fabric, places[i].offset, places[i].len, i));
        bed_assert_only(bed, places[i].offset, places[i].len, i);
    }
}

void bed_in_old_mode(int mode, uint32_t becomes)
{
    struct endpoint_hints hints = {.old_mr_mode = mode};
    struct hmreg_domain_info info = {.size = sizeof(info)};
    struct bed bed;

    bed_open(&bed, &hints, HMREG_ACCESS_ALL);
    assert_ok(hmreg_domain_query(bed.fabric.domain, &info));
    assert_int_equal(info.mr_mode & (HMREG_MR_VIRT_ADDR | HMREG_MR_PROV_KEY), becomes);
    bed_write_and_read(&bed);
    bed_close(&bed);
}
