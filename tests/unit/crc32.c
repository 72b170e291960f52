/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The checksum of tokens, beside its definition and the standard's check value. */
#include "core/base/crc32.h"

#include "tests/support/test.h"

static uint32_t by_definition(const uint8_t *bytes, size_t size)
{
    uint32_t crc = ~0u;

    for (size_t i = 0; i < size; i++)
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (((crc ^ (bytes[i] >> bit)) & 1) ? 0xedb88320u : 0);
    return ~crc;
}

TEST(crc32__of_the_standards_check__is_its_value)
{
    assert_int_equal(crc32_of((const uint8_t *)"123456789", 9), 0xcbf43926);
    assert_int_equal(crc32_of(NULL, 0), 0);
}

/* By the CPU's instructions, if it has them, and by the tables. */
static void assert_right(const uint8_t *bytes, size_t size)
{
    uint32_t right = by_definition(bytes, size);

    assert_int_equal(crc32_of(bytes, size), right);
    assert_int_equal(crc32_plain(bytes, size), right);
}

TEST(crc32__every_length_and_alignment__by_definition)
{
    uint8_t bytes[300];
    uint32_t random = 1;

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)((random = random * 1664525 + 1013904223) >> 24);
    for (size_t start = 0; start < 8; start++)
        for (size_t size = 0; start + size <= sizeof(bytes); size++)
            assert_right(bytes + start, size);
}

/* Each table's each entry. */
TEST(crc32__each_value_of_each_byte__by_definition)
{
    uint8_t bytes[8] = {0};

    for (size_t at = 0; at < 8; at++) {
        for (unsigned value = 0; value < 256; value++) {
            bytes[at] = (uint8_t)value;
            assert_right(bytes, 8);
        }
        bytes[at] = 0;
    }
}

TEST_MAIN()
