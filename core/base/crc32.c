/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See crc32.h. Half a byte a step: a token takes some 200 ns.
 */
#include "core/base/crc32.h"

uint32_t crc32_of(const uint8_t *bytes, size_t size)
{
    /* The sums of half a byte's values. */
    static const uint32_t table[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
        0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };
    uint32_t crc = ~0u;

    for (; size; size--) {
        crc ^= *bytes++;
        crc = crc >> 4 ^ table[crc & 0xf];
        crc = crc >> 4 ^ table[crc & 0xf];
    }
    return ~crc;
}
